/* SPDX-License-Identifier: MIT */
/* The verdict over a process, its one line, and what to do about it. */
#include "config.h"

#include "client/ctl/missing.h"
#include "client/ctl/stays.h"
#include "client/ctl/table.h"
#include "client/ctl/why.h"
#include "common/util.h"

const char *why_verdict_word(enum why_verdict verdict)
{
	static const char *const words[] = {
		[WHY_OK] = "ok",       [WHY_OVERRIDDEN] = "overridden", [WHY_MISSING] = "missing",
		[WHY_STALE] = "stale", [WHY_TOO_LATE] = "too-late",     [WHY_UNKNOWN] = "unknown",
	};

	return words[verdict];
}

/* What is wrong, the first that applies. */
enum finding {
	MODE_IS_OFF,
	NOT_REGISTERED,
	NO_PIN,
	MODE_IS_OBSERVE, /* its job has none because of that */
	PINNED_NONE,
	START_FAILED,
	UNMET, /* CUDAENV_REQUIRE */
	VARIABLES,
	JOB_IS_STALE,
	NOT_KNOWN,
	ALL_GOOD,
};

static enum finding find(const struct why *w)
{
	const struct worker *worker = w->worker;
	enum mode mode = w->published.assign->mode;

	if (mode == MODE_OFF)
		return MODE_IS_OFF;
	if (!worker->key)
		return NOT_REGISTERED;
	if (!worker->pin_known)
		return NO_PIN;
	if (!worker->snapshot[0])
		return mode == MODE_OBSERVE ? MODE_IS_OBSERVE : PINNED_NONE;
	if (w->report_error == 0 && w->report.result != 0)
		return START_FAILED;
	if (worker->required && !worker->required_met)
		return UNMET;
	if (w->counts[WHY_OVERRIDDEN] + w->counts[WHY_MISSING] + w->counts[WHY_STALE] +
		    w->counts[WHY_TOO_LATE] >
	    0)
		return VARIABLES;
	if (worker->job_stale == TRI_YES)
		return JOB_IS_STALE;
	return !w->intended || w->counts[WHY_UNKNOWN] > 0 ? NOT_KNOWN : ALL_GOOD;
}

/* --- verdict */

static bool is_wrong(const struct why_variable *v)
{
	return v->verdict != WHY_OK && v->verdict != WHY_UNKNOWN;
}

/* Docker's and systemd's filters are such. */
static bool is_silent(const struct why *w)
{
	return w->filtered && w->report_error == -ENODATA;
}

#define NAMES_SHOWN 3

/* To be named: not one that only goes with another of its group. */
static bool is_cause(const struct why_variable *v)
{
	return is_wrong(v) && !v->because;
}

static void print_wrong(FILE *f, const struct why *w)
{
	size_t wrong = 0, causes = 0, shown = 0;

	for (size_t i = 0; i < w->n_variables; i++) {
		wrong += is_wrong(&w->variables[i]);
		causes += is_cause(&w->variables[i]);
	}
	fprintf(f, "NOT AS INTENDED: %zu of %zu variable%s:", wrong, w->n_variables,
		w->n_variables == 1 ? "" : "s");
	for (size_t i = 0; i < w->n_variables && shown < NAMES_SHOWN; i++)
		if (is_cause(&w->variables[i]))
			fprintf(f, "%s %s is %s", shown++ > 0 ? "," : "",
				w->variables[i].entry->name,
				why_verdict_word(w->variables[i].verdict));
	if (causes > shown)
		fprintf(f, ", ...");
	if (causes == 0)
		fprintf(f, " %s is kept out, for %s differs", w->only, w->variables[0].because);
	else if (wrong > causes)
		fprintf(f, ", which keeps out %zu more of its group", wrong - causes);
}

/* A new job in its place would get this. */
static const char *now_profile(const struct why *w, struct published_names *names)
{
	const char *name = NULL;

	if (w->published.assign->mode == MODE_ON && w->rule.digest[0])
		name = published_names_find(names, w->rule.digest);
	return name                                                        ? name
	       : w->published.assign->mode == MODE_ON && w->rule.digest[0] ? "another snapshot"
									   : "nothing";
}

/* Its job was kept without variables. */
static bool is_placed_none(const struct why *w)
{
	return w->placed && !w->place_digest[0];
}

