/* SPDX-License-Identifier: MIT */
#include <config.h>

#include "common/util.h"
#include "daemon/manager/compile.h"

static void print_words(FILE *f, const char *keyword, const struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		fprintf(f, "%s %s\n", keyword, w->items[i]);
}

static const char *const kinds[] = {
	[RULE_UNIT] = "unit", [RULE_UID] = "uid",       [RULE_GID] = "gid",
	[RULE_EXE] = "exe",   [RULE_CGROUP] = "cgroup",
};

static void rule_done(struct rule *r)
{
	for (size_t i = 0; i < RULE_KIND_MAX_; i++)
		words_done(&r->when[i]);
	words_done(&r->variables);
	free(r->file);
	free(r->by);
	free(r->override);
}

void rules_done(struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		rule_done(&rules->items[i]);
	free(rules->items);
	*rules = (struct rules){0};
}

/* A new last one; NULL: no memory. */
static struct rule *append(struct rules *rules)
{
	struct rule *items = reallocarray(rules->items, rules->n + 1, sizeof(*items));

	if (!items)
		return NULL;
	rules->items = items;
	items[rules->n] = (struct rule){0};
	return &items[rules->n++];
}

static int copy_words(const struct words *from, struct words *ret)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n; i++)
		r = words_add(ret, from->items[i]);
	return r;
}

/* As a pattern that matches only S. */
static char *glob_of(const char *s)
{
	char *pattern = malloc(2 * strlen(s) + 1), *p = pattern;

	for (; pattern && *s; s++) {
		if (strchr("*?[\\", *s))
			*p++ = '\\';
		*p++ = *s;
	}
	if (pattern)
		*p = '\0';
	return pattern;
}

static int put_place(struct rule *r, const char *file, unsigned line)
{
	r->file = strdup(file);
	r->line = line;
	return r->file ? 0 : -ENOMEM;
}

static int put_settings(const struct config_rule *from, const struct active *a, struct rules *ret)
{
	const struct words *when[] = {
		[RULE_UNIT] = &from->unit, [RULE_UID] = &from->uid,       [RULE_GID] = &from->gid,
		[RULE_EXE] = &from->exe,   [RULE_CGROUP] = &from->cgroup,
	};
	const char *digest = active_applied(a, from->profile);
	struct rule *rule = append(ret);
	int r;

	if (!rule)
		return -ENOMEM;
	strcpy(rule->name, from->name);
	if (!streq(from->profile, "none"))
		strcpy(rule->profile, from->profile);
	if (digest)
		strcpy(rule->base, digest);
	r = put_place(rule, from->file, from->line);
	for (size_t i = 0; r == 0 && i < RULE_KIND_MAX_; i++)
		r = copy_words(when[i], &rule->when[i]);
	return r;
}

static int put_default(const struct config *c, const struct active *a, struct rules *ret)
{
	struct rule *rule = append(ret);

	if (!rule)
		return -ENOMEM;
	strcpy(rule->profile, a->profile);
	strcpy(rule->base, a->digest);
	return a->chosen || !c->profile_file ? 0
					     : put_place(rule, c->profile_file, c->profile_line);
}

/* Whose it is. A derived rule has its own override in front of those of the rule that it came from.
 */
static int put_override(struct rule *rule, const struct override *o)
{
	const char *earlier = rule->override ? rule->override : "";
	char scope[SCOPE_TEXT_SIZE], *text;

	scope_format(&o->scope, scope);
	if (asprintf(&text, "%s %s%s%s", override_action_name(o->action), scope,
		     earlier[0] ? ", " : "", earlier) < 0)
		return -ENOMEM;
	free(rule->override);
	rule->override = text;
	return override_by(o, &rule->by);
}

/* Narrows RULE to S's processes. 1, 0: none of them can be the rule's, -ENOMEM. */
static int narrow(struct rule *rule, const struct scope *s)
{
	struct words *when = &rule->when[s->kind == SCOPE_UNIT ? RULE_UNIT : RULE_UID];
	_cleanup_(freep) char *exact = NULL;
	bool held = when->n == 0;
	char uid[24];

	if (s->kind == SCOPE_NODE)
		return 1;
	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)s->uid);
	for (size_t i = 0; i < when->n && !held; i++)
		held = s->kind == SCOPE_UNIT ? assign_glob_match(when->items[i], s->name)
					     : streq(when->items[i], uid);
	if (!held)
		return 0;
	exact = s->kind == SCOPE_UNIT ? glob_of(s->name) : strdup(uid);
	words_done(when);
	return exact && words_add(when, exact) == 0 ? 1 : -ENOMEM;
}

