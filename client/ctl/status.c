/* SPDX-License-Identifier: MIT */
/*
 * status: the published status file, live counts from procs/ and jobs/, and whether the manager
 * that wrote it is there. Works for everyone, with the daemon dead or frozen too; a dead manager's
 * file is never told as the present.
 */
#include "config.h"

#include <inttypes.h>
#include <time.h>

#include "client/ctl/control.h"
#include "client/ctl/duration.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/override.h"
#include "client/ctl/reach.h"
#include "client/ctl/table.h"
#include "client/ctl/workers.h"
#include "common/util.h"

struct status {
	struct published published;
	bool have_published;
	int published_error;
	enum manager_state manager;
	pid_t manager_pid;
	char since[TIME_SIZE]; /* of the status file, "" unknown */
	bool counted;
	size_t processes;
	size_t current; /* have what a new job would get */
	size_t stale;
	size_t unmet; /* CUDAENV_REQUIRE */
	size_t jobs;
	char *verdict;
	enum ctl_status code;
};

static void status_done(struct status *s)
{
	published_done(&s->published);
	free(s->verdict);
}

static void find_since(struct status *s)
{
	if (s->published.status_time > 0)
		time_format(s->published.status_time, s->since);
}

static void count_workers(struct status *s)
{
	_cleanup_(workers_done) struct workers w = {0};

	if (!s->have_published || workers_collect(&s->published, WORKERS_EVERYONE, &w) < 0)
		return;
	s->counted = true;
	s->processes = w.n;
	s->jobs = w.n_jobs;
	for (size_t i = 0; i < w.n; i++) {
		s->current += w.items[i].stale == TRI_NO;
		s->stale += w.items[i].stale == TRI_YES;
		s->unmet += w.items[i].required && !w.items[i].required_met;
	}
}

/* Name of the profile that new jobs get where no rule says otherwise; malloc()ed, NULL none. */
static char *default_profile(const struct status *s)
{
	struct json_object *node = override_find(s->published.status, "use", "node");
	int64_t until = json_number(node, "until", 0);
	const struct assign *a = s->published.assign;

	if (until > (int64_t)time(NULL) && json_string(node, "profile"))
		return strdup(json_string(node, "profile"));
	return a && a->fallback[0] ? published_profile(&s->published, a->fallback) : NULL;
}

static int verdict_dead(struct ctl *ctl, struct status *s, char **ret)
{
	const char *mode = s->published.assign ? mode_name(s->published.assign->mode) : NULL;
	_cleanup_(freep) char *advice = ctl_start_advice(ctl);

	s->code = CTL_BAD_NEWS;
	if (!advice)
		return -1;
	if (!s->have_published)
		return asprintf(ret,
				"cudaenvd is not running, and nothing is published in %s (%s); "
				"%s",
				ctl->paths.runtime, strerror(-s->published_error), advice);
	return asprintf(ret, "cudaenvd is not running%s%s; %s%s; %s",
			s->since[0] ? ": its last word is of " : "", s->since,
			mode ? "starts still go by what it published, mode "
			     : "no rules are published",
			mode ? mode : "", advice);
}

/* How many of the workers have what a new job would get; not "OK" as long as none has. */
static int verdict_counts(const struct status *s, const char *name, char **ret)
{
	bool none = s->current == 0;
	char others[64] = "", unmet[64] = "";

	if (s->stale > 0)
		(void)snprintf(others, sizeof others, ", %zu on another snapshot", s->stale);
	if (s->unmet > 0)
		(void)snprintf(unmet, sizeof unmet, ", %zu not as their launcher requires",
			       s->unmet);
	return asprintf(ret, "%s%zu of %zu workers on %s%s%s%s",
			none || s->unmet > 0 ? "" : "OK: ", s->current, s->processes, name,
			none ? " yet" : "", others, unmet);
}

static int verdict_on(struct ctl *ctl, struct status *s, char **ret)
{
	_cleanup_(freep) char *profile = default_profile(s);
	const char *name = profile ? profile : "what the rules give";

	if (!published_gives(&s->published)) {
		_cleanup_(freep) char *fix = NULL,
				      *reason = missing_reason(ctl, &s->published, &fix);

		s->code = CTL_BAD_NEWS;
		return reason ? asprintf(ret, "on, but %s: nothing is set; %s", reason, fix) : -1;
	}
	if (s->processes == 0)
		return asprintf(ret, "OK: no worker yet, new jobs get %s", name);
	return verdict_counts(s, name, ret);
}

