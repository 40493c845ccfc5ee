/* SPDX-License-Identifier: MIT */
/*
 * diff: two profiles against each other, or what `use` of one would change. Files are read as check
 * reads them, snapshots as exec does: no daemon is asked.
 */
#include "config.h"

#include "client/ctl/compare.h"
#include "client/ctl/export.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/pick.h"
#include "client/ctl/table.h"
#include "common/profile-text.h"
#include "common/profile.h"
#include "common/util.h"

/* One side of the comparison. */
struct side {
	struct snapshot *snapshot;
	const char *source; /* "file", "in force", "published" */
	char rank_digest[DIGEST_SIZE];
};

struct diff {
	struct ctl *ctl;
	struct published published;
	bool have_published;
	struct facts *facts; /* NULL: without must-match variables */
	struct profile_set set;
	struct side from, to;
};

static void diff_done(struct diff *d)
{
	published_done(&d->published);
	profile_set_done(&d->set);
	d->facts = d->facts ? facts_free(d->facts) : NULL;
	d->from.snapshot = d->from.snapshot ? snapshot_free(d->from.snapshot) : NULL;
	d->to.snapshot = d->to.snapshot ? snapshot_free(d->to.snapshot) : NULL;
}

static int side_set(struct diff *d, struct side *side, const char *source)
{
	side->source = source;
	if (d->facts && profile_rank_digest(side->snapshot, d->facts, side->rank_digest) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	return CTL_GOOD;
}

static int side_published(struct diff *d, struct side *side, const char *digest, const char *source)
{
	int r = d->have_published ? CTL_GOOD : ctl_published(d->ctl, &d->published);

	if (r != CTL_GOOD)
		return r;
	d->have_published = true;
	r = ctl_pick_look(&d->published, digest, &side->snapshot);
	return r == CTL_GOOD ? side_set(d, side, source) : r;
}

static int profile_has_errors(const struct diff *d, const struct profile *p, const char *argument)
{
	_cleanup_(freep) char *fault = NULL;

	for (size_t i = 0; i < p->findings.n && !fault; i++)
		if (p->findings.items[i].severity == FINDING_ERROR)
			(void)finding_format(&p->findings.items[i], p->path, &fault);
	return ctl_error(CTL_BAD_NEWS,
			 "profile %s has errors, the first is %s; cudaenvctl%s check %s shows all",
			 argument, fault ? fault : "unknown", ctl_user_option(d->ctl), argument);
}

static int side_file(struct diff *d, struct side *side, const struct profile *p,
		     const char *argument)
{
	if (!p->valid)
		return profile_has_errors(d, p, argument);
	if (snapshot_parse(p->snapshot_text, p->snapshot_size, &side->snapshot) < 0)
		return ctl_error(CTL_FAILED, "cannot read profile %s", argument);
	return side_set(d, side, "file");
}

static int side_path(struct diff *d, struct side *side, const char *path)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	const char *const *dirs = (const char *const *)d->ctl->paths.profiles;
	int r = profile_load_file(path, dirs, d->facts, &p);

	if (r < 0)
		return ctl_error(r == -ENOENT ? CTL_BAD_NEWS : CTL_FAILED, "cannot read %s: %s",
				 path, strerror(-r));
	return side_file(d, side, p, path);
}

/* A digest, a file, a profile; of a profile whose file is gone the version that is published. */
static int side_find(struct diff *d, struct side *side, const char *argument)
{
	const struct profile *p;
	char digest[DIGEST_SIZE];

	if (digest_valid(argument))
		return side_published(d, side, argument, "published");
	if (strchr(argument, '/'))
		return side_path(d, side, argument);
	p = profile_set_find(&d->set, argument);
	if (p)
		return side_file(d, side, p, argument);
	if (d->have_published && published_digest(&d->published, argument, digest) == 0)
		return side_published(d, side, digest, "published");
	return ctl_no_profile(d->ctl, argument);
}

/* Is PROFILE in force, in another version than that of its file? *RET is that version. */
static bool find_applied(const struct diff *d, const char *profile, char ret[DIGEST_SIZE])
{
	struct json_object *edited = json_array(d->published.status, "edited");

	if (published_digest(&d->published, profile, ret) < 0)
		return false;
	if (streq(ret, published_in_force(&d->published)))
		return true;
	for (size_t i = 0; edited && i < json_object_array_length(edited); i++)
		if (streq(json_object_get_string(json_object_array_get_idx(edited, i)), profile))
			return true;
	return false;
}

