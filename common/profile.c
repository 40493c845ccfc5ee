/* SPDX-License-Identifier: MIT */
/*
 * One profile file: sections and keys become variables, conditions and settings. What needs more
 * than this file (parents, limits of the whole, scope) comes in profile-join.c.
 */
#include "common/profile.h"

#include <ctype.h>
#include <limits.h>

#include "common/near.h"
#include "common/profile-internal.h"
#include "common/util.h"

struct section_kind {
	const char *name;
	enum snapshot_rule rule; /* of a section of variables, else SNAPSHOT_RULE_MAX_ */
	int (*read)(struct profile *p, const struct ini_entry *e);
};

static int set_string(char **target, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 0;
}

int profile_new(const char *name, const char *path, struct profile **ret)
{
	_cleanup_(profile_freep) struct profile *p = NULL;

	p = calloc(1, sizeof *p);
	if (!p || set_string(&p->name, name) < 0 || set_string(&p->path, path) < 0 ||
	    set_string(&p->description, "") < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(p);
	return 0;
}

void profile_variable_done(struct profile_variable *v)
{
	free(v->group);
	free(v->name);
	free(v->value);
	free(v->file);
	*v = (struct profile_variable){0};
}

static void conditions_done(struct profile_condition *conditions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(conditions[i].key);
		free(conditions[i].value);
	}
	free(conditions);
}

struct profile *profile_free(struct profile *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n_variables; i++)
		profile_variable_done(&p->variables[i]);
	free(p->variables);
	conditions_done(p->match, p->n_match);
	conditions_done(p->require, p->n_require);
	findings_done(&p->findings);
	free(p->name);
	free(p->path);
	free(p->description);
	free(p->inherits);
	free(p->toolkit_root);
	free(p->snapshot_text);
	free(p);
	return NULL;
}

bool profile_variable_in_toolkit(const struct profile_variable *v)
{
	return v->rule == SNAPSHOT_TOGETHER && streq(v->group, PROFILE_TOOLKIT_GROUP);
}

int profile_variable_compare(const void *a, const void *b)
{
	const struct profile_variable *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	if (c != 0)
		return c;
	if (x->rule != y->rule)
		return x->rule < y->rule ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

int profile_append_consume(struct profile *p, struct profile_variable v)
{
	/* The capacity is the next power of two: it follows from the count. */
	if ((p->n_variables & (p->n_variables - 1)) == 0) {
		size_t capacity = p->n_variables == 0 ? 1 : p->n_variables * 2;
		struct profile_variable *grown =
			reallocarray(p->variables, capacity, sizeof *grown);

		if (!grown) {
			profile_variable_done(&v);
			return -ENOMEM;
		}
		p->variables = grown;
	}
	p->variables[p->n_variables++] = v;
	return 0;
}

int profile_add_variable(struct profile *p, const struct profile_variable *v)
{
	struct profile_variable copy = *v;

	copy.group = v->group ? strdup(v->group) : NULL;
	copy.name = strdup(v->name);
	copy.value = strdup(v->value);
	copy.file = strdup(v->file);
	if (!copy.name || !copy.value || !copy.file || (v->group && !copy.group)) {
		profile_variable_done(&copy);
		return -ENOMEM;
	}
	return profile_append_consume(p, copy);
}

/* Why a name is none, without the name: what stands there may be a secret at the wrong place. */
static const char *name_fault(const char *key, const char **ret_fix)
{
	const unsigned char *p = (const unsigned char *)key;

	*ret_fix = "a name has letters, digits and _ and does not begin with a digit";
	if (startswith(key, "export ") || startswith(key, "export\t")) {
		*ret_fix = "leave out export";
		return "the name has a blank";
	}
	if (strchr(key, ':')) {
		*ret_fix = "write NAME = value; only = separates";
		return "the name has a colon";
	}
	if (strpbrk(key, " \t"))
		return "the name has a blank";
	if (isdigit(p[0]))
		return "the name begins with a digit";
	for (; *p; p++)
		if (*p >= 0x80 || (!isalnum(*p) && *p != '_'))
			return "the name has a character that names of variables do not have";
	*ret_fix = "choose a shorter name";
	return strlen(key) > SNAPSHOT_NAME_MAX ? "the name is longer than 1024 characters" : NULL;
}

/* Findings about the name. 1: a variable may come of it. */
static int check_name(struct profile *p, const struct ini_entry *e)
{
	const char *fix, *fault = name_fault(e->key, &fix);

	if (fault)
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->column, "bad-name",
				    NULL, fix, "%s", fault);
	if (profile_name_is_secret(e->key))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->column, "secret",
				    e->key, "give it to the job by its own means, not to the node",
				    "%s looks like a secret, which every process would get",
				    e->key);
	if (profile_value_is_secret(e->value))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column, "secret",
				    e->key, "give it to the job by its own means, not to the node",
				    "the value of %s has a password in it, as in "
				    "scheme://user:password@host",
				    e->key);
	if (profile_name_is_own(e->key))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->column, "own-name",
				    e->key, "remove it", "%s is cudaenv's own", e->key);
	if (profile_name_is_reserved(e->key))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->column,
				    "reserved-name", e->key, "remove it",
				    "%s belongs to the scheduler, the launcher or the login",
				    e->key);
	return 1;
}

