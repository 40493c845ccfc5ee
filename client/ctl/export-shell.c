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

/* The next element at *P of a list: its size, 0 at the end. Empty ones are passed over. */
static size_t next_element(const char **p)
{
	*p += strspn(*p, ":");
	return strcspn(*p, ":");
}

/* Did the list have that element before? */
static bool seen_before(const char *list, const char *element, size_t n)
{
	const char *p = list;
	size_t size;

	for (; (size = next_element(&p)) > 0 && p < element; p += size)
		if (size == n && memcmp(p, element, n) == 0)
			return true;
	return false;
}

static void put_reversed(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	size_t size = strlen(e->value);

	while (size > 0) {
		size_t n = 0;

		while (n < size && e->value[size - n - 1] != ':')
			n++;
		size -= n;
		if (n > 0 && !seen_before(e->value, e->value + size, n))
			sh->add(f, sh, e->name, e->value + size, n, true);
		size -= size > 0;
	}
}

/* The elements of a list that is prepended are put one by one, so the last comes first. */
static void put_list(FILE *f, const struct shell *sh, const struct snapshot_entry *e)
{
	const char *p = e->value;
	size_t n;

	if (e->rule != SNAPSHOT_APPEND) {
		put_reversed(f, sh, e);
		return;
	}
	for (; (n = next_element(&p)) > 0; p += n)
		if (!seen_before(e->value, p, n))
			sh->add(f, sh, e->name, p, n, false);
}

/* The group that begins with the entry FIRST. */
static void put_group(FILE *f, const struct shell *sh, const struct snapshot *s, size_t first)
{
	bool toolkit = export_in_toolkit(&s->entries[first]), any = false;

	fputs(sh->begin, f);
	if (toolkit && s->toolkit_root) {
		sh->root(f, sh, s->toolkit_root);
		any = true;
	}
	for (size_t i = first; i < s->n_entries && !(toolkit && s->toolkit_force); i++) {
		if (!export_same_group(&s->entries[first], &s->entries[i]) ||
		    export_is_list(&s->entries[i]))
			continue;
		fputs(any ? sh->and : "", f);
		sh->fits(f, sh, &s->entries[i]);
		any = true;
	}
	fprintf(f, "%s%s", any ? "" : sh->always, sh->then);
	for (size_t i = first; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];

		if (!export_same_group(&s->entries[first], e))
			continue;
		if (!export_is_list(e)) {
			sh->set(f, sh, e);
			continue;
		}
		fputs(sh->not_root, f);
		put_list(f, sh, e);
		fputs(sh->end_not_root, f);
	}
	fputs(sh->end, f);
}

/* Is there no entry of its group before? */
static bool first_of_group(const struct snapshot *s, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (export_same_group(&s->entries[j], &s->entries[i]))
			return false;
	return true;
}

static void put_rule(FILE *f, const struct shell *sh, const struct snapshot *s,
		     enum snapshot_rule rule)
{
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];

		if (e->rule != rule)
			continue;
		if (rule == SNAPSHOT_DEFAULT)
			sh->keep(f, sh, e);
		else if (rule == SNAPSHOT_FORCE)
			sh->set(f, sh, e);
		else if (rule == SNAPSHOT_UNSET)
			sh->unset(f, e);
		else if (rule != SNAPSHOT_TOGETHER)
			put_list(f, sh, e);
		else if (first_of_group(s, i))
			put_group(f, sh, s, i);
	}
}

static int put_all(FILE *f, const struct shell *sh, const struct snapshot *s)
{
	/* The toolkit's elements go before prepended ones, and appended ones ask for both. */
	static const enum snapshot_rule order[] = {SNAPSHOT_DEFAULT,  SNAPSHOT_FORCE,
						   SNAPSHOT_UNSET,    SNAPSHOT_PREPEND,
						   SNAPSHOT_TOGETHER, SNAPSHOT_APPEND};

	fprintf(f, "# cudaenv profile %s, snapshot %s\n", s->profile, s->digest);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		put_rule(f, sh, s, order[i]);
	return 0;
}

int export_sh(FILE *f, const struct export *x)
{
	return put_all(f, &posix, x->snapshot);
}

int export_fish(FILE *f, const struct export *x)
{
	return put_all(f, &fish, x->snapshot);
}
