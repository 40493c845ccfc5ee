/* SPDX-License-Identifier: MIT */
/*
 * From the variables of one file to those of the profile: names that stand in two sections, and
 * what the parent adds.
 */
#include "common/profile-internal.h"
#include "common/profile-list.h"
#include "common/util.h"

/* The variables of one name: N of them at V, in the order of profile_variable_compare(). */
struct run {
	struct profile_variable *v;
	size_t n;
};

static struct run run_at(struct profile_variable *variables, size_t n, size_t i)
{
	size_t end = i + 1;

	while (end < n && streq(variables[end].name, variables[i].name))
		end++;
	return (struct run){&variables[i], end - i};
}

static bool is_toolkit_path(const struct profile_variable *v)
{
	return profile_variable_in_toolkit(v) && streq(v->name, "PATH");
}

/* Lists of one name add up; PATH of the toolkit is one too. */
static bool adds_up(const struct profile_variable *v)
{
	return profile_rule_is_list(v->rule) || is_toolkit_path(v);
}

static bool all_add_up(const struct run *run)
{
	for (size_t i = 0; i < run->n; i++)
		if (!adds_up(&run->v[i]))
			return false;
	return true;
}

/* The prepended and the appended elements together, "" for none; the toolkit's PATH is not among
 * them. */
static int list_elements(const struct run *run, char **ret)
{
	_cleanup_(freep) char *all = strdup("");

	for (size_t i = 0; all && i < run->n; i++) {
		char *joined;

		if (!profile_rule_is_list(run->v[i].rule))
			continue;
		if (profile_list_concat(all, run->v[i].value, &joined) < 0)
			return -ENOMEM;
		free(all);
		all = joined;
	}
	if (!all)
		return -ENOMEM;
	*ret = TAKE_PTR(all);
	return 0;
}

static int toolkit_path_yields(struct profile *p)
{
	return findings_add(&p->findings, FINDING_WARNING, p->toolkit_line, 1, "toolkit-path",
			    "PATH", "extend PATH in [env.prepend] instead of setting it",
			    "the toolkit's directory is not added to PATH, which is set whole");
}

/* Own prepended and appended elements must differ. */
static int check_own_lists(struct profile *p, const struct run *run)
{
	const struct profile_variable *last = &run->v[run->n - 1];
	_cleanup_(freep) char *rest = NULL;

	if (run->n < 2 || last->rule != SNAPSHOT_APPEND || last[-1].rule != SNAPSHOT_PREPEND)
		return 0;
	if (profile_list_without(last->value, last[-1].value, &rest) < 0)
		return -ENOMEM;
	if (profile_list_count(rest) == profile_list_count(last->value) && rest[0] != '\0')
		return 0;
	return findings_add(&p->findings, FINDING_WARNING, last->line, last->column,
			    "repeated-element", last->name, "remove it from one of the two",
			    "an element of %s is prepended in line %u as well", last->name,
			    last[-1].line);
}

/* The one that stands first in the file. */
static const struct profile_variable *first_of(const struct run *run)
{
	const struct profile_variable *first = NULL;

	for (size_t i = 0; i < run->n; i++)
		if (!is_toolkit_path(&run->v[i]) && (!first || run->v[i].line < first->line))
			first = &run->v[i];
	return first;
}

/* One name in two sections of one file. */
static int check_own_run(struct profile *p, const struct run *run)
{
	const struct profile_variable *first = first_of(run);
	int r = 0;

	if (all_add_up(run))
		return check_own_lists(p, run);
	for (size_t i = 0; r >= 0 && i < run->n; i++) {
		const struct profile_variable *v = &run->v[i];

		if (v == first)
			continue;
		if (is_toolkit_path(v))
			r = toolkit_path_yields(p);
		else
			r = findings_add(&p->findings, FINDING_ERROR, v->line, v->column,
					 "duplicate-variable", v->name, "remove one of the two",
					 "%s stands in line %u already", v->name, first->line);
	}
	return r;
}

/* Takes the toolkit's PATH out of a run in which it has to yield. */
static void drop_toolkit_path(struct profile *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n_variables;) {
		struct run run = run_at(p->variables, p->n_variables, i);
		bool yields = !all_add_up(&run);

		i += run.n;
		for (size_t j = 0; j < run.n; j++) {
			struct profile_variable v = run.v[j];

			if (yields && is_toolkit_path(&v))
				profile_variable_done(&v);
			else
				p->variables[kept++] = v;
		}
	}
	p->n_variables = kept;
}

static int check_own(struct profile *p)
{
	int r = 0;

	if (p->n_variables == 0)
		return 0;
	qsort(p->variables, p->n_variables, sizeof *p->variables, profile_variable_compare);
	for (size_t i = 0; r >= 0 && i < p->n_variables;) {
		struct run run = run_at(p->variables, p->n_variables, i);

		r = check_own_run(p, &run);
		i += run.n;
	}
	drop_toolkit_path(p);
	return r;
}

/* Puts the parent's list, without the elements that OWN has anywhere, behind or before the same
 * list of OWN; where OWN has no such list it becomes one. */
