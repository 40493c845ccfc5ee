/* SPDX-License-Identifier: MIT */
/*
 * on, observe, off. `on` first pins the jobs that already hold a GPU library to nothing; `off` does
 * not need the manager: where it is dead or frozen the published mode is rewritten at once.
 */
#include "config.h"

#include <inttypes.h>

#include "client/ctl/change.h"
#include "client/ctl/control.h"
#include "client/ctl/holders.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/off.h"
#include "client/ctl/stays.h"
#include "client/ctl/table.h"
#include "client/ctl/workers.h"
#include "common/util.h"

#define ERROR_DENIED      "org.cudaenv.Error.Denied"
#define ERROR_ARGUMENTS   "org.freedesktop.DBus.Error.InvalidArgs"
#define OFF_DEADLINE_USEC ((uint64_t)1000 * 1000)

static struct json_object *holders_json(const struct holders *h)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < h->n; i++) {
		struct json_object *o, *pids;

		if (h->items[i].pinned || h->items[i].error < 0)
			continue;
		o = json_object_new_object();
		pids = json_object_new_array();
		json_object_object_add(o, "id", json_text(h->items[i].key));
		json_object_object_add(o, "pids", pids);
		for (size_t k = 0; k < h->items[i].n_pids; k++)
			json_object_array_add(pids, json_object_new_int64(h->items[i].pids[k]));
		json_object_array_add(list, o);
	}
	return list;
}

static void holders_print(const struct holders *h, bool dry_run)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct holder *item = &h->items[i];

		if (item->pinned || item->error < 0)
			continue;
		printf("%s as it is, it runs on the GPU already: job %s, pids",
		       dry_run ? "Would keep" : "Kept", item->key);
		for (size_t k = 0; k < item->n_pids; k++)
			printf(" %d", (int)item->pids[k]);
		printf("; its processes get the profile when it is started again\n");
	}
}

/* The document of a change that is not made. */
static struct json_object *dry_json(const struct published *p, enum mode mode)
{
	struct json_object *o = json_object_new_object();
	const char *digest = p->assign ? p->assign->fallback : "";
	_cleanup_(freep) char *profile = published_profile(p, digest);

	json_object_object_add(o, "action", json_text(mode_name(mode)));
	json_object_object_add(o, "mode", json_text(mode_name(mode)));
	json_object_object_add(o, "from", json_text(p->assign ? mode_name(p->assign->mode) : NULL));
	json_object_object_add(o, "to", json_text(mode_name(mode)));
	json_object_object_add(o, "digest", json_text(digest[0] ? digest : NULL));
	json_object_object_add(o, "profile", json_text(profile));
	json_object_object_add(o, "generation",
			       p->assign ? json_object_new_int64((int64_t)p->assign->generation)
					 : NULL);
	return o;
}

static void print_change(const struct ctl *ctl, struct json_object *o, enum mode mode, bool dry_run)
{
	static const char *const effect[] = {
		[MODE_OFF] = "nothing is set, in no process, from the next start on",
		[MODE_OBSERVE] = "starts are registered, new jobs get nothing",
		[MODE_ON] = "new jobs get their profile's variables",
	};
	const char *from = json_string(o, "from"), *profile = json_string(o, "profile");

	if (from && streq(from, mode_name(mode)))
		printf("Mode %s %s: %s.\n", mode_name(mode), dry_run ? "already" : "as before",
		       effect[mode]);
	else
		printf("%s %s%s%s: %s.\n", dry_run ? "Would change mode to" : "Mode is now",
		       mode_name(mode), from ? ", was " : "", from ? from : "", effect[mode]);
	if (json_string(o, "warning"))
		ctl_note("%s", json_string(o, "warning"));
	if (mode != MODE_ON)
		return;
	if (!profile) {
		printf("No profile is in use yet: cudaenvctl use PROFILE.\n");
		return;
	}
	if (!json_string(o, "digest")) {
		_cleanup_(freep) char *fix = NULL,
				      *reason = missing_version_reason(ctl, profile, &fix);

		printf("Jobs of no rule get nothing: ");
		print_escaped(reason ? reason : profile);
		printf("; %s\n", fix ? fix : "cudaenvctl use PROFILE");
		return;
	}
	printf("In use: ");
	print_escaped(profile);
	printf(".\n");
}

