/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Between the files of libprofile: a profile's life is profile_new(), profile_read() (its own
 * file), profile_toolkit() (variables of [toolkit]), profile_join() (inheritance), profile_finish()
 * (checks of the whole, snapshot text).
 */

#include "common/ini.h"
#include "common/profile.h"

/* 0 or -ENOMEM. */
int profile_new(const char *name, const char *path, struct profile **ret);
/* Parses a file's bytes into P, in line order, with findings. 0, -ENOMEM, -EIO. */
int profile_read(struct profile *p, const char *bytes, size_t size);
/* Joins what P's valid and joined parent has; sorts. PARENT may be NULL. */
int profile_join(struct profile *p, const struct profile *parent);
/* Checks the whole, decides validity and scope, makes text and digests. */
int profile_finish(struct profile *p, const struct facts *facts);

/* Appends a variable; the first takes it (ended on failure), the second copies its strings. */
int profile_append_consume(struct profile *p, struct profile_variable v);
int profile_add_variable(struct profile *p, const struct profile_variable *v);
void profile_variable_done(struct profile_variable *v);
int profile_variable_compare(const void *a, const void *b);
bool profile_variable_in_toolkit(const struct profile_variable *v);
static inline bool profile_rule_is_list(enum snapshot_rule rule)
{
	return rule == SNAPSHOT_PREPEND || rule == SNAPSHOT_APPEND;
}

/* Findings about one variable's value (inline comments, quotes, empty elements, ...). */
int profile_check_value(struct profile *p, enum snapshot_rule rule, const struct ini_entry *e);
/* A path or search path with an element that is looked up in the working directory. */
bool profile_value_is_relative(const char *name, const char *value);
/* Adds the variables of P's own [toolkit] root. */
int profile_toolkit(struct profile *p);
