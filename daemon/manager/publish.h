/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The runtime tree as its one writer sees it: DESIGN section 4. Makes the directories, holds the
 * lock, puts snapshots, `assign`, `current` and `status` in place by rename, and finds out which of
 * them somebody has damaged since. What a client would not believe (owner, mode, bytes that are not
 * the digest's) counts as damaged. Does not log.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/assign.h"
#include "daemon/manager/words.h"

#define PUBLISH_MAX_BYTES                                                                          \
	((uint64_t)64 * 1024 * 1024) /* of snapshots/; beyond, the unused go, oldest first */

/* A published file as it was when its bytes were proven; any difference means: look again. */
struct published {
	char digest[DIGEST_SIZE];
	dev_t dev;
	ino_t ino;
	off_t size;
	mode_t mode;
	uid_t uid;
	struct timespec mtime, ctime;
};

struct publisher {
	char *path;
	int dir_fd;
	int snapshots_fd;
	int lock_fd;
	bool user;
	struct published *items; /* proven snapshots */
	size_t n_items;
};

/* Opens PATH for writing. USER: the whole tree is made where it is absent, jobs/ and procs/
 * included. Otherwise those two belong to the user that the broker runs as, and are made for it if
 * that is possible. 0; -EBUSY with *ret_pid: another manager has it; -EPERM: others could write
 * there; other negative errno. COMPLAINTS: what is not right but can be lived with. */
int publisher_open(const char *path, bool user, struct publisher **ret, struct words *complaints,
		   pid_t *ret_pid);
struct publisher *publisher_free(struct publisher *p);

/* Is the tree still the one that the path names? Puts modes of its directories right, and makes
 * jobs/ and procs/ again. 0, or negative errno when it was removed or replaced. */
int publisher_in_place(struct publisher *p, struct words *complaints);

/* snapshots/DIGEST. 0 (also when it is there, proven), or negative errno. */
int publisher_snapshot(struct publisher *p, const char *digest, const char *bytes, size_t size);
/* 1: there and as it must be, 0: absent or damaged. */
int publisher_has(struct publisher *p, const char *digest);
/* Appends to RET the digest of every snapshot that was proven once and is damaged or gone now, and
 * forgets it; a damaged file is removed. 0 or -ENOMEM. */
int publisher_damaged(struct publisher *p, struct words *ret);
/* Every file of snapshots/ that is there when we start is proven, or removed. 0 or negative errno.
 */
int publisher_adopt(struct publisher *p);
/* If snapshots/ is over its size: removes the oldest that neither KEEP nor any pin names. 0 or
 * negative errno. */
int publisher_prune(struct publisher *p, const struct words *keep);

/* What the next `assign` is made of, for the manager alone (0600): it lives and goes with that
 * file.
 */
int publisher_basis(struct publisher *p, const char *text, size_t size);
/* 0, -ENOENT, -EPERM (not ours alone), other negative errno. */
int publisher_read_basis(const struct publisher *p, char **ret, size_t *ret_size);
int publisher_assign(struct publisher *p, const char *text, size_t size);
/* 1: the file is exactly this and believable, 0: not. */
int publisher_assign_is(const struct publisher *p, const char *text, size_t size);
int publisher_status(struct publisher *p, const char *text, size_t size);
int publisher_status_is(const struct publisher *p, const char *text, size_t size);
/* DIGEST "": there is no current snapshot. Does nothing where the link is right. */
int publisher_current(struct publisher *p, const char *digest);

static inline void publisher_freep(struct publisher **p)
{
	if (*p)
		(void)publisher_free(*p);
}