/* Against what one profile is compared: its own version in force where there is one, else what is
 * in force instead of it. */
static int side_in_force(struct diff *d, const char *argument)
{
	char digest[DIGEST_SIZE];
	int r = CTL_GOOD;

	if (!d->have_published || !d->published.assign) {
		published_done(&d->published);
		d->have_published = false;
		r = ctl_published_assign(d->ctl, &d->published);
	}
	if (r != CTL_GOOD)
		return r;
	d->have_published = true;
	if (!find_applied(d, argument, digest))
		memcpy(digest, published_in_force(&d->published),
		       strlen(published_in_force(&d->published)) + 1);
	if (!digest[0])
		return ctl_error(CTL_BAD_NEWS,
				 "no profile is in use to compare %s with; name another: diff %s "
				 "PROFILE",
				 argument, argument);
	return side_published(d, &d->from, digest, "in force");
}

static struct json_object *entry_json(const struct side *side, const struct snapshot_entry *e)
{
	struct json_object *o;

	if (!e)
		return NULL;
	o = json_object_new_object();
	json_object_object_add(o, "rule", json_text(snapshot_rule_name(e->rule)));
	json_object_object_add(o, "group", json_text(e->group));
	json_object_object_add(
		o, "force",
		json_object_new_boolean(e->rule == SNAPSHOT_FORCE ||
					(export_in_toolkit(e) && side->snapshot->toolkit_force)));
	json_object_object_add(o, "value", json_text(e->rule == SNAPSHOT_UNSET ? NULL : e->value));
	return o;
}

static struct json_object *side_json(const struct side *side)
{
	struct json_object *o = json_object_new_object();
	const struct snapshot *s = side->snapshot;

	json_object_object_add(o, "profile", json_text(s->profile));
	json_object_object_add(o, "source", json_text(side->source));
	json_object_object_add(o, "digest", json_text(s->digest));
	json_object_object_add(o, "rank_digest",
			       json_text(side->rank_digest[0] ? side->rank_digest : NULL));
	json_object_object_add(o, "toolkit_root", json_text(s->toolkit_root));
	return o;
}

static void print_json(const struct diff *d, const struct comparison *c, bool same)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();

	json_object_object_add(o, "from", side_json(&d->from));
	json_object_object_add(o, "to", side_json(&d->to));
	json_object_object_add(o, "same", json_object_new_boolean(same));
	json_object_object_add(
		o, "rank_digest_same",
		d->facts ? json_object_new_boolean(streq(d->from.rank_digest, d->to.rank_digest))
			 : NULL);
	json_object_object_add(o, "facts_version",
			       json_text(d->facts ? facts_version(d->facts) : NULL));
	json_object_object_add(o, "variables", list);
	for (size_t i = 0; i < c->n; i++) {
		const struct difference *x = &c->items[i];
		struct json_object *v = json_object_new_object();

		json_object_object_add(v, "name", json_text((x->from ? x->from : x->to)->name));
		json_object_object_add(v, "change", json_text(change_name(x->change)));
		json_object_object_add(v, "from", entry_json(&d->from, x->from));
		json_object_object_add(v, "to", entry_json(&d->to, x->to));
		json_object_object_add(v, "must_match",
				       d->facts ? json_object_new_boolean(x->must_match) : NULL);
		json_object_array_add(list, v);
	}
	json_print(o);
}

/* Two cells: rule and value. */
static void cells(struct table *t, const struct side *side, const struct snapshot_entry *e)
{
	const char *forced =
		e && export_in_toolkit(e) && side->snapshot->toolkit_force ? " (force)" : "";

	if (e && e->rule == SNAPSHOT_TOGETHER)
		table_cell_format(t, "together %s%s", e->group, forced);
	else
		table_cell(t, e ? snapshot_rule_name(e->rule) : NULL);
	table_cell(t, e && e->rule != SNAPSHOT_UNSET ? e->value : NULL);
}

static void root_row(struct table *t, const struct snapshot *from, const struct snapshot *to)
{
	table_cell(t, "[toolkit]");
	table_cell(t, !from->toolkit_root ? "added" : !to->toolkit_root ? "removed" : "changed");
	table_cell(t, from->toolkit_root ? "root" : NULL);
	table_cell(t, from->toolkit_root);
	table_cell(t, to->toolkit_root ? "root" : NULL);
	table_cell(t, to->toolkit_root);
	table_cell(t, NULL);
}

