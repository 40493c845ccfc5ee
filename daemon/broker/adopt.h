/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files in procs/ and jobs/ that the broker did not make in this life: by clients that decided
 * alone, and everything after a restart. Each is judged (name, owner, text, whether its process or
 * root lives) and then either taken into the registry or removed: what is stale, what is no link,
 * what a stranger has put at somebody's name. The directories are read once at the start, in slices
 * beside the requests, and watched by inotify from before that on; an overflow of the watch reads
 * them again.
 *
 * A link whose process is numbered in another pid namespace is looked for by search.h, also in
 * slices.
 */

#include "common/runtime.h"
#include "daemon/broker/roots.h"
#include "daemon/broker/search.h"

enum adopt_phase { ADOPT_IDLE, ADOPT_PROCS, ADOPT_JOBS };

struct adopt {
	const struct runtime *rt;
	struct registry *registry;
	struct roots *roots;
	struct search search;
	int inotify_fd;
	int procs_wd, jobs_wd;
	enum adopt_phase phase;
	DIR *dir;
	bool again;         /* something could not be taken (a limit): read all once more, later */
	uint64_t read_usec; /* when that was done last */
	uint64_t n_adopted, n_removed;
};

/* Pointers are borrowed.  The first reading begins with adopt_step(). */
int adopt_init(struct adopt *a, const struct runtime *rt, struct registry *registry,
	       struct roots *roots);
void adopt_done(struct adopt *a);

/* Reads what inotify tells; everything, or (ONLY_SOME) a bounded part. True: nothing is left. */
bool adopt_read(struct adopt *a, bool only_some);
/* All that is in procs/ is in the registry, as far as inotify has been read. */
bool adopt_complete(const struct adopt *a);

/* Is there a slice to do? While adopt_reading(), what the registry does not know may still be true:
 * no pin is removed. */
bool adopt_pending(const struct adopt *a);
bool adopt_reading(const struct adopt *a);
void adopt_step(struct adopt *a, uint64_t now_usec);

/* Asked from time to time: begins what waits for that (another reading, a pass over /proc). */
bool adopt_needs_sweep(const struct adopt *a);
void adopt_sweep(struct adopt *a, uint64_t now_usec);

/* The root of J is numbered in another namespace: look for it. */
void adopt_find_root(struct adopt *a, const struct job *j);

/* Removes the pin of a job that has ended. */
void adopt_remove_pin(struct adopt *a, const struct job *j);
