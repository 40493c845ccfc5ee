/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whom an override concerns: the whole node, one unit, one user. As text "node", "unit
 * vllm.service", "user alice", the same in commands, on the bus, in the history and in `status`.
 */

#include <stdbool.h>
#include <sys/types.h>

#define SCOPE_NAME_SIZE 256 /* a unit's or a user's, with NUL */
#define SCOPE_TEXT_SIZE (SCOPE_NAME_SIZE + 8)

enum scope_kind { SCOPE_NODE, SCOPE_UNIT, SCOPE_USER };

struct scope {
	enum scope_kind kind;
	uid_t uid;                  /* of SCOPE_USER */
	char name[SCOPE_NAME_SIZE]; /* the unit; the user, its number where it has no name */
};

/* A user by name or number, looked up here and only here; a unit by its exact name, where .service
 * need not be said. 0, -EINVAL or -ENOENT (no such user) with a sentence for people in *ret_fault,
 * or -ENOMEM. */
int scope_parse(const char *text, struct scope *ret, char **ret_fault);
void scope_format(const struct scope *s, char ret[SCOPE_TEXT_SIZE]);
bool scope_same(const struct scope *a, const struct scope *b);
/* Could a unit have this name, and a process be in it? */
bool scope_unit_valid(const char *name);
bool scope_user_valid(const char *name);
