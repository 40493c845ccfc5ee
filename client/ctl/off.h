/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Mode off without the manager: rewrites the published `assign` (temporary file, fsync, rename)
 * with mode off and the next generation, and keeps its rules; then the mode in the manager's state
 * file, so that a reboot does not bring the old mode back. The state keeps its generation: a
 * manager that starts finds the newer `assign` and adopts it. Where the runtime directory is full
 * (any user can fill what jobs/ lies on) `assign` is written in place.
 */

#include <stddef.h>
#include <stdint.h>

#include "client/ctl/published.h"

struct off_result {
	uint64_t generation;
	bool damaged;    /* `assign` was damaged or absent: a minimal one was written, with the
			    default, without rules */
	int state_error; /* 0, or why the state could not be changed: a reboot brings the old mode
			    back */
};

/* 0, or negative errno: -EPERM, -EACCES (not ours to write), others. */
int off_direct(const struct published *p, const char *state_dir, struct off_result *ret);

/* TEXT with its line "mode ..." made "mode off" and, where GENERATION is not 0, its line
 * "generation ..." replaced. malloc()ed; NULL: it has no such lines, or no memory. */
char *off_rewrite(const char *text, uint64_t generation);