/* Before anything is pinned: is there a manager that will answer? */
static int reach_manager(struct ctl *ctl)
{
	_cleanup_(control_result_done) struct control_result answer = {0};
	int r;

	r = control_ping(ctl->paths.control, CONTROL_ALIVE_USEC, &answer);
	return r < 0 ? ctl_call_error(ctl, r, &answer) : CTL_GOOD;
}

/* The jobs that are to stay as they are. Without `assign` or with mode on there are none to look
 * for. */
static int keep_running_jobs(struct ctl *ctl, const struct published *p, struct holders *ret)
{
	int r;

	if (!p->assign || p->assign->mode == MODE_ON)
		return CTL_GOOD;
	if (geteuid() != 0 && geteuid() != p->runtime.publisher) {
		ctl_note(
			"jobs that run on the GPU already are not looked for: only root sees them");
		return CTL_GOOD;
	}
	r = holders_find(p, geteuid() == 0 ? WORKERS_EVERYONE : geteuid(), ret);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot look for running jobs in /proc: %s",
				 strerror(-r));
	if (ctl->dry_run)
		return CTL_GOOD;
	holders_pin(p, ret);
	for (size_t i = 0; i < ret->n; i++)
		if (ret->items[i].error < 0)
			ctl_note("job %s (pid %d) could not be pinned: %s", ret->items[i].key,
				 (int)ret->items[i].pids[0], strerror(-ret->items[i].error));
	return CTL_GOOD;
}

/* An answer, or a call that was never made: no reason to go another way. */
static bool off_is_refused(int r, const struct control_result *answer)
{
	return r == -EINVAL || (r == -EREMOTEIO && (streq(answer->error_name, ERROR_DENIED) ||
						    streq(answer->error_name, ERROR_ARGUMENTS)));
}

/* WHY: of the call that failed. */
static int off_denied(struct ctl *ctl, const struct published *p, int why,
		      const struct control_result *answer)
{
	(void)ctl_call_error(ctl, why, answer);
	return ctl_error(CTL_FAILED, "without it only %s may turn it off",
			 p->runtime.publisher == 0 ? "root" : "its owner");
}

/* For a change that is not made: may this user, with the manager or without it? */
static int off_may(struct ctl *ctl, const struct published *p)
{
	_cleanup_(control_result_done) struct control_result answer = {0};
	int r;

	r = control_call(ctl->paths.control, "MayChange", NULL, OFF_DEADLINE_USEC, &answer);
	if (off_is_refused(r, &answer))
		return ctl_call_error(ctl, r, &answer);
	return r == 0 || p->runtime.publisher == geteuid() ? CTL_GOOD
							   : off_denied(ctl, p, r, &answer);
}

static int may(struct ctl *ctl, const struct published *p, enum mode mode)
{
	return mode == MODE_OFF ? off_may(ctl, p) : ctl_may_change(ctl);
}

static int change(struct ctl *ctl, enum mode mode)
{
	const char *const arguments[] = {mode_name(mode), ctl->reason, NULL};
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(holders_done) struct holders holders = {0};
	_cleanup_(stays_done) struct stays stays = STAYS_NULL;
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r;

	r = ctl_published(ctl, &p);
	if (r != CTL_GOOD)
		return r;
	if (ctl->dry_run)
		r = may(ctl, &p, mode);
	else if (mode == MODE_ON)
		r = reach_manager(ctl);
	if (r == CTL_GOOD && mode == MODE_ON)
		r = keep_running_jobs(ctl, &p, &holders);
	if (r != CTL_GOOD)
		return r;
	if (ctl->dry_run)
		o = dry_json(&p, mode);
	else
		r = ctl_call(ctl, "SetMode", arguments, &o);
	if (r != CTL_GOOD)
		return r;
	if (mode == MODE_ON && !ctl->dry_run)
		r = stays_find(ctl, &stays);
	else if (mode == MODE_ON && p.assign)
		own_job_find(&p, MODE_ON, p.assign->fallback, &stays.own);
	if (ctl->json) {
		if (mode == MODE_ON) {
			json_object_object_add(o, "kept", holders_json(&holders));
			json_object_object_add(o, "own_job", own_job_json(&stays.own));
		}
		if (stays.known)
			json_object_object_add(o, "stays", stays_json(&stays));
		change_print_json(ctl, o);
		return r;
	}
	print_change(ctl, o, mode, ctl->dry_run);
	holders_print(&holders, ctl->dry_run);
	if (ctl->dry_run)
		own_job_print(&stays.own, true);
	else
		stays_print(&stays);
	return r;
}

