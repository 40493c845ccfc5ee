/* SPDX-License-Identifier: MIT */
/* The rules of client/apply.h, on slices. */

#include "client/apply-internal.h"

static bool is_late(const struct work *w, const struct variable *v)
{
	return !(w->flags & APPLY_EXEC) && snapshot_name_late(v->name.ptr, v->name.size);
}

static bool toolkit_here(struct work *w)
{
	const char *root = w->snapshot->toolkit_root;

	if (w->toolkit_here < 0)
		w->toolkit_here = !root || access(root, F_OK) == 0;
	return w->toolkit_here;
}

static bool in_toolkit(const struct variable *v)
{
	return v->entries->rule == SNAPSHOT_TOGETHER && streq(v->entries->group, "toolkit");
}

static bool is_list(const struct variable *v)
{
	return v->entries->rule == SNAPSHOT_PREPEND || v->entries->rule == SNAPSHOT_APPEND ||
	       (in_toolkit(v) && streq(v->entries->name, "PATH"));
}

/* What the snapshot wants is there already. */
static bool in_force(const struct variable *v)
{
	if (v->entries->rule == SNAPSHOT_UNSET)
		return !v->cur.ptr;
	if (!is_list(v))
		return slice_same(v->cur, slice_of(v->entries->value));
	for (size_t i = 0; i < v->n_entries; i++)
		if (!list_has_all(v->cur, slice_of(v->entries[i].value)))
			return false;
	return true;
}

static void leave(struct variable *v, enum cudaenv_state otherwise)
{
	v->now = v->cur;
	v->state = in_force(v) ? CUDAENV_ALREADY : otherwise;
}

static void set_value(struct variable *v)
{
	v->now = slice_of(v->entries->value);
	v->ours = true;
	v->mark = (struct mark){.there = true};
}

/* Adds to the list under way at START the elements of MORE that neither it nor OTHER holds. */
static unsigned add_elements(struct work *w, char *start, struct slice more, struct slice other)
{
	struct slice e;
	unsigned n = 0;

	while (list_next(&more, &e) && n < MARK_COUNT_MAX) {
		struct slice sofar = {start, (size_t)(w->arena + w->used - start)};

		if (e.size == 0 || list_has(sofar, e) || list_has(other, e))
			continue;
		if (sofar.size > 0)
			(void)arena_put(w, ":", 1);
		(void)arena_put(w, e.ptr, e.size);
		n++;
	}
	return n;
}

/* Toolkit PATH, prepend and append of one name at once; WITHOUT the first, which only counts as its
 * group does. */
static void set_list(struct work *w, struct variable *v, bool without)
{
	size_t before = w->used, size;
	char *start = w->arena + w->used;
	struct mark mark = {.there = true, .list = true};

	for (size_t i = without; i < v->n_entries; i++)
		if (v->entries[i].rule != SNAPSHOT_APPEND)
			mark.before +=
				add_elements(w, start, slice_of(v->entries[i].value), v->cur);
	if (v->cur.size > 0) {
		if (mark.before > 0)
			(void)arena_put(w, ":", 1);
		(void)arena_put(w, v->cur.ptr, v->cur.size);
	}
	for (size_t i = 0; i < v->n_entries; i++)
		if (v->entries[i].rule == SNAPSHOT_APPEND)
			mark.after +=
				add_elements(w, start, slice_of(v->entries[i].value), SLICE_NULL);
	size = w->used - before;
	if (mark.before + mark.after == 0 || v->name.size + 1 + size > SNAPSHOT_STRING_MAX) {
		w->used = before;
		leave(v, CUDAENV_KEPT);
		return;
	}
	v->now = (struct slice){start, size};
	v->ours = true;
	v->mark = mark;
}

static void set_single(struct work *w, struct variable *v)
{
	enum snapshot_rule rule = v->entries->rule;

	if (is_late(w, v))
		leave(v, CUDAENV_TOO_LATE);
	else if (rule == SNAPSHOT_UNSET) {
		v->now = SLICE_NULL;
		v->state = v->old.ptr ? CUDAENV_REMOVED : CUDAENV_ALREADY;
	} else if (is_list(v))
		set_list(w, v, false);
	else if (v->cur.ptr && (rule == SNAPSHOT_DEFAULT || in_force(v)))
		leave(v, CUDAENV_KEPT);
	else
		set_value(v);
}

