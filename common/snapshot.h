/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The snapshot text: what one job's processes get. Its name is the SHA-256 of its bytes. Immutable.
 *
 *   cudaenv-snapshot 1
 *   profile cuda13-pcie
 *   scope any                              any | user (a path in it is writable by others than root)
 *   toolkit default /usr/local/cuda-13.0   optional: default | force; its group is named toolkit
 *   force CUDA_HOME=/usr/local/cuda-13.0
 *   default NCCL_PROTO=LL
 *   unset NCCL_MAX_NRINGS
 *   prepend PATH=/usr/local/cuda-13.0/bin
 *   append X=Y
 *   together nccl NCCL_ALGO=Ring
 *
 * One variable a line, sorted by name, then by rule in the order of enum snapshot_rule; each (name,
 * rule) once; a name with default, force, unset or together has no second line (but PATH of the
 * group toolkit may have prepend and append after it). Values are byte-exact up to the LF and hold
 * no control characters but TAB. In the group toolkit a PATH line means prepend, and is left out
 * for uid 0.
 */

#include "common/digest.h"
#include "common/runtime.h"

#define SNAPSHOT_MAX_BYTES   ((size_t)640 * 1024) /* a profile's 512 KiB plus keywords */
#define SNAPSHOT_ENTRIES_MAX 16384                /* lines after the header */
#define SNAPSHOT_NAME_MAX    1024                 /* longest variable name */
#define SNAPSHOT_STRING_MAX  131071 /* NAME=VALUE, what one environment string may hold */

enum snapshot_rule {
	SNAPSHOT_DEFAULT,
	SNAPSHOT_FORCE,
	SNAPSHOT_UNSET,
	SNAPSHOT_TOGETHER,
	SNAPSHOT_PREPEND,
	SNAPSHOT_APPEND,
	SNAPSHOT_RULE_MAX_,
};

/* "default", "force", ... */
const char *snapshot_rule_name(enum snapshot_rule rule);

/* Strings point into the snapshot's own text. */
struct snapshot_entry {
	enum snapshot_rule rule;
	const char *group; /* NULL unless rule is SNAPSHOT_TOGETHER */
	const char *name;
	const char *value; /* "" for SNAPSHOT_UNSET */
};

struct snapshot {
	char digest[DIGEST_SIZE];
	char *text; /* the owned bytes, cut into strings */
	const char *profile;
	bool scope_any;
	const char *toolkit_root; /* NULL: no toolkit */
	bool toolkit_force;
	struct snapshot_entry *entries;
	size_t n_entries;
};

/* [A-Za-z_][A-Za-z0-9_]*, at most SNAPSHOT_NAME_MAX. */
bool snapshot_name_valid(const char *name, size_t size);
/* Acts only before a program starts (LD_*, PYTHON*, MALLOC_*, GLIBC_TUNABLES): the start hook does
 * not set it, exec does. */
bool snapshot_name_late(const char *name, size_t size);
/* Profile and group names: [A-Za-z0-9_.@-]+, not beginning with '.' or '-', at most 128. */
bool snapshot_label_valid(const char *label, size_t size);

/* Parses SIZE bytes (copied). *ret is the caller's, for snapshot_free(). 0, -EBADMSG (not a
 * snapshot, not sorted, bad name, value too long, NUL, no LF at the end), -EPROTONOSUPPORT (another
 * version), -EFBIG, -ENOMEM. Sets digest. */
int snapshot_parse(const char *bytes, size_t size, struct snapshot **ret);
struct snapshot *snapshot_free(struct snapshot *s);

/* Loads snapshots/DIGEST of RT under its trust rules and proves the digest. In addition to
 * runtime_read() and snapshot_parse(): -EUCLEAN the bytes are not those of DIGEST; -EKEYREJECTED
 * rt->self is 0 and scope is not any. */
int snapshot_load(const struct runtime *rt, const char *digest, struct snapshot **ret);

static inline void snapshot_freep(struct snapshot **s)
{
	if (*s)
		(void)snapshot_free(*s);
}
