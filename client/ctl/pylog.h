/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What root changed in an interpreter stands in the journal: the manager's history has only what
 * the manager did. Fields: CUDAENV_ACTION (python-install, python-remove), CUDAENV_PATH (the
 * interpreter), CUDAENV_UID, CUDAENV_REASON.
 */

#include "client/ctl/pyall.h"
#include "client/ctl/pyexe.h"

#define PYLOG_REASON_MAX 1024

/* REASON: "" none. Others than root leave no line; without a journal nothing happens. */
void pylog(enum pyaction action, const struct pyexe *exe, const char *reason);
