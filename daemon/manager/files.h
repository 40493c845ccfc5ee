/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whole small files below a directory descriptor: read with a bound, replaced by rename so that a
 * reader, or a kill at any moment, finds the old bytes or the new ones and never half of them.
 * Temporary names are ".NAME.new": one writer a directory (the lock) makes fixed names safe, and
 * what a killed writer left is overwritten or swept.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { FILE_SYNC = 1u << 0 }; /* the bytes and the name are on disk before the call returns */

/* Reads a regular file of at most MAX bytes, not through a symlink. *ret is malloc()ed and
 * NUL-terminated after ret_size bytes. 0, -ENOENT, -ELOOP, -EINVAL (not a regular file), -EFBIG,
 * other negative errno. */
int file_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_size);

/* The same through symlinks, for files that an operator may link (a ConfigMap's). */
int file_read_followed(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_size);

/* Writes NAME beside, reads it back, renames it over. MODE is exact, whatever the umask. 0 or
 * negative errno: then the old file stands. -EIO: what was read back is not what was written. */
int file_replace(int dir_fd, const char *name, const void *bytes, size_t size, mode_t mode,
		 unsigned flags);

/* Makes NAME a symlink to TARGET by rename. 0 or negative errno. */
int file_link_replace(int dir_fd, const char *name, const char *target);

/* Removes what killed writers left: names ".*.new". 0 or negative errno. */
int file_sweep(int dir_fd);

/* Makes PATH and its parents (0755); the last with MODE. A directory that is there already is left
 * as it is. */
int directory_make(const char *path, mode_t mode);

/* Opens NAME and takes it exclusively for as long as the descriptor lives; the file holds our pid
 * for people. The descriptor, or -EBUSY with *ret_pid (0 unknown), or negative errno. */
int file_lock(int dir_fd, const char *name, pid_t *ret_pid);
