/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What `use` and `set` have in common: for whom (--unit, --user) and how long (--for), and how an
 * override is told to people.
 */

#include "client/ctl/control.h"
#include "client/ctl/ctl.h"
#include "common/scope.h"

struct json_object;

/* As given; NULL: not. */
struct override_options {
	const char *unit;
	const char *user;
	const char *duration;
};

/* For whom and until when, checked. */
struct target {
	struct scope scope;
	uint64_t seconds;              /* 0: without an end */
	char text[SCOPE_TEXT_SIZE];    /* for people */
	char request[SCOPE_TEXT_SIZE]; /* for cudaenvd: users by number */
};

#define OVERRIDE_OPTIONS(options)                                                                  \
	{.name = "unit",                                                                           \
	 .argument = "UNIT",                                                                       \
	 .help = "only for the jobs of this unit (its exact name)",                                \
	 .value = &(options).unit},                                                                \
		{.name = "user",                                                                   \
		 .argument = "USER",                                                               \
		 .help = "only for this user's jobs (name or number)",                             \
		 .value = &(options).user},                                                        \
	{                                                                                          \
		.name = "for", .argument = "TIME", .help = "ends after this time: 2h, 90min, 1d",  \
		.value = &(options).duration                                                       \
	}

/* CTL_GOOD, or CTL_USAGE after an error line. */
int target_find(const struct override_options *options, struct target *ret);
/* The end of what begins now; 0: none. */
int64_t target_until(const struct target *t);

/* An element of "overrides" in a List or status answer, by its action and scope; NULL: none. */
struct json_object *override_find(struct json_object *list, const char *action, const char *scope);
/* ", until 2026-01-01T12:00:00Z (2h)" to stdout, with the SECONDS that were asked for; nothing where
 * UNTIL is not positive. */
void override_print_end(int64_t until, uint64_t seconds);
/* "NCCL_PROTO=Simple NCCL_ALGO=Ring", escaped, of [{"name","value"}] to stdout. */
void override_print_variables(struct json_object *variables);
/* "profile debug" or the variables, and the time left, in one line without LF; NULL: no memory. Not
 * escaped. */
char *override_describe(struct json_object *override);
/* What goes before the node's own choice, one line each; nothing where nothing does. */
void override_print_others(struct json_object *status);
