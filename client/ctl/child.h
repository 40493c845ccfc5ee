/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A program run for its answer: with a deadline, its output bounded, no input. It is killed when
 * the deadline has passed.
 */

#include <stddef.h>

struct child_answer {
	int status; /* of waitpid(2) */
	char *out;  /* stdout and stderr together, terminated */
	size_t size;
};

/* ARGV[0] is a path. 0, -ETIMEDOUT, -EFBIG (more than MAX bytes: killed), other negative errno. */
int child_ask(char *const argv[], unsigned msec, size_t max, struct child_answer *ret);
/* The same of a function in a process of its own, which writes to stdout and returns an exit
 * status. */
int child_call(int (*function)(void *), void *userdata, unsigned msec, size_t max,
	       struct child_answer *ret);
void child_answer_done(struct child_answer *a);
