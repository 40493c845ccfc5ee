/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who stays as it is after a switch: the running jobs that have another snapshot than a new one
 * would get, and how each is moved. For use, rollback and on.
 */

#include <stdio.h>

#include "client/ctl/place.h"
#include "client/ctl/workers.h"
#include "common/scope.h"

struct stays {
	const struct scope *scope; /* only the jobs of this; NULL: all */
	struct published published;
	struct workers workers;
	bool known;         /* /proc could be read */
	struct own_job own; /* the one that we ourselves run in */
};

#define STAYS_NULL                                                                                 \
	{                                                                                          \
		.published = PUBLISHED_NULL                                                        \
	}

struct json_object;

/* After the manager's answer: what is published then are the new rules. CTL_GOOD, or an exit status
 * after an error line. */
int stays_find(struct ctl *ctl, struct stays *ret);
void stays_done(struct stays *s);
/* [{"id","kind","root_pid","snapshot","profile","unit","uid","user","fix","pids"}]; null: unknown. In mode off and
 * observe, where no new job gets anything, nobody counts. */
struct json_object *stays_json(const struct stays *s);
/* The same for people, and our own job; nothing where nobody stays. */
void stays_print(const struct stays *s);

/* How JOB, of UNIT or NULL, is started again: words without a capital letter and a full stop. */
void stays_way_out(FILE *f, const struct worker_job *job, const char *unit);
