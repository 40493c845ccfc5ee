/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/stays.h"

#include <pwd.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "client/ctl/text.h"
#include "common/util.h"

int stays_find(struct ctl *ctl, struct stays *ret)
{
	int r;

	r = ctl_published(ctl, &ret->published);
	if (r != CTL_GOOD)
		return r;
	r = workers_collect(&ret->published, geteuid() == 0 ? WORKERS_EVERYONE : geteuid(),
			    &ret->workers);
	ret->known = r == 0;
	if (r < 0)
		ctl_note("cannot tell which jobs stay as they are: %s", strerror(-r));
	if (ret->published.assign &&
	    (!ret->scope || (ret->scope->kind == SCOPE_USER && ret->scope->uid == geteuid())))
		own_job_find(&ret->published, ret->published.assign->mode,
			     ret->published.assign->fallback, &ret->own);
	return CTL_GOOD;
}

void stays_done(struct stays *s)
{
	own_job_done(&s->own);
	workers_done(&s->workers);
	published_done(&s->published);
}

/* Is it a job of those that the change was made for? */
static bool concerns(const struct stays *s, const struct worker_job *job)
{
	const char *unit;

	if (!s->scope)
		return true;
	if (s->scope->kind == SCOPE_USER)
		return job->parts.uid == s->scope->uid;
	unit = workers_job_unit(&s->workers, job);
	return unit && streq(unit, s->scope->name);
}

static bool job_stays(const struct stays *s, const struct worker_job *job)
{
	const struct assign *a = s->published.assign;

	return a && a->mode == MODE_ON && concerns(s, job) && workers_job_stale(&s->workers, job);
}

/* The last one asked for. */
struct user_names {
	uid_t uid;
	char *text;
};

/* The name, or else the number; "" without memory. Thousands of jobs are of a few users, and asking for
 * a name takes a millisecond. */
static const char *user_name(struct user_names *names, uid_t uid)
{
	const struct passwd *pw;

	if (names->text && names->uid == uid)
		return names->text;
	free(names->text);
	pw = getpwuid(uid);
	if (pw)
		names->text = strdup(pw->pw_name);
	else if (asprintf(&names->text, "%u", (unsigned)uid) < 0)
		names->text = NULL;
	names->uid = uid;
	return names->text ? names->text : "";
}

static void user_names_done(struct user_names *names)
{
	free(names->text);
}

static struct json_object *way_out_json(const struct worker_job *job, const char *unit)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	stays_way_out(f, job, unit);
	(void)fclose(f);
	return json_text(text);
}

static struct json_object *job_json(const struct stays *s, const struct worker_job *job,
				    const char *profile, struct user_names *users)
{
	const struct workers *w = &s->workers;
	struct json_object *o = json_object_new_object(), *pids = json_object_new_array();
	const char *unit = workers_job_unit(w, job);

	json_object_object_add(o, "id", json_text(job->key));
	json_object_object_add(o, "kind", json_text(job_kind_name(job->parts.kind)));
	json_object_object_add(o, "root_pid",
			       json_number_or_null(job->root_pid > 0 ? job->root_pid : -1));
	json_object_object_add(o, "snapshot", json_text(job->snapshot[0] ? job->snapshot : NULL));
	json_object_object_add(o, "profile", json_text(profile));
	json_object_object_add(o, "unit", json_text(unit));
	json_object_object_add(o, "uid", json_object_new_int64(job->parts.uid));
	json_object_object_add(o, "user", json_text(user_name(users, job->parts.uid)));
	json_object_object_add(o, "fix", way_out_json(job, unit));
	json_object_object_add(o, "pids", pids);
	for (size_t i = job->first; i != WORKERS_NONE; i = w->items[i].next)
		json_object_array_add(pids, json_object_new_int64(w->items[i].pid));
	return o;
}

struct json_object *stays_json(const struct stays *s)
{
	_cleanup_(published_names_done) struct published_names names = {.published = &s->published};
	_cleanup_(user_names_done) struct user_names users = {0};
	struct json_object *list;

	if (!s->known)
		return NULL;
	list = json_object_new_array();
	for (size_t i = 0; i < s->workers.n_jobs; i++) {
		const struct worker_job *job = &s->workers.jobs[i];

		if (job_stays(s, job))
			json_object_array_add(
				list, job_json(s, job, published_names_find(&names, job->snapshot),
					       &users));
	}
	return list;
}

void stays_way_out(FILE *f, const struct worker_job *job, const char *unit)
{
	_cleanup_(freep) char *escaped = NULL;
	char comm[PLACE_COMM_SIZE];

	if (unit && job->parts.kind == JOB_UNIT) {
		escaped = text_escape(unit, strlen(unit));
		fprintf(f, "systemctl restart %s", escaped ? escaped : "it");
	} else if (job->parts.kind == JOB_SLURM || job->parts.kind == JOB_CONTAINER) {
		fprintf(f, "start the %s again", job_kind_name(job->parts.kind));
	} else if (job->parts.digest[0]) {
		/* Below a root that has a job of its own: exec, or a launcher with a token. */
		fprintf(f, "end these and start them again");
	} else if (job->root_pid > 0 && place_is_above(job->root_pid)) {
		fprintf(f, "open a new shell, this one is part of it");
	} else if (job->root_pid > 0) {
		place_comm(job->root_pid, comm);
		escaped = text_escape(comm, strlen(comm));
		fprintf(f, "end %s (process %d) and start it again",
			escaped && escaped[0] ? escaped : "it", (int)job->root_pid);
	} else {
		fprintf(f, "end these and start them again");
	}
}

static void print_job(const struct stays *s, const struct worker_job *job, const char *profile,
		      struct user_names *users)
{
	const struct workers *w = &s->workers;
	const char *separator = "";

	printf("  job %.*s", workers_key_shown(job->key), job->key);
	if (job->parts.uid != geteuid()) {
		printf(" of ");
		print_escaped(user_name(users, job->parts.uid));
	}
	printf(", on ");
	print_escaped(!job->snapshot[0] ? "nothing" : profile ? profile : "a snapshot");
	if (job->snapshot[0])
		printf(" %.*s", DIGEST_SHOWN, job->snapshot);
	printf(", pids ");
	for (size_t i = job->first; i != WORKERS_NONE; i = w->items[i].next) {
		printf("%s%d", separator, (int)w->items[i].pid);
		separator = " ";
	}
	printf(": ");
	stays_way_out(stdout, job, workers_job_unit(w, job));
	printf("\n");
}

void stays_print(const struct stays *s)
{
	_cleanup_(published_names_done) struct published_names names = {.published = &s->published};
	_cleanup_(user_names_done) struct user_names users = {0};
	bool any = false;

	for (size_t i = 0; i < s->workers.n_jobs; i++) {
		const struct worker_job *job = &s->workers.jobs[i];

		if (!job_stays(s, job))
			continue;
		if (!any)
			printf("These jobs stay as they are until they are started again, or "
			       "moved by release JOB:\n");
		any = true;
		print_job(s, job, published_names_find(&names, job->snapshot), &users);
	}
	own_job_print(&s->own, false);
}
