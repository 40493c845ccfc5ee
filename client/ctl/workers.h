/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The processes that have a job here, and their jobs: procs/ and jobs/ laid over /proc, with no
 * daemon. A process is listed if it is registered, or was forked off a listed one without an exec
 * (fork runs no start hook, so it has its parent's environment and job). What cannot be told is
 * unknown, never guessed.
 */

#include "client/ctl/published.h"
#include "client/ctl/started.h"
#include "common/decide.h"

enum tri { TRI_UNKNOWN = -1, TRI_NO = 0, TRI_YES = 1 };

struct worker {
	pid_t pid, ppid; /* as this /proc numbers them */
	uid_t uid;
	uint64_t pidns;
	pid_t nspid;
	uint64_t start;
	uint64_t stack; /* start of its stack: equal in a fork, chosen anew by an exec; 0 unknown */
	char *exe;      /* NULL unknown */
	char *unit;     /* NULL none */
	char *cgroup;   /* its path, as the caller sees it; NULL unknown */
	char *key;      /* its job; NULL: not listed */
	size_t next;    /* the next member of its job, WORKERS_NONE: the last */
	bool registered;
	pid_t forked_off; /* not registered, but a fork of this registered one; 0: no */
	enum started started;
	bool pin_known;
	char snapshot[DIGEST_SIZE]; /* its job's; "": nothing is set */
	char answered
		[DIGEST_SIZE]; /* what it was answered with itself: after a release its job may have
				       another; an older release's link does not tell, then the job's */
	enum tri stale;        /* a new job in its place would get something else than it has */
	enum tri job_stale;    /* likewise, than its job has */
	char *required;        /* CUDAENV_REQUIRE as it was handed; NULL: not, or unknown */
	bool required_met;
};

struct worker_job {
	char *key;
	struct job_key parts;
	pid_t root_pid; /* 0: unknown or gone */
	bool pin_known;
	char snapshot[DIGEST_SIZE];
	char former[PIN_MAX_FORMER][DIGEST_SIZE]; /* from before a release */
	unsigned n_former;
	size_t members;
	size_t first; /* the first listed member, WORKERS_NONE: none */
};

#define WORKERS_NONE SIZE_MAX

struct workers {
	struct worker *items; /* by pid */
	size_t n;
	struct worker_job *jobs; /* by key */
	size_t n_jobs;
};

#define WORKERS_EVERYONE ((uid_t)-1)

/* VIEWER: whose processes are wanted, WORKERS_EVERYONE: all. 0 or negative errno. */
int workers_collect(const struct published *published, uid_t viewer, struct workers *ret);
void workers_done(struct workers *w);
/* Has another than VIEWER a process that registered? By the links in procs/, which everyone sees. */
bool workers_of_others(const struct published *published, uid_t viewer);
/* The process PID alone, whether it is listed or not, without a job. 0, -ESRCH, other negative
 * errno. */
int workers_look(const struct published *published, pid_t pid, struct worker *ret);
void worker_done(struct worker *w);
const struct worker_job *workers_job(const struct workers *w, const char *key);
/* Has JOB a process that is stale? */
bool workers_job_stale(const struct workers *w, const struct worker_job *job);
/* Its unit, or NULL. */
const char *workers_job_unit(const struct workers *w, const struct worker_job *job);
/* How many bytes of KEY to show: on a terminal a token part, which is a digest, is cut short. */
int workers_key_shown(const char *key);
