/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What an operator put in front of the settings for a while or for a few: another profile for a
 * unit or a user (or, until a time, for the node), single variables for a unit or a user. The list
 * is in the order of the commands: of two that concern one process the later one goes first. It is
 * a part of struct active, and is persisted as lines of the state file "active":
 *
 *   override use                     or: override set
 *   scope user 1000 alice            scope unit vllm.service | scope node
 *   since 1790000000                 when it was said, seconds since 1970
 *   until 1790007200                 or: never
 *   by 0 root                        who said it; "-" for what is not known
 *   profile debug DIGEST             of use
 *   variable NCCL_PROTO=Simple       of set, one or more, by name
 */

#include <stdint.h>
#include <stdio.h>

#include "common/digest.h"
#include "common/scope.h"
#include "daemon/manager/json.h"
#include "daemon/manager/words.h"

#define OVERRIDES_MAX          64
#define OVERRIDE_PROFILE_SIZE  129
#define OVERRIDE_SECONDS_MAX   ((uint64_t)3650 * 24 * 3600) /* ten years */
#define OVERRIDE_VARIABLES_MAX ((size_t)128 * 1024)         /* bytes, of all together */

enum override_action { OVERRIDE_USE, OVERRIDE_SET };

struct override {
	enum override_action action;
	struct scope scope;
	int64_t since;
	int64_t until; /* 0: no end */
	uid_t uid;     /* who; (uid_t)-1 unknown */
	char *user;    /* NULL unknown */
	char profile[OVERRIDE_PROFILE_SIZE];
	char digest[DIGEST_SIZE];
	struct words variables; /* NAME=VALUE */
};

struct overrides {
	struct override *items;
	size_t n;
};

const char *override_action_name(enum override_action action);

void override_done(struct override *o);
void overrides_done(struct overrides *all);
int overrides_copy(const struct overrides *from, struct overrides *ret);
bool overrides_same(const struct overrides *a, const struct overrides *b);
bool override_same(const struct override *a, const struct override *b);

/* NULL: there is none. */
struct override *overrides_find(const struct overrides *all, enum override_action action,
				const struct scope *scope);
/* Takes O (emptied) as the last one, in place of an earlier one of its action and scope, whose
 * variables stay unless O has them too. 0, -ENOMEM, -E2BIG: there are OVERRIDES_MAX, -EFBIG: too
 * many variables of one scope, or bytes of all. On failure nothing has changed, and O is the
 * caller's. */
int overrides_put(struct overrides *all, struct override *o);
/* Takes out those of SCOPE (NULL: all). */
void overrides_remove(struct overrides *all, const struct scope *scope);
void overrides_remove_ended(struct overrides *all, int64_t now);
/* When the first one ends; 0: none does. */
int64_t overrides_first_end(const struct overrides *all);

/* Lines of the state file. */
void overrides_print(const struct overrides *all, FILE *f);
/* Reads such lines from *CURSOR, which are cut, up to one that is none. 0, -EBADMSG, -ENOMEM. */
int overrides_parse(char **cursor, struct overrides *ret);

/* Into RET, empty: the assignments of EARLIER (NULL: none) whose names LATER lacks, and LATER, by
 * name. 0, -ENOMEM, or -EFBIG: more than one scope may have (RET has them all the same). */
int override_join(const struct words *earlier, const struct words *later, struct words *ret);
/* Who said it, by name or number, in place of *RET, which is freed; NULL unknown. 0 or -ENOMEM. */
int override_by(const struct override *o, char **ret);

/* "NCCL_PROTO=Simple NCCL_ALGO=Ring", cut to what a line of the history takes. NULL: no memory. */
char *override_variables_text(const struct override *o);
/* The fields of O, an empty object. */
int override_to_json(const struct override *o, json_object *ret);
