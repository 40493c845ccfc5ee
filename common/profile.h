/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Profiles: NAME.ini in the profiles.d directories, their grammar and structure (DESIGN section 5), inheritance, and the
 * snapshot text made from them. Used by the manager to publish and by `cudaenvctl check` to explain. Reads files, logs nothing.
 */

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/ini.h"
#include "common/snapshot.h"

#define PROFILE_MAX_BYTES ((size_t)512 * 1024)

/* Where one variable comes from. */
struct profile_variable {
	enum snapshot_rule rule;
	char *group; /* NULL unless together */
	char *name;
	char *value;
	char *file; /* path of the profile file */
	unsigned line;
};

/* A line of [match] or [require], kept for a later use. */
struct profile_condition {
	char *key;
	char *value;
	unsigned line;
};

struct profile {
	char *name;
	char *path;        /* file; "" where there is none */
	char *description; /* "" none */
	char *inherits;    /* NULL none */
	bool masked;       /* symlink to /dev/null */
	bool valid;        /* no error in it or in what it inherits */
	bool scope_any;
	struct profile_variable *variables; /* after inheritance; sorted as the snapshot is */
	size_t n_variables;
	struct profile_condition *match, *require;
	size_t n_match, n_require;
	char *toolkit_root; /* NULL none */
	bool toolkit_force;
	struct findings findings; /* of its own file and of joining */
	char *snapshot_text;      /* NULL unless valid */
	size_t snapshot_size;
	char digest[DIGEST_SIZE];      /* "" unless valid */
	char rank_digest[DIGEST_SIZE]; /* "" unless valid */
};

/* All profiles of a list of directories, highest precedence first; the same name overrides, /dev/null masks. */
struct profile_set {
	struct profile **profiles; /* sorted by name; masked ones left out */
	size_t n_profiles;
};

struct facts; /* the must-match table */

/* Reads the installed must-match table. 0, -ENOENT, -EBADMSG. facts_version() is its version string. */
int facts_load(const char *path, struct facts **ret);
struct facts *facts_free(struct facts *f);
const char *facts_version(const struct facts *f);
bool facts_must_match(const struct facts *f, const char *name);

/* Loads every NAME.ini in DIRS (NULL-terminated list; absent directories are fine). Faults become findings of a profile, an
 * unreadable file too. 0 or -ENOMEM. */
int profile_set_load(const char *const *dirs, const struct facts *facts, struct profile_set *ret);
void profile_set_done(struct profile_set *set);
struct profile *profile_set_find(const struct profile_set *set, const char *name);

/* One FILE anywhere, for check; DIRS serve `inherits`. 0, -ENOMEM, or why the file cannot be read. */
int profile_load_file(const char *path, const char *const *dirs, const struct facts *facts,
		      struct profile **ret);
/* Parses bytes that are said to be PATH: for tests and fuzzing. No inheritance. */
int profile_parse(const char *name, const char *path, const char *bytes, size_t size,
		  struct profile **ret);
struct profile *profile_free(struct profile *p);

/* SHA-256 by libcrypto. 0 or -EIO. */
int profile_digest(const void *data, size_t size, char ret[DIGEST_SIZE]);

/* The rank digest of a parsed snapshot: SHA-256 of its sorted must-match NAME=VALUE lines. 0 or -EIO/-ENOMEM. */
int profile_rank_digest(const struct snapshot *s, const struct facts *facts, char ret[DIGEST_SIZE]);

/* Looks like a secret (..._TOKEN, ..._SECRET, ..._PASSWORD, ..._API_KEY, ...): refused, value never shown. */
bool profile_name_is_secret(const char *name);
/* Belongs to the scheduler or the rank (CUDA_VISIBLE_DEVICES, RANK, MASTER_ADDR, SLURM_*, ...): refused. */
bool profile_name_is_reserved(const char *name);

/* Is every component of PATH (or of its nearest existing ancestor, through symlinks) owned by root and writable by root
 * alone? 1, 0, negative errno. ret_culprit (malloc()ed, may be NULL) names the component that is not. */
int profile_path_root_only(const char *path, char **ret_culprit);

static inline void profile_freep(struct profile **p)
{
	if (*p)
		(void)profile_free(*p);
}
