/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Workers and jobs as answers: the tables and JSON of `workers`, and who stays on an older snapshot
 * for the verbs that switch.
 */

#include "client/ctl/workers.h"

struct json_object;

/* {"processes":[...],"jobs":[...]}; STALE_ONLY: those that a new job would replace. */
struct json_object *worklist_json(const struct published *p, const struct workers *w,
				  bool stale_only);

/* [{"id","kind","root_pid","snapshot","profile","unit","pids"}] of jobs with a process that is
 * stale. */
struct json_object *worklist_stays_json(const struct published *p, const struct workers *w);
/* The same for people, with the way to move each; nothing where nobody stays. */
void worklist_stays_print(const struct published *p, const struct workers *w);
