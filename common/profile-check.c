/* SPDX-License-Identifier: MIT */
/*
 * Findings about one variable of a profile: habits from other formats that mean nothing here
 * (quotes, inline comments, expansion), names with a slip in them, lists with empty elements, values
 * that come too late. What values NCCL and CUDA understand is not judged here.
 */
#include <ctype.h>

#include "common/known.h"
#include "common/profile-internal.h"
#include "common/profile-list.h"
#include "common/util.h"

static int add(struct profile *p, const struct ini_entry *e, enum finding_severity severity,
	       const char *rule, const char *fix, const char *message)
{
	return findings_add(&p->findings, severity, e->line, e->value_column, rule, e->key, fix,
			    "%s", message);
}

static bool looks_like_inline_comment(const char *value)
{
	for (const char *s = value; (s = strpbrk(s, ";#")); s++) {
		bool blank_before = s > value && (s[-1] == ' ' || s[-1] == '\t');

		if (blank_before || (s == value && (s[1] == ' ' || s[1] == '\t')))
			return true;
	}
	return false;
}

/* Whether quotes do harm for certain: a number in quotes is none, and NCCL reads names byte for
 * byte. */
static bool quotes_do_harm(const char *name, const char *value)
{
	return startswith(name, "NCCL_") || startswith(name, "CUDA_") ||
	       isdigit((unsigned char)value[1]) || value[1] == '-' || value[1] == '/';
}

/* $NAME and ${NAME}, but not what the dynamic linker itself expands. */
static bool looks_like_expansion(const char *name, const char *value)
{
	for (const char *s = value; (s = strchr(s, '$')); s++) {
		const char *word = s[1] == '{' ? s + 2 : s + 1;

		if (!isalpha((unsigned char)*word) && *word != '_')
			continue;
		if (startswith(name, "LD_") &&
		    (startswith(word, "ORIGIN") || startswith(word, "LIB") ||
		     startswith(word, "PLATFORM")))
			continue;
		return true;
	}
	return false;
}

static int check_habits(struct profile *p, const struct ini_entry *e)
{
	const char *value = e->value;
	size_t size = strlen(value);
	int r = 0;

	if (looks_like_inline_comment(value))
		r = add(p, e, FINDING_WARNING, "inline-comment",
			"put the comment on a line of its own",
			"what looks like a comment is part of the value");
	if (r >= 0 && size > 0 && (value[0] == '"' || value[0] == '\''))
		r = add(p, e, quotes_do_harm(e->key, value) ? FINDING_WARNING : FINDING_ADVICE,
			"quotes", "remove them unless the program wants them",
			"the quotes are part of the value");
	if (r >= 0 && looks_like_expansion(e->key, value))
		r = add(p, e, FINDING_ADVICE, "expansion", "write the value out",
			"nothing is expanded: the dollar sign is part of the value");
	return r;
}

bool profile_value_is_relative(const char *name, const char *value)
{
	const char *start;
	size_t size;

	if (profile_name_is_one_path(name))
		return value[0] != '\0' && value[0] != '/';
	if (!profile_name_is_search_path(name))
		return false;
	for (const char *cursor = value; (start = profile_list_next(&cursor, &size));)
		if (size > 0 && start[0] != '/' && start[0] != '$')
			return true; /* $ORIGIN and the like are the dynamic linker's */
	return false;
}

static int check_list(struct profile *p, enum snapshot_rule rule, const struct ini_entry *e)
{
	_cleanup_(freep) char *unique = NULL;
	int r;

	if (e->value[0] == '\0' && profile_rule_is_list(rule))
		return add(p, e, FINDING_ERROR, "empty-list", "give it a value, or remove the line",
			   "there is nothing to add to the list");
	if (e->value[0] != '\0' && profile_list_has_empty(e->value))
		return add(p, e, FINDING_ERROR, "empty-element", "remove the extra colon",
			   "the list has an empty element, which means the working directory");
	if (e->value[0] == '\0')
		return 0;
	r = profile_list_without(e->value, NULL, &unique);
	if (r >= 0 && !streq(unique, e->value))
		r = add(p, e, FINDING_WARNING, "repeated-element", "remove the second one",
			"an element of the list is there twice");
	return r;
}

static int check_path(struct profile *p, const struct ini_entry *e)
{
	if (profile_name_is_one_path(e->key) && strchr(e->value, ':'))
		return add(p, e, FINDING_ERROR, "one-path", "give one directory or file",
			   "this variable holds one path, not a list with colons");
	if (profile_value_is_relative(e->key, e->value))
		return add(p, e, FINDING_WARNING, "relative-path", "write absolute paths",
			   "a path is relative to each process's working directory");
	return 0;
}

/* A slip in a name is silent otherwise: nobody reads what is set. New releases have new names, so
 * it is no error. */
static int check_known(struct profile *p, const struct ini_entry *e)
{
	_cleanup_(freep) char *fix = NULL;
	const char *near = known_near(e->key);

	if (!near)
		return 0;
	if (asprintf(&fix, "did you mean %s?", near) < 0) {
		fix = NULL;
		return -ENOMEM;
	}
	return findings_add(&p->findings, FINDING_WARNING, e->line, e->column, "unknown-name",
			    e->key, fix, "%s is no variable that cudaenv knows", e->key);
}

int profile_check_value(struct profile *p, enum snapshot_rule rule, const struct ini_entry *e)
{
	int r;

	if (strlen(e->key) + 1 + strlen(e->value) > SNAPSHOT_STRING_MAX)
		return add(p, e, FINDING_ERROR, "too-long", "shorten it",
			   "name and value are longer than the 131071 bytes that one "
			   "environment string may have");
	if (rule == SNAPSHOT_UNSET && e->value[0] != '\0')
		return add(p, e, FINDING_ERROR, "unset-value", "write NAME = without a value",
			   "a variable in [env.unset] is removed and takes no value");
	r = check_known(p, e);
	if (r >= 0)
		r = check_habits(p, e);
	if (r >= 0 && rule != SNAPSHOT_UNSET &&
	    (profile_rule_is_list(rule) || profile_name_is_search_path(e->key)))
		r = check_list(p, rule, e);
	if (r >= 0 && rule != SNAPSHOT_UNSET)
		r = check_path(p, e);
	if (r >= 0 && snapshot_name_late(e->key, strlen(e->key)))
		r = findings_add(&p->findings, FINDING_ADVICE, e->line, e->column, "too-late",
				 e->key, "start programs that need it by cudaenvctl exec",
				 "%s acts before a program starts: not set by the start hook, set "
				 "by exec",
				 e->key);
	return r;
}
