/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two snapshots against each other, variable by variable. A name that has a value and lists (PATH
 * of a toolkit and prepended elements) is compared in each of them.
 */

#include "common/facts.h"
#include "common/snapshot.h"

enum change {
	CHANGE_ADDED,
	CHANGE_REMOVED,
	CHANGE_VALUE, /* and maybe the rule */
	CHANGE_RULE,
};

/* "added", ... */
const char *change_name(enum change change);

struct difference {
	enum change change;
	const struct snapshot_entry *from, *to; /* NULL: not there */
	bool must_match; /* all ranks must have it alike, and would not; false without facts */
};

struct comparison {
	struct difference *items; /* by name */
	size_t n;
	size_t n_must_match;
	bool roots_differ; /* of the toolkits */
};

/* FACTS may be NULL. 0 or -ENOMEM. */
int compare(const struct snapshot *from, const struct snapshot *to, const struct facts *facts,
	    struct comparison *ret);
void comparison_done(struct comparison *c);