static void print_uncovered(FILE *f, const struct why *w)
{
	fprintf(f, "NOT COVERED: process %d has not registered", (int)w->worker->pid);
	if (w->disabled)
		fprintf(f, ", it was started with CUDAENV_DISABLE=1");
	else if (is_placed_none(w))
		fprintf(f, ", and nothing is set in its job: it began without variables before "
			   "the mode was on");
	else if (w->n_variables > 0 && w->counts[WHY_OK] == w->n_variables)
		fprintf(f, ", but was handed %s of %s", w->only ? w->only : "all variables",
			w->intended->profile);
}

static void print_verdict(FILE *f, const struct why *w, enum finding finding)
{
	_cleanup_(published_names_done) struct published_names names = {.published = &w->published};
	const char *profile = w->intended ? w->intended->profile : "its snapshot";
	const struct worker *worker = w->worker;

	switch (finding) {
	case MODE_IS_OFF:
		fprintf(f, "NOTHING IS SET: the mode is off");
		break;
	case NOT_REGISTERED:
		print_uncovered(f, w);
		break;
	case NO_PIN:
		fprintf(f, "NOT KNOWN: its job has no snapshot here");
		break;
	case MODE_IS_OBSERVE:
		fprintf(f, "NOTHING IS SET: the mode is observe");
		break;
	case PINNED_NONE:
		fprintf(f, "NOTHING IS SET in its job: it began in mode observe, or without "
			   "variables before the mode was on");
		break;
	case START_FAILED:
		fprintf(f, "NOTHING WAS SET: its start met an error: %s",
			strerror(w->report.result));
		break;
	case UNMET:
		fprintf(f,
			"NOT AS REQUIRED: its launcher asks for %.*s by CUDAENV_REQUIRE, and it "
			"has %s",
			DIGEST_SHOWN, worker->required, profile);
		if (w->intended)
			fprintf(f, " %.*s", DIGEST_SHOWN, w->intended->digest);
		break;
	case VARIABLES:
		print_wrong(f, w);
		break;
	case JOB_IS_STALE:
		fprintf(f, "OLDER: it has all of its job's %s, and a new job would get %s", profile,
			now_profile(w, &names));
		if (w->published.assign->mode == MODE_ON && w->rule.digest[0] && w->intended)
			fprintf(f, " %.*s", DIGEST_SHOWN, w->rule.digest);
		break;
	case NOT_KNOWN:
		fprintf(f, "NOT KNOWN: %s",
			!w->intended   ? "its snapshot cannot be read here"
			: is_silent(w) ? "under a system call filter it decides by the published "
					 "files and reports nothing"
				       : "there is no report, and the environment it was executed "
					 "with does not tell");
		break;
	case ALL_GOOD:
		if (w->only)
			fprintf(f, "OK: %s is as %s intends", w->only, profile);
		else
			fprintf(f, "OK: all %zu variable%s of %s are as intended", w->n_variables,
				w->n_variables == 1 ? "" : "s", profile);
		break;
	}
}

/* --- advice */

static const char *base_name(const char *exe)
{
	const char *slash = exe ? strrchr(exe, '/') : NULL;

	return slash ? slash + 1 : exe;
}

/* How a job begins anew. */
static void advise_restart(FILE *f, const struct why *w)
{
	if (w->job)
		stays_way_out(f, w->job, w->worker->unit);
	else
		fprintf(f, "start it again");
}

static void advise_release(FILE *f, const struct why *w)
{
	const char *key = w->worker->key ? w->worker->key : w->place;

	advise_restart(f, w);
	fprintf(f, "; or cudaenvctl%s release %.*s, for what it starts from then on",
		ctl_user_option(w->ctl), workers_key_shown(key), key);
}

static void advise_unregistered(FILE *f, const struct why *w)
{
	const char *exe = w->worker->exe, *name = base_name(exe), *user = ctl_user_option(w->ctl);

	if (w->disabled)
		fprintf(f, "start it without CUDAENV_DISABLE=1");
	else if (is_placed_none(w))
		advise_release(f, w);
	else if (w->same_mounts == TRI_NO)
		fprintf(f,
			"it has a file system of its own: mount %s into it, and cover its "
			"interpreter there",
			w->published.path);
	else if (exe && (startswith(name, "python") || startswith(name, "pypy")))
		fprintf(f,
			"see whether its interpreter has the start hook (cudaenvctl%s python "
			"status --python %s), then start it again; what ran before stays as it is",
			user, exe);
	else
		fprintf(f,
			"start it with cudaenvctl%s exec -- COMMAND; only Python has a hook (what "
			"it starts in Python, too)",
			user);
}

