/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The decision at a start: job, then pin, then token, then rules; whoever decides first makes the pin by one
 * exclusive symlinkat(2) in jobs/, and everyone after reads it. Broker and clients run this same code over the same
 * files, so a slow, frozen or dead broker changes nothing in the answer.
 *
 * A pin's text: DIGEST or "none", then after a release the former ones, separated by blanks.
 */

#include "common/job.h"

#define PIN_MAX_FORMER 16

struct pin {
	char digest[DIGEST_SIZE]; /* "" for none */
	char former[PIN_MAX_FORMER][DIGEST_SIZE];
	unsigned n_former;
};

/* Reads jobs/KEY for a process of uid OWNER. 0, -ENOENT, -EPERM (made by a stranger), -EBADMSG. */
int pin_read(const struct runtime *rt, const char *key, uid_t owner, struct pin *ret);
/* Makes jobs/KEY. 0, -EEXIST (read it), other errno. */
int pin_make(const struct runtime *rt, const char *key, const char *digest);
/* Parses a pin's text (fuzzed). 0 or -EBADMSG. */
int pin_parse(const char *text, struct pin *ret);
bool pin_has(const struct pin *pin, const char *digest);

enum decision_reason {
	DECIDED_OFF,     /* mode off: nothing, not even a pin */
	DECIDED_PIN,     /* the job had one */
	DECIDED_TOKEN,   /* inherited token, now pinned */
	DECIDED_RULE,    /* an [assign] rule, now pinned */
	DECIDED_DEFAULT, /* the active profile, now pinned */
	DECIDED_OBSERVE, /* mode observe: pinned none */
};

struct decision {
	char key[JOB_KEY_SIZE];   /* with the token part where there is one; "" when off */
	char digest[DIGEST_SIZE]; /* "": nothing is applied */
	char rule[129];           /* of DECIDED_RULE */
	enum decision_reason reason;
	bool below; /* a registered ancestor, or the token is this digest */
	pid_t nspid;
	uint64_t start;
};

/* MATCH: gids and exe for the rules (unit and cgroup are filled in from what job_find() saw); NULL: none known. A token
 * counts only if snapshots/TOKEN is published here. In mode observe new jobs are pinned none; a job that has a pin keeps
 * it. 0 or negative errno (no decision: nothing is applied). */
int decide(const struct job_source *src, const struct job_subject *subject,
	   const struct assign_subject *match, struct decision *ret);

/* Makes procs/PIDNS-PID-START -> KEY. 0 (also if it is there already with this text), or negative errno. */
int decide_register(const struct runtime *rt, uint64_t pidns, const struct decision *d);