static int join_list(struct profile *p, struct run *own, const struct profile_variable *parent)
{
	_cleanup_(freep) char *elements = NULL, *rest = NULL;
	struct profile_variable copy = *parent;
	int r;

	r = list_elements(own, &elements);
	if (r < 0)
		return r;
	r = profile_list_without(parent->value, elements, &rest);
	if (r < 0)
		return r;
	if (rest[0] == '\0')
		return 0;
	for (size_t i = 0; i < own->n; i++) {
		struct profile_variable *v = &own->v[i];
		bool append = v->rule == SNAPSHOT_APPEND;
		char *joined;

		if (v->rule != parent->rule)
			continue;
		r = profile_list_concat(append ? rest : v->value, append ? v->value : rest,
					&joined);
		if (r < 0)
			return r;
		free(v->value);
		v->value = joined;
		return 0;
	}
	copy.value = rest;
	return profile_add_variable(p, &copy);
}

/* A variable of the parent whose name OWN has (N of them, 0: not). */
static int join_variable(struct profile *p, struct run *own, const struct profile_variable *parent)
{
	if (p->toolkit_root_given && profile_variable_in_toolkit(parent))
		return 0; /* replaced by one's own toolkit */
	if (own->n == 0)
		return profile_add_variable(p, parent);
	if (!adds_up(parent) || !all_add_up(own))
		return 0; /* overridden */
	if (is_toolkit_path(parent))
		return profile_add_variable(p, parent);
	return join_list(p, own, parent);
}

/* The parent sets PATH whole, P has nothing of PATH but its toolkit's directory: that gives way. */
static bool yields_to_parent(const struct run *own, const struct run *parent)
{
	return own->n == 1 && is_toolkit_path(own->v) && parent->n > 0 && !all_add_up(parent);
}

/* One name of both. P's own variables were moved out of P and go back there. */
static int join_name(struct profile *p, struct run *own, const struct run *parent)
{
	int r = 0;

	if (yields_to_parent(own, parent)) {
		r = toolkit_path_yields(p);
		profile_variable_done(own->v);
		own->n = 0;
	}
	for (size_t i = 0; r >= 0 && i < parent->n; i++)
		r = join_variable(p, own, &parent->v[i]);
	for (size_t i = 0; i < own->n; i++) {
		if (r >= 0)
			r = profile_append_consume(p, own->v[i]);
		else
			profile_variable_done(&own->v[i]);
	}
	return r;
}

static int join_variables(struct profile *p, const struct profile *parent)
{
	_cleanup_(freep) struct profile_variable *own = TAKE_PTR(p->variables);
	size_t n = p->n_variables, i = 0, j = 0;
	int r = 0;

	p->n_variables = 0;
	while (i < n || j < parent->n_variables) {
		struct run a = {0}, b = {0};
		int order = i == n ? 1
			    : j == parent->n_variables
				    ? -1
				    : strcmp(own[i].name, parent->variables[j].name);

		if (order <= 0)
			a = run_at(own, n, i);
		if (order >= 0)
			b = run_at(parent->variables, parent->n_variables, j);
		i += a.n;
		j += b.n;
		if (r < 0)
			b.n = 0; /* only ends what is left */
		int s = join_name(p, &a, &b);
		r = r < 0 ? r : s;
	}
	if (p->n_variables > 0)
		qsort(p->variables, p->n_variables, sizeof *p->variables, profile_variable_compare);
	return r;
}

static int join_conditions(const struct profile_condition *parent, size_t n_parent,
			   struct profile_condition **own, size_t *n)
{
	size_t n_own = *n;

	for (size_t i = 0; i < n_parent; i++) {
		struct profile_condition *grown;
		bool found = false;

		for (size_t j = 0; j < n_own; j++)
			found = found || streq((*own)[j].key, parent[i].key);
		if (found)
			continue;
		grown = reallocarray(*own, *n + 1, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		*own = grown;
		grown[*n] = (struct profile_condition){.key = strdup(parent[i].key),
						       .value = strdup(parent[i].value),
						       .line = parent[i].line};
		(*n)++; /* also a half-made one: profile_free() frees it */
		if (!grown[*n - 1].key || !grown[*n - 1].value)
			return -ENOMEM;
	}
	return 0;
}

static int join_toolkit(struct profile *p, const struct profile *parent)
{
	if (!p->toolkit_root_given && parent && parent->toolkit_root) {
		p->toolkit_root = strdup(parent->toolkit_root);
		if (!p->toolkit_root)
			return -ENOMEM;
		if (!p->toolkit_rule_given)
			p->toolkit_force = parent->toolkit_force;
	}
	if (p->toolkit_line == 0 || p->toolkit_root_given || p->toolkit_root)
		return 0;
	return findings_add(&p->findings, FINDING_ERROR, p->toolkit_line, 1, "toolkit-root", NULL,
			    "write root = /usr/local/cuda-13.0", "[toolkit] has no root");
}

int profile_join(struct profile *p, const struct profile *parent)
{
	int r = check_own(p);

	if (r < 0)
		return r;
	r = join_toolkit(p, parent);
	if (r < 0 || !parent)
		return r;
	r = join_variables(p, parent);
	if (r < 0)
		return r;
	r = join_conditions(parent->match, parent->n_match, &p->match, &p->n_match);
	if (r < 0)
		return r;
	return join_conditions(parent->require, parent->n_require, &p->require, &p->n_require);
}