static struct json_object *off_json(const struct published *p, const struct off_result *off)
{
	struct json_object *o = dry_json(p, MODE_OFF);

	json_object_object_add(o, "generation", json_object_new_int64((int64_t)off->generation));
	json_object_object_add(o, "direct", json_object_new_boolean(true));
	return o;
}

/* WHY: of the call that failed. */
static void off_notes(const struct published *p, const char *state_dir,
		      const struct off_result *off, int why, const struct control_result *answer)
{
	const char *what = why == -EREMOTEIO   ? answer->error_text
			   : why == -ETIMEDOUT ? "it does not answer"
					       : "it is not running";

	ctl_note("not through cudaenvd (%s): %s/assign was rewritten; it takes this over when it "
		 "can again",
		 what, p->path);
	if (off->damaged)
		ctl_note("that file was missing or damaged: the new one has no rules");
	if (off->state_error < 0)
		ctl_note(
			"%s/active could not be changed (%s): a reboot would bring the mode before "
			"back",
			state_dir, strerror(-off->state_error));
}

static int off_without_manager(struct ctl *ctl, int why, const struct control_result *answer)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(json_putp) struct json_object *o = NULL;
	const struct paths *paths = ctl_paths(ctl);
	struct off_result off;
	int r;

	r = ctl_published(ctl, &p);
	if (r != CTL_GOOD)
		return r;
	r = off_direct(&p, paths->state, &off);
	if (r == -EPERM || r == -EACCES)
		return off_denied(ctl, &p, why, answer);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot write %s/assign: %s", p.path, strerror(-r));
	off_notes(&p, paths->state, &off, why, answer);
	o = off_json(&p, &off);
	if (ctl->json)
		change_print_json(ctl, o);
	else
		print_change(ctl, o, MODE_OFF, false);
	return CTL_GOOD;
}

static int run_off(struct ctl *ctl, int argc, char *argv[])
{
	const char *const arguments[] = {mode_name(MODE_OFF), ctl->reason, NULL};
	_cleanup_(control_result_done) struct control_result answer = {0};
	_cleanup_(json_putp) struct json_object *o = NULL;
	const struct paths *paths = ctl_paths(ctl);
	int r;

	if (!paths)
		return CTL_FAILED;
	if (ctl->dry_run)
		return change(ctl, MODE_OFF);
	r = control_call(paths->control, "SetMode", arguments, OFF_DEADLINE_USEC, &answer);
	if (off_is_refused(r, &answer))
		return ctl_call_error(ctl, r, &answer);
	if (r < 0)
		return off_without_manager(ctl, r, &answer);
	o = json_parse(answer.reply, strlen(answer.reply));
	if (!o)
		return ctl_error(CTL_FAILED, "cudaenvd's answer to SetMode is not understood");
	if (ctl->json)
		change_print_json(ctl, o);
	else
		print_change(ctl, o, MODE_OFF, false);
	return CTL_GOOD;
}

static int run_on(struct ctl *ctl, int argc, char *argv[])
{
	return change(ctl, MODE_ON);
}

static int run_observe(struct ctl *ctl, int argc, char *argv[])
{
	return change(ctl, MODE_OBSERVE);
}

const struct verb verb_on = {
	.name = "on",
	.arguments = "",
	.summary = "New jobs get the variables of their profile.",
	.help = "Jobs that already hold libcuda or libnccl stay as they are, for all their\n"
		"further processes: each is named. They get the profile when they are started\n"
		"again. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.run = run_on,
};

const struct verb verb_observe = {
	.name = "observe",
	.arguments = "",
	.summary = "Starts are registered and reported; nothing is set.",
	.help = "A job that has its variables keeps them, also for its further processes.\n"
		"Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.run = run_observe,
};

const struct verb verb_off = {
	.name = "off",
	.arguments = "",
	.summary = "Nothing is set any more, in the whole node, at once.",
	.help = "Works with cudaenvd dead or frozen too: then the published mode is rewritten,\n"
		"which root (with --user: you) may do; cudaenvd takes it over when it starts\n"
		"again. Rules are kept.",
	.flags = VERB_CHANGES,
	.run = run_off,
};
