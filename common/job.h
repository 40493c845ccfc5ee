/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which job a starting process belongs to, from kernel facts alone (DESIGN section 6): the same
 * code in broker and client, so both find the same key. This module only reads; pins are made in
 * common/decide.
 *
 * Keys (also file names in jobs/):
 *   tree-UID-PIDNS-PID-START   outermost ancestor below the boundary; PID as numbered in PIDNS
 *   slurm-UID-INODE, container-UID-INODE, unit-UID-INODE   inode of the cgroup directory
 *   KEY.DIGEST                 a job started with a token that KEY never had as a pin
 *   KEY~1 to KEY~3             in jobs/ only: pin of KEY, where strangers took the names before
 *
 * UID is the effective uid as the broker numbers it, which a process in a user namespace below the
 * broker's reads in its uid_map (one level deep; further down the two differ). A change of uid
 * starts a new job.
 *
 * Boundaries, besides those of `assign`: pid 1 of the pid namespace (unless it is itself
 * registered: a program that is pid 1 of a container is not an init), a shell that leads a session
 * with a terminal, systemd as a user's manager, another uid, what cannot be read, and what started
 * after its child (its number was given to another process).
 */

#include "common/assign.h"
#include "common/cgroup.h"
#include "common/procfs.h"
#include "common/runtime.h"

#define JOB_KEY_MAX   255 /* NAME_MAX; with NUL one more */
#define JOB_KEY_SIZE  (JOB_KEY_MAX + 1)
#define JOB_SLOTS     4
#define JOB_DEPTH_MAX 128   /* ancestors looked at; deeper ones count as the boundary */
#define JOB_SCAN_MAX  16384 /* names in jobs/ that rule 3 looks at; then it finds nothing */

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
	unsigned slot;            /* 0: the key itself */
};

const char *job_kind_name(enum job_kind kind);
/* 0 or -EINVAL; accepts exactly what job_key_format() makes. */
int job_key_parse(const char *key, struct job_key *ret);
void job_key_format(const struct job_key *k, char ret[JOB_KEY_SIZE]);

/* Name in procs/ of a process: PIDNS-PID-START. */
#define JOB_PROC_SIZE 80
void job_proc_format(uint64_t pidns, pid_t nspid, uint64_t start, char ret[JOB_PROC_SIZE]);
int job_proc_parse(const char *name, uint64_t *ret_pidns, pid_t *ret_nspid, uint64_t *ret_start);

/* Text of a process's link in procs/: its job's key, a blank, and the digest that it was answered
 * with ("none"), cut to its beginning where the whole would take the kernel a page of memory. The
 * key decides; the digest is for people. An older release's link is the key alone. */
#define JOB_LINK_SIZE (JOB_KEY_SIZE + 1 + DIGEST_HEX)
void job_link_format(const char *key, const char *digest, char ret[JOB_LINK_SIZE]);
/* Cuts TEXT behind the key; returns what follows, "" for nothing. */
const char *job_link_cut(char *text);

/* Where facts are read. Descriptors are borrowed. */
struct job_source {
	int proc_fd;
	int cgroup_fd; /* O_PATH of /sys/fs/cgroup, -EBADF: cgroup rules are skipped */
	const struct runtime *rt;
	const struct assign *assign; /* NULL: none of its boundaries and supervisors */
	bool same_pidns; /* the starting process's pid namespace is that of proc_fd: pids need no
			    translation */
	/* Optional: in place of procfs_facts(), for the process and its ancestors. The process's
	 * own uid is not looked at. */
	int (*facts)(void *userdata, pid_t pid, struct proc_facts *ret);
	/* Optional shortcut (the broker's memory) before procs/ is read: 1 and KEY if FACTS is a
	 * registered process, 0 if it does not know (procs/ is then read), negative: it is
	 * not registered. */
	int (*registered)(void *userdata, const struct proc_facts *facts,
			  char ret_key[JOB_KEY_SIZE]);
	void *userdata;
};

#define JOB_CGROUP_UNSEEN UINT64_MAX

struct job_subject {
	pid_t pid; /* as proc_fd numbers it */
	uid_t uid; /* as the caller sees it: compared with owners of processes and links */
	bool has_key_uid;
	uid_t key_uid;  /* with has_key_uid: stands in the key in place of uid */
	uint64_t pidns; /* inode of its pid namespace: its own word where it cannot be read */
	uint64_t cgroup_claim; /* its own word: inode of its cgroup namespace's root, 0 if that is
				* the host's, JOB_CGROUP_UNSEEN if it cannot tell. Believed only if
				* it is above the process. */
	const char *token;     /* valid digest or NULL */
	bool token_chosen;   /* the caller's own wish, not inherited (cudaenvctl exec): always a job
			      of its own */
	bool token_required; /* of CUDAENV_REQUIRE: counts for a unit's first process too */
};

/* Fills in what a process says about itself, for its own decision and for its FETCH. PROC_FD:
 * /proc; CGROUP_FD: as in job_source. RET_SAME_PIDNS: that field of the job_source. 0, or negative
 * errno where /proc does not show the process. */
int job_subject_self(const struct runtime *rt, int proc_fd, int cgroup_fd, const char *token,
		     struct job_subject *ret, bool *ret_same_pidns);

/* The broker's, at its start: says in jobs/.node which cgroup and user namespaces are the node's,
 * its own. Where the daemon itself runs in a container, that container is the node and not one job,
 * and its uids are those of the keys. 0 or negative errno. */
int job_node_publish(const struct runtime *rt, int proc_fd);

/* What job_find() learnt; all of it is input for assign_choose() and decide. */
struct job_facts {
	char key[JOB_KEY_SIZE];
	bool below; /* found by a registered ancestor (or the process itself, registered before an
		       exec) */
	bool ignore_token; /* a unit's first process */
	pid_t nspid;       /* of the process, in its own namespace */
	uint64_t start;
	bool placed;                   /* the rest is filled in: not when below, see job_place() */
	char cgroup[CGROUP_PATH_SIZE]; /* as the process itself sees it; "" unknown */
	char unit[256];                /* "" none */
	char cgroup_dir[CGROUP_PATH_SIZE]; /* of a cgroup key, below cgroup_fd; "" unknown */
};

/* Rules 1 to 4 of DESIGN section 6, before the token part (decide adds it). 0, or negative errno
 * when the process's own facts cannot be read (-ESRCH), or for want of descriptors or memory. */
int job_find(const struct job_source *src, const struct job_subject *subject,
	     struct job_facts *ret);

/* Fills in cgroup and unit of a process, whatever its job; what cannot be read stays "". 0, or
 * negative errno for want of descriptors or memory. */
int job_place(const struct job_source *src, const struct job_subject *subject,
	      struct job_facts *ret);
