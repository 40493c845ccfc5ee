/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Calls to the manager: D-Bus peer to peer on its control socket, with one deadline for connecting,
 * authentication, call and answer together, and a shorter one for the first two: a manager that is
 * dead, frozen or full gives an error within CONTROL_ALIVE_USEC.
 */

#include <stdint.h>
#include <sys/types.h>

#include "client/ctl/ctl.h"

#define CONTROL_DEADLINE_USEC                                                                      \
	((uint64_t)4500 * 1000) /* a change is written to disk before its answer */
#define CONTROL_ALIVE_USEC ((uint64_t)1500 * 1000) /* the manager's first word */

struct control_result {
	char *reply;      /* of success; UTF-8 */
	char *error_name; /* of -EREMOTEIO: the manager answered with an error */
	char *error_text;
	const char *argument; /* the call's first, the caller's; NULL none */
	pid_t peer;           /* who made the listening socket; 0 unknown */
};

/* What a method takes, in this order: a list of strings, strings, a number between the last two. */
struct control_arguments {
	const char *const *list;    /* NULL-terminated; NULL: there is none */
	const char *const *strings; /* NULL-terminated; NULL: none */
	const uint64_t *number;     /* NULL: there is none */
};

/* Calls INTERFACE.METHOD of the manager with the strings ARGUMENTS (NULL-terminated), within USEC.
 * 0, -ENOENT or -ECONNREFUSED (nobody listens), -EACCES, -ETIMEDOUT (also a full backlog),
 * -EREMOTEIO, -EBADMSG (answer without a string), other. */
int control_call(const char *socket, const char *method, const char *const *arguments,
		 uint64_t usec, struct control_result *ret);
/* Does somebody answer there? As control_call(). */
int control_ping(const char *socket, uint64_t usec, struct control_result *ret);
void control_result_done(struct control_result *r);

struct json_object;

/* A call whose answer is JSON, for verbs: an error line and an exit status, or CTL_GOOD and *ret.
 */
int ctl_call(struct ctl *ctl, const char *method, const char *const *arguments,
	     struct json_object **ret);
/* The same with arguments that are not all strings. */
int ctl_call_with(struct ctl *ctl, const char *method, const struct control_arguments *arguments,
		  struct json_object **ret);
/* What ctl_call() makes of the R and RESULT of a control_call() of METHOD. */
int ctl_call_finish(struct ctl *ctl, const char *method, int r, const struct control_result *result,
		    struct json_object **ret);
/* For a change that is not made: would the manager let this user? CTL_GOOD, or an exit status after
 * the error line of the change itself. */
int ctl_may_change(struct ctl *ctl);
/* The error line of a call that failed with R; returns the exit status. */
int ctl_call_error(struct ctl *ctl, int r, const struct control_result *result);
