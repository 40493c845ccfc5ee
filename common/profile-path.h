/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who can change what a path leads to. A snapshot may go to root's processes only if nobody but
 * root decides what they will find there (DESIGN section 3).
 */

/* Is every component of the absolute PATH (or of its nearest existing ancestor), through symlinks,
 * owned by root and writable by root alone? 1, 0, or negative errno (cannot be told: treat as 0).
 * RET_CULPRIT (may be NULL) gets the component that is not, malloc()ed, where the answer is 0. */
int profile_path_root_only(const char *path, char **ret_culprit);

/* The same for every absolute path in a variable's VALUE: the value, the elements of lists, what
 * follows a = in it. A relative
 * ./ or ../ is nobody's: 0. 1, 0 or negative errno. */
int profile_value_root_only(const char *value, char **ret_culprit);
