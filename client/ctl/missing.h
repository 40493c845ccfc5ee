/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Messages for what is not there: a profile of that name, a cudaenvd to ask. Each says where was
 * looked and the way out.
 */

#include "client/ctl/ctl.h"
#include "client/ctl/published.h"

/* "no profile NAME in DIR, DIR" and the way out, both malloc()ed; NULL: out of memory. */
char *missing_profile_message(const struct ctl *ctl, const char *name);
char *missing_profile_fix(const struct ctl *ctl, const char *name);
/* Both in an error line. Returns CTL_BAD_NEWS. */
int ctl_no_profile(const struct ctl *ctl, const char *name);

/* Why NAME, which settings or somebody chose, gives nothing: "there is no profile NAME"; *RET_FIX the
 * way out. Both malloc()ed; NULL: out of memory. */
char *missing_version_reason(const struct ctl *ctl, const char *name, char **ret_fix);
/* Likewise why what is published gives nothing to anybody. */
char *missing_reason(const struct ctl *ctl, const struct published *p, char **ret_fix);

/* " --user" where that belongs into a command line that means this cudaenvd, else "". */
const char *ctl_user_option(const struct ctl *ctl);
/* How a person gets a cudaenvd here: "start it with systemctl start cudaenvd". malloc()ed; NULL:
 * out of memory. */
char *ctl_start_advice(const struct ctl *ctl);
/* How one is started again: a command, or words. */
const char *ctl_restart_advice(const struct ctl *ctl);
/* What wakes a cudaenvd that does not answer, which is PID (0: unknown). malloc()ed; NULL: out of
 * memory. */
char *ctl_wake_advice(const struct ctl *ctl, pid_t pid);
