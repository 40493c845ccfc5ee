/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The answers to List and Show, for verbs: the manager's, or, where it is dead or frozen, the same
 * document made of what it published last. What only the manager knows is null then, and a note
 * says so.
 */

#include "client/ctl/ctl.h"

/* CTL_GOOD and *ret, or an exit status after an error line. */
int fallback_list(struct ctl *ctl, struct json_object **ret);
/* NAME "": the profile in use. */
int fallback_show(struct ctl *ctl, const char *name, struct json_object **ret);
