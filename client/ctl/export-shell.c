/* SPDX-License-Identifier: MIT */
/*
 * The rules of client/apply.h in the words of a shell: default only where the variable is not set
 * (an empty value is one), together all or none, lists without an element twice, the toolkit only
 * where its root exists and in PATH not for root. What is written leaves nothing else behind: no
 * function, no variable. It works under `set -eu`, in POSIX shells and zsh, and in fish.
 *
 * Values stand in single quotes, where a shell reads bytes as they are; they hold no newline.
 */
#include "config.h"

#include "client/ctl/export.h"
#include "common/util.h"

/* What differs between the shells; the rest is order. */
struct shell {
	const char *quote, *backslash; /* these two characters inside single quotes */
	void (*keep)(FILE *f, const struct shell *sh, const struct snapshot_entry *e);
	void (*set)(FILE *f, const struct shell *sh, const struct snapshot_entry *e);
	void (*unset)(FILE *f, const struct snapshot_entry *e);
	/* One element, N bytes at ELEMENT. */
	void (*add)(FILE *f, const struct shell *sh, const char *name, const char *element,
		    size_t n, bool before);
	/* Conditions of a group: the toolkit's root, and that a member has no other value. */
	void (*root)(FILE *f, const struct shell *sh, const char *root);
	void (*fits)(FILE *f, const struct shell *sh, const struct snapshot_entry *e);
	const char *begin, *and, *then, *always, *end;
	const char *not_root, *end_not_root;
};

static void put_quoted(FILE *f, const struct shell *sh, const char *s, size_t n)
{
	fputc('\'', f);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\'')
			fputs(sh->quote, f);
		else if (s[i] == '\\')
			fputs(sh->backslash, f);
		else
			fputc(s[i], f);
	}
	fputc('\'', f);
}

static void put_value(FILE *f, const struct shell *sh, const char *s)
{
	put_quoted(f, sh, s, strlen(s));
}

/* --- POSIX shells */

static void sh_set(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "export %s=", e->name);
	put_value(f, sh, e->value);
	fputc('\n', f);
}

static void sh_keep(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "[ -n \"${%s+x}\" ] || ", e->name);
	sh_set(f, sh, e);
}

static void sh_unset(FILE *f, const struct snapshot_entry *e)
{
	fprintf(f, "unset -v %s\n", e->name);
}

static void sh_add(FILE *f, const struct shell *sh, const char *name, const char *element, size_t n,
		   bool before)
{
	fprintf(f, "case \":${%s-}:\" in *:", name);
	put_quoted(f, sh, element, n);
	fprintf(f, ":*) ;; *) export %s=", name);
	if (!before)
		fprintf(f, "\"${%s:+${%s}:}\"", name, name);
	put_quoted(f, sh, element, n);
	if (before)
		fprintf(f, "\"${%s:+:${%s}}\"", name, name);
	fputs(" ;; esac\n", f);
}

static void sh_root(FILE *f, const struct shell *sh, const char *root)
{
	fputs("[ -e ", f);
	put_value(f, sh, root);
	fputs(" ]", f);
}

static void sh_fits(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "{ [ -z \"${%s+x}\" ] || [ \"x${%s}\" = x", e->name, e->name);
	put_value(f, sh, e->value);
	fputs(" ]; }", f);
}

static const struct shell posix = {
	.quote = "'\\''",
	.backslash = "\\",
	.keep = sh_keep,
	.set = sh_set,
	.unset = sh_unset,
	.add = sh_add,
	.root = sh_root,
	.fits = sh_fits,
	.begin = "if ",
	.and = " &&\n   ",
	.then = "; then\n",
	.always = ":",
	.end = "fi\n",
	.not_root = "if [ \"$(id -u)\" -ne 0 ]; then\n",
	.end_not_root = "fi\n",
};

/* --- fish */

static void fish_set(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "set -gx %s ", e->name);
	put_value(f, sh, e->value);
	fputc('\n', f);
}

static void fish_keep(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "set -q %s; or ", e->name);
	fish_set(f, sh, e);
}

static void fish_unset(FILE *f, const struct snapshot_entry *e)
{
	fprintf(f, "set -e -g %s\n", e->name);
}

/* "$X" of a variable whose name ends in PATH is joined with colons, and what is assigned to it is
 * split at them again. */
static void fish_add(FILE *f, const struct shell *sh, const char *name, const char *element,
		     size_t n, bool before)
{
	fputs("if not contains -- ", f);
	put_quoted(f, sh, element, n);
	fprintf(f, " (string split : -- \"$%s\")\n    if test -n \"$%s\"\n        set -gx %s ",
		name, name, name);
	if (!before)
		fprintf(f, "\"$%s\":", name);
	put_quoted(f, sh, element, n);
	if (before)
		fprintf(f, ":\"$%s\"", name);
	fprintf(f, "\n    else\n        set -gx %s ", name);
	put_quoted(f, sh, element, n);
	fputs("\n    end\nend\n", f);
}

static void fish_root(FILE *f, const struct shell *sh, const char *root)
{
	fputs("test -e ", f);
	put_value(f, sh, root);
}

static void fish_fits(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	fprintf(f, "begin; not set -q %s; or test \"x$%s\" = x", e->name, e->name);
	put_value(f, sh, e->value);
	fputs("; end", f);
}

static const struct shell fish = {
	.quote = "\\'",
	.backslash = "\\\\",
	.keep = fish_keep,
	.set = fish_set,
	.unset = fish_unset,
	.add = fish_add,
	.root = fish_root,
	.fits = fish_fits,
	.begin = "if ",
	.and = "\n   and ",
	.then = "\n",
	.always = "true",
	.end = "end\n",
	.not_root = "if test (id -u) -ne 0\n",
	.end_not_root = "end\n",
};

