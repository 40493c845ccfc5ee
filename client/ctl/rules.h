/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rules that give a new job its snapshot, for people: each with its conditions and where it
 * stands, and what it says of one subject. The rules are those of the published `assign`, matched
 * by the code that starts use; file, line and author come from the status file, which is written
 * with it. Works with cudaenvd dead.
 */

#include "client/ctl/subject.h"

struct json_object;
struct table;

/* The status file's entry of the rule NAME (NULL: the default), borrowed; NULL: unknown. */
struct json_object *rules_source(const struct published *p, const char *name);
/* {"name","profile","digest","until","ended","file","line","by","override","answer","conditions":[{"kind",
 * "value","holds","found"}]}; RULE without a digest: null. SUBJECT NULL: "answer", "holds" and
 * "found" are null. */
struct json_object *rules_json(const struct published *p, const struct subject *subject,
			       const struct assign_rule *rule);
/* One cell that names RULE, what it gives and where it stands. */
void rules_cell(struct table *t, const struct published *p, const struct assign_rule *rule);

/* What the rules give a new job in place of W. 0, or -EACCES: a rule asks for what may not be seen
 * of it. */
int rules_choose(const struct published *p, const struct worker *w, struct assign_rule *ret);

struct rules_question {
	const char *pid, *unit, *user, *exe; /* NULL: not given */
};

/* list --why: each rule in order; with a subject which one decides and why the others do not. An
 * exit status. */
int rules_list(struct ctl *ctl, const struct rules_question *q);
