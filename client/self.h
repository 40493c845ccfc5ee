/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a starting process knows of itself: its word in a FETCH, and the facts it needs to decide
 * alone. Where /proc is not to be seen (a chroot) most of it is unknown, which is 0, "" or NULL.
 */

#include "common/decide.h"
#include "common/wire.h"

struct self {
	uid_t uid;             /* effective */
	const char *token;     /* CUDAENV_SNAPSHOT if that is a digest, else NULL; points into the
				  environment */
	uint64_t pidns;        /* inode of the pid namespace */
	uint64_t cgroup_claim; /* inode of the cgroup namespace's root, 0: the host's */
	char exe[WIRE_EXE_MAX + 1];
};

/* Cannot fail. */
void self_init(struct self *ret);

void self_question(const struct self *self, struct wire_fetch *ret);

/* Decides by the published files, and registers the process in procs/. 0; -ENOENT: no /proc;
 * -EMFILE, -ENFILE, -ENOMEM: what could not be read would have changed the answer; errors of
 * decide(). */
int self_decide(const struct self *self, const struct runtime *rt, const struct assign *assign,
		struct decision *ret);
