/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the requests act on: the published files, the registry and what keeps it true. No socket is
 * here, so that requests can be tested and fuzzed without one. The server calls broker_refresh()
 * before requests, broker_settle() after answers, the on_ functions when descriptors are readable,
 * and broker_tick() at broker_next_usec().
 *
 * Invariants: a damaged `assign` leaves the last good one in force. A pin is removed a grace period
 * after the job's root and last member are gone, never while files are unread that could know
 * better. Files stay when the broker stops.
 */

#include "common/decide.h"
#include "daemon/broker/adopt.h"
#include "daemon/broker/ancestors.h"
#include "daemon/log.h"

/* Longer than a client takes from reading a pin to making its link in procs/. */
#define BROKER_GRACE_USEC (2 * UINT64_C(1000000))
/* How often is looked at what cannot be watched; no timer runs where there is nothing of the kind.
 */
#define BROKER_SWEEP_USEC (5 * UINT64_C(1000000))

struct broker_counters {
	uint64_t fetches, answers, reports, gets, whys, releases;
	uint64_t unknown_types, wrong_versions, malformed;
	uint64_t undecided;      /* decide() failed: the client decides alone */
	uint64_t reports_lost;   /* not registered, or over the limit */
	uint64_t reports_differ; /* of another job than we registered */
	uint64_t pins_removed;
};

struct broker {
	struct runtime rt;
	int proc_fd, cgroup_fd, hub_fd;
	uint64_t own_pidns;
	int assign_fd; /* inotify on the runtime directory */
	struct assign *assign;
	bool uses_gids;                     /* of assign */
	int assign_error;                   /* of the last attempt, 0: it is the published one */
	bool changed_rules, changed_socket; /* by broker_refresh(), until somebody acts on it */
	struct accounts accounts;
	struct registry registry;
	struct roots roots;
	struct adopt adopt;
	struct ancestors ancestors;
	pid_t asking;  /* whose question is being decided */
	int asking_fd; /* its stat, closed by broker_asked() */
	struct broker_counters counters;
	struct log_limit log_limit; /* of what peers can cause */
	bool memory_complete;       /* what is not in the registry is not in procs/ */
	struct {
		char key[JOB_KEY_SIZE]; /* "": nothing */
		struct process_id id;
		char cgroup_dir[1024];
	} settle;            /* of the request that is being answered; see request_settle() */
	uint64_t sweep_usec; /* 0: none is due */
	bool ending;         /* more jobs are over than broker_tick() has ended */
	char published[DIGEST_SIZE]; /* the snapshot that was asked for last, for GET */
	char *published_bytes;
	size_t published_size;
};

/* PATH is the runtime directory; jobs/ and procs/ must exist. USER: they are made where missing. 0
 * or negative errno; a missing `assign` is no error. */
int broker_open(struct broker *b, const char *path, bool user, const struct account_limits *limits);
void broker_done(struct broker *b);

/* Takes over a newer `assign`, and notices another socket at our name. Before each decision, so
 * that no process gets what was in force before a switch that it could have read of. */
void broker_refresh(struct broker *b);

/* Facts for decide() about process ASKING: a job_source over this broker's files and memory. */
struct job_source broker_source(struct broker *b, pid_t asking, bool same_pidns);
/* That is over, and its answer sent. */
void broker_asked(struct broker *b);

/* After answers: looks for the roots of new jobs. */
void broker_settle(struct broker *b, uint64_t now_usec);

/* Removes the name of a process in procs/. */
void broker_remove_link(struct broker *b, const struct process_id *id);
void broker_on_process_exit(struct broker *b, struct process *p, uint64_t now_usec);
void broker_on_root_exit(struct broker *b, struct job *j, uint64_t now_usec);

/* Work that is done step by step, between requests: is there any, and one step of it. */
bool broker_pending(const struct broker *b);
void broker_step(struct broker *b, uint64_t now_usec);

/* When broker_tick() is to be called next; UINT64_MAX: when something has happened. */
uint64_t broker_next_usec(const struct broker *b);
void broker_tick(struct broker *b, uint64_t now_usec);
