/* SPDX-License-Identifier: MIT */
/*
 * release: a running job gets what the rules give now, from its next start on. Which snapshot that
 * is is found out here, of the job's first process: root sees which program it runs, which neither
 * daemon may, and --dry-run says the same. cudaenvd takes it only if a rule gives it.
 */
#include "config.h"

#include "client/ctl/control.h"
#include "client/ctl/holders.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/rules.h"
#include "client/ctl/table.h"
#include "client/ctl/workers.h"
#include "common/ranks.h"
#include "common/util.h"

struct releasing {
	struct published published;
	struct workers workers;
	struct holders holders;
	const char *key;             /* borrowed of one of these */
	pid_t root_pid;              /* 0 unknown */
	const struct holder *holder; /* of a job whose processes are not registered: its pids */
	struct worker looked;        /* owner of first where that is not listed */
	const struct worker *first;  /* whose place a new job would take */
	struct pin pin;
	const char *to; /* "" none */
	struct assign_rule rule;
	char *profile, *from_profile;
	size_t differ; /* members in whose place a new job would get yet another */
	bool ranks_known;
	bool ranks_equal; /* FROM and TO have all alike that ranks must agree on */
};

static void releasing_done(struct releasing *r)
{
	free(r->profile);
	free(r->from_profile);
	worker_done(&r->looked);
	holders_done(&r->holders);
	workers_done(&r->workers);
	published_done(&r->published);
}

static bool is_member(const struct releasing *r, const struct worker *w)
{
	return streq(w->key, r->key);
}

/* --- which job */

/* 1: that is its whole name, or the number of a member, 0: the beginning of its name, -1: neither.
 */
static int matches(const char *key, const char *name)
{
	if (streq(key, name))
		return 1;
	return startswith(key, name) ? 0 : -1;
}

static bool is_pid(pid_t pid, const char *name)
{
	char text[16];

	(void)snprintf(text, sizeof text, "%d", (int)pid);
	return streq(text, name);
}

static bool holds_pid(const struct holder *h, const char *name)
{
	for (size_t i = 0; i < h->n_pids; i++)
		if (is_pid(h->pids[i], name))
			return true;
	return false;
}

/* How many jobs NAME may mean; the key of the last is taken. */
static size_t find_among_workers(struct releasing *r, const char *name)
{
	const struct workers *w = &r->workers;
	size_t found = 0;

	for (size_t i = 0; i < w->n; i++)
		if (is_pid(w->items[i].pid, name)) {
			r->key = w->items[i].key;
			return 1;
		}
	for (size_t i = 0; i < w->n_jobs; i++) {
		int match = matches(w->jobs[i].key, name);

		if (match < 0)
			continue;
		r->key = w->jobs[i].key;
		found++;
		if (match > 0)
			return 1;
	}
	return found;
}

/* Jobs that were kept as they were when the mode was turned on: no process of theirs registers. */
static size_t find_among_holders(struct releasing *r, const char *name)
{
	size_t found = 0;

	if (holders_find(&r->published, geteuid() == 0 ? WORKERS_EVERYONE : geteuid(),
			 &r->holders) < 0)
		return 0;
	for (size_t i = 0; i < r->holders.n; i++) {
		const struct holder *h = &r->holders.items[i];
		int match = holds_pid(h, name) ? 1 : matches(h->key, name);

		if (match < 0)
			continue;
		r->holder = h;
		r->key = h->key;
		found++;
		if (match > 0)
			return 1;
	}
	return found;
}

/* NAME: a key, an unambiguous beginning of one (as a terminal shows it), or a member's number. */
static int find_job(struct releasing *r, const char *name)
{
	size_t found = find_among_workers(r, name);
	const struct worker_job *job;
	struct job_key parts;

	if (found == 0)
		found = find_among_holders(r, name);
	if (found > 1)
		return ctl_error(CTL_BAD_NEWS,
				 "%zu jobs begin with %s; cudaenvctl workers shows their names, "
				 "whole in a pipe",
				 found, name);
	if (found == 0)
		return ctl_error(CTL_BAD_NEWS,
				 "there is no job %s; cudaenvctl workers shows the jobs", name);
	job = workers_job(&r->workers, r->key);
	r->root_pid = job ? job->root_pid : 0;
	if (job && job->members == 0)
		(void)find_among_holders(r, job->key);
	if (job_key_parse(r->key, &parts) < 0 ||
	    pin_read(&r->published.runtime, r->key, parts.uid, &r->pin) < 0)
		return ctl_error(CTL_BAD_NEWS, "job %s has no pin that could be replaced", r->key);
	return CTL_GOOD;
}

/* --- what it would get */

