/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/rules.h"
#include "client/ctl/table.h"
#include "client/ctl/why.h"
#include "common/util.h"

static const char *state_of(const struct why *w, const struct why_variable *v)
{
	return w->report_error == 0 ? report_word(v->reported) : NULL;
}

/* --- JSON */

static struct json_object *digest_json(const char *digest)
{
	return json_text(digest && digest[0] ? digest : NULL);
}

static struct json_object *tri_json(enum tri tri)
{
	return tri == TRI_UNKNOWN ? NULL : json_object_new_boolean(tri == TRI_YES);
}

static struct json_object *variable_json(const struct why *w, const struct why_variable *v)
{
	const struct snapshot_entry *e = v->entry;
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "name", json_text(e->name));
	json_object_object_add(o, "verdict", json_text(why_verdict_word(v->verdict)));
	json_object_object_add(o, "rule", json_text(snapshot_rule_name(e->rule)));
	json_object_object_add(o, "group", json_text(e->group));
	json_object_object_add(o, "intended",
			       json_text(e->rule == SNAPSHOT_UNSET ? NULL : e->value));
	json_object_object_add(o, "file", json_text(v->file));
	json_object_object_add(o, "line", json_number_or_null(v->line > 0 ? v->line : -1));
	json_object_object_add(o, "override", json_text(v->override));
	json_object_object_add(o, "reported", json_text(state_of(w, v)));
	json_object_object_add(o, "exec_block", json_text(v->exec_block));
	json_object_object_add(o, "because", json_text(v->because));
	json_object_object_add(o, "live", NULL);
	return o;
}

static struct json_object *report_json(const struct why *w)
{
	struct json_object *o;

	if (w->report_error != 0)
		return NULL;
	o = json_object_new_object();
	json_object_object_add(o, "alone", json_object_new_boolean(w->report.alone));
	json_object_object_add(o, "cut", json_object_new_boolean(w->report.cut));
	json_object_object_add(o, "error",
			       json_text(w->report.result ? strerror(w->report.result) : NULL));
	json_object_object_add(o, "snapshot", digest_json(w->report.digest));
	return o;
}

static struct json_object *members_json(const struct why *w)
{
	struct json_object *list;

	if (!w->job)
		return NULL;
	list = json_object_new_array();
	for (size_t i = 0; i < w->workers.n; i++)
		if (streq(w->workers.items[i].key, w->job->key))
			json_object_array_add(list, json_object_new_int64(w->workers.items[i].pid));
	return list;
}

static void add_job(const struct why *w, struct json_object *o)
{
	const struct worker *worker = w->worker;

	json_object_object_add(o, "job",
			       json_text(worker->key   ? worker->key
					 : w->place[0] ? w->place
						       : NULL));
	json_object_object_add(o, "kind",
			       json_text(w->job ? job_kind_name(w->job->parts.kind) : NULL));
	json_object_object_add(
		o, "root_pid",
		json_number_or_null(w->job && w->job->root_pid > 0 ? w->job->root_pid : -1));
	json_object_object_add(o, "members", members_json(w));
	json_object_object_add(o, "snapshot",
			       digest_json(worker->pin_known ? worker->snapshot : w->place_digest));
	json_object_object_add(o, "stale", tri_json(worker->stale));
}

struct json_object *why_json(const struct why *w)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	const struct worker *worker = w->worker;

	json_object_object_add(o, "pid", json_object_new_int64(worker->pid));
	json_object_object_add(o, "verdict", json_text(w->verdict));
	json_object_object_add(o, "ok", json_object_new_boolean(w->status == CTL_GOOD));
	json_object_object_add(o, "advice", json_text(w->advice));
	json_object_object_add(o, "mode", json_text(mode_name(w->published.assign->mode)));
	json_object_object_add(o, "uid", json_object_new_int64(worker->uid));
	json_object_object_add(o, "exe", json_text(worker->exe));
	json_object_object_add(o, "unit", json_text(worker->unit));
	json_object_object_add(o, "registered", json_object_new_boolean(worker->registered));
	json_object_object_add(
		o, "forked_off",
		json_number_or_null(worker->forked_off > 0 ? worker->forked_off : -1));
	json_object_object_add(o, "registered_ancestor",
			       json_number_or_null(w->above ? w->above->pid : -1));
	json_object_object_add(o, "same_mounts", tri_json(w->same_mounts));
	add_job(w, o);
	json_object_object_add(o, "required", json_text(worker->required));
	json_object_object_add(o, "required_met",
			       worker->required ? json_object_new_boolean(worker->required_met)
						: NULL);
	json_object_object_add(o, "profile", json_text(w->intended ? w->intended->profile : NULL));
	json_object_object_add(o, "intended",
			       digest_json(w->intended ? w->intended->digest : NULL));
	json_object_object_add(o, "intended_by",
			       json_text(!w->intended           ? NULL
					 : w->intended_by_rules ? "rules"
								: "job"));
	json_object_object_add(o, "rule", rules_json(&w->published, &w->subject, &w->rule));
	json_object_object_add(o, "report", report_json(w));
	json_object_object_add(o, "report_missing",
			       json_text(w->report_error ? report_trouble(w->report_error) : NULL));
	json_object_object_add(o, "exec_block", json_text(exec_block_word(&w->block)));
	json_object_object_add(o, "exec_snapshot", json_text(w->token));
	json_object_object_add(o, "variables", list);
	for (size_t i = 0; i < w->n_variables; i++)
		json_object_array_add(list, variable_json(w, &w->variables[i]));
	return o;
}

/* --- for people */

static void row(struct table *t, const char *name)
{
	table_cell(t, name);
}