/* What stands in case keep. */
static void report_standing(struct work *w, struct variable *v)
{
	enum cudaenv_state otherwise = CUDAENV_KEPT;

	if (!v->mark.there && !in_force(v)) {
		if (is_late(w, v))
			otherwise = CUDAENV_TOO_LATE;
		else if (in_toolkit(v) && !toolkit_here(w))
			otherwise = CUDAENV_ABSENT_HERE;
	}
	leave(v, otherwise);
}

/* The N members of one group: all or none. */
static void set_group(struct work *w, struct variable **members, size_t n)
{
	bool toolkit = in_toolkit(members[0]), force = toolkit && w->snapshot->toolkit_force;
	bool late = false, conflict = false, stands = true;
	enum cudaenv_state none = 0;

	for (size_t i = 0; i < n; i++)
		stands = stands && members[i]->stands;
	for (size_t i = 0; i < n; i++) {
		struct variable *v = members[i];

		/* With one that the hook had to leave come those that waited for it. */
		v->stands = stands || (v->stands && v->mark.there);
		if (is_list(v) || in_force(v))
			continue;
		late = late || is_late(w, v);
		/* One that a program deleted is a conflict, too. */
		conflict = conflict || v->stands || (v->cur.ptr && !force);
	}
	if (toolkit && !stands && !toolkit_here(w))
		none = CUDAENV_ABSENT_HERE;
	else if (conflict)
		none = CUDAENV_KEPT;
	else if (late)
		none = CUDAENV_TOO_LATE;
	for (size_t i = 0; i < n; i++) {
		struct variable *v = members[i];

		if (stands)
			report_standing(w, v);
		else if (is_list(v) && !v->stands && (v->n_entries > 1 || !none))
			set_list(w, v, none || w->uid == 0);
		else if (none || v->stands || is_list(v) || in_force(v))
			leave(v, none ? none : CUDAENV_KEPT);
		else
			set_value(v);
	}
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct variable *a = *(struct variable *const *)pa;
	const struct variable *b = *(struct variable *const *)pb;
	int r = strcmp(a->entries->group, b->entries->group);

	return r != 0 ? r : (a > b) - (a < b);
}

static int set_groups(struct work *w)
{
	_cleanup_(freep) struct variable **members = NULL;
	size_t n = 0;

	members = calloc(w->n_variables + 1, sizeof *members);
	if (!members)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_variables; i++) {
		struct variable *v = &w->variables[i];

		if (v->entries && v->entries->rule == SNAPSHOT_TOGETHER)
			members[n++] = v;
	}
	if (n > 1)
		qsort(members, n, sizeof *members, compare_groups);
	for (size_t i = 0, k; i < n; i += k) {
		for (k = 1;
		     i + k < n && streq(members[i]->entries->group, members[i + k]->entries->group);
		     k++)
			;
		set_group(w, members + i, k);
	}
	return 0;
}

/* A marked variable that still has our value is as it was before us. A name that is too late keeps
 * value and mark, for an exec below to take it back. */
static void take_back(const struct work *w, struct variable *v)
{
	bool same =
		v->mark.there && v->old.ptr && digest_mark(v->old.ptr, v->old.size) == v->mark.hash;

	if (same && is_late(w, v))
		return;
	if (same)
		v->cur =
			v->mark.list ? list_cut(v->old, v->mark.before, v->mark.after) : SLICE_NULL;
	v->now = v->cur;
	v->mark = (struct mark){0};
}

void rules_settle(struct variable *v)
{
	if (v->ours) {
		v->mark.hash = digest_mark(v->now.ptr, v->now.size);
		v->state = !v->old.ptr                  ? CUDAENV_SET
			   : slice_same(v->old, v->now) ? CUDAENV_ALREADY
							: CUDAENV_REPLACED;
	} else if (!slice_same(v->old, v->now)) {
		v->state = v->now.ptr ? CUDAENV_REPLACED : CUDAENV_REMOVED;
	} else if (!v->entries) {
		v->state = CUDAENV_KEPT;
	}
}

int rules_decide(struct work *w)
{
	int r;

	for (size_t i = 0; i < w->n_variables; i++) {
		struct variable *v = &w->variables[i];

		/* In case keep an exec sets what the hook could not. */
		v->stands = w->keep && !(w->flags & APPLY_EXEC && !v->mark.there &&
					 snapshot_name_late(v->name.ptr, v->name.size));
		if (!w->keep)
			take_back(w, v);
		if (v->entries && v->entries->rule != SNAPSHOT_TOGETHER) {
			if (v->stands)
				report_standing(w, v);
			else
				set_single(w, v);
		}
	}
	r = set_groups(w);
	for (size_t i = 0; i < w->n_variables; i++)
		rules_settle(&w->variables[i]);
	return r;
}
