/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds processes by their number in another pid namespace and their start time: the broker cannot
 * read whose namespace is whose, but the start time is in every stat file and the inner number in
 * every status. One pass over /proc serves all that are wanted, in slices, so that no client waits
 * for it. What a whole pass has not found does not run.
 */

#include <dirent.h>
#include <sys/types.h>

#include "daemon/broker/table.h"

struct search {
	int proc_fd;
	DIR *dir; /* a pass is under way */
	unsigned pass;
	struct table wanted;
};

/* PID 0: not found, and /proc shows all processes. NAME is what search_add() was told. */
typedef void (*search_found_t)(void *userdata, bool link, const char *name, pid_t pid);

int search_init(struct search *s, int proc_fd);
void search_done(struct search *s);

/* NAME names a link in procs/ (LINK) or a job. 0 (also if it is wanted already), -ENOBUFS (too
 * many), -ENOMEM. */
int search_add(struct search *s, pid_t nspid, uint64_t start, bool link, const char *name);
/* Begins a pass if something is wanted and none is under way. */
void search_begin(struct search *s);
bool search_running(const struct search *s);
/* Looks at some processes of the pass. */
void search_step(struct search *s, search_found_t found, void *userdata);
