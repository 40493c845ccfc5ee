/* SPDX-License-Identifier: MIT */
/*
 * Checks that need all variables of a profile, its parents' included: limits, names that differ
 * only in case, scope. Then the snapshot text is made, if there is no error.
 */
#include "common/profile-internal.h"
#include "common/profile-path.h"
#include "common/profile-text.h"
#include "common/util.h"

static bool is_own(const struct profile *p, const struct profile_variable *v)
{
	return streq(v->file, p->path);
}

static int compare_ignoring_case(const void *a, const void *b)
{
	const struct profile_variable *const *x = a, *const *y = b;
	int c = strcasecmp((*x)->name, (*y)->name);

	return c != 0 ? c : strcmp((*x)->name, (*y)->name);
}

/* http_proxy and HTTP_PROXY are customary as a pair, if they agree. */
static bool twins_agree(const struct profile_variable *a, const struct profile_variable *b)
{
	size_t n = strlen(a->name);

	return n > STRLEN("_proxy") && strcasecmp(a->name + n - STRLEN("_proxy"), "_proxy") == 0 &&
	       streq(a->value, b->value);
}

static int check_twins(struct profile *p)
{
	_cleanup_(freep) const struct profile_variable **sorted = NULL;
	int r = 0;

	if (p->n_variables < 2)
		return 0;
	sorted = calloc(p->n_variables, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_variables; i++)
		sorted[i] = &p->variables[i];
	qsort(sorted, p->n_variables, sizeof *sorted, compare_ignoring_case);
	for (size_t i = 1; r >= 0 && i < p->n_variables; i++) {
		const struct profile_variable *a = sorted[i - 1], *b = sorted[i];

		if (strcasecmp(a->name, b->name) != 0 || streq(a->name, b->name) ||
		    twins_agree(a, b) || !(is_own(p, a) || is_own(p, b)))
			continue;
		if (!is_own(p, b) || (is_own(p, a) && a->line > b->line)) {
			const struct profile_variable *t = a;

			a = b;
			b = t;
		}
		r = findings_add(&p->findings, FINDING_WARNING, b->line, b->column, "case-twins",
				 b->name, "keep the one that your programs read",
				 "%s and %s (%s:%u) differ only in case and are two variables",
				 b->name, a->name, a->file, a->line);
	}
	return r;
}

static int check_limits(struct profile *p)
{
	size_t total = 0, marks = profile_marks_size(p);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < p->n_variables; i++) {
		const struct profile_variable *v = &p->variables[i];
		size_t size = strlen(v->name) + 1 + strlen(v->value);

		total += size + 1;
		if (size > SNAPSHOT_STRING_MAX && is_own(p, v) && profile_rule_is_list(v->rule))
			r = findings_add(&p->findings, FINDING_ERROR, v->line, v->column,
					 "too-long", v->name,
					 "shorten the list here or in a parent",
					 "%s with what its parents add is longer than the 131071 "
					 "bytes that one environment string may have",
					 v->name);
	}
	if (r >= 0 && total > PROFILE_MAX_BYTES)
		r = findings_add(
			&p->findings, FINDING_ERROR, 0, 0, "too-large", NULL,
			"set fewer or shorter variables",
			"all variables together, parents' included, are larger than 512 KiB");
	if (r >= 0 && p->n_variables > SNAPSHOT_ENTRIES_MAX)
		r = findings_add(&p->findings, FINDING_ERROR, 0, 0, "too-many", NULL,
				 "set fewer variables", "there are more than %u variables",
				 (unsigned)SNAPSHOT_ENTRIES_MAX);
	if (r >= 0 && marks > SNAPSHOT_STRING_MAX)
		r = findings_add(&p->findings, FINDING_ERROR, 0, 0, "too-many", NULL,
				 "set fewer variables, or ones with shorter names",
				 "the names do not fit into CUDAENV_APPLIED, which may have 131071 "
				 "bytes");
	return r;
}

/* The first path that somebody else than root can change decides. */
static int judge_scope(struct profile *p)
{
	p->scope_any = true;
	for (size_t i = 0; p->scope_any && i < p->n_variables; i++) {
		const struct profile_variable *v = &p->variables[i];
		_cleanup_(freep) char *culprit = NULL;
		int r = 0;

		if (profile_value_is_relative(v->name, v->value))
			culprit = strdup("the working directory");
		else
			r = profile_value_root_only(v->value, &culprit);

		if (r == -ENOMEM)
			return r;
		if (r == 1)
			continue;
		p->scope_any = false;
		r = findings_add(&p->findings, FINDING_ADVICE, is_own(p, v) ? v->line : 0,
				 is_own(p, v) ? v->column : 0, "scope-user", v->name,
				 "use paths that only root can write",
				 "root's processes will not get this profile: in %s %s %s", v->name,
				 culprit ? culprit : "a path",
				 culprit ? "can be changed by others than root"
					 : "cannot be judged");
		if (r < 0)
			return r;
	}
	return 0;
}

int profile_finish(struct profile *p, const struct facts *facts)
{
	int r = check_twins(p);

	if (r < 0)
		return r;
	r = check_limits(p);
	if (r < 0)
		return r;
	if (p->findings.errors == 0)
		r = judge_scope(p);
	if (r >= 0 && p->n_variables == 0 && p->findings.errors == 0)
		r = findings_add(&p->findings, FINDING_WARNING, 0, 0, "no-variables", NULL,
				 "put some into [env]", "the profile sets no variable");
	if (r < 0)
		return r;
	p->joined = true;
	p->valid = p->findings.errors == 0;
	findings_sort(&p->findings);
	return p->valid ? profile_make_text(p, facts) : 0;
}
