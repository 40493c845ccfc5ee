/* SPDX-License-Identifier: MIT */
/* use and rollback: another snapshot for new jobs, and who stays on the older one. */
#include "config.h"

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/stays.h"
#include "client/ctl/table.h"
#include "common/util.h"

static void print_switch(struct json_object *o, bool dry_run)
{
	const char *profile = json_string(o, "profile"), *to = json_string(o, "to"),
		   *from = json_string(o, "from"), *mode = json_string(o, "mode");

	printf("%s", dry_run ? "Would be in use: " : "In use: ");
	print_escaped(profile ? profile : "no profile");
	if (to)
		printf(", snapshot %.*s", DIGEST_SHOWN, to);
	if (from && to && streq(from, to))
		printf(" (as before)");
	else if (from)
		printf(" (%s: %.*s)", dry_run ? "now" : "before", DIGEST_SHOWN, from);
	printf(".\n");
	if (mode && !streq(mode, "on"))
		printf("Mode is %s: nothing is set until cudaenvctl on.\n", mode);
	if (json_string(o, "warning"))
		ctl_note("%s", json_string(o, "warning"));
}

static int finish(struct ctl *ctl, struct json_object *o)
{
	_cleanup_(stays_done) struct stays stays = STAYS_NULL;
	int r;

	r = stays_find(ctl, &stays);
	if (r != CTL_GOOD)
		return r;
	if (ctl->json) {
		json_object_object_add(o, "stays", stays_json(&stays));
		json_object_object_add(o, "own_job", own_job_json(&stays.own));
		json_print(o);
	} else {
		print_switch(o, false);
		stays_print(&stays);
	}
	return CTL_GOOD;
}

/* By name in a List answer. */
static struct json_object *find_profile(struct json_object *list, const char *name)
{
	struct json_object *profiles = json_array(list, "profiles");

	for (size_t i = 0; profiles && i < json_object_array_length(profiles); i++) {
		struct json_object *p = json_object_array_get_idx(profiles, i);
		const char *s = json_string(p, "name");

		if (s && streq(s, name))
			return p;
	}
	return NULL;
}

/* The document and the lines of a switch that is not made. TO: NULL for none. */
static int dry_answer(struct ctl *ctl, const struct published *p, const char *action,
		      struct json_object *status, const char *profile, const char *to)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	const char *mode_text = json_string(status, "mode");
	_cleanup_(own_job_done) struct own_job own = {0};
	enum mode mode;

	if (mode_text && mode_parse(mode_text, &mode) == 0)
		own_job_find(p, mode, to ? to : "", &own);
	json_object_object_add(o, "action", json_text(action));
	json_object_object_add(o, "mode", json_text(mode_text));
	json_object_object_add(o, "from", json_text(json_string(status, "digest")));
	json_object_object_add(o, "to", json_text(to));
	json_object_object_add(o, "digest", json_text(to));
	json_object_object_add(o, "profile", json_text(profile));
	json_object_object_add(o, "generation",
			       json_object_new_int64(json_number(status, "generation", 0)));
	json_object_object_add(o, "dry_run", json_object_new_boolean(true));
	json_object_object_add(o, "own_job", own_job_json(&own));
	if (ctl->json) {
		json_print(o);
	} else {
		print_switch(o, true);
		own_job_print(&own, true);
	}
	return CTL_GOOD;
}

static int dry_use(struct ctl *ctl, const char *name)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(json_putp) struct json_object *list = NULL, *status = NULL;
	struct json_object *to;
	const char *digest;
	int r;

	r = ctl_call(ctl, "List", NULL, &list);
	if (r == CTL_GOOD)
		r = ctl_call(ctl, "GetStatus", NULL, &status);
	if (r == CTL_GOOD)
		r = ctl_published(ctl, &p);
	if (r != CTL_GOOD)
		return r;
	to = find_profile(list, name);
	if (!to)
		return ctl_no_profile(ctl, name);
	if (!json_true(to, "valid"))
		return ctl_error(
			CTL_BAD_NEWS,
			"profile %s has errors, the first is %s; cudaenvctl%s check %s shows all",
			name, json_string(to, "error") ? json_string(to, "error") : "not known",
			ctl_user_option(ctl), name);
	/* use applies what the file says now; what is in force may be older. */
	digest = json_string(to, "file_digest");
	return dry_answer(ctl, &p, "use", status, name,
			  digest ? digest : json_string(to, "digest"));
}