static const char *together_group(const char *section)
{
	return startswith(section, "together ");
}

static int add_variable(struct profile *p, enum snapshot_rule rule, const struct ini_entry *e)
{
	struct profile_variable v = {
		.rule = rule,
		.group = (char *)together_group(e->section),
		.name = e->key,
		.value = e->value,
		.file = p->path,
		.line = e->line,
		.column = e->column,
	};
	int r = check_name(p, e);

	if (r <= 0)
		return r;
	r = profile_check_value(p, rule, e);
	if (r < 0)
		return r;
	return profile_add_variable(p, &v);
}

/* KNOWN: the N keys of this section. */
static int unknown_key(struct profile *p, const struct ini_entry *e, const char *const *known,
		       size_t n, const char *fix)
{
	const char *key = ini_plain_key(e->key), *near = key ? near_match(key, known, n) : NULL;

	return findings_add(&p->findings, FINDING_ERROR, e->line, e->column, "unknown-key", NULL,
			    fix, "[%s] has no key %s%s%s%s", e->section, key ? key : "of that name",
			    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int read_profile(struct profile *p, const struct ini_entry *e)
{
	static const char *const known[] = {"description", "inherits"};

	if (streq(e->key, "description"))
		return set_string(&p->description, e->value);
	if (!streq(e->key, "inherits"))
		return unknown_key(p, e, known, ARRAY_SIZE(known),
				   "known are: description, inherits");
	p->inherits_line = e->line;
	p->inherits_column = e->value_column;
	if (!snapshot_label_valid(e->value, strlen(e->value)))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column,
				    "bad-parent", NULL, "write inherits = NAME, without .ini",
				    "this is not the name of a profile");
	return set_string(&p->inherits, e->value);
}

static int read_root(struct profile *p, const struct ini_entry *e)
{
	size_t size = strlen(e->value);
	int r;

	p->toolkit_root_given = true;
	p->toolkit_line = e->line;
	if (e->value[0] != '/' || e->value[strspn(e->value, "/")] == '\0')
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column,
				    "toolkit-root", NULL, "write root = /usr/local/cuda-13.0",
				    "the toolkit's root is not an absolute path");
	if (size >= PATH_MAX || strchr(e->value, ':'))
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column,
				    "toolkit-root", NULL, "give one directory",
				    "the toolkit's root cannot stand in PATH");
	r = set_string(&p->toolkit_root, e->value);

	while (r == 0 && p->toolkit_root[size - 1] == '/')
		p->toolkit_root[--size] = '\0';
	return r;
}

static int read_toolkit(struct profile *p, const struct ini_entry *e)
{
	static const char *const known[] = {"root", "rule"};

	if (streq(e->key, "root"))
		return read_root(p, e);
	if (!streq(e->key, "rule"))
		return unknown_key(p, e, known, ARRAY_SIZE(known), "known are: root, rule");
	p->toolkit_rule_given = true;
	p->toolkit_force = streq(e->value, "force");
	if (p->toolkit_force || streq(e->value, "default"))
		return 0;
	return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column, "toolkit-rule",
			    NULL, "write rule = force, or leave it out",
			    "the rule is neither default nor force");
}

/* What a probe can say of a node; both sections take all of it. */
#define CONDITION_KEYS                                                                             \
	"arch", "cuda", "driver", "gpu.compute_capability", "gpu.count", "gpu.link", "gpu.memory", \
		"gpu.name", "gpu.nvlink", "gpu.pci", "gpu.uuid", "hostname", "kernel", "nccl",     \
		"toolkit", "torch", "triton"

