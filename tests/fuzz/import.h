/* SPDX-License-Identifier: MIT */
#pragma once

/* What all readers of `import` must keep, whatever the bytes: lines lie inside the text, names are
 * names, and the profile made of it is good and holds the very values. */

#include "client/ctl/import-profile.h"
#include "common/util.h"

static void require(bool good)
{
	if (!good)
		abort();
}

static inline void import_fuzz_profile(struct import *im, enum import_kind kind)
{
	struct import_profile_options options = {.name = "p", .source = "F", .kind = kind};
	struct import_profile made = {0};
	struct profile *p = NULL;

	require(import_profile_make(im, &options, &made) == 0);
	require(profile_parse("p", "p", made.text, strlen(made.text), NULL, &p) == 0);
	require(p->valid);
	for (size_t i = 0; i < made.n_chosen; i++) {
		const struct import_item *item = made.chosen[i].item;
		bool found = false;

		for (size_t j = 0; j < p->n_variables; j++)
			found = found || (streq(p->variables[j].name, item->name) &&
					  streq(p->variables[j].value, item->value));
		require(found);
	}
	(void)profile_free(p);
	import_profile_done(&made);
}

static inline void import_fuzz(enum import_kind kind, const uint8_t *data, size_t size)
{
	struct import im = {0};
	unsigned lines = 1;
	int r;

	require(import_begin_file(&im, "F") == 0);
	r = import_read(&im, kind, (const char *)data, size);
	require(r == 0 || (r == -EBADMSG && im.n_notes > 0));
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	for (size_t i = 0; i < im.n_items; i++) {
		const struct import_item *item = &im.items[i];

		require(item->line <= lines);
		require(snapshot_name_valid(item->name, strlen(item->name)));
		require(import_find(&im, item->name) == item);
	}
	for (size_t i = 0; i < im.n_notes; i++)
		require(im.notes[i].line <= lines && im.notes[i].reason[0] != '\0');
	import_fuzz_profile(&im, kind);
	import_done(&im);
}
