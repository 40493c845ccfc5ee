/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Profiles: NAME.ini in the profiles.d directories, their grammar and structure (DESIGN section 5),
 * inheritance, and the snapshot text made from them. Used by the manager to publish and by
 * `cudaenvctl check` to explain. Reads files, logs nothing.
 *
 * Inheritance is by name: what a child says of a variable, in whatever section, replaces what its
 * parent says. Only lists add up: a child's prepended elements stand before its parent's, its
 * appended ones behind. [toolkit] replaces a parent's [toolkit]; [match] and [require] are joined
 * key by key.
 */

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/facts.h"
#include "common/finding.h"
#include "common/profile-names.h"
#include "common/snapshot.h"

#define PROFILE_MAX_BYTES     ((size_t)512 * 1024)
#define PROFILE_MAX_DEPTH     16 /* profiles in one line of inheritance */
#define PROFILE_TOOLKIT_GROUP "toolkit"

/* Where one variable comes from. */
struct profile_variable {
	enum snapshot_rule rule;
	char *group; /* NULL unless together */
	char *name;
	char *value;
	char *file; /* path of the profile file */
	unsigned line;
	unsigned column; /* of the name */
};

/* A line of [match] or [require], kept for a later use. */
struct profile_condition {
	char *key;
	char *value;
	unsigned line;
};

struct profile {
	char *name;        /* of the file; odd bytes of a bad name as \xNN */
	char *path;        /* file; "" where there is none */
	char *description; /* "" none */
	char *inherits;    /* NULL none */
	bool masked;       /* symlink to /dev/null */
	bool valid;        /* no error in it or in what it inherits */
	bool scope_any;
	struct profile_variable *
		variables; /* after inheritance; sorted as the snapshot is; no secrets among them */
	size_t n_variables;
	struct profile_condition *match, *require;
	size_t n_match, n_require;
	char *toolkit_root; /* NULL none */
	bool toolkit_force;
	struct findings findings; /* of its own file and of joining, by line */
	char *snapshot_text;      /* NULL unless valid */
	size_t snapshot_size;
	char digest[DIGEST_SIZE];      /* "" unless valid */
	char rank_digest[DIGEST_SIZE]; /* "" unless valid, and without facts */

	/* Of loading. Lines are 0 where there is none. */
	bool joined;
	unsigned inherits_line, inherits_column;
	unsigned toolkit_line;
	bool toolkit_root_given, toolkit_rule_given;
};

/* All profiles of a list of directories, highest precedence first; the same name overrides,
 * /dev/null masks. */
struct profile_set {
	struct profile **profiles; /* sorted by name; masked ones left out */
	size_t n_profiles;
};

/* Loads every NAME.ini in DIRS (NULL-terminated list; absent directories are fine). Faults become
 * findings of a profile, an unreadable file too. FACTS may be NULL: then there are no rank digests.
 * 0, -ENOMEM, or why a directory that is there cannot be read (keep the set you have: a profile
 * that is not seen is not gone). */
int profile_set_load(const char *const *dirs, const struct facts *facts, struct profile_set *ret);
void profile_set_done(struct profile_set *set);
struct profile *profile_set_find(const struct profile_set *set, const char *name);

/* One FILE anywhere, for check; DIRS (may be NULL) serve `inherits`. 0, -ENOMEM, or why the file
 * cannot be read. A FILE that is /dev/null gives a masked profile without variables. */
int profile_load_file(const char *path, const char *const *dirs, const struct facts *facts,
		      struct profile **ret);
/* Parses bytes that are said to be PATH: for tests and fuzzing. `inherits` is kept and not
 * followed. 0 or -ENOMEM. */
int profile_parse(const char *name, const char *path, const char *bytes, size_t size,
		  const struct facts *facts, struct profile **ret);
struct profile *profile_free(struct profile *p);

static inline void profile_freep(struct profile **p)
{
	if (*p)
		(void)profile_free(*p);
}
