/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the rules look at, of a process that runs, or as it was given on the command line: there
 * only some of it is known, and a rule that asks for the rest is neither a hit nor a miss.
 */

#include "client/ctl/workers.h"

#define SUBJECT_GROUPS_MAX 256

/* MATCH points into the rest: not to be copied. */
struct subject {
	struct assign_subject match;
	unsigned known; /* 1 << enum assign_kind */
	char *exe;
	char unit[256];
	char cgroup[CGROUP_PATH_SIZE];
	gid_t groups[SUBJECT_GROUPS_MAX];
};

struct subject_source {
	const struct published *published;
	int proc_fd, cgroup_fd; /* borrowed */
	uint64_t own_pidns;
};

/* Of W: its exe is taken from there. */
void subject_of(const struct subject_source *s, const struct worker *w, struct subject *ret);
/* Of what is given; NULL: not known. USER is a name or a number. 0, or -ESRCH: no such user. */
int subject_given(const char *unit, const char *user, const char *exe, struct subject *ret);
void subject_done(struct subject *s);

/* Is RULE neither hit nor miss, for want of what was not given? */
bool subject_lacks(const struct subject *s, const struct assign_rule *rule);
/* What of S a condition of KIND is compared with, malloc()ed; NULL: it is not known, or there is
 * none. */
char *subject_found(const struct subject *s, enum assign_kind kind);