static int put_use(const struct override *o, struct rules *ret)
{
	struct rule *rule = append(ret);
	int r;

	if (!rule)
		return -ENOMEM;
	strcpy(rule->profile, o->profile);
	strcpy(rule->base, o->digest);
	rule->until = o->until;
	r = narrow(rule, &o->scope);
	return r < 0 ? r : put_override(rule, o);
}

/* Later commands first. */
static int put_uses(const struct active *a, bool node, struct rules *ret)
{
	int r = 0;

	for (size_t i = a->overrides.n; r == 0 && i > 0; i--) {
		const struct override *o = &a->overrides.items[i - 1];

		if (o->action == OVERRIDE_USE && (o->scope.kind == SCOPE_NODE) == node)
			r = put_use(o, ret);
	}
	return r;
}

static int copy_rule(const struct rule *from, struct rule *ret)
{
	int r;

	strcpy(ret->profile, from->profile);
	strcpy(ret->base, from->base);
	ret->until = from->until;
	r = copy_words(&from->variables, &ret->variables);
	for (size_t i = 0; r == 0 && i < RULE_KIND_MAX_; i++)
		r = copy_words(&from->when[i], &ret->when[i]);
	if (r == 0 && from->file)
		r = put_place(ret, from->file, from->line);
	if (r == 0 && from->override) {
		ret->override = strdup(from->override);
		r = ret->override ? 0 : -ENOMEM;
	}
	return r;
}

/* O's variables over those that RULE has already. */
static int put_variables(struct rule *rule, const struct override *o)
{
	struct words joined = {0};
	int r = override_join(&rule->variables, &o->variables, &joined);

	/* A unit's and a user's together may be more than one scope's. */
	if (r < 0 && r != -EFBIG) {
		words_done(&joined);
		return r;
	}
	words_done(&rule->variables);
	rule->variables = joined;
	return 0;
}

/* FROM for O's processes, with O's variables. 1, 0: there are none of those, or negative errno. */
static int derive_rule(const struct rule *from, const struct override *o, struct rule *ret)
{
	int r = copy_rule(from, ret);

	if (r == 0)
		r = narrow(ret, &o->scope);
	if (r <= 0)
		return r;
	if (o->until > 0 && (ret->until == 0 || o->until < ret->until))
		ret->until = o->until;
	r = put_variables(ret, o);
	if (r == 0)
		r = put_override(ret, o);
	return r < 0 ? r : 1;
}

static int move_rules(struct rules *from, struct rules *to)
{
	for (size_t i = 0; i < from->n; i++) {
		struct rule *rule = append(to);

		if (!rule)
			return -ENOMEM;
		*rule = from->items[i];
		from->items[i] = (struct rule){0};
	}
	return 0;
}

/* In front of RULES, which end with the default: what O makes of each. */
static int put_set(const struct override *o, struct rules *rules)
{
	struct rules all = {0};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < rules->n; i++) {
		struct rule *rule = append(&all);

		r = rule ? derive_rule(&rules->items[i], o, rule) : -ENOMEM;
		if (r == 0)
			rule_done(&all.items[--all.n]);
		/* The default is no rule. */
		if (all.n + rules->n - 1 > ASSIGN_MAX_EACH)
			r = -E2BIG;
	}
	if (r >= 0)
		r = move_rules(rules, &all);
	if (r < 0) {
		rules_done(&all);
		return r;
	}
	rules_done(rules);
	*rules = all;
	return 0;
}

static void name_overrides(struct rules *rules)
{
	unsigned n = 0;

	for (size_t i = 0; i < rules->n; i++) {
		struct rule *rule = &rules->items[i];

		if (rule->override)
			(void)snprintf(rule->name, sizeof(rule->name), CONFIG_OVERRIDE "%u", ++n);
		if (rule->variables.n == 0)
			strcpy(rule->digest, rule->base);
	}
}

int compile_rules(const struct config *c, const struct active *a, struct rules *ret)
{
	struct rules rules = {0};
	int r;

	r = put_uses(a, false, &rules);
	for (size_t i = 0; r == 0 && i < c->n_rules; i++)
		r = put_settings(&c->rules[i], a, &rules);
	if (r == 0)
		r = put_uses(a, true, &rules);
	if (r == 0)
		r = put_default(c, a, &rules);
	for (size_t i = 0; r == 0 && i < a->overrides.n; i++)
		if (a->overrides.items[i].action == OVERRIDE_SET)
			r = put_set(&a->overrides.items[i], &rules);
	if (r == 0)
		name_overrides(&rules);
	if (r < 0) {
		rules_done(&rules);
		return r;
	}
	*ret = rules;
	return 0;
}

