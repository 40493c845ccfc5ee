/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From settings and the choice in force to the text of `assign`, and back for a text that another
 * hand has published. Pure.
 */

#include "daemon/manager/config.h"
#include "daemon/manager/state.h"

/* A's generation, mode and digests, C's rules and lists. A rule whose profile has no applied
 * version gives none. 0, -ENOMEM, -EFBIG, or -EBADMSG: the reader would not take it. */
int compile_assign(const struct config *c, const struct active *a, char **ret, size_t *ret_size);

/* The digests that the rules of a valid text give, each once. 0 or -ENOMEM. */
int compile_rule_digests(const char *text, struct words *ret);
