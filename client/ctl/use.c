/* SPDX-License-Identifier: MIT */
/* use and rollback: another snapshot for new jobs, of all or of some, and who stays on the older
 * one.
 */
#include "config.h"

#include "client/ctl/change.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "common/util.h"

static struct override_options arg_options;
static bool arg_reset, arg_node;

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

/* For a change that is not made. */
static int ask(struct ctl *ctl, struct json_object **ret_list, struct json_object **ret_status)
{
	int r = ctl_may_change(ctl);

	if (r == CTL_GOOD)
		r = ctl_call(ctl, "List", NULL, ret_list);
	return r == CTL_GOOD ? ctl_call(ctl, "GetStatus", NULL, ret_status) : r;
}

static int dry_override(struct ctl *ctl, struct json_object *status, const char *name,
			const char *digest, const struct target *target)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();

	change_dry_fields(o, "use", status, target);
	json_object_object_add(o, "to", json_text(digest));
	json_object_object_add(o, "digest", json_text(digest));
	json_object_object_add(o, "profile", json_text(name));
	if (ctl->json)
		change_print_json(ctl, o);
	else
		change_print_override(ctl, o, target, true);
	return CTL_GOOD;
}

/* What a List answer says NAME would be. CTL_GOOD, or an exit status after an error line. */
static int find_version(struct ctl *ctl, struct json_object *list, const char *name,
			const char **ret)
{
	struct json_object *p = find_profile(list, name);
	const char *digest = json_string(p, "file_digest");

	if (!p)
		return ctl_no_profile(ctl, name);
	if (!json_true(p, "valid"))
		return ctl_error(
			CTL_BAD_NEWS,
			"profile %s has errors, the first is %s; cudaenvctl%s check %s shows all",
			name, json_string(p, "error") ? json_string(p, "error") : "not known",
			ctl_user_option(ctl), name);
	/* use applies what the file says now; what is in force may be older. */
	*ret = digest ? digest : json_string(p, "digest");
	return CTL_GOOD;
}

static int dry_use(struct ctl *ctl, const char *name, const struct target *target)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(json_putp) struct json_object *list = NULL, *status = NULL;
	const char *digest = NULL;
	int r;

	r = ask(ctl, &list, &status);
	if (r == CTL_GOOD)
		r = ctl_published(ctl, &p);
	if (r == CTL_GOOD)
		r = find_version(ctl, list, name, &digest);
	if (r != CTL_GOOD)
		return r;
	if (target->scope.kind == SCOPE_NODE && target->seconds == 0)
		return change_dry_node(ctl, &p, "use", status, name, digest, "node", NULL);
	return dry_override(ctl, status, name, digest, target);
}

/* All overrides end, or the node's own one and choice: what the settings say then counts. */
static int dry_reset_node(struct ctl *ctl, struct json_object *list, struct json_object *status,
			  const struct target *target, struct json_object *ended)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	const char *name = json_string(list, "configured");
	int r = ctl_published(ctl, &p);

	if (r != CTL_GOOD)
		return r;
	if (!arg_node)
		return change_dry_node(ctl, &p, "reset", status, json_string(status, "active"),
				       json_string(status, "digest"), target->text, ended);
	return change_dry_node(ctl, &p, "reset", status, name,
			       name ? json_string(find_profile(list, name), "digest") : NULL,
			       target->text, ended);
}

static struct json_object *ended_by(struct json_object *status, const struct target *target)
{
	struct json_object *ended = json_object_new_array(), *all = json_array(status, "overrides");

	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *one = json_object_array_get_idx(all, i);
		const char *scope = json_string(one, "scope");

		if (streq(target->text, "all") || (scope && streq(scope, target->text)))
			json_object_array_add(ended, json_object_get(one));
	}
	return ended;
}

static int dry_reset(struct ctl *ctl, const struct target *target)
{
	_cleanup_(json_putp) struct json_object *list = NULL, *status = NULL, *o = NULL,
						*ended = NULL;
	int r = ask(ctl, &list, &status);

	if (r != CTL_GOOD)
		return r;
	ended = ended_by(status, target);
	if (target->scope.kind == SCOPE_NODE)
		return dry_reset_node(ctl, list, status, target, ended);
	o = json_object_new_object();
	change_dry_fields(o, "reset", status, target);
	json_object_object_add(o, "ended", json_object_get(ended));
	if (ctl->json)
		change_print_json(ctl, o);
	else
		change_print_ended(ended, target->text, true);
	return CTL_GOOD;
}

