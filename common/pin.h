/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Pins: jobs/KEY is a symlink whose text says which snapshot a job has, made once by whoever
 * decides first.
 *
 *   DIGEST or "none", then after a release the former ones (digests), separated by one blank each
 *
 * jobs/ is open to everyone, so a stranger may take a job's name before the job does. Such a link
 * is not believed: the pin then has the name KEY~1, KEY~2 or KEY~3, and all four names are looked
 * at before one is made, so that a stranger who frees a name again changes nothing. Where the
 * broker or root makes a pin, it removes the strangers' links. A stranger who holds all four while
 * the broker is down leaves the job without a pin: its processes are then decided by token and
 * rules, each alone.
 */

#include "common/job.h"

#define PIN_MAX_FORMER 16

struct pin {
	char digest[DIGEST_SIZE]; /* "" for none */
	char former[PIN_MAX_FORMER][DIGEST_SIZE];
	unsigned n_former;
	unsigned slot; /* 0: it has the job's own name in jobs/, see job_key */
};

/* Reads the pin of the job KEY (of any slot) for a process of uid OWNER. 0, -ENOENT, -EPERM
 * (strangers hold every name), -EMFILE and the like: it could not be looked at. */
int pin_read(const struct runtime *rt, const char *key, uid_t owner, struct pin *ret);

/* The job's pin: reads it, or makes it with DIGEST ("" or NULL: none) where there is none. 1 made,
 * 0 was there; -EPERM (strangers hold every name), -EBADF (no jobs/), -EROFS, -EACCES, -ENOSPC and
 * the like: nothing is pinned. */
int pin_settle(const struct runtime *rt, const char *key, uid_t owner, const char *digest,
	       struct pin *ret);

/* Gives the job KEY another snapshot, DIGEST ("": none), from its next start on: by rename, so that
 * whoever reads finds the one or the other; the earlier one is then a former one. For the owner of
 * jobs/. 1 and the pin as it was; 0: it has that already. -ENOENT (no pin), -E2BIG (more than
 * PIN_MAX_FORMER former ones), -EPERM (strangers hold its names), other negative errno: nothing has
 * changed. */
int pin_release(const struct runtime *rt, const char *key, uid_t owner, const char *digest,
		struct pin *ret);

/* Parses a pin's text (fuzzed). 0 or -EBADMSG. */
int pin_parse(const char *text, struct pin *ret);
/* Is DIGEST the pin's or a former one? "" is not. */
bool pin_has(const struct pin *pin, const char *digest);

/* Reads jobs/NAME, whatever slot it is. 0, -ENOENT, -EPERM (a stranger's, or no pin), other
 * negative errno. */
int pin_read_name(const struct runtime *rt, const char *name, uid_t owner, struct pin *ret);