/* --- both */

/* An element of a list; n is 0 where it stood there before. */
struct element {
	const char *start;
	size_t n;
};

static int compare_elements(const void *pa, const void *pb)
{
	const struct element *a = *(struct element *const *)pa, *b = *(struct element *const *)pb;
	int r;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	r = memcmp(a->start, b->start, a->n);
	return r != 0 ? r : (a > b) - (a < b);
}

/* Elements that stood there before, in a list of thousands. */
static int drop_repeated(struct element *elements, size_t n)
{
	_cleanup_(freep) struct element **sorted = calloc(n + 1, sizeof *sorted);
	size_t kept = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &elements[i];
	if (n > 1)
		qsort(sorted, n, sizeof *sorted, compare_elements);
	for (size_t i = 1; i < n; i++) {
		if (sorted[kept]->n == sorted[i]->n &&
		    memcmp(sorted[kept]->start, sorted[i]->start, sorted[i]->n) == 0)
			sorted[i]->n = 0;
		else
			kept = i;
	}
	return 0;
}

/* Elements are put one by one, so of those that go before the last comes first. */
static int put_list(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	_cleanup_(freep) struct element *elements = calloc(strlen(e->value) + 1, sizeof *elements);
	bool before = e->rule != SNAPSHOT_APPEND;
	size_t n = 0;

	if (!elements)
		return -ENOMEM;
	for (const char *p = e->value; *(p += strspn(p, ":")); p += elements[n++].n)
		elements[n] = (struct element){p, strcspn(p, ":")};
	if (drop_repeated(elements, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct element *element = &elements[before ? n - 1 - i : i];

		if (element->n > 0)
			sh->add(f, sh, e->name, element->start, element->n, before);
	}
	return 0;
}

/* The conditions of the N MEMBERS of a group. */
static void put_conditions(FILE *f, const struct shell *sh, const struct snapshot *s,
			   const struct snapshot_entry *const *members, size_t n)
{
	bool toolkit = export_in_toolkit(members[0]), any = false;

	fputs(sh->begin, f);
	if (toolkit && s->toolkit_root) {
		sh->root(f, sh, s->toolkit_root);
		any = true;
	}
	for (size_t i = 0; i < n && !(toolkit && s->toolkit_force); i++) {
		if (export_is_list(members[i]))
			continue;
		fputs(any ? sh->and : "", f);
		sh->fits(f, sh, members[i]);
		any = true;
	}
	fprintf(f, "%s%s", any ? "" : sh->always, sh->then);
}

static int put_group(FILE *f, const struct shell *sh, const struct snapshot *s,
		     const struct snapshot_entry *const *members, size_t n)
{
	int r = 0;

	put_conditions(f, sh, s, members, n);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!export_is_list(members[i])) {
			sh->set(f, sh, members[i]);
			continue;
		}
		fputs(sh->not_root, f);
		r = put_list(f, sh, members[i]);
		fputs(sh->end_not_root, f);
	}
	fputs(sh->end, f);
	return r;
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct snapshot_entry *a = *(const struct snapshot_entry *const *)pa;
	const struct snapshot_entry *b = *(const struct snapshot_entry *const *)pb;
	int r = strcmp(a->group, b->group);

	return r != 0 ? r : (a > b) - (a < b);
}

static int put_groups(FILE *f, const struct shell *sh, const struct snapshot *s)
{
	_cleanup_(freep) const struct snapshot_entry **members =
		calloc(s->n_entries + 1, sizeof *members);
	size_t n = 0;
	int r = 0;

	if (!members)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].rule == SNAPSHOT_TOGETHER)
			members[n++] = &s->entries[i];
	if (n > 1)
		qsort(members, n, sizeof *members, compare_groups);
	for (size_t i = 0, k; i < n && r == 0; i += k) {
		for (k = 1; i + k < n && export_same_group(members[i], members[i + k]); k++)
			;
		r = put_group(f, sh, s, members + i, k);
	}
	return r;
}

static int put_rule(FILE *f, const struct shell *sh, const struct snapshot *s,
		    enum snapshot_rule rule)
{
	int r = 0;

	if (rule == SNAPSHOT_TOGETHER)
		return put_groups(f, sh, s);
	for (size_t i = 0; i < s->n_entries && r == 0; i++) {
		const struct snapshot_entry *e = &s->entries[i];

		if (e->rule != rule)
			continue;
		if (rule == SNAPSHOT_DEFAULT)
			sh->keep(f, sh, e);
		else if (rule == SNAPSHOT_FORCE)
			sh->set(f, sh, e);
		else if (rule == SNAPSHOT_UNSET)
			sh->unset(f, e);
		else
			r = put_list(f, sh, e);
	}
	return r;
}

static int put_all(FILE *f, const struct shell *sh, const struct snapshot *s)
{
	/* The toolkit's elements go before prepended ones, and appended ones ask for both. */
	static const enum snapshot_rule order[] = {SNAPSHOT_DEFAULT,  SNAPSHOT_FORCE,
						   SNAPSHOT_UNSET,    SNAPSHOT_PREPEND,
						   SNAPSHOT_TOGETHER, SNAPSHOT_APPEND};
	int r = 0;

	fprintf(f, "# cudaenv profile %s, snapshot %s\n", s->profile, s->digest);
	for (size_t i = 0; i < ARRAY_SIZE(order) && r == 0; i++)
		r = put_rule(f, sh, s, order[i]);
	return r;
}

int export_sh(FILE *f, const struct export *x)
{
	return put_all(f, &posix, x->snapshot);
}

int export_fish(FILE *f, const struct export *x)
{
	return put_all(f, &fish, x->snapshot);
}
