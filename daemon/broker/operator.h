/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the operator's tools and the manager ask: what a process reported, and another snapshot for
 * a running job. Part of request.h, with the same rules: a datagram comes in, one goes out, nothing
 * here waits.
 *
 * WHY is answered to root of our user namespace and to the process's own uid; RELEASE is done for
 * that root and for our own uid.
 */

#include "daemon/broker/request.h"

/* Both return the size of the reply. */
ssize_t operator_why(struct broker *b, const struct peer *peer, const struct wire_why *m,
		     uint32_t id, void *reply);
ssize_t operator_release(struct broker *b, const struct peer *peer, const struct wire_release *m,
			 uint32_t id, void *reply);