/* What the manager could not do comes before all that is well. */
static int put_error_first(struct status *s)
{
	const char *error = json_string(s->published.status, "last_error");
	char *verdict;

	if (s->manager != MANAGER_RUNNING || !error)
		return 0;
	if (asprintf(&verdict, "attention: %s (%s)", error, s->verdict) < 0)
		return -ENOMEM;
	free(s->verdict);
	s->verdict = verdict;
	s->code = CTL_BAD_NEWS;
	return 0;
}

static int verdict_silent(struct ctl *ctl, struct status *s, char **ret)
{
	_cleanup_(freep) char *advice = ctl_wake_advice(ctl, s->manager_pid);

	s->code = CTL_BAD_NEWS;
	return !advice ? -1
		       : asprintf(ret,
				  "cudaenvd (pid %d) does not answer; starts still go by what it "
				  "published, mode %s; %s",
				  (int)s->manager_pid, mode_name(s->published.assign->mode),
				  advice);
}

static int make_verdict(struct ctl *ctl, struct status *s)
{
	const struct assign *a = s->published.assign;
	int r;

	if (s->manager == MANAGER_DEAD) {
		r = verdict_dead(ctl, s, &s->verdict);
	} else if (!a) {
		s->code = CTL_BAD_NEWS;
		r = asprintf(&s->verdict, "nothing is published in %s: %s", ctl->paths.runtime,
			     strerror(-(s->have_published ? s->published.assign_error
							  : s->published_error)));
	} else if (s->manager == MANAGER_SILENT) {
		r = verdict_silent(ctl, s, &s->verdict);
	} else if (a->mode == MODE_OFF) {
		r = asprintf(&s->verdict, "off: nothing is set; cudaenvctl on changes that");
	} else if (a->mode == MODE_OBSERVE) {
		r = asprintf(&s->verdict,
			     "observing: %zu workers in %zu jobs seen, nothing is set; cudaenvctl "
			     "on changes that",
			     s->processes, s->jobs);
	} else {
		r = verdict_on(ctl, s, &s->verdict);
	}
	if (r < 0)
		s->verdict = NULL;
	return r < 0 ? -ENOMEM : put_error_first(s);
}

/* A field as it was published. */
static void add_published(struct json_object *o, const struct status *s, const char *name)
{
	struct json_object *value = NULL;

	(void)json_object_object_get_ex(s->published.status, name, &value);
	json_object_object_add(o, name, json_object_get(value));
}

/* The published fields, and over them what was found now. */
static struct json_object *make_json(const struct status *s)
{
	static const char *const profile[] = {"active", "digest", "rank_digest", "facts_version"};
	static const char *const profiles[] = {"profiles_valid", "profiles_broken", "edited",
					       "rules", "overrides"};
	struct json_object *o = json_object_new_object();
	const struct assign *a = s->published.assign;

	json_object_object_add(o, "verdict", json_text(s->verdict));
	json_object_object_add(o, "mode", json_text(a ? mode_name(a->mode) : NULL));
	for (size_t i = 0; i < ARRAY_SIZE(profile); i++)
		add_published(o, s, profile[i]);
	json_object_object_add(o, "generation",
			       json_number_or_null(a ? (int64_t)a->generation : -1));
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		add_published(o, s, profiles[i]);
	json_object_object_add(o, "processes",
			       json_number_or_null(s->counted ? (int64_t)s->processes : -1));
	json_object_object_add(o, "jobs", json_number_or_null(s->counted ? (int64_t)s->jobs : -1));
	json_object_object_add(o, "jobs_split", NULL);
	json_object_object_add(o, "unmet",
			       json_number_or_null(s->counted ? (int64_t)s->unmet : -1));
	add_published(o, s, "last_error");
	json_object_object_add(o, "running",
			       s->manager == MANAGER_UNSEEN
				       ? NULL
				       : json_object_new_boolean(s->manager == MANAGER_RUNNING));
	json_object_object_add(
		o, "written",
		json_number_or_null(s->published.status_time > 0 ? s->published.status_time : -1));
	return o;
}