static void process_row(struct table *t, const struct why *w)
{
	const struct worker *worker = w->worker;

	row(t, "process");
	table_cell_format(t, "%d, uid %u, %s%s%s%s", (int)worker->pid, (unsigned)worker->uid,
			  worker->exe ? worker->exe : "its program may not be seen",
			  worker->unit ? ", unit " : "", worker->unit ? worker->unit : "",
			  w->same_mounts == TRI_NO ? ", with a file system of its own" : "");
	if (worker->key)
		return;
	if (w->place[0]) {
		row(t, "job");
		table_cell_format(t, "%.*s", workers_key_shown(w->place), w->place);
	}
	row(t, "above it");
	if (w->above)
		table_cell_format(t, "process %d is registered, in job %s", (int)w->above->pid,
				  w->above->key);
	else
		table_cell(t, "no process is registered");
}

#define MEMBERS_SHOWN 16

static void job_rows(struct table *t, const struct why *w)
{
	char pids[MEMBERS_SHOWN * 12 + 8] = "";
	size_t n = 0, used = 0;

	if (!w->job)
		return;
	for (size_t i = 0; i < w->workers.n; i++) {
		const struct worker *member = &w->workers.items[i];

		if (!streq(member->key, w->job->key))
			continue;
		if (n < MEMBERS_SHOWN)
			used += (size_t)snprintf(pids + used, sizeof pids - used, " %d",
						 (int)member->pid);
		n++;
	}
	row(t, "job");
	table_cell_format(t, "%.*s", workers_key_shown(w->job->key), w->job->key);
	row(t, "members");
	table_cell_format(t, "%zu:%s%s", n, pids, n > MEMBERS_SHOWN ? " ..." : "");
}

static void snapshot_rows(struct table *t, const struct why *w)
{
	const struct worker *worker = w->worker;

	if (worker->key) {
		row(t, "snapshot");
		if (!worker->pin_known)
			table_cell(t, "unknown");
		else if (!worker->snapshot[0])
			table_cell(t, "none");
		else
			table_cell_format(t, "%.*s, profile %s", DIGEST_SHOWN, worker->snapshot,
					  w->intended ? w->intended->profile : "unknown");
	}
	if (worker->required) {
		row(t, "required");
		table_cell_format(t, "%.*s, %s", DIGEST_SHOWN, worker->required,
				  worker->required_met ? "met" : "not met");
	}
	row(t, "rule now");
	rules_cell(t, &w->published, &w->rule);
}

static void report_row(struct table *t, const struct why *w)
{
	row(t, "report");
	if (w->report_error != 0) {
		table_cell_format(t, "none: %s", report_trouble(w->report_error));
		return;
	}
	table_cell_format(t, "%s%s%s%s",
			  w->report.alone ? "decided alone" : "answered by the broker",
			  w->worker->forked_off ? ", of the process it was forked off" : "",
			  w->report.result ? ", with an error" : "",
			  w->reported ? ", on another snapshot" : "");
}

static void block_row(struct table *t, const struct why *w)
{
	row(t, "exec block");
	switch (w->block.state) {
	case EXEC_BLOCK_READ:
		if (w->token)
			table_cell_format(t, "of snapshot %.*s", DIGEST_SHOWN, w->token);
		else
			table_cell(t, "of no snapshot");
		break;
	case EXEC_BLOCK_CUT:
		table_cell(t, "longer than is read");
		break;
	case EXEC_BLOCK_REWRITTEN:
		table_cell(t, "written over by the program");
		break;
	case EXEC_BLOCK_DENIED:
		table_cell(t, "may not be read");
		break;
	}
}

static int print_details(const struct why *w)
{
	static const char *const headers[] = {"", "", NULL};
	_cleanup_(table_done) struct table t;

	table_init(&t, headers);
	process_row(&t, w);
	job_rows(&t, w);
	snapshot_rows(&t, w);
	report_row(&t, w);
	block_row(&t, w);
	return table_print(&t, stdout, ctl_terminal());
}

static int print_variables(const struct why *w)
{
	static const char *const headers[] = {"VARIABLE", "VERDICT",  "RULE",       "INTENDED",
					      "FROM",     "REPORTED", "EXEC BLOCK", NULL};
	_cleanup_(table_done) struct table t;

	table_init(&t, headers);
	for (size_t i = 0; i < w->n_variables; i++) {
		const struct why_variable *v = &w->variables[i];

		table_cell(&t, v->entry->name);
		table_cell(&t, why_verdict_word(v->verdict));
		table_cell(&t, snapshot_rule_name(v->entry->rule));
		table_cell(&t, v->entry->rule == SNAPSHOT_UNSET ? NULL : v->entry->value);
		if (v->file && v->line > 0)
			table_cell_format(&t, "%s:%" PRId64, v->file, v->line);
		else if (v->override)
			table_cell_format(&t, "set for %s", v->override);
		else
			table_cell(&t, v->file);
		if (v->because)
			table_cell_format(&t, "kept, %s differs", v->because);
		else
			table_cell(&t, state_of(w, v));
		table_cell(&t, v->exec_block);
	}
	if (w->n_variables > 0 && ctl_terminal())
		printf("\n");
	return table_print(&t, stdout, ctl_terminal());
}

int why_print(const struct why *w)
{
	int r;

	printf("%s", colour_begin(w->status == CTL_GOOD ? COLOUR_GOOD : COLOUR_BAD));
	print_escaped(w->verdict);
	printf("%s\n", colour_end());
	r = print_details(w);
	if (r == 0)
		r = print_variables(w);
	if (ctl_terminal())
		printf("\n");
	print_escaped(w->advice);
	printf("\n");
	return r;
}
