/* SPDX-License-Identifier: MIT */
#pragma once

/* Finding jobs on a fixture node, for the tests of common/job-find. */
#include "tests/unit/node.h"

static struct job_facts facts; /* of the last look */

static inline int look_as(const struct job_source *source, const struct job_subject *subject)
{
	memset(&facts, 0xff, sizeof facts);
	return job_find(source, subject, &facts);
}

/* Finds the job of PID with TOKEN (NULL: none) and gives its key. */
static inline const char *look(const struct node *n, pid_t pid, const char *token)
{
	struct job_source source = node_source(n);
	struct job_subject subject = node_subject(pid);

	subject.token = token;
	check(look_as(&source, &subject) == 0);
	return facts.key;
}

static inline const char *kind_key(enum job_kind kind, uint64_t inode)
{
	static char ret[JOB_KEY_SIZE];

	job_key_format(&(struct job_key){.kind = kind, .uid = geteuid(), .inode = inode}, ret);
	return ret;
}

static inline void register_as(const struct node *n, pid_t pid, const char *key, uid_t uid)
{
	char name[JOB_PROC_SIZE];

	job_proc_format(NODE_PIDNS, pid, 1000, name);
	node_link(n, "procs", name, key, uid);
}

/* A shell at a terminal, a script typed there, a program of the script and its child; and a second
 * command. */
static inline void add_prompt(const struct node *n)
{
	node_add(n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "bash", .tty = 34816});
	node_add(n,
		 (struct node_process){
			 .pid = P(2), .ppid = P(1), .session = P(1), .comm = "bash", .tty = 34816});
	node_add(n,
		 (struct node_process){.pid = P(3), .ppid = P(2), .pgrp = P(2), .session = P(1)});
	node_add(n,
		 (struct node_process){.pid = P(4), .ppid = P(3), .pgrp = P(2), .session = P(1)});
	node_add(n, (struct node_process){.pid = P(5), .ppid = P(1), .session = P(1)});
}
