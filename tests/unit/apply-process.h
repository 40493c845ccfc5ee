/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes of the tests of apply: start() makes one from an environment and the lines of a
 * snapshot, is() says what one variable of it must be.
 */
#include "client/apply.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define HEAD "cudaenv-snapshot 1\nprofile p\nscope any\n"
#define USER 1000

static struct snapshot *snapshot(const char *header, const char *entries)
{
	struct snapshot *s = NULL;
	char *text;
	int r;

	check(asprintf(&text, "%s%s", header, entries) > 0);
	r = snapshot_parse(text, strlen(text), &s);
	if (r < 0)
		fprintf(stderr, "%s\n", text);
	check(r == 0);
	free(text);
	return s;
}

/* A process: the environment it was started with, and what apply makes of it. */
struct process {
	struct snapshot *snapshot;
	struct applied applied;
	char *const *env; /* the one it goes on with */
};

static struct process start_as(char *const *env, struct snapshot *s_take, uid_t uid, unsigned flags)
{
	struct process p = {.snapshot = s_take, .applied = APPLIED_NULL};

	check(apply(env, s_take, uid, flags, &p.applied) == 0);
	p.env = p.applied.env ? p.applied.env : env;
	return p;
}

static struct process start(char *const *env, const char *entries)
{
	return start_as(env, snapshot(HEAD, entries), USER, 0);
}

static void done(struct process *p)
{
	applied_done(&p->applied);
	snapshot_freep(&p->snapshot);
}

static const char *value(const struct process *p, const char *name)
{
	size_t n = strlen(name);

	for (char *const *e = p->env; e && *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

static unsigned occurrences(const struct process *p, const char *name)
{
	unsigned count = 0;

	for (char *const *e = p->env; *e; e++)
		count += strncmp(*e, name, strlen(name)) == 0 && (*e)[strlen(name)] == '=';
	return count;
}

static const struct apply_change *change(const struct process *p, const char *name)
{
	const struct apply_change *found = NULL;

	for (size_t i = 0; i < p->applied.n_changes; i++) {
		const struct apply_change *c = &p->applied.changes[i];
		const char *stands = value(p, c->name);

		/* Whatever the case: the list says what stands, and names nothing twice. */
		check(!!c->value == !!stands);
		if (stands)
			check_streq(c->value, stands);
		if (streq(c->name, name)) {
			check(!found);
			found = c;
		}
	}
	return found;
}

/* NAME has VALUE (NULL: is absent), in STATE, and was CHANGED or not. */
#define is(p, name, want, want_state, want_changed)                                                \
	do {                                                                                       \
		const struct apply_change *c_ = change(p, name);                                   \
		const char *want_ = (want);                                                        \
		check(c_ && c_->state == (want_state) && c_->changed == (want_changed));           \
		if (want_)                                                                         \
			check_streq(value(p, name), want_);                                        \
		else                                                                               \
			check(!value(p, name));                                                    \
	} while (0)

#define ENV(...) ((char *[]){__VA_ARGS__, NULL})
