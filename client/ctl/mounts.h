/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The mount table as a guard: follows a path as realpath(3) does, and stops in front of a file
 * system of the network or of the automounter, so that no server that does not answer is asked.
 * What is mounted as / is entered, since this program itself came from there.
 */

#include <limits.h>
#include <stddef.h>

struct mount {
	char *path;
	char *type;
};

struct mounts {
	struct mount *items;
	size_t n;
};

/* MOUNTINFO: a file as proc(5) has it, NULL: /proc/self/mountinfo. One that cannot be read is an
 * empty table. 0 or -ENOMEM. */
int mounts_load(const char *mountinfo, struct mounts *ret);
void mounts_done(struct mounts *m);

/* PATH is absolute. 0 and RET is where it leads; -EREMOTE and *RET_MOUNT is what was not entered;
 * -ENOENT, -ELOOP, -ENAMETOOLONG or another errno. */
int mounts_resolve(const struct mounts *m, const char *path, char ret[PATH_MAX],
		   const struct mount **ret_mount);