static void print_side(const char *word, const struct side *side)
{
	printf("%s ", word);
	print_escaped(side->snapshot->profile);
	printf(" (%s) %.*s", side->source, DIGEST_SHOWN, side->snapshot->digest);
}

/* For people alone: a pipe gets rows. */
static void print_heads(const struct diff *d)
{
	print_side("From", &d->from);
	print_side(", to", &d->to);
	printf("\n\n");
}

static void print_ranks(const struct diff *d, const struct comparison *c)
{
	if (!d->facts)
		return;
	printf("\n%sRank digest: %s%s\n",
	       colour_begin(c->n_must_match > 0 ? COLOUR_WARN : COLOUR_GOOD),
	       c->n_must_match > 0
		       ? "differs; ranks of one communicator must have the variables marked "
			 "must-match alike"
		       : "equal",
	       colour_end());
}

static int print_table(const struct diff *d, const struct comparison *c, bool same)
{
	static const char *const headers[] = {"VARIABLE", "CHANGE", "RULE",  "FROM",
					      "RULE",     "TO",     "RANKS", NULL};
	_cleanup_(table_done) struct table t = {0};

	if (ctl_terminal())
		print_heads(d);
	table_init(&t, headers);
	if (c->roots_differ)
		root_row(&t, d->from.snapshot, d->to.snapshot);
	for (size_t i = 0; i < c->n; i++) {
		const struct difference *x = &c->items[i];

		table_cell(&t, (x->from ? x->from : x->to)->name);
		table_cell(&t, change_name(x->change));
		cells(&t, &d->from, x->from);
		cells(&t, &d->to, x->to);
		table_cell(&t, x->must_match ? "must-match" : NULL);
	}
	if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (ctl_terminal() && !same)
		print_ranks(d, c);
	if (same)
		ctl_note("no variable differs");
	return CTL_GOOD;
}

static int print_answer(const struct diff *d)
{
	_cleanup_(comparison_done) struct comparison c = {0};
	bool same;
	int r;

	if (compare(d->from.snapshot, d->to.snapshot, d->facts, &c) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	same = c.n == 0 && !c.roots_differ;
	if (d->ctl->json) {
		print_json(d, &c, same);
	} else {
		r = print_table(d, &c, same);
		if (r != CTL_GOOD)
			return r;
	}
	return same ? CTL_GOOD : CTL_BAD_NEWS;
}

static int run_diff(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(diff_done) struct diff d = {.ctl = ctl, .published = PUBLISHED_NULL};
	const struct paths *paths = ctl_paths(ctl);
	int r;

	if (!paths)
		return CTL_FAILED;
	r = facts_load(CTL_FACTS, &d.facts);
	if (r < 0)
		ctl_note("cannot tell which variables ranks must have alike: %s: %s", CTL_FACTS,
			 strerror(-r));
	r = profile_set_load((const char *const *)paths->profiles, d.facts, &d.set);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot read the profile directories: %s",
				 strerror(-r));
	d.have_published = published_open(paths->runtime, &d.published) == 0;
	r = side_find(&d, argc > 1 ? &d.from : &d.to, argv[0]);
	if (r == CTL_GOOD)
		r = argc > 1 ? side_find(&d, &d.to, argv[1]) : side_in_force(&d, argv[0]);
	return r == CTL_GOOD ? print_answer(&d) : r;
}

const struct verb verb_diff = {
	.name = "diff",
	.arguments = "PROFILE|FILE [PROFILE|FILE]",
	.summary = "The variables in which two profiles differ, or what use of one would change.",
	.help = "With one: from what is in force to its file; of a profile that is in force "
		"itself\n"
		"and was edited, from the applied version. With two: from the first to the "
		"second.\n"
		"PROFILE is a name or a snapshot's digest, FILE a path with a / in it.\n"
		"added, removed, changed: the value; rule: only the rule. must-match: all ranks "
		"of\n"
		"one communicator must have it alike, so the rank digests differ.\n"
		"Needs no daemon. Exit status 0 nothing differs, 1 something does.",
	.min_arguments = 1,
	.max_arguments = 2,
	.run = run_diff,
};
