/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From settings and the choice in force to the rules that new jobs are judged by, in the order in
 * which they are asked, and from those to the text of `assign` and to JSON; and back for a text
 * that another hand has published. Pure.
 */

#include "daemon/manager/config.h"
#include "daemon/manager/json.h"
#include "daemon/manager/state.h"

/* The kinds of conditions, by their words in `assign`. */
enum rule_kind { RULE_UNIT, RULE_UID, RULE_GID, RULE_EXE, RULE_CGROUP, RULE_KIND_MAX_ };

struct rule {
	char name[STATE_NAME_SIZE];    /* "": the default, which is the last */
	char profile[STATE_NAME_SIZE]; /* "" none */
	char digest[DIGEST_SIZE];      /* "" none */
	int64_t until;                 /* seconds since 1970; 0: no end */
	struct words when[RULE_KIND_MAX_];
	char *file; /* where it is written; NULL: nowhere */
	unsigned line;
	char *by; /* who made it by a command; NULL: nobody, or unknown */
};

struct rules {
	struct rule *items;
	size_t n;
};

/* A's digests by C's rules. A rule whose profile has no applied version gives none. 0 or -ENOMEM.
 */
int compile_rules(const struct config *c, const struct active *a, struct rules *ret);
void rules_done(struct rules *rules);
/* [{"name","profile","digest","conditions":[{"kind","value"}],"until","file","line","by"}] */
int rules_to_json(const struct rules *rules, json_object *list);

/* A's generation and mode, the rules, C's lists. 0, -ENOMEM, -EFBIG, or -EBADMSG: the reader would
 * not take it. */
int compile_assign(const struct config *c, const struct active *a, char **ret, size_t *ret_size);

/* The digests that the rules of a valid text give, each once. 0 or -ENOMEM. */
int compile_rule_digests(const char *text, struct words *ret);
