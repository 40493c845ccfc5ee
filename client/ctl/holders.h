/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Jobs that already use a GPU library: their processes hold libcuda or libnccl. When cudaenv is
 * turned on such a job is pinned to nothing, because its next child would otherwise start with
 * variables that its brothers do not have.
 */

#include "client/ctl/published.h"

struct holder {
	char *key;
	uid_t uid;
	pid_t *pids;
	size_t n_pids;
	bool pinned; /* had a pin already: nothing to do */
	int error;   /* of making the pin; 0 */
};

struct holders {
	struct holder *items;
	size_t n;
};

/* Looks through /proc for processes of VIEWER (WORKERS_EVERYONE: all). 0 or negative errno. */
int holders_find(const struct published *p, uid_t viewer, struct holders *ret);
/* Pins those without a pin to nothing. Failures are in each holder's error. */
void holders_pin(const struct published *p, struct holders *h);
void holders_done(struct holders *h);
/* Is a library of the GPU mapped? LINE: one line of /proc/PID/maps. */
bool holders_maps_line(const char *line);