/* Its root, where that is registered; else who was the first: it was asked for then. */
static const struct worker *find_oldest(const struct releasing *r)
{
	const struct worker *oldest = NULL;

	for (size_t i = 0; i < r->workers.n; i++) {
		const struct worker *w = &r->workers.items[i];

		if (!is_member(r, w))
			continue;
		if (w->pid == r->root_pid)
			return w;
		if (!oldest || w->start < oldest->start)
			oldest = w;
	}
	return oldest;
}

static int find_first(struct releasing *r)
{
	pid_t pid = r->holder ? r->holder->pids[0] : r->root_pid;

	r->first = find_oldest(r);
	if (!r->first && pid > 0 && workers_look(&r->published, pid, &r->looked) == 0)
		r->first = &r->looked;
	return r->first ? CTL_GOOD
			: ctl_error(CTL_BAD_NEWS,
				    "no process of job %s is to be seen here: what the rules give "
				    "it cannot be told",
				    r->key);
}

static bool gets_another(const struct releasing *r, const struct worker *w)
{
	struct assign_rule rule;

	return is_member(r, w) && rules_choose(&r->published, w, &rule) == 0 &&
	       r->published.assign->mode == MODE_ON && !streq(rule.digest, r->to);
}

static void compare_ranks(struct releasing *r)
{
	const struct runtime *rt = &r->published.runtime;
	char from[DIGEST_SIZE], to[DIGEST_SIZE];

	r->ranks_known = ranks_get(rt, r->pin.digest, from) == 0 && ranks_get(rt, r->to, to) == 0;
	r->ranks_equal = r->ranks_known && streq(from, to);
}

static int find_target(struct ctl *ctl, struct releasing *r)
{
	const struct assign *a = r->published.assign;
	int k;

	if (a->mode == MODE_OFF)
		return ctl_error(
			CTL_BAD_NEWS,
			"the mode is off, nothing is set in any job; cudaenvctl%s on first",
			ctl_user_option(ctl));
	if (find_first(r) != CTL_GOOD)
		return CTL_BAD_NEWS;
	k = rules_choose(&r->published, r->first, &r->rule);
	if (k == -EACCES)
		return ctl_error(
			CTL_BAD_NEWS,
			"a rule asks for what this user may not see of process %d; root may",
			(int)r->first->pid);
	if (k < 0)
		return ctl_error(CTL_FAILED, "cannot tell what the rules give: %s", strerror(-k));
	r->to = a->mode == MODE_ON ? r->rule.digest : "";
	r->profile = r->to[0] ? published_profile(&r->published, r->to) : NULL;
	if (r->pin.digest[0])
		r->from_profile = published_profile(&r->published, r->pin.digest);
	for (size_t i = 0; i < r->workers.n; i++)
		r->differ += gets_another(r, &r->workers.items[i]);
	compare_ranks(r);
	return CTL_GOOD;
}

static bool changes(const struct releasing *r)
{
	return !streq(r->to, r->pin.digest);
}

/* --- answers */

static size_t count_members(const struct releasing *r)
{
	size_t n = r->holder ? r->holder->n_pids : 0;

	for (size_t i = 0; i < r->workers.n; i++)
		n += is_member(r, &r->workers.items[i]);
	return n;
}

static void add_members(const struct releasing *r, struct json_object *o)
{
	struct json_object *pids = json_object_new_array();

	for (size_t i = 0; i < r->workers.n; i++)
		if (is_member(r, &r->workers.items[i]))
			json_object_array_add(pids, json_object_new_int64(r->workers.items[i].pid));
	for (size_t i = 0; r->holder && i < r->holder->n_pids; i++)
		json_object_array_add(pids, json_object_new_int64(r->holder->pids[i]));
	json_object_object_add(o, "members", pids);
	json_object_object_add(o, "rule", json_text(r->rule.name));
	json_object_object_add(o, "ranks_equal",
			       r->ranks_known ? json_object_new_boolean(r->ranks_equal) : NULL);
}

static struct json_object *dry_json(const struct releasing *r)
{
	const struct assign *a = r->published.assign;
	struct json_object *o = json_object_new_object();
	const char *to = r->to[0] ? r->to : NULL;

	json_object_object_add(o, "action", json_text("release"));
	json_object_object_add(o, "job", json_text(r->key));
	json_object_object_add(o, "mode", json_text(mode_name(a->mode)));
	json_object_object_add(o, "from", json_text(r->pin.digest[0] ? r->pin.digest : NULL));
	json_object_object_add(o, "to", json_text(to));
	json_object_object_add(o, "digest", json_text(to));
	json_object_object_add(o, "profile", json_text(r->profile));
	json_object_object_add(o, "generation", json_object_new_int64((int64_t)a->generation));
	return o;
}

