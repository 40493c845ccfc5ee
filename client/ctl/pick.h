/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The published snapshot that a verb's -p names: a profile's name or a digest. Reads published
 * files only, so it works with the daemon dead. Each prints its error line and returns an exit
 * status, or CTL_GOOD.
 */

#include "client/ctl/published.h"

/* NAME: a profile or a digest, not NULL. */
int ctl_pick(struct ctl *ctl, const struct published *p, const char *name, char ret[DIGEST_SIZE]);
/* The snapshot of DIGEST, under the trust rules of a start: root takes none that others could
 * change. */
int ctl_pick_load(const struct published *p, const char *digest, struct snapshot **ret);
/* The same to look at it only, which root may as well. */
int ctl_pick_look(const struct published *p, const char *digest, struct snapshot **ret);
