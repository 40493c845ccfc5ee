/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A snapshot with single variables in place of its own: what `cudaenvctl set` makes of the profile
 * that a job would get otherwise. Names and values pass the checks of a profile's [env].
 */

#include "common/profile.h"

#define DERIVE_VARIABLES_MAX 64
#define DERIVE_BYTES_MAX     ((size_t)16 * 1024) /* of all NAME=VALUE together */

/* NAME=VALUE each; the value may be empty. 0 and what else there is to say in RET_FINDINGS (empty
 * before; NULL: it is not asked for), without places; -EINVAL with a sentence for people in
 * *ret_fault (a secret's value is not in it), -ENOMEM. */
int derive_check(const char *const *assignments, size_t n, struct findings *ret_findings,
		 char **ret_fault);

/* BASE (NULL: nothing) with checked ASSIGNMENTS: each takes the place of the lines of that name and
 * keeps the rule of the first, but default where there was none, and force where it was unset.
 * *RET, under BASE's profile name ("none"), has text and digests if it is valid, else findings. 0,
 * -EBADMSG, -ENOMEM, -EIO. */
int derive_snapshot(const struct snapshot *base, const char *const *assignments, size_t n,
		    const struct facts *facts, struct profile **ret);
