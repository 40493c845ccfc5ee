/* SPDX-License-Identifier: MIT */
/* Any snapshot in all formats; what has lines gives each value back as it was. */
#include "config.h"

#include <stdint.h>

#include "client/ctl/compare.h"
#include "client/ctl/export.h"
#include "client/ctl/jsonutil.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each line NAME=VALUE that is no comment is the next entry that was not left out. */
static void check_lines(const struct export *x)
{
	size_t i = 0;

	for (const char *p = x->text; *p;) {
		const char *end = strchr(p, '\n');
		const struct snapshot_entry *e;
		size_t n;

		if (!end)
			abort();
		if (p[0] == '#') {
			p = end + 1;
			continue;
		}
		while (i < x->snapshot->n_entries && x->left[i].why)
			i++;
		if (i == x->snapshot->n_entries)
			abort();
		e = &x->snapshot->entries[i++];
		n = strlen(e->name);
		if (strncmp(p, e->name, n) != 0 || p[n] != '=' ||
		    strlen(e->value) != (size_t)(end - p) - n - 1 ||
		    memcmp(p + n + 1, e->value, strlen(e->value)) != 0)
			abort();
		p = end + 1;
	}
	for (; i < x->snapshot->n_entries; i++)
		if (!x->left[i].why)
			abort();
}

static void check_json(const struct export *x)
{
	_cleanup_(json_putp) struct json_object *o = json_parse(x->text, x->size);

	for (size_t i = 0; i < x->snapshot->n_entries; i++) {
		const char *value = json_string(o, x->snapshot->entries[i].name);

		if (!x->left[i].why && (!value || !streq(value, x->snapshot->entries[i].value)))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char formats[] = EXPORT_FORMATS;
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(comparison_done) struct comparison c = {0};

	if (snapshot_parse((const char *)data, size, &s) < 0)
		return 0;
	for (const char *p = formats; *p; p += strcspn(p, "|"), p += *p == '|') {
		_cleanup_(freep) char *name = strndup(p, strcspn(p, "|"));
		_cleanup_(export_done) struct export x = {0};

		if (!name || export_make(s, export_format_find(name), &x) < 0)
			continue;
		if (streq(name, "docker") || streq(name, "nccl-conf"))
			check_lines(&x);
		if (streq(name, "json"))
			check_json(&x);
	}
	/* Nothing differs from itself. */
	if (compare(s, s, NULL, &c) == 0 && (c.n > 0 || c.roots_differ))
		abort();
	return 0;
}
