/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where this cudaenvctl itself stands: its place among the jobs, as a process that starts here
 * would find it, and whether the job it runs in stays on another snapshot than a new job gets. Pins
 * are read, never made.
 */

#include <errno.h>

#include "client/ctl/published.h"
#include "common/decide.h"

/* This process as common/job sees it. */
struct place {
	int proc_fd, cgroup_fd;
	struct job_source source;
	struct job_subject subject;
};

#define PLACE_NULL                                                                                 \
	{                                                                                          \
		.proc_fd = -EBADF, .cgroup_fd = -EBADF                                             \
	}

/* TOKEN: a digest or NULL. 0, or negative errno where /proc does not show us. */
int place_init(const struct published *p, const char *token, struct place *ret);
void place_done(struct place *place);
/* What the rules give a new job of this user and place that runs EXE (NULL: unknown), FALLBACK
 * where no rule says otherwise. */
void place_choose(const struct published *p, struct place *place, const char *exe,
		  const char *fallback, char ret[DIGEST_SIZE]);

#define PLACE_COMM_SIZE 32

/* Is PID ours, or that of a process above us? */
bool place_is_above(pid_t pid);
/* comm of PID, "" unknown. */
void place_comm(pid_t pid, char ret[PLACE_COMM_SIZE]);

struct own_job {
	bool stays; /* the rest is filled in then */
	char key[JOB_KEY_SIZE];
	char snapshot[DIGEST_SIZE]; /* "": nothing is set */
	char *profile;              /* NULL: unknown, or nothing is set */
	pid_t root_pid;             /* 0: unknown, or no process is its root */
	char comm[PLACE_COMM_SIZE]; /* of that */
};

/* Does the job that we run in have another pin than a new job would get, with MODE and with
 * FALLBACK as the default? What cannot be told is no. */
void own_job_find(const struct published *p, enum mode mode, const char *fallback,
		  struct own_job *ret);
void own_job_done(struct own_job *job);
/* {"id","snapshot","profile"}, or null where nothing stays. */
struct json_object *own_job_json(const struct own_job *job);
/* The same for people. */
void own_job_print(const struct own_job *job, bool dry_run);
