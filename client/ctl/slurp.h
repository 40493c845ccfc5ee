/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whole files of unknown origin, read without harm: regular ones only, at most so many bytes, never
 * waiting at a FIFO or a device; /dev/null, by which systemd masks files, is an empty one. Below a
 * root directory (that of an image) every link is followed inside it.
 */

#include <stdbool.h>
#include <stddef.h>

#define SLURP_ROOT_HERE (-1)

/* Reads PATH below the directory ROOT_FD (SLURP_ROOT_HERE: of this system). *ret is malloc()ed and
 * NUL-terminated after ret_size bytes. 0, -EFBIG, -EISDIR, -EINVAL (no regular file), other
 * negative errno. */
int slurp(int root_fd, const char *path, size_t max, char **ret, size_t *ret_size);
/* The same of an open descriptor, of any kind: what it gives until its end. */
int slurp_fd(int fd, size_t max, char **ret, size_t *ret_size);

/* Opens a regular file (or /dev/null) for reading. What PATH leads to is known before that: to open
 * a device may already do something, a watchdog's begins to count. Negative errno as slurp(). */
int slurp_open_file(int root_fd, const char *path);
/* Opens PATH as slurp() does, with these flags of open(2); a descriptor or negative errno. */
int slurp_open(int root_fd, const char *path, int flags);

/* Is PATH a link to /dev/null, by which systemd and cudaenv mask? (An image need not have that
 * device.) */
bool slurp_masked(int root_fd, const char *path);

/* What strerror() does not say well of these. */
const char *slurp_error(int r);
