/* SPDX-License-Identifier: MIT */
#pragma once

/* What pyplace-look.c and pyplace-change.c share: files below a directory, links never followed. */

#include "client/ctl/pyplace.h"

#define PLACE_FILE_MAX ((size_t)4 * 1024 * 1024)

/* Opens an absolute path component by component, following no link. A descriptor or negative errno.
 */
int place_open_directory(const char *path);

/* Reads a regular file; PATH may have directories in it. *RET has a NUL after its bytes. */
int place_read(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size);

/* Deletes a file; PATH may have directories in it, each of which may have become another's link
 * since it was looked at. 0 or negative errno. */
int place_unlink(int dir_fd, const char *path);

void place_forget_entries(struct pyplace *p);
