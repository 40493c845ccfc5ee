/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/workers.h"

#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/util.h"

#define INDENT_MAX 16

static bool arg_tree;
static bool arg_stale;

static struct json_object *json_tri(enum tri tri)
{
	return tri == TRI_UNKNOWN ? NULL : json_object_new_boolean(tri == TRI_YES);
}

static struct json_object *json_digest(const char *digest)
{
	return json_text(digest[0] ? digest : NULL);
}

/* As the tree has it: a member of the same job that is listed too. */
static struct json_object *json_parent(const struct workers *all, const struct worker *w)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->items[i].pid == w->ppid && streq(all->items[i].key, w->key))
			return json_object_new_int64(w->ppid);
	return NULL;
}

static struct json_object *process_json(const struct workers *all, const struct worker *w,
					struct published_names *names)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "pid", json_object_new_int64(w->pid));
	json_object_object_add(o, "parent", json_parent(all, w));
	json_object_object_add(o, "uid", json_object_new_int64(w->uid));
	json_object_object_add(o, "exe", json_text(w->exe));
	json_object_object_add(o, "started_as", json_text(started_name(w->started)));
	json_object_object_add(o, "job", json_text(w->key));
	json_object_object_add(o, "snapshot", json_digest(w->answered));
	json_object_object_add(o, "profile", json_text(published_names_find(names, w->answered)));
	json_object_object_add(o, "stale", json_tri(w->stale));
	json_object_object_add(o, "unit", json_text(w->unit));
	json_object_object_add(o, "cgroup", json_text(w->cgroup));
	json_object_object_add(o, "required", json_text(w->required));
	json_object_object_add(o, "required_met",
			       w->required ? json_object_new_boolean(w->required_met) : NULL);
	json_object_object_add(o, "verdict", NULL);
	return o;
}

static struct json_object *json_root(const struct worker_job *job)
{
	return json_number_or_null(job->root_pid > 0 ? job->root_pid : -1);
}

static struct json_object *worklist_json(const struct published *p, const struct workers *w)
{
	_cleanup_(published_names_done) struct published_names names = {.published = p};
	struct json_object *o = json_object_new_object(), *processes = json_object_new_array(),
			   *jobs = json_object_new_array();

	json_object_object_add(o, "processes", processes);
	json_object_object_add(o, "jobs", jobs);
	for (size_t i = 0; i < w->n; i++)
		if (!arg_stale || w->items[i].stale == TRI_YES)
			json_object_array_add(processes, process_json(w, &w->items[i], &names));
	for (size_t i = 0; i < w->n_jobs; i++) {
		const struct worker_job *job = &w->jobs[i];
		struct json_object *j;

		if (arg_stale && !workers_job_stale(w, job))
			continue;
		j = json_object_new_object();
		json_object_object_add(j, "id", json_text(job->key));
		json_object_object_add(j, "kind", json_text(job_kind_name(job->parts.kind)));
		json_object_object_add(j, "root_pid", json_root(job));
		json_object_object_add(j, "snapshot", json_digest(job->snapshot));
		json_object_object_add(j, "members", json_object_new_int64((int64_t)job->members));
		json_object_object_add(j, "split", NULL);
		json_object_array_add(jobs, j);
	}
	return o;
}

static void process_row(struct table *t, const struct worker *w, struct published_names *names,
			int indent)
{
	const char *profile = published_names_find(names, w->answered);

	table_cell_format(t, "%*s%d", 2 * (indent < INDENT_MAX ? indent : INDENT_MAX), "",
			  (int)w->pid);
	table_cell_format(t, "%u", (unsigned)w->uid);
	table_cell(t, started_name(w->started));
	table_cell(t, profile);
	if (w->answered[0])
		table_cell_format(t, "%.*s", DIGEST_SHOWN, w->answered);
	else
		table_cell(t, w->pin_known ? "none" : NULL);
	table_cell(t, w->required && !w->required_met ? "unmet"
		      : w->stale == TRI_YES           ? "stale"
		      : w->stale == TRI_NO            ? "current"
						      : NULL);
	table_cell_format(t, "%.*s", workers_key_shown(w->key), w->key);
	table_cell(t, w->unit);
	table_cell(t, w->exe);
}

