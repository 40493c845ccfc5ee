/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The runtime directory (/run/cudaenv, or one of a user's own) seen from a process that may believe
 * it only under rules: who may have published what is read there. DESIGN sections 3 and 4.
 *
 * A runtime directory is believed when its owner, the publisher, is root or the caller's own
 * effective uid and nobody else can write it; for the caller's uid 0 only root. In a user namespace
 * that does not map root, files of root appear as the overflow uid: that publisher is believed when
 * no component of the path from / down is writable by group or others.
 *
 * On the way there, symlinks included, every component belongs to root or the caller, and one that
 * others may write has the sticky bit: so nobody else can put another directory in its place. A
 * user's private group (the gid is the uid) is not others there; in the runtime directory itself
 * nobody but its owner writes.
 *
 * All descriptors are O_PATH or O_RDONLY, CLOEXEC, and at least 3. Nothing here blocks: files are
 * opened with O_NOFOLLOW|O_NONBLOCK and must be regular.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUNTIME_DIR_DEFAULT "/run/cudaenv"
#define RUNTIME_FILE_MAX    ((size_t)2 * 1024 * 1024) /* larger published files are refused */

struct runtime {
	int dir_fd;
	int snapshots_fd; /* -EBADF where absent: snapshots come over the socket alone */
	int jobs_fd;      /* -EBADF where absent: nothing is pinned */
	int procs_fd;     /* likewise */
	uid_t self;       /* effective uid for whom trust is judged */
	uid_t publisher;  /* owner of dir */
	uid_t broker;     /* owner of jobs/: its links are believed beside root's and one's own */
};

#define RUNTIME_NULL                                                                               \
	{                                                                                          \
		.dir_fd = -EBADF, .snapshots_fd = -EBADF, .jobs_fd = -EBADF, .procs_fd = -EBADF    \
	}

/* Opens and judges PATH, which is absolute, for a process of uid SELF. 0, or
 * -ENOENT/-ENOTDIR/-EACCES (absent or not readable), -EPERM (not believed), other negative errno.
 */
int runtime_open(const char *path, uid_t self, struct runtime *ret);
/* Accepts RUNTIME_NULL and half-opened ones. */
void runtime_done(struct runtime *rt);

/* Reads a published file whole: NAME below DIR_FD (a descriptor of RT), regular, owned by the
 * publisher, not writable by group or others, at most MAX bytes. *ret is malloc()ed and
 * NUL-terminated after ret_size bytes (which may contain NUL). 0 or negative errno; -EPERM not
 * believed, -EFBIG too large, -ENXIO/-ELOOP/-EINVAL not a regular file, -EAGAIN it changed while it
 * was read. A DIR_FD that is absent: -ENOENT. */
int runtime_read(const struct runtime *rt, int dir_fd, const char *name, size_t max, char **ret,
		 size_t *ret_size);

/* Reads the text of a symlink NAME in jobs/ or procs/, believed only if it is a symlink owned by
 * root (or the overflow uid standing for it), the broker or OWNER. 0, -ENOENT, -EPERM (someone
 * else's), -ENAMETOOLONG. */
int runtime_readlink(const struct runtime *rt, int dir_fd, const char *name, uid_t owner, char *ret,
		     size_t ret_size);

/* Frees NAME in jobs/ or procs/, whatever is there: for root and the owner of the directory. A
 * directory with something in it, which only its owner can empty, gets a name that means nothing,
 * ".rubbish-" and a number. 0 or negative errno. */
int runtime_clear(int dir_fd, const char *name);

/* The runtime directories a client looks in, in order (DESIGN section 4): CUDAENV_RUNTIME_DIR
 * (unless secure), then RECORDED (may be NULL), RUNTIME_DIR_DEFAULT, /run/user/UID/cudaenv. Opens
 * the first that exists and is believed. 0 or -ENOENT. ret_path gets the path (PATH_MAX bytes); may
 * be NULL. */
int runtime_find(const char *recorded, uid_t self, struct runtime *ret, char *ret_path);
