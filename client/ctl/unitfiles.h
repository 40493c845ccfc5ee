/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where systemd finds units, read from the directories as it does, so that it need not run: the
 * fragment of a unit and its drop-ins in the order in which they count.
 */

#include <stdbool.h>
#include <stddef.h>

struct unit_list {
	char **paths;
	size_t n;
};

void unit_list_done(struct unit_list *l);
int unit_list_add(struct unit_list *l, const char *path);

/* The directories, the one that counts most first; SYSTEMD_UNIT_PATH is honoured if ROOT_FD is
 * negative. 0 or -ENOMEM. */
int unit_directories(int root_fd, bool user, struct unit_list *ret);

/* NAME.service: its fragment, then its drop-ins. 0, -ENOENT, -ERFKILL (it is masked), -ENOMEM. */
int unit_files(int root_fd, bool user, const char *name, struct unit_list *ret);

/* The names in DIRECTORY that end in SUFFIX, sorted; at most UNIT_NAMES_MAX are looked at. 0,
 * -ENOMEM, or why it cannot be read. */
#define UNIT_NAMES_MAX 8192
int unit_names(int root_fd, const char *directory, const char *suffix, struct unit_list *ret);
