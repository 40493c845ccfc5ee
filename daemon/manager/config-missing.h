/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Profiles that the settings name and that give nothing: there is none of that name, or it has
 * errors and no version of it was ever applied. The settings are taken all the same: the profile
 * may come later.
 */

#include "common/profile.h"
#include "daemon/manager/config.h"
#include "daemon/manager/state.h"

/* "FILE:LINE: warning: ..." for each place in C. A: what is in force, with the applied versions. 0
 * or -ENOMEM. */
int config_missing(const struct config *c, const struct profile_set *set, const struct active *a,
		   struct words *ret);

/* The same from disk, by the profile directories and the state directory of PATHS, for a check
 * without a manager. 0, -ENOMEM, or why the profiles cannot be read. */
int config_missing_load(const struct config *c, const struct paths *paths, struct words *ret);
