/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Release: a running job gets another snapshot from its next start on. The broker owns the pins, so
 * it is asked over its socket, beside everything else that the manager does: the call is answered
 * when the broker has, or when the deadline has passed. A broker that did it has it in the history,
 * also where who called has gone; one that was too slow does it no more, because it sees that
 * nobody waits (daemon/broker/operator.c). Logs.
 */

#include "daemon/manager/manager.h"

/* Beyond these a call is refused. */
#define RELEASES_MAX 16
/* The broker answers in far less; who waits longer waits for one that is stopped. */
#define RELEASE_USEC (1000 * 1000ull)

struct release; /* manager.releases */

/* CALL is Release(job, digest or "none", reason) and is answered later: 1. Negative errno: it was
 * refused, ERROR is filled in. */
int release_begin(struct manager *m, sd_bus_message *call, const struct caller *who,
		  sd_bus_error *error);
/* What is under way is given up. */
void releases_free(struct manager *m);