static void print_snapshot(const char *profile, const char *digest)
{
	print_escaped(!digest[0] ? "nothing" : profile ? profile : "a snapshot");
	if (digest[0])
		printf(" %.*s", DIGEST_SHOWN, digest);
}

static void print_members(const struct releasing *r)
{
	static const char *const headers[] = {"PID", "UID", "STARTED", "EXE", NULL};
	_cleanup_(table_done) struct table t;

	table_init(&t, headers);
	for (size_t i = 0; i < r->workers.n; i++) {
		const struct worker *w = &r->workers.items[i];

		if (!is_member(r, w))
			continue;
		table_cell_format(&t, "%d", (int)w->pid);
		table_cell_format(&t, "%u", (unsigned)w->uid);
		table_cell(&t, started_name(w->started));
		table_cell(&t, w->exe);
	}
	for (size_t i = 0; r->holder && i < r->holder->n_pids; i++) {
		table_cell_format(&t, "%d", (int)r->holder->pids[i]);
		table_cell_format(&t, "%u", (unsigned)r->holder->uid);
		table_cell(&t, "not registered");
		table_cell(&t, NULL);
	}
	(void)table_print(&t, stdout, ctl_terminal());
}

static void warn_of_ranks(const struct releasing *r)
{
	size_t n = count_members(r);
	const char *holds = n == 1 ? "process holds" : "processes hold";

	if (n == 0)
		return;
	if (r->ranks_equal) {
		ctl_note("%zu live %s the old one; both have the same rank digest: what ranks must "
			 "agree on stays",
			 n, holds);
		return;
	}
	ctl_note("%zu live %s the old one, and the new one %s in what the ranks of one "
		 "communicator must agree on: such ranks hang or die; best end all of these before "
		 "the job starts others",
		 n, holds, r->ranks_known ? "differs" : "may differ");
}

static void print_answer(const struct releasing *r, bool dry_run)
{
	if (!changes(r)) {
		printf("Job %.*s has what the rules give now, ", workers_key_shown(r->key), r->key);
		print_snapshot(r->profile, r->to);
		printf(": nothing %s.\n", dry_run ? "would change" : "has changed");
		return;
	}
	printf("%s job %.*s: what starts in it from now on gets ",
	       dry_run ? "Would release" : "Released", workers_key_shown(r->key), r->key);
	print_snapshot(r->profile, r->to);
	printf("; these stay on ");
	print_snapshot(r->from_profile, r->pin.digest);
	printf(" until they end:\n");
	print_members(r);
	warn_of_ranks(r);
	if (r->differ > 0)
		ctl_note("for %zu of them the rules would give another one yet; process %d was "
			 "asked for",
			 r->differ, (int)r->first->pid);
}

static int run_release(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(releasing_done) struct releasing r = {.published = PUBLISHED_NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	const char *arguments[] = {NULL, NULL, ctl->reason, NULL};
	int k;

	k = ctl_published_assign(ctl, &r.published);
	if (k != CTL_GOOD)
		return k;
	k = workers_collect(&r.published, WORKERS_EVERYONE, &r.workers);
	if (k < 0)
		return ctl_error(CTL_FAILED, "cannot read /proc: %s", strerror(-k));
	k = find_job(&r, argv[0]);
	if (k == CTL_GOOD)
		k = find_target(ctl, &r);
	if (k != CTL_GOOD)
		return k;
	arguments[0] = r.key;
	arguments[1] = r.to[0] ? r.to : "none";
	k = ctl->dry_run ? ctl_may_change(ctl) : ctl_call(ctl, "Release", arguments, &o);
	if (k != CTL_GOOD)
		return k;
	if (ctl->dry_run)
		o = dry_json(&r);
	if (ctl->json) {
		add_members(&r, o);
		json_object_object_add(o, "dry_run", json_object_new_boolean(ctl->dry_run));
		json_print(o);
	} else {
		print_answer(&r, ctl->dry_run);
	}
	return CTL_GOOD;
}

const struct verb verb_release = {
	.name = "release",
	.arguments = "JOB",
	.summary = "What starts in a running job from now on gets what the rules give now.",
	.help = "JOB is its name, the beginning of it, or the number of one of its processes;\n"
		"cudaenvctl workers shows them. Its running processes stay as they are, so two\n"
		"ranks may differ then, and hang or die: end those named before new ones start.\n"
		"A note says how many these are, and whether the rank digest differs.\n"
		"Needs cudaenvd and its broker.",
	.flags = VERB_CHANGES,
	.min_arguments = 1,
	.max_arguments = 1,
	.run = run_release,
};
