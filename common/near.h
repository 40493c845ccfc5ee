/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What somebody may have meant who wrote a name that there is not: for "did you mean" in messages.
 */

#include <stddef.h>

/* The one of NAMES (N of them) that WORD is most like: equal but for case, or a slip or two apart
 * (a character missing, too many, another, two exchanged), or longer or shorter at the end. NULL:
 * none. */
const char *near_match(const char *word, const char *const *names, size_t n);
/* The same without those that are merely longer or shorter at the end. */
const char *near_slip(const char *word, const char *const *names, size_t n);
