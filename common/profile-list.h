/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Values that are lists of elements with ':' between them, as [env.prepend] and [env.append] have
 * them.
 */

#include <stdbool.h>
#include <stddef.h>

/* The next element of *CURSOR, which starts at the value and is NULL after the last one. An empty
 * value has one empty element. Returns its start (not terminated) and its size, or NULL. */
const char *profile_list_next(const char **cursor, size_t *ret_size);
size_t profile_list_count(const char *value);
bool profile_list_has_empty(const char *value);

/* The elements of MORE in their order, each once, without those that BASE (NULL: none) has, as a
 * new list ("" where none is left). Linear but for a sort: lists may be long. 0 or -ENOMEM. */
int profile_list_without(const char *more, const char *base, char **ret);
/* FIRST and SECOND, neither empty unless both are, with a ':' between them. 0 or -ENOMEM. */
int profile_list_concat(const char *first, const char *second, char **ret);
