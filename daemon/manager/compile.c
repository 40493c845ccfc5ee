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
	free(r->file);
	free(r->by);
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
		strcpy(rule->digest, digest);
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
	strcpy(rule->digest, a->digest);
	return a->chosen || !c->profile_file ? 0
					     : put_place(rule, c->profile_file, c->profile_line);
}

int compile_rules(const struct config *c, const struct active *a, struct rules *ret)
{
	struct rules rules = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n_rules; i++)
		r = put_settings(&c->rules[i], a, &rules);
	if (r == 0)
		r = put_default(c, a, &rules);
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
	    add_positive(o, "line", rule->line) || json_add_string(o, "by", rule->by))
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
	print_rules(f, rules);
	print_words(f, "boundary", &c->boundaries);
	print_words(f, "supervisor", &c->supervisors);
	fputs("end\n", f);
	return fclose(f) != 0 ? -ENOMEM : 0;
}

int compile_assign(const struct config *c, const struct active *a, char **ret, size_t *ret_size)
{
	_cleanup_(assign_freep) struct assign *proof = NULL;
	_cleanup_(freep) char *text = NULL;
	struct rules rules = {0};
	size_t size = 0;
	int r;

	r = compile_rules(c, a, &rules);
	if (r == 0)
		r = print_assign(c, a, &rules, &text, &size);
	rules_done(&rules);
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
		digest = rule ? strchr(rule, ' ') : NULL;
		if (!digest || snprintf(copy, sizeof(copy), "%.*s", DIGEST_HEX, digest + 1) < 0 ||
		    !digest_valid(copy) || words_contain(ret, copy))
			continue;
		if (words_add(ret, copy) < 0)
			return -ENOMEM;
	}
	return 0;
}