/* Of the first variable that is not as intended. */
static void advise_variable(FILE *f, const struct why *w)
{
	const struct why_variable *v = w->variables;
	const struct why_variable *end = v + w->n_variables;

	while (v < end && !is_cause(v))
		v++;
	if (v == end) { /* asked about one of a group alone */
		fprintf(f, "take %s out of what starts it", w->variables[0].because);
		return;
	}
	switch (v->verdict) {
	case WHY_OVERRIDDEN:
		fprintf(f, "take %s out of what starts it, or move it to [env.force]",
			v->entry->name);
		if (v->file && v->line > 0)
			fprintf(f, " (%s:%lld)", v->file, (long long)v->line);
		fprintf(f, " for new jobs");
		break;
	case WHY_TOO_LATE:
		fprintf(f,
			"start it with cudaenvctl%s exec -p %s -- COMMAND: %s acts only before "
			"a program starts",
			ctl_user_option(w->ctl), w->intended->profile, v->entry->name);
		break;
	case WHY_STALE:
		fprintf(f, "its job was released since it started; ");
		advise_restart(f, w);
		break;
	default:
		if (v->reported == CUDAENV_ABSENT_HERE)
			fprintf(f,
				"%s does not exist where it runs: install it there, or choose "
				"another [toolkit] root",
				w->intended->toolkit_root ? w->intended->toolkit_root
							  : "the toolkit");
		else
			advise_restart(f, w);
		break;
	}
}

static void advise_failed(FILE *f, const struct why *w)
{
	if (w->report.result == EKEYREJECTED && w->intended)
		fprintf(f,
			"root takes no snapshot with a path that others can write: "
			"cudaenvctl%s check %s names it",
			ctl_user_option(w->ctl), w->intended->profile);
	else
		fprintf(f, "cudaenvctl%s status tells how cudaenvd stands; then start it again",
			ctl_user_option(w->ctl));
}

static void print_advice(FILE *f, const struct why *w, enum finding finding)
{
	const char *user = ctl_user_option(w->ctl);

	if (finding != ALL_GOOD)
		fprintf(f, "To do: ");
	switch (finding) {
	case MODE_IS_OFF:
	case MODE_IS_OBSERVE:
		fprintf(f, "cudaenvctl%s on; then ", user);
		advise_restart(f, w);
		break;
	case NOT_REGISTERED:
		advise_unregistered(f, w);
		break;
	case PINNED_NONE:
	case JOB_IS_STALE:
		advise_release(f, w);
		break;
	case NO_PIN:
		advise_restart(f, w);
		break;
	case START_FAILED:
		advise_failed(f, w);
		break;
	case UNMET:
		fprintf(f,
			"cudaenvctl%s list tells what this node has; bring that profile here, and "
			"start "
			"it again",
			user);
		break;
	case VARIABLES:
		advise_variable(f, w);
		break;
	case NOT_KNOWN:
		if (is_silent(w))
			fprintf(f, "ask the program itself, or start it without the filter");
		else if (w->report_error == 0 || w->report_error == -ENODATA)
			advise_restart(f, w);
		else
			fprintf(f, "ask again: of its report, %s", report_trouble(w->report_error));
		break;
	case ALL_GOOD:
		fprintf(f, "Nothing to do");
		break;
	}
	fprintf(f, ".");
}

static char *text_of(const struct why *w, enum finding finding,
		     void (*print)(FILE *, const struct why *, enum finding))
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	print(f, w, finding);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

int why_judge(struct why *w)
{
	enum finding finding = find(w);

	w->status = finding == ALL_GOOD ? CTL_GOOD : CTL_BAD_NEWS;
	w->verdict = text_of(w, finding, print_verdict);
	w->advice = text_of(w, finding, print_advice);
	return w->verdict && w->advice ? 0 : -ENOMEM;
}
