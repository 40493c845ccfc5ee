/* SPDX-License-Identifier: MIT */
/*
 * A profile, or a parent and its child with two NUL bytes between them: whatever is called valid
 * must make a snapshot that the client reads as it was meant, fits every limit, and has none of the
 * names that are refused.
 */
#include "common/profile-internal.h"
#include "common/profile-text.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static void check_entries(const struct profile *p)
{
	struct snapshot *s = NULL;

	require(snapshot_parse(p->snapshot_text, p->snapshot_size, &s) == 0);
	require(streq(s->digest, p->digest) && streq(s->profile, p->name));
	require(s->scope_any == p->scope_any && s->n_entries == p->n_variables);
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];
		const struct profile_variable *v = &p->variables[i];

		require(e->rule == v->rule && streq(e->name, v->name));
		require(streq(e->value, v->value) && !e->group == !v->group);
		require(!e->group || streq(e->group, v->group));
		require(!profile_name_is_secret(e->name) && !profile_name_is_own(e->name) &&
			!profile_name_is_reserved(e->name));
	}
	(void)snapshot_free(s);
}

static struct profile *read_profile(const char *name, const uint8_t *data, size_t size,
				    const struct profile *parent)
{
	struct profile *p = NULL;

	require(profile_new(name, name, &p) == 0);
	require(profile_read(p, (const char *)data, size) == 0);
	require(profile_join(p, parent) == 0);
	require(profile_finish(p, NULL) == 0);
	require(p->valid == (p->findings.errors == 0) && p->valid == !!p->snapshot_text);
	if (p->valid)
		check_entries(p);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *cut = size > 0 ? memmem(data, size, "\0\0", 2) : NULL;
	struct profile *parent = NULL, *child;

	if (size > PROFILE_MAX_BYTES)
		return 0;
	if (cut) {
		parent = read_profile("parent", data, (size_t)(cut - data), NULL);
		size -= (size_t)(cut + 2 - data);
		data = cut + 2;
	}
	child = read_profile("child", data, size, parent && parent->valid ? parent : NULL);
	(void)profile_free(child);
	(void)profile_free(parent);
	return 0;
}
