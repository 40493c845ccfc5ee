/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which job a starting process belongs to, from kernel facts alone (DESIGN section 6): the same code in
 * broker and client, so both find the same key. This module only reads; pins are made in common/decide.
 *
 * Keys (also file names in jobs/):
 *   tree-UID-PIDNS-PID-START       outermost ancestor below the boundary; PID as numbered in namespace PIDNS
 *   slurm-UID-INODE  container-UID-INODE  unit-UID-INODE      inode of the cgroup directory
 *   KEY.DIGEST                     a job started with a token that KEY never had as a pin
 * UID is the effective uid: a change of uid starts a new job.
 */

#include "common/assign.h"
#include "common/procfs.h"
#include "common/runtime.h"

#define JOB_KEY_MAX 255 /* NAME_MAX; with NUL one more */
#define JOB_KEY_SIZE (JOB_KEY_MAX + 1)
#define JOB_DEPTH_MAX 128 /* ancestors looked at; deeper ones count as the boundary */

enum job_kind { JOB_TREE, JOB_SLURM, JOB_CONTAINER, JOB_UNIT, JOB_KIND_MAX_ };

/* A key taken apart. */
struct job_key {
	enum job_kind kind;
	uid_t uid;
	uint64_t pidns; /* JOB_TREE */
	pid_t pid;
	uint64_t start;
	uint64_t inode;           /* the others */
	char digest[DIGEST_SIZE]; /* "" without a token part */
};

const char *job_kind_name(enum job_kind kind);
/* 0 or -EINVAL; accepts exactly what job_key_format() makes. */
int job_key_parse(const char *key, struct job_key *ret);
void job_key_format(const struct job_key *k, char ret[JOB_KEY_SIZE]);

/* Name in procs/ of a process: PIDNS-PID-START. */
#define JOB_PROC_SIZE 80
void job_proc_format(uint64_t pidns, pid_t nspid, uint64_t start, char ret[JOB_PROC_SIZE]);
int job_proc_parse(const char *name, uint64_t *ret_pidns, pid_t *ret_nspid, uint64_t *ret_start);

/* Where facts are read. Descriptors are borrowed. */
struct job_source {
	int proc_fd;
	int cgroup_fd; /* O_PATH of /sys/fs/cgroup, -EBADF: cgroup rules are skipped */
	const struct runtime *rt;
	const struct assign *assign;
	bool same_pidns; /* the starting process's pid namespace is that of proc_fd: pids need no translation */
	/* Optional shortcut (the broker's memory) before procs/ is read: 1 and KEY if FACTS is a registered
	 * process, 0 if not. */
	int (*registered)(void *userdata, const struct proc_facts *facts, char ret_key[JOB_KEY_SIZE]);
	void *userdata;
};

struct job_subject {
	pid_t pid; /* as proc_fd numbers it */
	uid_t uid;
	uint64_t pidns;         /* inode of its pid namespace: its own word where it cannot be read */
	uint64_t cgroup_claim;  /* its own word: inode of its cgroup namespace's root, 0 if that is the host's */
	const char *token;      /* valid digest or NULL */
};

/* What job_find() learnt; all of it is input for assign_choose() and decide. */
struct job_facts {
	char key[JOB_KEY_SIZE];
	bool below;         /* found by a registered ancestor (or the process itself, registered before an exec) */
	bool ignore_token;  /* a unit's first process */
	pid_t nspid;        /* of the process, in its own namespace */
	uint64_t start;
	char cgroup[4096];  /* "" unknown */
	char unit[256];     /* "" none */
};

/* Rules 1 to 4 of DESIGN section 6, before the token part (decide adds it). 0, or negative errno when the process's
 * own facts cannot be read (-ESRCH). */
int job_find(const struct job_source *src, const struct job_subject *subject, struct job_facts *ret);

/* 1: the root process or cgroup that KEY names exists, 0: gone, negative errno: cannot tell (another pid
 * namespace, unreadable). For a cgroup key PATH (below cgroup_fd) is where it was seen, NULL: unknown. */
int job_root_alive(const struct job_source *src, const struct job_key *key, uint64_t own_pidns,
		   const char *path);
