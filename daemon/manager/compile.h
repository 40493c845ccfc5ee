/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From settings and the choice in force, overrides included, to the rules that new jobs are judged
 * by, in the order in which they are asked, and from those to the text of `assign` and to JSON; and
 * back for a text that another hand has published. Pure.
 *
 * A `use` for a unit or a user is one rule in front of those of the settings, one for the node the
 * last before the default. A `set` means: what the job would get otherwise, with these variables;
 * so for each rule behind it that may hold within its scope it has one of its own, with both
 * conditions and a snapshot to be derived from that rule's.
 */

#include "daemon/manager/config.h"
#include "daemon/manager/json.h"
#include "daemon/manager/state.h"

/* The kinds of conditions, by their words in `assign`. */
enum rule_kind { RULE_UNIT, RULE_UID, RULE_GID, RULE_EXE, RULE_CGROUP, RULE_KIND_MAX_ };

struct rule {
	char name[STATE_NAME_SIZE];    /* "": the default, which is the last */
	char profile[STATE_NAME_SIZE]; /* "" none */
	char digest[DIGEST_SIZE];      /* "" none, or not derived yet */
	char base[DIGEST_SIZE];        /* of the snapshot to derive it from, "" none */
	struct words variables;        /* to put over it; none: the base is the digest */
	int64_t until;                 /* seconds since 1970; 0: no end */
	struct words when[RULE_KIND_MAX_];
	char *file; /* where it is written; NULL: nowhere */
	unsigned line;
	char *by;       /* who made it by a command; NULL: nobody, or unknown */
	char *override; /* "set user alice, use unit vllm.service"; NULL: of the settings */
};

struct rules {
	struct rule *items;
	size_t n;
};

/* A's digests by C's rules and A's overrides, later ones first. A rule whose profile has no applied
 * version gives none. 0, -ENOMEM, or -E2BIG: more than ASSIGN_MAX_EACH. */
int compile_rules(const struct config *c, const struct active *a, struct rules *ret);
void rules_done(struct rules *rules);
/* [{"name","profile","digest","conditions":[{"kind","value"}],"until","file","line","by","override"}]
 */
int rules_to_json(const struct rules *rules, json_object *list);

/* A's generation and mode, RULES, C's lists. 0, -ENOMEM, -EFBIG, or -EBADMSG: the reader would not
 * take it. */
int compile_assign(const struct config *c, const struct active *a, const struct rules *rules,
		   char **ret, size_t *ret_size);

/* The digests that the settings' rules of a valid text give, each once. 0 or -ENOMEM. */
int compile_rule_digests(const char *text, struct words *ret);
