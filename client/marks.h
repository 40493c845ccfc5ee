/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The two value formats that apply reads out of an environment: the marks of CUDAENV_APPLIED, and
 * lists separated by ':'. Slices of other people's strings, no allocation, no state.
 */

#include "common/util.h"

struct slice {
	const char *ptr; /* NULL: absent */
	size_t size;
};

#define SLICE_NULL                                                                                 \
	(struct slice)                                                                             \
	{                                                                                          \
		NULL, 0                                                                            \
	}

static inline struct slice slice_of(const char *s)
{
	return (struct slice){s, s ? strlen(s) : 0};
}

/* Both absent, or the same bytes. */
bool slice_same(struct slice a, struct slice b);
bool slice_begins(struct slice s, const char *prefix);

/* NAME:hhhh[:N:M] */
struct mark {
	bool there;
	uint16_t hash;
	bool list;
	unsigned before, after; /* elements of a list that are ours */
};

#define MARK_COUNT_MAX 65535
#define MARK_TEXT_MAX  19 /* ":hhhh:NNNNN:MMMMM," and NUL */

/* Takes the next mark off *REST. 1, 0 at the end, -EBADMSG for one that is not well-formed (it is
 * taken off all the same). */
int mark_next(struct slice *rest, struct slice *ret_name, struct mark *ret);
/* Writes what follows the name, without a comma. */
size_t mark_format(const struct mark *m, char ret[MARK_TEXT_MAX]);

/* Takes the next element off *REST: false at the end. "" is one empty element. */
bool list_next(struct slice *rest, struct slice *ret);
bool list_has(struct slice list, struct slice element);
/* All elements of WANT but empty ones are in LIST. */
bool list_has_all(struct slice list, struct slice want);
/* LIST without its first BEFORE and last AFTER elements; absent if that is all of it. */
struct slice list_cut(struct slice list, unsigned before, unsigned after);
