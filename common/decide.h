/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The decision at a start: job, then pin, then token, then rules; whoever decides first makes the
 * pin by one exclusive symlinkat(2) in jobs/ (common/pin.h), and everyone after reads it. Broker
 * and clients run this same code over the same files, so a slow, frozen or dead broker changes
 * nothing in the answer.
 */

#include "common/job.h"
#include "common/pin.h"

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
	bool below;  /* a registered ancestor, or the token is this digest */
	bool pinned; /* the pin is there; false: it could not be made (read-only jobs/, strangers),
		      * the answer holds for this process alone */
	pid_t nspid;
	uint64_t start;
	uid_t uid; /* of the process, as the caller sees it: who may have made its links */
	char cgroup_dir[1024]; /* of a cgroup key found by its cgroup; "" unknown */
};

/* MATCH: gids and exe for the rules (uid, unit and cgroup are filled in from what job_find() saw);
 * NULL: none known. A token counts only if snapshots/TOKEN is published here. In mode observe new
 * jobs are pinned none, except one of the caller's own choice (token_chosen); a job that has a pin
 * keeps it. 0 or negative errno (no decision: nothing is applied; for want of descriptors or memory
 * too, because the answer must be that of all others). */
int decide(const struct job_source *src, const struct job_subject *subject,
	   const struct assign_subject *match, struct decision *ret);

/* Is the snapshot DIGEST published here, so that it can be had? */
bool decide_published(const struct runtime *rt, const char *digest);

/* Makes procs/PIDNS-PID-START -> "KEY DIGEST" of D, for its uid. 0 (also if it is there already with
 * this key), -EEXIST (there with another), -EPERM (a stranger has taken the name; the broker and root
 * remove that first), other negative errno. */
int decide_register(const struct runtime *rt, uint64_t pidns, const struct decision *d);
