/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * check --expect: is this what the node's new jobs get? Answered from the published files, as a
 * start would decide by them; no daemon is asked.
 */

#include "client/ctl/ctl.h"

/* DIGEST: of a snapshot, or a rank digest. Prints one line; returns the exit status. */
int check_expected(struct ctl *ctl, const char *digest);