static int conditions_to_json(const struct rule *rule, json_object *list)
{
	for (size_t kind = 0; kind < RULE_KIND_MAX_; kind++)
		for (size_t i = 0; i < rule->when[kind].n; i++) {
			json_object *o = json_object_new_object();

			if (json_append_take(list, o) || json_add_string(o, "kind", kinds[kind]) ||
			    json_add_string(o, "value", rule->when[kind].items[i]))
				return -ENOMEM;
		}
	return 0;
}

/* 0 is null. */
static int add_positive(json_object *o, const char *key, int64_t n)
{
	return n > 0 ? json_add_number(o, key, n) : json_add_string(o, key, NULL);
}

static int rule_to_json(const struct rule *rule, json_object *o)
{
	json_object *conditions = json_object_new_array();

	if (json_add_string(o, "name", rule->name[0] ? rule->name : NULL) ||
	    json_add_string(o, "profile", rule->profile[0] ? rule->profile : NULL) ||
	    json_add_string(o, "digest", rule->digest[0] ? rule->digest : NULL) ||
	    json_add_take(o, "conditions", conditions) || conditions_to_json(rule, conditions) ||
	    add_positive(o, "until", rule->until) || json_add_string(o, "file", rule->file) ||
	    add_positive(o, "line", rule->line) || json_add_string(o, "by", rule->by) ||
	    json_add_string(o, "override", rule->override))
		return -ENOMEM;
	return 0;
}

int rules_to_json(const struct rules *rules, json_object *list)
{
	for (size_t i = 0; i < rules->n; i++) {
		json_object *o = json_object_new_object();

		if (json_append_take(list, o) || rule_to_json(&rules->items[i], o))
			return -ENOMEM;
	}
	return 0;
}

static const char *or_none(const char *digest)
{
	return digest[0] ? digest : "none";
}

static void print_rules(FILE *f, const struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *rule = &rules->items[i];

		if (!rule->name[0])
			continue;
		fprintf(f, "rule %s %s\n", rule->name, or_none(rule->digest));
		if (rule->until > 0)
			fprintf(f, "until %lld\n", (long long)rule->until);
		for (size_t kind = 0; kind < RULE_KIND_MAX_; kind++)
			for (size_t k = 0; k < rule->when[kind].n; k++)
				fprintf(f, "when %s %s\n", kinds[kind], rule->when[kind].items[k]);
	}
}

static int print_assign(const struct config *c, const struct active *a, const struct rules *rules,
			char **ret, size_t *ret_size)
{
	FILE *f = open_memstream(ret, ret_size);

	if (!f)
		return -ENOMEM;
	fprintf(f, "cudaenv-assign 1\ngeneration %llu\nmode %s\ndefault %s\n",
		(unsigned long long)a->generation, mode_name(a->mode), or_none(a->digest));
	if (c->mismatch_fails)
		fputs("on_mismatch fail\n", f);
	print_rules(f, rules);
	print_words(f, "boundary", &c->boundaries);
	print_words(f, "supervisor", &c->supervisors);
	fputs("end\n", f);
	return fclose(f) != 0 ? -ENOMEM : 0;
}

int compile_assign(const struct config *c, const struct active *a, const struct rules *rules,
		   char **ret, size_t *ret_size)
{
	_cleanup_(assign_freep) struct assign *proof = NULL;
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	int r;

	r = print_assign(c, a, rules, &text, &size);
	if (r == 0)
		r = assign_parse(text, size, &proof, NULL);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

int compile_rule_digests(const char *text, struct words *ret)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *rule, *digest;
		char copy[DIGEST_SIZE];

		line += *line == '\n';
		rule = startswith(line, "rule ");
		/* What was derived is no profile's version. */
		digest = rule && !startswith(rule, CONFIG_OVERRIDE) ? strchr(rule, ' ') : NULL;
		if (!digest || snprintf(copy, sizeof(copy), "%.*s", DIGEST_HEX, digest + 1) < 0 ||
		    !digest_valid(copy) || words_contain(ret, copy))
			continue;
		if (words_add(ret, copy) < 0)
			return -ENOMEM;
	}
	return 0;
}
