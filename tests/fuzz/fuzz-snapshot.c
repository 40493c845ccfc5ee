/* SPDX-License-Identifier: MIT */
/*
 * What parses as a snapshot, written again from what was read, is the same bytes; all that the
 * header promises of it holds.
 */
#undef NDEBUG
#include <assert.h>

#include "common/snapshot.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_entry(FILE *f, const struct snapshot_entry *e)
{
	fprintf(f, "%s ", snapshot_rule_name(e->rule));
	if (e->group)
		fprintf(f, "%s ", e->group);
	fputs(e->name, f);
	if (e->rule != SNAPSHOT_UNSET)
		fprintf(f, "=%s", e->value);
	fputc('\n', f);
}

static void check_text(const struct snapshot *s, const uint8_t *data, size_t size)
{
	char *text = NULL;
	size_t text_size = 0;
	FILE *f = open_memstream(&text, &text_size);

	assert(f);
	fprintf(f, "cudaenv-snapshot 1\nprofile %s\nscope %s\n", s->profile,
		s->scope_any ? "any" : "user");
	if (s->toolkit_root)
		fprintf(f, "toolkit %s %s\n", s->toolkit_force ? "force" : "default",
			s->toolkit_root);
	for (size_t i = 0; i < s->n_entries; i++)
		write_entry(f, &s->entries[i]);
	assert(fclose(f) == 0);
	assert(text_size == size && memcmp(text, data, size) == 0);
	free(text);
}

static void check_entries(const struct snapshot *s)
{
	assert(s->n_entries <= SNAPSHOT_ENTRIES_MAX);
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];

		assert(e->rule < SNAPSHOT_RULE_MAX_);
		assert(!e->group == (e->rule != SNAPSHOT_TOGETHER));
		assert(!e->group || snapshot_label_valid(e->group, strlen(e->group)));
		assert(snapshot_name_valid(e->name, strlen(e->name)));
		assert(e->rule == SNAPSHOT_UNSET ||
		       strlen(e->name) + 1 + strlen(e->value) <= SNAPSHOT_STRING_MAX);
		assert(!strpbrk(e->value, "\r\n\033"));
		assert(e->rule != SNAPSHOT_UNSET || *e->value == '\0');
		if (i > 0)
			assert(strcmp(e[-1].name, e->name) < 0 ||
			       (streq(e[-1].name, e->name) && e[-1].rule < e->rule));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	struct snapshot *cut = NULL;
	char digest[DIGEST_SIZE];
	int r = snapshot_parse((const char *)data, size, &s);

	if (r < 0) {
		assert(!s);
		assert(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EFBIG);
		return 0;
	}
	digest_bytes(data, size, digest);
	assert(digest_valid(s->digest) && streq(s->digest, digest));
	assert(snapshot_label_valid(s->profile, strlen(s->profile)));
	assert(!s->toolkit_root || s->toolkit_root[0] == '/');
	assert(s->toolkit_root || !s->toolkit_force);
	check_entries(s);
	check_text(s, data, size);
	assert(snapshot_parse((const char *)data, size - 1, &cut) < 0 && !cut);
	return 0;
}
