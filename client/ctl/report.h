/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a process reported after its start, as the broker keeps it: names and states, and how it
 * decided. The broker tells it to root and to the process's own user. One conversation, with a
 * deadline.
 */

#include "client/ctl/workers.h"
#include "client/cudaenv.h"
#include "common/wire.h"

#define REPORT_DEADLINE_USEC 1000000u

struct report {
	bool alone, cut;
	int result;               /* errno that stopped it, 0 */
	char digest[DIGEST_SIZE]; /* that was applied, "" none */
	struct wire_bytes entries;
	char *buf; /* entries points into it */
};

/* Of the process W. 0, or -ENOENT (the broker does not know it), -ENODATA (it has not reported),
 * -EPERM (another user's), -ECONNREFUSED (no broker), -ETIMEDOUT (it does not answer),
 * -EOPNOTSUPP (a broker of an older release), other negative errno. */
int report_get(const struct published *p, const struct worker *w, struct report *ret);
void report_done(struct report *r);
/* State of the variable NAME (enum cudaenv_state), 0: not among them. */
unsigned report_state(const struct report *r, const char *name);
/* "set", "already", "kept", ...; NULL: unknown. */
const char *report_word(unsigned state);
/* For people: what stands in the way of R, a negative errno of report_get(). */
const char *report_trouble(int r);
