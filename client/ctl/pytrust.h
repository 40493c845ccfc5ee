/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who can change what lies at a path, and on what kind of file system it lies. Decides whether an
 * interpreter may be run (an administrator never runs what a user could have written) and whether a
 * place is fit for a hook.
 */

#include <stdbool.h>
#include <stddef.h>

/* Nobody but root and oneself can change PATH: every component from the root down belongs to one of
 * them and is writable by its owner alone (or is a sticky directory). PATH has no links in it.
 * *RET_WHO (SIZE bytes) names what is in the way. */
bool pytrust_path(const char *path, char *ret_who, size_t size);

/* The same of the entries of a directory, links not followed; a directory that is not there is
 * fine. */
bool pytrust_entries(const char *directory, char *ret_who, size_t size);

/* The name of the network file system that PATH lies on, or NULL: a local one. A FUSE file system
 * counts as one of the network unless it is known to be local. */
const char *pytrust_network(const char *path);

/* For pytrust_network(): statfs's f_type, and the type that mountinfo shows (NULL: unknown). */
const char *pytrust_network_type(long type, const char *name);

/* The same for a type that mountinfo shows, where nothing may be asked of the file system. */
const char *pytrust_network_name(const char *name);

/* Nobody but root can put another file in the place of PATH: no component is writable by all (but a
 * sticky one), and each belongs to root. PATH has no links in it. *RET_WHO as above. Unlike
 * pytrust_path() it takes a group's right to write. */
bool pytrust_roots(const char *path, char *ret_who, size_t size);