static void row(struct table *t, const char *name, const char *value)
{
	table_cell(t, name);
	table_cell(t, value);
}

static void row_number(struct table *t, const char *name, struct json_object *o, const char *key)
{
	int64_t n = json_number(o, key, -1);

	table_cell(t, name);
	if (n >= 0)
		table_cell_format(t, "%" PRId64, n);
	else
		table_cell(t, NULL);
}

/* A list of names, or a number of them. */
static void row_edited(struct table *t, struct json_object *o)
{
	struct json_object *list = json_array(o, "edited");
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f;

	if (!list) {
		row_number(t, "Edited", o, "edited");
		return;
	}
	f = open_memstream(&text, &size);
	for (size_t i = 0; f && i < json_object_array_length(list); i++)
		fprintf(f, "%s%s", i > 0 ? " " : "",
			json_object_get_string(json_object_array_get_idx(list, i)));
	if (f)
		(void)fclose(f);
	row(t, "Edited", text && text[0] ? text : NULL);
}

static void rows_overrides(struct table *t, struct json_object *o)
{
	struct json_object *list = json_array(o, "overrides");

	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		_cleanup_(freep) char *text = override_describe(one);
		const char *scope = json_string(one, "scope");

		table_cell_format(t, "Override");
		table_cell_format(t, "%s: %s", scope ? scope : "-", text ? text : "-");
	}
}

static int print_status(const struct status *s, struct json_object *o)
{
	static const char *const headers[] = {"", "", NULL};
	_cleanup_(table_done) struct table t = {0};
	const char *error = json_string(o, "last_error");
	bool good = s->code == CTL_GOOD;

	printf("%s", colour_begin(good ? COLOUR_GOOD : COLOUR_BAD));
	print_escaped(s->verdict);
	printf("%s\n", colour_end());
	if (s->manager == MANAGER_UNSEEN)
		ctl_note("whether cudaenvd runs cannot be seen from here");
	if (!s->have_published)
		return CTL_GOOD;
	table_init(&t, headers);
	row(&t, "Mode", json_string(o, "mode"));
	row(&t, "Profile", json_string(o, "active"));
	row(&t, "Snapshot", json_string(o, "digest"));
	row(&t, "Rank digest", json_string(o, "rank_digest"));
	row(&t, "Facts", json_string(o, "facts_version"));
	row_number(&t, "Generation", o, "generation");
	row_number(&t, "Profiles valid", o, "profiles_valid");
	row_number(&t, "Profiles with errors", o, "profiles_broken");
	row_edited(&t, o);
	rows_overrides(&t, o);
	row_number(&t, "Workers", o, "processes");
	row_number(&t, "Jobs", o, "jobs");
	row(&t, "Last error", error);
	/* There may be two of them, the system's and one's own. */
	if (ctl_terminal())
		row(&t, "Directory", s->published.path);
	return table_print(&t, stdout, ctl_terminal());
}

static int run_status(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(status_done) struct status s = {.published = PUBLISHED_NULL, .code = CTL_GOOD};
	_cleanup_(json_putp) struct json_object *o = NULL;
	const struct paths *paths = ctl_paths(ctl);
	int r = 0;

	if (!paths)
		return CTL_FAILED;
	(void)published_open(paths->runtime, &s.published);
	s.manager = manager_reach(&s.published, paths->control, &s.manager_pid);
	/* Again: a manager that has just been started has published something else. */
	published_done(&s.published);
	s.published_error = published_open(paths->runtime, &s.published);
	s.have_published = s.published_error == 0;
	if (s.published_error == -EPERM)
		return ctl_published(ctl, &s.published);
	find_since(&s);
	count_workers(&s);
	if (make_verdict(ctl, &s) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	o = make_json(&s);
	if (ctl->json)
		json_print(o);
	else
		r = print_status(&s, o);
	return r < 0 ? ctl_error(CTL_FAILED, "out of memory") : (int)s.code;
}

const struct verb verb_status = {
	.name = "status",
	.arguments = "",
	.summary = "One line that says how it stands, then the figures.",
	.help = "Works for everyone, with cudaenvd dead or frozen too: that is then the\n"
		"first line. Exit status 1 when cudaenvd is not running, does not answer or\n"
		"had an error, or when mode is on and nothing is given to anybody.",
	.run = run_status,
};
