/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The broker's memory: registered processes, their jobs, what they reported. A process is its
 * pidfd: all pidfds stand in one epoll set (the hub), without an event source or a timer of their
 * own. The files in procs/ and jobs/ are not touched here; who calls registry_remove() or
 * registry_forget() removes them.
 *
 * A job lives in memory while it has members, or its root may live. When both are gone it is queued
 * as empty; only after a grace period is its pin removed, because a client that decided alone reads
 * the pin before it makes its link in procs/. Limits are charged per uid (account.h).
 */

#include "common/job.h"
#include "common/wire.h"
#include "daemon/broker/account.h"

/* What an entry of the hub is: first member of whatever epoll_data.ptr points to. An object of the
 * hub is freed by its own event, by a timer, or at the end; never by another object's event, so no
 * event of one batch points to freed memory. */
enum watched {
	WATCHED_CONNECTION,
	WATCHED_PROCESS,
	WATCHED_ROOT,
	WATCHED_LISTENER,
	WATCHED_LINKS, /* inotify on procs/ and jobs/ */
	WATCHED_EVENT, /* sd-event's own set */
};

enum root_state {
	ROOT_NEW,     /* not looked for yet */
	ROOT_MEMBER,  /* a registered member of the job */
	ROOT_PROCESS, /* watched by root_fd (by the sweep where there are no pidfds) */
	ROOT_CGROUP,  /* watched by roots.c */
	ROOT_UNKNOWN, /* cannot tell yet: taken for alive */
	ROOT_GONE,
};

struct job {
	enum watched watched; /* WATCHED_ROOT */
	enum root_state root;
	struct table_node node;  /* registry.jobs */
	struct job *next, *prev; /* registry.fresh or registry.empty */
	bool is_fresh, is_empty;
	int root_fd;
	pid_t root_pid; /* as our /proc numbers it: of ROOT_PROCESS; of ROOT_NEW: a member, or 0 */
	unsigned n_members;
	uint64_t empty_usec;
	int cgroup_wd;
	char *cgroup;            /* path below cgroup_fd, of ROOT_CGROUP; of ROOT_NEW: a hint */
	struct job *next_cgroup; /* roots.jobs */
	struct job_key parsed;
	char key[];
};

struct report {
	struct table_node node; /* registry.reports: processes that report the same share one */
	unsigned refs;
	uint32_t flags;
	uint32_t result;
	uint16_t count;
	char digest[DIGEST_SIZE];
	size_t size;
	char entries[];
};

struct process {
	enum watched watched;   /* WATCHED_PROCESS */
	pid_t pid;              /* as our /proc numbers it */
	struct table_node node; /* registry.processes, by start */
	uint64_t start;
	uint64_t pidns; /* with nspid and start: its name in procs/ */
	pid_t nspid;
	uid_t uid;
	int pidfd; /* -EBADF where the kernel has none: found by registry_sweep() */
	struct job *job;
	struct report *report; /* NULL: none yet */
	uint64_t environ_address;
};

struct job_list {
	struct job *first, *last;
};

struct registry {
	struct table processes, jobs, reports;
	struct accounts *accounts;
	int hub_fd;
	struct job_list fresh; /* their roots have not been looked for */
	struct job_list empty; /* oldest first */
	size_t n_without_pidfd;
};

struct process_id {
	pid_t pid;
	uint64_t start;
	uint64_t pidns;
	pid_t nspid;
};

/* ACCOUNTS and HUB_FD are borrowed; HUB_FD -EBADF: nothing is watched. */
int registry_init(struct registry *r, struct accounts *accounts, int hub_fd);
void registry_done(struct registry *r);

struct process *registry_find(const struct registry *r, pid_t pid, uint64_t start);
/* By its name in procs/. */
struct process *registry_find_named(const struct registry *r, uint64_t pidns, pid_t nspid,
				    uint64_t start);

/* Registers a process as a member of KEY, whose uid it is charged to. A known one is moved if its
 * key has changed. *PIDFD is taken (set to -EBADF) by a new entry; it may be negative. 1 new, 0
 * known, -EINVAL (KEY is not one), -EDQUOT or -EUSERS (limits), -ENOMEM, or epoll's error. */
int registry_add(struct registry *r, const struct process_id *id, const char *key, int *pidfd,
		 struct process **ret);
/* It has exited. Its job, if that was all, is queued as empty at NOW_USEC. */
void registry_remove(struct registry *r, struct process *p, uint64_t now_usec);
/* Each process without a pidfd, as table_next() goes through; NULL at the end. */
struct process *registry_sweep(const struct registry *r, const struct process *previous);

struct job *registry_job(const struct registry *r, const char *key);
/* Finds or makes. 0, -EINVAL, -EDQUOT, -EUSERS, -ENOMEM. */
int registry_job_make(struct registry *r, const char *key, struct job **ret);
/* To be called when a job's root state changed: queues or unqueues it. */
void registry_job_settle(struct registry *r, struct job *j, uint64_t now_usec);
/* Takes the next job whose root has not been looked for; NULL: none. */
struct job *registry_take_fresh(struct registry *r);
/* Frees a job that has no members. */
void registry_forget(struct registry *r, struct job *j);

/* Keeps what a process reported, in place of an earlier one. 0, -EDQUOT, -EUSERS, -ENOMEM. */
int registry_report(struct registry *r, struct process *p, const struct wire_report *report);
