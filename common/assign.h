/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The published rules: which digest a new job gets, and where jobs end. Written by the manager,
 * read by the broker and by every client that decides alone: the same function in both gives the
 * same answer.
 *
 *   cudaenv-assign 1
 *   generation 12                    grows with each publication
 *   mode on                          off | observe | on
 *   default DIGEST                   or none
 *   on_mismatch fail                 optional: CUDAENV_REQUIRE that is not met ends a program
 *   rule vllm DIGEST                 an override, or [assign vllm] in file order; DIGEST or none
 *   until 1790000000                 optional: from this second on (CLOCK_REALTIME, since 1970) the
 *                                    rule above is passed over, whoever may have to take it out
 *   when unit vllm@*.service         conditions of that rule: all kinds named must hold,
 *   when uid 1000                    of one kind any one. Kinds: unit, uid, gid, exe, cgroup.
 *   boundary sshd                    glob on comm: nothing at or above such a process counts
 *   supervisor slurmd.service        glob on unit name: such a unit is not one job
 *   end                              missing: the file is cut, and not believed
 *
 * In this order: header lines, rules with their end and conditions, boundaries, supervisors. No
 * rule's name, boundary or supervisor twice, at most ASSIGN_MAX_EACH of each. Names of rules as of
 * profiles (snapshot_label_valid()). Globs: * ? [a-z] [!a-z] \c, bytes without regard to the
 * locale, * also over '/'; no control characters.
 */

#include "common/digest.h"
#include "common/runtime.h"

#define ASSIGN_MAX_BYTES ((size_t)256 * 1024)
#define ASSIGN_MAX_LINES 8192 /* after the header */
#define ASSIGN_MAX_EACH  512

enum mode { MODE_OFF, MODE_OBSERVE, MODE_ON };

const char *mode_name(enum mode mode);
/* 0 or -EINVAL. */
int mode_parse(const char *s, enum mode *ret);

struct assign_line; /* one line after the header */

struct assign {
	char *text;
	uint64_t generation;
	enum mode mode;
	char fallback[DIGEST_SIZE]; /* of "default"; "" for none */
	bool mismatch_fails;        /* of "on_mismatch" */
	struct assign_line *lines;
	size_t n_lines;
};

/* What the rules look at. Unknown strings are NULL and match nothing. */
struct assign_subject {
	int64_t now; /* seconds since 1970; 0: the clock is read if a rule has an end */
	uid_t uid;
	const gid_t *gids; /* effective and supplementary */
	size_t n_gids;
	const char *unit;   /* "vllm@1.service", from the cgroup path */
	const char *cgroup; /* full path */
	const char *exe;
};

/* 0, -EBADMSG with *ret_line (1-based, may be NULL), -EPROTONOSUPPORT, -EFBIG, -ENOMEM. BYTES are
 * copied. */
int assign_parse(const char *bytes, size_t size, struct assign **ret, unsigned *ret_line);
struct assign *assign_free(struct assign *a);
/* Reads RT's file "assign". Errors of runtime_read() and assign_parse(). */
int assign_load(const struct runtime *rt, struct assign **ret);

/* Digest for a new job ("" for none) by the first rule that has not ended and whose conditions
 * hold; *ret_rule its name, or NULL for the default. Pointers live as long as A. */
const char *assign_choose(const struct assign *a, const struct assign_subject *subject,
			  const char **ret_rule);

/* --- why: the same, rule by rule */

enum assign_kind {
	ASSIGN_UNIT,
	ASSIGN_UID,
	ASSIGN_GID,
	ASSIGN_EXE,
	ASSIGN_CGROUP,
	ASSIGN_KIND_MAX_
};

#define ASSIGN_END SIZE_MAX /* cursor behind the default */

struct assign_rule {
	const char *name;     /* NULL: the default, the last one */
	const char *digest;   /* "" for none */
	int64_t until;        /* -1: it has no end */
	bool ended;           /* by now */
	bool hit;             /* not ended, and all kinds named hold; the default is always one */
	unsigned named, held; /* kinds of its conditions, as 1 << enum assign_kind */
	size_t conditions, n_conditions; /* for assign_condition() */
};

struct assign_condition {
	enum assign_kind kind;
	const char *glob; /* NULL for ids */
	uint32_t id;
	bool holds;
};

/* 1 and the next rule, 0 behind the default. *CURSOR starts at 0. The first that is a hit is what
 * assign_choose() gives. */
int assign_explain(const struct assign *a, const struct assign_subject *subject, size_t *cursor,
		   struct assign_rule *ret);
/* Condition I of RULE, 0 to n_conditions less one. */
void assign_condition(const struct assign *a, const struct assign_rule *rule, size_t i,
		      const struct assign_subject *subject, struct assign_condition *ret);
/* "unit", "uid", "gid", "exe", "cgroup" */
const char *assign_kind_name(enum assign_kind kind);
/* Is DIGEST ("" for none) the default or that of any rule? */
bool assign_gives(const struct assign *a, const char *digest);

/* Does any rule look at groups? If not, a subject needs none. */
bool assign_uses_gids(const struct assign *a);
/* *, ?, [a-z], [!a-z], \\c, on bytes, in bounded time; the star also matches '/'. */
bool assign_glob_match(const char *pattern, const char *s);
bool assign_is_boundary(const struct assign *a, const char *comm);
bool assign_is_supervisor(const struct assign *a, const char *unit);

static inline void assign_freep(struct assign **a)
{
	if (*a)
		(void)assign_free(*a);
}
