/* SPDX-License-Identifier: MIT */
#include <config.h>

#include "common/util.h"
#include "daemon/manager/compile.h"

static void print_words(FILE *f, const char *keyword, const struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		fprintf(f, "%s %s\n", keyword, w->items[i]);
}

static void print_rule(FILE *f, const struct config_rule *r, const struct active *a)
{
	const char *digest = active_applied(a, r->profile);

	fprintf(f, "rule %s %s\n", r->name, digest ? digest : "none");
	print_words(f, "when unit", &r->unit);
	print_words(f, "when uid", &r->uid);
	print_words(f, "when gid", &r->gid);
	print_words(f, "when exe", &r->exe);
	print_words(f, "when cgroup", &r->cgroup);
}

int compile_assign(const struct config *c, const struct active *a, char **ret, size_t *ret_size)
{
	_cleanup_(assign_freep) struct assign *proof = NULL;
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int r;

	if (!f)
		return -ENOMEM;
	fprintf(f, "cudaenv-assign 1\ngeneration %llu\nmode %s\ndefault %s\n",
		(unsigned long long)a->generation, mode_name(a->mode),
		a->digest[0] ? a->digest : "none");
	for (size_t i = 0; i < c->n_rules; i++)
		print_rule(f, &c->rules[i], a);
	print_words(f, "boundary", &c->boundaries);
	print_words(f, "supervisor", &c->supervisors);
	fputs("end\n", f);
	if (fclose(f) != 0)
		return -ENOMEM;
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