/* CTL_GOOD, or CTL_USAGE after an error line. */
static int check_arguments(int argc, char *argv[])
{
	if (arg_reset && argc > 0)
		return ctl_error(CTL_USAGE, "--reset takes no profile, but '%s' is given", argv[0]);
	if (arg_reset && arg_options.duration)
		return ctl_error(CTL_USAGE, "--reset is at once: it takes no --for");
	if (arg_node && !arg_reset)
		return ctl_error(CTL_USAGE, "--node goes with --reset; use without --unit and "
					    "--user is for the node");
	if (arg_node && (arg_options.unit || arg_options.user))
		return ctl_error(CTL_USAGE, "either --node, or --unit or --user");
	if (!arg_reset && argc == 0 && arg_options.user)
		return ctl_error(
			CTL_USAGE,
			"an argument is missing: cudaenvctl use PROFILE; --user is a user's "
			"name here, your own cudaenvd is meant by cudaenvctl --user use");
	if (!arg_reset && argc == 0)
		return ctl_error(CTL_USAGE, "an argument is missing: cudaenvctl use PROFILE");
	return CTL_GOOD;
}

static int reset(struct ctl *ctl, const struct target *target)
{
	const char *const arguments[] = {target->request, ctl->reason, NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r;

	if (ctl->dry_run)
		return dry_reset(ctl, target);
	r = ctl_call(ctl, "Reset", arguments, &o);
	return r == CTL_GOOD ? change_finish(ctl, o, target) : r;
}

static int run_use(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(json_putp) struct json_object *o = NULL;
	struct target target;
	int r;

	r = check_arguments(argc, argv);
	if (r == CTL_GOOD)
		r = target_find(&arg_options, &target);
	if (r != CTL_GOOD)
		return r;
	if (arg_reset && target.scope.kind == SCOPE_NODE) {
		strcpy(target.text, arg_node ? "node" : "all");
		strcpy(target.request, target.text);
	}
	if (arg_reset)
		return reset(ctl, &target);
	if (ctl->dry_run)
		return dry_use(ctl, argv[0], &target);
	const char *const strings[] = {argv[0], target.request, ctl->reason, NULL};
	const struct control_arguments arguments = {.strings = strings, .number = &target.seconds};

	r = ctl_call_with(ctl, "Use", &arguments, &o);
	return r == CTL_GOOD ? change_finish(ctl, o, &target) : r;
}

/* Does this entry of a History answer change the snapshot of new jobs? */
static bool is_switch(struct json_object *entry)
{
	const char *scope = json_string(entry, "scope"), *action = json_string(entry, "action");

	/* An override of the whole node has an end. */
	return scope && action && streq(scope, "node") && json_number(entry, "until", 0) == 0 &&
	       !streq(action, "on") && !streq(action, "observe") && !streq(action, "off");
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

	r = ctl_may_change(ctl);
	if (r == CTL_GOOD)
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
	return change_dry_node(ctl, &p, "rollback", status, profile, to, "node", NULL);
}

static int run_rollback(struct ctl *ctl, int argc, char *argv[])
{
	const char *const arguments[] = {ctl->reason, NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r;

	if (ctl->dry_run)
		return dry_rollback(ctl);
	r = ctl_call(ctl, "Rollback", arguments, &o);
	return r == CTL_GOOD ? change_finish(ctl, o, NULL) : r;
}

static const struct ctl_option use_options[] = {
	OVERRIDE_OPTIONS(arg_options),
	{.name = "reset",
	 .help = "end the overrides of --unit or --user; alone: all of them",
	 .flag = &arg_reset},
	{.name = "node",
	 .help = "with --reset: the node's own choice ends, the settings decide again",
	 .flag = &arg_node},
	{0},
};

const struct verb verb_use = {
	.name = "use",
	.arguments = "[PROFILE]",
	.summary = "New jobs get this profile; says who stays on the older one.",
	.help = "Running jobs stay on their snapshot, their later processes too. An edited\n"
		"file of the profile is read and applied. For a unit, a user or a time it is\n"
		"an override: it goes before the rules and the choice of the node (for the\n"
		"whole node: behind the rules), which come back when it ends. --user stands\n"
		"for a user here: your own cudaenvd is meant by cudaenvctl --user use.\n"
		"Needs cudaenvd.",
	.flags = VERB_CHANGES | VERB_FILES,
	.min_arguments = 0,
	.max_arguments = 1,
	.options = use_options,
	.run = run_use,
};

const struct verb verb_rollback = {
	.name = "rollback",
	.arguments = "",
	.summary = "New jobs get the snapshot before the last switch.",
	.help = "The digest is restored, whatever the profile's file says now. It is the\n"
		"node's choice that goes back: overrides stay. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.run = run_rollback,
};