static int run_use(struct ctl *ctl, int argc, char *argv[])
{
	const char *const arguments[] = {argv[0], ctl->reason, NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r;

	if (ctl->dry_run)
		return dry_use(ctl, argv[0]);
	r = ctl_call(ctl, "Use", arguments, &o);
	return r == CTL_GOOD ? finish(ctl, o) : r;
}

/* Does this entry of a History answer change the snapshot of new jobs? */
static bool is_switch(struct json_object *entry)
{
	const char *scope = json_string(entry, "scope"), *action = json_string(entry, "action");

	return scope && action && streq(scope, "node") && !streq(action, "on") &&
	       !streq(action, "observe") && !streq(action, "off");
}

/* What rollback goes back to, as the manager finds it: a rollback undoes the switch before it. 1
 * and *ret (NULL: no profile), 0: nothing to go back to. */
static int find_previous(struct json_object *history, const char **ret)
{
	struct json_object *entries = json_array(history, "entries");
	size_t n_entries = entries ? json_object_array_length(entries) : 0, n = 0;
	_cleanup_(freep) const char **stack = calloc(n_entries + 2, sizeof *stack);

	if (!stack)
		return -ENOMEM;
	for (size_t i = 0; i < n_entries; i++) {
		struct json_object *e = json_object_array_get_idx(entries, i);

		if (!is_switch(e))
			continue;
		if (n == 0)
			stack[n++] = json_string(e, "from");
		if (streq(json_string(e, "action"), "rollback") && n > 1)
			n--;
		else
			stack[n++] = json_string(e, "to");
	}
	if (n < 2)
		return 0;
	*ret = stack[n - 2];
	return 1;
}

static int dry_rollback(struct ctl *ctl)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(json_putp) struct json_object *history = NULL, *status = NULL;
	_cleanup_(freep) char *profile = NULL;
	const char *to = NULL;
	int r;

	r = ctl_call(ctl, "History", NULL, &history);
	if (r == CTL_GOOD)
		r = ctl_call(ctl, "GetStatus", NULL, &status);
	if (r == CTL_GOOD)
		r = ctl_published(ctl, &p);
	if (r != CTL_GOOD)
		return r;
	r = find_previous(history, &to);
	if (r < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (r == 0)
		return ctl_error(CTL_BAD_NEWS, "there is no switch to go back from");
	profile = to ? published_profile(&p, to) : NULL;
	return dry_answer(ctl, &p, "rollback", status, profile, to);
}

static int run_rollback(struct ctl *ctl, int argc, char *argv[])
{
	const char *const arguments[] = {ctl->reason, NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r;

	if (ctl->dry_run)
		return dry_rollback(ctl);
	r = ctl_call(ctl, "Rollback", arguments, &o);
	return r == CTL_GOOD ? finish(ctl, o) : r;
}

const struct verb verb_use = {
	.name = "use",
	.arguments = "PROFILE",
	.summary = "New jobs get this profile; says who stays on the older one.",
	.help = "Running jobs stay on their snapshot, their later processes too. An edited\n"
		"file of the profile is read and applied. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.min_arguments = 1,
	.max_arguments = 1,
	.run = run_use,
};

const struct verb verb_rollback = {
	.name = "rollback",
	.arguments = "",
	.summary = "New jobs get the snapshot before the last switch.",
	.help = "The digest is restored, whatever the profile's file says now. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.run = run_rollback,
};
