/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * `cudaenvctl python` without --python: what was found on this machine, the plan for it, and with
 * --all the plan carried out. A failure at one interpreter is said and stops no other.
 */

#include "client/ctl/ctl.h"
#include "client/ctl/pywork.h"

enum pyaction { PYTHON_INSTALL, PYTHON_REMOVE, PYTHON_STATUS };

/* DO_IT: --all; without it, or with work's dry_run, the plan alone is printed. Returns an enum
 * ctl_status. */
int pyall(struct ctl *ctl, enum pyaction action, const struct pywork_options *work, bool do_it);

/* "install", "remove", "status" */
const char *pyaction_name(enum pyaction action);
