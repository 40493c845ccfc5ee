/* SPDX-License-Identifier: MIT */
/*
 * Applies any snapshot to any environment. Input: one byte of flags, then the lines of a snapshot
 * up to a NUL, then environment strings, each ended by a NUL. A line "@" in the environment stands
 * for the snapshot's own token. Whatever comes: the list of changes says what stands, what is not
 * listed is passed on, no string becomes longer than an execve(2) takes, and a child of the result
 * finds nothing to do.
 */
#include "client/apply.h"
#include "common/util.h"

#define HEAD "cudaenv-snapshot 1\nprofile p\nscope any\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static const char *find(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

static bool is_listed(const struct applied *a, const char *string)
{
	size_t n = strcspn(string, "=");

	for (size_t i = 0; string[n] && i < a->n_changes; i++)
		if (strlen(a->changes[i].name) == n && memcmp(a->changes[i].name, string, n) == 0)
			return true;
	return false;
}

static void judge(char *const *old, const struct applied *a)
{
	char *const *env = a->env ? a->env : old;
	size_t at = 0;

	for (size_t i = 0; i < a->n_changes; i++) {
		const struct apply_change *c = &a->changes[i];
		const char *before = find(old, c->name), *now = find(env, c->name);

		must(c->state >= CUDAENV_SET && c->state <= CUDAENV_TOO_LATE);
		must(!now == !c->value && (!now || streq(now, c->value)));
		must(c->changed == (!now != !before || (now && !streq(now, before))));
		must(!c->changed || a->env);
		must(!c->changed || !now ||
		     strlen(c->name) + 1 + strlen(now) <= SNAPSHOT_STRING_MAX);
	}
	/* The others come through, in order. */
	for (; *old; old++) {
		if (is_listed(a, *old))
			continue;
		while (env[at] && env[at] != *old)
			at++;
		must(env[at++] == *old);
	}
}

static void run(char *const *env, const struct snapshot *s, uint8_t flags)
{
	uid_t uid = flags & 2 ? 0 : 1000;
	unsigned how = flags & 1 ? APPLY_EXEC : 0;
	struct applied a = APPLIED_NULL, again = APPLIED_NULL;

	must(apply(env, s, uid, how, &a) == 0);
	judge(env, &a);
	must(apply(a.env ? a.env : env, s, uid, how, &again) == 0);
	must(!again.env);
	applied_done(&again);
	applied_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *text = NULL, *copy = NULL, *token = NULL;
	_cleanup_(freep) char **env = NULL;
	size_t n = 0;

	if (size < 1)
		return 0;
	copy = malloc(size);
	env = calloc(size + 1, sizeof *env);
	must(copy && env);
	memcpy(copy, data + 1, size - 1);
	copy[size - 1] = '\0';
	must(asprintf(&text, "%s%s", HEAD, copy) > 0);
	if (snapshot_parse(text, strlen(text), &s) < 0)
		return 0;
	must(asprintf(&token, "CUDAENV_SNAPSHOT=%s", s->digest) > 0);
	for (char *p = copy + strlen(copy) + 1; p < copy + size; p += strlen(p) + 1)
		env[n++] = streq(p, "@") ? token : p;
	run(env, s, data[0]);
	return 0;
}
