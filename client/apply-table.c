/* SPDX-License-Identifier: MIT */
/* The table of apply: every name that the snapshot or a mark speaks of, with what the environment
 * holds of it. */

#include "client/apply-internal.h"

static int compare_names(struct slice a, struct slice b)
{
	int r = memcmp(a.ptr, b.ptr, a.size < b.size ? a.size : b.size);

	return r != 0 ? r : (a.size > b.size) - (a.size < b.size);
}

/* By name; the snapshot's before a mark's, the first mark before another of that name. */
static int compare_variables(const void *pa, const void *pb)
{
	const struct variable *a = pa, *b = pb;
	int r = compare_names(a->name, b->name);

	if (r != 0)
		return r;
	if (!a->entries != !b->entries)
		return a->entries ? -1 : 1;
	return (a->name.ptr > b->name.ptr) - (a->name.ptr < b->name.ptr);
}

static size_t count_pieces(const char *s, char separator)
{
	size_t n = 1;

	for (; *s; s++)
		n += *s == separator;
	return n;
}

/* Fills the table from the snapshot and the marks; false if the marks are absent or not
 * well-formed. */
static bool fill_table(struct work *w, struct slice marks)
{
	const struct snapshot_entry *e = w->snapshot->entries, *end = e + w->snapshot->n_entries;
	struct variable *v = w->variables;
	bool well_formed = marks.ptr != NULL;
	struct slice name;
	struct mark mark;
	int r;

	while (e < end) {
		const struct snapshot_entry *first = e;

		name = slice_of(e->name);
		for (e++; e < end && streq(e->name, first->name); e++)
			;
		if (slice_begins(name, "CUDAENV_"))
			continue;
		*v++ = (struct variable){
			.name = name, .entries = first, .n_entries = (size_t)(e - first)};
	}
	if (marks.size == 0)
		marks = SLICE_NULL;
	while ((r = mark_next(&marks, &name, &mark)) != 0) {
		if (r < 0 || slice_begins(name, "CUDAENV_"))
			well_formed = false;
		else
			*v++ = (struct variable){.name = name, .mark = mark};
	}
	w->n_variables = (size_t)(v - w->variables);
	return well_formed;
}

/* Sorts, and joins what speaks of one name. */
static void join_table(struct work *w)
{
	size_t n = 0;

	if (w->n_variables > 0)
		qsort(w->variables, w->n_variables, sizeof *w->variables, compare_variables);
	for (size_t i = 0; i < w->n_variables; i++) {
		struct variable *v = &w->variables[i], *last = n > 0 ? &w->variables[n - 1] : NULL;

		if (!last || compare_names(last->name, v->name) != 0)
			w->variables[n++] = *v;
		else if (!last->mark.there)
			last->mark = v->mark;
	}
	w->n_variables = n;
}

struct variable *work_find(struct work *w, const char *string)
{
	const char *eq = strchr(string, '=');
	struct slice name = {string, eq ? (size_t)(eq - string) : 0};
	size_t low = 0, high = w->n_variables;

	if (name.size == 0)
		return NULL;
	for (size_t i = 0; i < N_OWN; i++)
		if (slice_same(w->own[i].name, name))
			return &w->own[i];
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int r = compare_names(w->variables[middle].name, name);

		if (r == 0)
			return &w->variables[middle];
		if (r < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* Notes what the environment holds; with an empty table only of our own names. */
static void scan(struct work *w)
{
	for (size_t i = 0; i < w->n_env; i++) {
		struct variable *v = work_find(w, w->env[i]);

		if (v && !v->old.ptr)
			v->old = v->cur = v->now = slice_of(w->env[i] + v->name.size + 1);
	}
}

/* Enough for every string that can be made: a list, or a value and its copy; name, mark,
 * separators. */
static size_t arena_bound(const struct work *w)
{
	size_t n = 1024 + 2 * strlen(w->snapshot->profile);

	for (size_t i = 0; i < w->n_variables; i++) {
		const struct variable *v = &w->variables[i];

		n += 4 * (v->name.size + 2) + 2 * MARK_TEXT_MAX + 3 * (v->old.size + 2);
		for (size_t k = 0; k < v->n_entries; k++)
			n += 2 * (strlen(v->entries[k].value) + 2);
	}
	for (size_t i = 0; i < N_OWN; i++)
		n += 2 * (w->own[i].old.size + 2);
	return n;
}

void work_done(struct work *w)
{
	free(w->variables);
	free(w->arena);
}

int work_init(struct work *w)
{
	static const char *const names[N_OWN] = {
		[OWN_SNAPSHOT] = "CUDAENV_SNAPSHOT",
		[OWN_PROFILE] = "CUDAENV_PROFILE",
		[OWN_APPLIED] = "CUDAENV_APPLIED",
	};
	struct slice marks;
	size_t n = w->snapshot->n_entries + 1;

	while (w->env && w->env[w->n_env])
		w->n_env++;
	for (size_t i = 0; i < N_OWN; i++)
		w->own[i].name = slice_of(names[i]);
	scan(w);
	for (size_t i = 0; i < N_OWN; i++)
		w->own[i].state = w->own[i].old.ptr ? CUDAENV_ALREADY : CUDAENV_KEPT;
	marks = w->own[OWN_APPLIED].old;
	if (marks.ptr)
		n += count_pieces(marks.ptr, ',');
	w->variables = calloc(n, sizeof *w->variables);
	if (!w->variables)
		return -ENOMEM;
	w->keep = fill_table(w, marks) &&
		  slice_same(w->own[OWN_SNAPSHOT].old, slice_of(w->snapshot->digest));
	join_table(w);
	scan(w);
	w->size = arena_bound(w);
	w->arena = malloc(w->size);
	return w->arena ? 0 : -ENOMEM;
}
