/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The parts of apply. One table holds every name that the snapshot or a mark speaks of, sorted, so
 * that an environment of any size is gone through with a binary search each (apply-table.c). What
 * each variable becomes is decided on slices (apply-rules.c); strings are only made for what
 * differs (apply.c), in one arena whose size is bounded beforehand.
 */

#include "client/apply.h"
#include "client/marks.h"

struct variable {
	struct slice name;
	const struct snapshot_entry *entries; /* of this name; NULL: only a mark speaks of it */
	size_t n_entries;
	struct mark mark; /* as found, then as it goes into the new environment */
	struct slice old, cur, now;
	bool stands; /* case keep, and not to be set now */
	bool ours;   /* now is what we made it */
	bool made;   /* its string of the new environment is in the arena */
	enum cudaenv_state state;
};

enum { OWN_SNAPSHOT, OWN_PROFILE, OWN_APPLIED, N_OWN };

struct work {
	char *const *env;
	size_t n_env;
	const struct snapshot *snapshot;
	uid_t uid;
	unsigned flags;
	struct variable *variables; /* sorted by name */
	size_t n_variables;
	struct variable own[N_OWN];
	bool keep;
	int toolkit_here; /* negative: not looked yet */
	char *arena;
	size_t used, size;
	bool overflow; /* the bound was wrong: nothing is applied */
};

/* Counts the environment, fills the table and tells keep from start. 0 or -ENOMEM. */
int work_init(struct work *w);
void work_done(struct work *w);
/* The variable that STRING of an environment is about, NULL for others. */
struct variable *work_find(struct work *w, const char *string);

/* Copies into the arena. */
char *arena_put(struct work *w, const char *data, size_t size);

/* Decides every variable of the table: now, state, mark. 0 or -ENOMEM. */
int rules_decide(struct work *w);
/* The state of a variable that was taken back, or set. */
void rules_settle(struct variable *v);
