/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Why a process has what it has: what the job's snapshot intends, what the client reported, what
 * stood in the environment it was executed with, and a verdict over each variable and the whole.
 * why.c finds it out, why-print.c tells it.
 */

#include "client/ctl/execblock.h"
#include "client/ctl/report.h"
#include "client/ctl/subject.h"

struct json_object;

enum why_verdict {
	WHY_OK,
	WHY_OVERRIDDEN, /* the process has a value of its own */
	WHY_MISSING,    /* it does not have it */
	WHY_STALE,      /* another snapshot's */
	WHY_TOO_LATE,   /* acts only before a start */
	WHY_UNKNOWN,    /* no report, and the exec block does not tell */
	WHY_VERDICT_MAX_
};

struct why_variable {
	const struct snapshot_entry *entry; /* what is intended */
	const char *file;                   /* NULL: unknown, or the file says something else now */
	int64_t line;                       /* 0 likewise */
	const char *override;               /* "user alice": set for that, not in any file; NULL */
	unsigned reported;                  /* enum cudaenv_state, 0: not */
	const char *exec_block;             /* NULL: not there, or not known */
	const char *because; /* the one of its group whose own value keeps it out too; NULL */
	enum why_verdict verdict;
};

struct why {
	struct ctl *ctl;
	const char *only; /* one variable, NULL: all */
	struct published published;
	struct workers workers;
	struct worker looked;           /* owner of worker where it is not listed */
	const struct worker *worker;    /* the process */
	const struct worker_job *job;   /* NULL: none */
	char place[JOB_KEY_SIZE];       /* of an unlisted one: the job it would be in; "" unknown */
	bool placed;                    /* and that has a pin: */
	char place_digest[DIGEST_SIZE]; /* "" for none */
	const struct worker *above;     /* of an unlisted one: the nearest registered ancestor */
	int proc_fd, cgroup_fd;
	enum tri same_mounts; /* its mount namespace is ours */
	struct subject subject;
	struct assign_rule rule; /* that a new job in its place gets; digest NULL: no rules */
	struct json_object *rule_source; /* of the status file, borrowed; NULL unknown */
	struct snapshot *intended;       /* NULL: nothing is */
	bool intended_by_rules;          /* not what its job has but what a new one would get */
	struct json_object *shown;       /* cudaenvd's Show answer; NULL: no file and line */
	struct report report;
	int report_error;          /* negative errno, 0: there is one */
	struct snapshot *reported; /* what was applied, where that is not what is intended now */
	struct exec_block block;
	bool disabled;     /* CUDAENV_DISABLE=1 in the exec block */
	bool filtered;     /* under a seccomp filter, where a client talks to nobody */
	const char *token; /* CUDAENV_SNAPSHOT there, if that is a digest; NULL */
	struct why_variable *variables;
	size_t n_variables;
	size_t counts[WHY_VERDICT_MAX_];

	enum ctl_status status;
	char *verdict, *advice;
};

const char *why_verdict_word(enum why_verdict verdict);
/* The whole: verdict, advice, status. 0 or -ENOMEM. */
int why_judge(struct why *w);
struct json_object *why_json(const struct why *w);
/* 0 or -ENOMEM. */
int why_print(const struct why *w);
