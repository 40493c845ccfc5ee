/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a starting process knows of itself: its word in a FETCH, and the facts it needs to decide
 * alone. Where /proc is not to be seen (a chroot) all of it is unknown, and only the broker can
 * tell its job.
 */

#include "common/decide.h"
#include "common/wire.h"

struct self {
	int proc_fd;   /* -EBADF: not to be seen; both CLOEXEC and at least 3 */
	int cgroup_fd; /* likewise */
	struct job_subject subject;
	bool same_pidns;
	char exe[WIRE_EXE_MAX + 1]; /* "" unknown */
};

#define SELF_NULL                                                                                  \
	{                                                                                          \
		.proc_fd = -EBADF, .cgroup_fd = -EBADF                                             \
	}

/* 0; -EMFILE, -ENFILE, -ENOMEM: something could not be looked at that would have changed the job.
 */
int self_init(const struct runtime *rt, struct self *ret);
void self_done(struct self *self);

void self_question(const struct self *self, struct wire_fetch *ret);

/* Decides by the published files, and registers the process in procs/. 0; -ESRCH: no /proc;
 * -ENOMEM; errors of decide(). */
int self_decide(const struct self *self, const struct runtime *rt, const struct assign *assign,
		struct decision *ret);
