/* SPDX-License-Identifier: MIT */
#pragma once

/* How `cudaenvctl python` shows an interpreter and its hooks. */

#include "client/ctl/jsonutil.h"
#include "client/ctl/pycover.h"

#define PYSHOW_VERSION_SIZE 24

/* "Python 3.13t", "PyPy 3.9" */
void pyshow_version(const struct pyexe *exe, char ret[PYSHOW_VERSION_SIZE]);
/* {"python","kind","implementation","version","owner_uid"} */
struct json_object *pyshow_exe(const struct pyexe *exe);
/* [{"method","path","state","hook_version","runtime_dir","files"}], one for each place that the
 * interpreter has. */
struct json_object *pyshow_hooks(const struct pycover *c);