/* Members of one job below PARENT; an unlisted process between two makes the lower one a root. */
static void tree_rows(struct table *t, const struct workers *w, struct published_names *names,
		      const char *key, pid_t parent, int indent)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct worker *item = &w->items[i];

		if (!streq(item->key, key) || item->ppid != parent || indent > JOB_DEPTH_MAX ||
		    (arg_stale && item->stale != TRI_YES))
			continue;
		process_row(t, item, names, indent);
		tree_rows(t, w, names, key, item->pid, indent + 1);
	}
}

static bool parent_listed(const struct workers *w, const struct worker *item)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->items[i].pid == item->ppid && streq(w->items[i].key, item->key))
			return !arg_stale || w->items[i].stale == TRI_YES;
	return false;
}

static void fill_tree(struct table *t, const struct workers *w, struct published_names *names)
{
	for (size_t j = 0; j < w->n_jobs; j++) {
		const char *key = w->jobs[j].key;

		for (size_t i = 0; i < w->n; i++) {
			const struct worker *item = &w->items[i];

			if (!streq(item->key, key) || parent_listed(w, item) ||
			    (arg_stale && item->stale != TRI_YES))
				continue;
			process_row(t, item, names, 0);
			tree_rows(t, w, names, key, item->pid, 1);
		}
	}
}

static int print_table(const struct published *p, const struct workers *w)
{
	static const char *const headers[] = {"PID",   "UID", "STARTED", "PROFILE", "SNAPSHOT",
					      "STATE", "JOB", "UNIT",    "EXE",     NULL};
	_cleanup_(published_names_done) struct published_names names = {.published = p};
	_cleanup_(table_done) struct table t;

	table_init(&t, headers);
	if (arg_tree)
		fill_tree(&t, w, &names);
	for (size_t i = 0; !arg_tree && i < w->n; i++)
		if (!arg_stale || w->items[i].stale == TRI_YES)
			process_row(&t, &w->items[i], &names, 0);
	if (t.n_cells == 0 && geteuid() != 0 && workers_of_others(p, geteuid()))
		ctl_note("none of yours %s; root sees all",
			 arg_stale ? "is on another snapshot than a new job would get"
				   : "has registered here");
	else if (t.n_cells == 0)
		ctl_note("no process %s",
			 arg_stale ? "is on another snapshot than a new job would get"
				   : "has registered here");
	if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	return CTL_GOOD;
}

static int run_workers(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(workers_done) struct workers w = {0};
	int r;

	r = ctl_published(ctl, &p);
	if (r != CTL_GOOD)
		return r;
	r = workers_collect(&p, geteuid() == 0 ? WORKERS_EVERYONE : geteuid(), &w);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot read /proc: %s", strerror(-r));
	if (!ctl->json)
		return print_table(&p, &w);
	{
		_cleanup_(json_putp) struct json_object *o = worklist_json(&p, &w);

		json_print(o);
	}
	return CTL_GOOD;
}

static const struct ctl_option options[] = {
	{"tree", 0, NULL, "parents above their children, job by job", .flag = &arg_tree},
	{"stale", 0, NULL, "only those that a new job would replace", .flag = &arg_stale},
	{0},
};

const struct verb verb_workers = {
	.name = "workers",
	.arguments = "",
	.summary = "The processes that have a job here, and what each has.",
	.help = "Reads procs/, jobs/ and /proc; needs no daemon. Root sees all processes,\n"
		"others their own. A process is listed when it is registered, or was forked\n"
		"off such a one. STARTED: main, spawn, forkserver (the server and its\n"
		"children), resource_tracker, fork, other. STATE: stale when a new job in its\n"
		"place would get something else, unmet when its CUDAENV_REQUIRE asks for what\n"
		"it does not have.",
	.options = options,
	.run = run_workers,
};
