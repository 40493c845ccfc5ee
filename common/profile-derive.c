/* SPDX-License-Identifier: MIT */
#include "common/profile-derive.h"

#include <stdarg.h>

#include "common/profile-internal.h"
#include "common/util.h"

static int _printf_(2, 3) refuse(char **ret_fault, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(ret_fault, format, ap);
	va_end(ap);
	if (n >= 0)
		return -EINVAL;
	*ret_fault = NULL;
	return -ENOMEM;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static size_t name_size(const char *assignment)
{
	return strcspn(assignment, "=");
}

static bool same_name(const char *a, const char *b)
{
	size_t n = name_size(a);

	return n == name_size(b) && strncmp(a, b, n) == 0;
}

/* What cannot be written as one line of a profile. */
static int check_form(const char *assignment, char **ret_fault)
{
	size_t n = name_size(assignment), size = strlen(assignment);
	const char *value;

	if (assignment[n] != '=')
		return refuse(ret_fault, "'%.80s' is not NAME=VALUE", assignment);
	if (!snapshot_name_valid(assignment, n))
		return refuse(
			ret_fault,
			"'%.*s' is no name of a variable: letters, digits and _, not beginning "
			"with a digit",
			n < 80 ? (int)n : 80, assignment);
	value = assignment + n + 1;
	if (value[0] != '\0' && (is_blank(value[0]) || is_blank(assignment[size - 1])))
		return refuse(ret_fault, "the value of %.*s begins or ends with a blank", (int)n,
			      assignment);
	for (const char *p = value; *p; p++)
		if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return refuse(ret_fault, "the value of %.*s has a control character",
				      (int)n, assignment);
	return 0;
}

static int check_forms(const char *const *assignments, size_t n, char **ret_fault)
{
	size_t bytes = 0;

	if (n > DERIVE_VARIABLES_MAX)
		return refuse(ret_fault, "at most %d variables can be set for one scope",
			      DERIVE_VARIABLES_MAX);
	for (size_t i = 0; i < n; i++) {
		int r = check_form(assignments[i], ret_fault);

		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (same_name(assignments[i], assignments[k]))
				return refuse(ret_fault, "%.*s is set twice",
					      (int)name_size(assignments[i]), assignments[i]);
		bytes += strlen(assignments[i]);
	}
	if (bytes > DERIVE_BYTES_MAX)
		return refuse(ret_fault, "more than %zu bytes of variables for one scope",
			      DERIVE_BYTES_MAX);
	return 0;
}

/* The profile that has nothing but these. */
static int parse(const char *const *assignments, size_t n, struct profile **ret)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	fputs("[env]\n", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s\n", assignments[i]);
	if (fclose(f) != 0)
		return -ENOMEM;
	return profile_parse("set", "", text, size, NULL, ret);
}

static int refuse_by(const struct finding *f, char **ret_fault)
{
	bool named = !f->variable || startswith(f->message, f->variable);

	return refuse(ret_fault, "%s%s%s%s%s", named ? "" : f->variable, named ? "" : ": ",
		      f->message, f->fix ? ": " : "", f->fix ? f->fix : "");
}

/* Lines are those of a text that nobody has written. */
static void take_findings(struct profile *p, struct findings *ret)
{
	for (size_t i = 0; i < p->findings.n; i++)
		p->findings.items[i].line = p->findings.items[i].column = 0;
	*ret = p->findings;
	p->findings = (struct findings){0};
}

int derive_check(const char *const *assignments, size_t n, struct findings *ret_findings,
		 char **ret_fault)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r = check_forms(assignments, n, ret_fault);

	if (r == 0)
		r = parse(assignments, n, &p);
	if (r < 0)
		return r;
	if (p->valid) {
		if (ret_findings)
			take_findings(p, ret_findings);
		return 0;
	}
	for (size_t i = 0; i < p->findings.n; i++) {
		const struct finding *f = &p->findings.items[i];

		if (f->severity == FINDING_ERROR)
			return refuse_by(f, ret_fault);
	}
	return refuse(ret_fault, "these variables cannot be set");
}

static const char *find(const char *const *assignments, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(assignments[i], name, strlen(name)) == 0 &&
		    assignments[i][strlen(name)] == '=')
			return assignments[i] + strlen(name) + 1;
	return NULL;
}

static bool is_list(const struct snapshot_entry *e)
{
	return profile_rule_is_list(e->rule) ||
	       (e->rule == SNAPSHOT_TOGETHER && streq(e->name, "PATH") &&
		streq(e->group, PROFILE_TOOLKIT_GROUP));
}

/* The lines of BASE, those of set names with their new value; further lines of such a name go. */
static int take_base(struct profile *p, const struct snapshot *base, const char *const *assignments,
		     size_t n)
{
	for (size_t i = 0; i < base->n_entries; i++) {
		const struct snapshot_entry *e = &base->entries[i];
		const char *value = find(assignments, n, e->name);
		struct profile_variable v = {
			.rule = value && e->rule == SNAPSHOT_UNSET ? SNAPSHOT_FORCE : e->rule,
			.group = (char *)e->group,
			.name = (char *)e->name,
			.value = (char *)(value ? value : e->value),
			.file = (char *)"",
		};
		int r;

		if (value && i > 0 && streq(e[-1].name, e->name))
			continue;
		/* Nothing cannot be added to a list: then the variable is empty. */
		if (value && value[0] == '\0' && is_list(e)) {
			v.rule = SNAPSHOT_DEFAULT;
			v.group = NULL;
		}
		r = profile_add_variable(p, &v);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool base_has(const struct snapshot *base, const char *name)
{
	for (size_t i = 0; base && i < base->n_entries; i++)
		if (streq(base->entries[i].name, name))
			return true;
	return false;
}

static int add_new(struct profile *p, const struct snapshot *base, const char *const *assignments,
		   size_t n)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		_cleanup_(freep) char *name = strndup(assignments[i], name_size(assignments[i]));
		struct profile_variable v = {
			.rule = SNAPSHOT_DEFAULT,
			.name = name,
			.value = (char *)assignments[i] + name_size(assignments[i]) + 1,
			.file = (char *)"",
		};

		if (!name)
			return -ENOMEM;
		if (!base_has(base, name))
			r = profile_add_variable(p, &v);
	}
	return r;
}

static int take_toolkit(struct profile *p, const struct snapshot *base)
{
	if (base->toolkit_root) {
		p->toolkit_root = strdup(base->toolkit_root);
		p->toolkit_force = base->toolkit_force;
		return p->toolkit_root ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < p->n_variables; i++)
		if (profile_variable_in_toolkit(&p->variables[i]))
			return -EBADMSG;
	return 0;
}

int derive_snapshot(const struct snapshot *base, const char *const *assignments, size_t n,
		    const struct facts *facts, struct profile **ret)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r;

	r = profile_new(base ? base->profile : "none", "", &p);
	if (r == 0 && base)
		r = take_base(p, base, assignments, n);
	if (r == 0 && base)
		r = take_toolkit(p, base);
	if (r == 0)
		r = add_new(p, base, assignments, n);
	if (r < 0)
		return r;
	if (p->n_variables > 0)
		qsort(p->variables, p->n_variables, sizeof *p->variables, profile_variable_compare);
	r = profile_finish(p, facts);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}
