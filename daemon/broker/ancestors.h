/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the facts of processes that start others: their stat files stay open for a while, because a
 * launcher's next child comes soon and opening is most of the cost. Each question reads anew;
 * nothing that a process says is kept.
 */

#include "common/procfs.h"

#define ANCESTORS_MAX 64

struct ancestors {
	int proc_fd; /* borrowed */
	struct {
		pid_t pid; /* 0: free */
		int fd;
	} slots[ANCESTORS_MAX];
};

void ancestors_init(struct ancestors *a, int proc_fd);
void ancestors_done(struct ancestors *a);
/* As procfs_facts(). */
int ancestors_facts(struct ancestors *a, pid_t pid, struct proc_facts *ret);