static int read_condition(struct profile *p, const struct ini_entry *e,
			  struct profile_condition **conditions, size_t *n)
{
	static const char *const known[] = {CONDITION_KEYS};
	struct profile_condition *grown;
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		found = found || streq(e->key, known[i]);
	if (!found)
		return unknown_key(
			p, e, known, ARRAY_SIZE(known),
			"known are: gpu.name, gpu.nvlink, gpu.count, gpu.memory, gpu.link, "
			"gpu.compute_capability, gpu.pci, gpu.uuid, driver, nccl, cuda, "
			"toolkit, torch, triton, kernel, arch, hostname");
	if (e->value[0] == '\0')
		return findings_add(&p->findings, FINDING_ERROR, e->line, e->value_column,
				    "empty-condition", NULL, "give it a value, or remove the line",
				    "%s has no value", e->key);
	grown = reallocarray(*conditions, *n + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	*conditions = grown;
	grown[*n] = (struct profile_condition){
		.key = strdup(e->key), .value = strdup(e->value), .line = e->line};
	(*n)++; /* also a half-made one: profile_free() frees it */
	return grown[*n - 1].key && grown[*n - 1].value ? 0 : -ENOMEM;
}

static int read_match(struct profile *p, const struct ini_entry *e)
{
	return read_condition(p, e, &p->match, &p->n_match);
}

static int read_require(struct profile *p, const struct ini_entry *e)
{
	return read_condition(p, e, &p->require, &p->n_require);
}

static const struct section_kind kinds[] = {
	{"profile", SNAPSHOT_RULE_MAX_, read_profile},
	{"match", SNAPSHOT_RULE_MAX_, read_match},
	{"require", SNAPSHOT_RULE_MAX_, read_require},
	{"toolkit", SNAPSHOT_RULE_MAX_, read_toolkit},
	{"env", SNAPSHOT_DEFAULT, NULL},
	{"env.force", SNAPSHOT_FORCE, NULL},
	{"env.unset", SNAPSHOT_UNSET, NULL},
	{"env.prepend", SNAPSHOT_PREPEND, NULL},
	{"env.append", SNAPSHOT_APPEND, NULL},
};
static const struct section_kind together_kind = {"together", SNAPSHOT_TOGETHER, NULL};

/* NULL: no such section. */
static const struct section_kind *find_kind(const char *section)
{
	const char *group = together_group(section);

	if (group)
		return snapshot_label_valid(group, strlen(group)) &&
				       !streq(group, PROFILE_TOOLKIT_GROUP)
			       ? &together_kind
			       : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(section, kinds[i].name))
			return &kinds[i];
	return NULL;
}

/* What is no plain word is not shown: it may be anything that slipped between the brackets. */
static int unknown_section(struct profile *p, const struct ini_section *s)
{
	const char *names[ARRAY_SIZE(kinds) + 1] = {[ARRAY_SIZE(kinds)] = together_kind.name};
	const char *name = ini_plain_key(s->name), *near;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		names[i] = kinds[i].name;
	near = name ? near_match(name, names, ARRAY_SIZE(names)) : NULL;
	return findings_add(&p->findings, FINDING_ERROR, s->line, 2, "unknown-section", NULL,
			    "known are: profile, match, toolkit, env, env.force, env.unset, "
			    "env.prepend, env.append, together NAME, require",
			    "there is no %s%s%s%s%s%s", name ? "section [" : "such section",
			    name ? name : "", name ? "]" : "", near ? "; did you mean [" : "",
			    near ? near : "", near ? "]?" : "");
}

static int check_section(struct profile *p, const struct ini_section *s)
{
	const char *group = together_group(s->name);

	if (streq(s->name, "toolkit") && p->toolkit_line == 0)
		p->toolkit_line = s->line;
	if (find_kind(s->name))
		return 0;
	if (group && streq(group, PROFILE_TOOLKIT_GROUP))
		return findings_add(&p->findings, FINDING_ERROR, s->line, 2, "bad-group", NULL,
				    "choose another name",
				    "the group toolkit is that of [toolkit]");
	if (group || streq(s->name, "together"))
		return findings_add(&p->findings, FINDING_ERROR, s->line, 2, "bad-group", NULL,
				    "write [together NAME] with letters, digits, _ . @ or -",
				    "the group has no proper name");
	return unknown_section(p, s);
}

int profile_read(struct profile *p, const char *bytes, size_t size)
{
	_cleanup_(ini_done) struct ini ini = {0};
	int r = ini_read(bytes, size, &ini, &p->findings);

	for (size_t i = 0; r >= 0 && i < ini.n_sections; i++)
		r = check_section(p, &ini.sections[i]);
	for (size_t i = 0; r >= 0 && i < ini.n_entries; i++) {
		const struct ini_entry *e = &ini.entries[i];
		const struct section_kind *kind = find_kind(e->section);

		if (kind)
			r = kind->read ? kind->read(p, e) : add_variable(p, kind->rule, e);
	}
	if (r < 0)
		return r;
	return profile_toolkit(p);
}

int profile_parse(const char *name, const char *path, const char *bytes, size_t size,
		  const struct facts *facts, struct profile **ret)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r = profile_new(name, path, &p);

	if (r < 0)
		return r;
	r = profile_read(p, bytes, size);
	if (r < 0)
		return r;
	r = profile_join(p, NULL);
	if (r < 0)
		return r;
	r = profile_finish(p, facts);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}
