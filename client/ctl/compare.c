/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/compare.h"

#include "client/ctl/export.h"
#include "common/util.h"

const char *change_name(enum change change)
{
	static const char *const names[] = {
		[CHANGE_ADDED] = "added",
		[CHANGE_REMOVED] = "removed",
		[CHANGE_VALUE] = "changed",
		[CHANGE_RULE] = "rule",
	};

	return names[change];
}

/* What a name has at most one of each. */
static int part(const struct snapshot_entry *e)
{
	if (e->rule == SNAPSHOT_PREPEND)
		return 2;
	if (e->rule == SNAPSHOT_APPEND)
		return 3;
	return export_is_list(e);
}

static int compare_place(const struct snapshot_entry *a, const struct snapshot_entry *b)
{
	int r;

	if (!a || !b)
		return a ? -1 : 1;
	r = strcmp(a->name, b->name);
	return r != 0 ? r : part(a) - part(b);
}

static bool same_rule(const struct snapshot *from, const struct snapshot_entry *a,
		      const struct snapshot *to, const struct snapshot_entry *b)
{
	if (a->rule != b->rule)
		return false;
	if (a->rule != SNAPSHOT_TOGETHER)
		return true;
	return streq(a->group, b->group) &&
	       (!export_in_toolkit(a) || from->toolkit_force == to->toolkit_force);
}

/* A line of the rank digest; NULL: none. */
static const char *rank_value(const struct snapshot_entry *e)
{
	return e && e->rule != SNAPSHOT_UNSET ? e->value : NULL;
}

static bool ranks_differ(const struct facts *facts, const struct difference *d)
{
	const char *from = rank_value(d->from), *to = rank_value(d->to);

	if (!facts || !facts_must_match(facts, (d->from ? d->from : d->to)->name))
		return false;
	return from && to ? !streq(from, to) : from || to;
}

static bool same_value(const struct snapshot_entry *a, const struct snapshot_entry *b)
{
	return streq(a->value, b->value) &&
	       (a->rule == SNAPSHOT_UNSET) == (b->rule == SNAPSHOT_UNSET);
}

static void add(struct comparison *c, const struct facts *facts, struct difference d)
{
	d.must_match = ranks_differ(facts, &d);
	c->n_must_match += d.must_match;
	c->items[c->n++] = d;
}

int compare(const struct snapshot *from, const struct snapshot *to, const struct facts *facts,
	    struct comparison *ret)
{
	struct comparison c = {0};
	size_t i = 0, j = 0;

	c.items = calloc(from->n_entries + to->n_entries + 1, sizeof *c.items);
	if (!c.items)
		return -ENOMEM;
	while (i < from->n_entries || j < to->n_entries) {
		const struct snapshot_entry *a = i < from->n_entries ? &from->entries[i] : NULL;
		const struct snapshot_entry *b = j < to->n_entries ? &to->entries[j] : NULL;
		int order = compare_place(a, b);
		struct difference d = {
			.from = order <= 0 ? a : NULL,
			.to = order >= 0 ? b : NULL,
			.change = order < 0 ? CHANGE_REMOVED : CHANGE_ADDED,
		};

		i += d.from != NULL;
		j += d.to != NULL;
		if (d.from && d.to)
			d.change = same_value(a, b) ? CHANGE_RULE : CHANGE_VALUE;
		if (d.change != CHANGE_RULE || !same_rule(from, a, to, b))
			add(&c, facts, d);
	}
	if (from->toolkit_root && to->toolkit_root)
		c.roots_differ = !streq(from->toolkit_root, to->toolkit_root);
	else
		c.roots_differ = from->toolkit_root || to->toolkit_root;
	*ret = c;
	return 0;
}

void comparison_done(struct comparison *c)
{
	free(c->items);
	*c = (struct comparison){0};
}
