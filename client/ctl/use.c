/* SPDX-License-Identifier: MIT */
/* use, set and rollback: another snapshot for new jobs, of all or of some, and who stays on the
 * older one. */
#include "config.h"

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/override.h"
#include "client/ctl/stays.h"
#include "client/ctl/table.h"
#include "common/profile-derive.h"
#include "common/util.h"

static struct override_options arg_options;
static bool arg_reset;

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

static void print_override(struct json_object *o, const char *scope, bool dry_run)
{
	const char *profile = json_string(o, "profile"), *to = json_string(o, "to"),
		   *from = json_string(o, "from"), *mode = json_string(o, "mode");

	if (profile) {
		printf("%s for ", dry_run ? "Would be in use" : "In use");
		print_escaped(streq(scope, "node") ? "the whole node" : scope);
		printf(": ");
		print_escaped(profile);
		printf(", snapshot %.*s", DIGEST_SHOWN, to ? to : "none");
		if (from && to && !streq(from, to))
			printf(" (%s: %.*s)", dry_run ? "now" : "before", DIGEST_SHOWN, from);
	} else {
		printf("%s for ", dry_run ? "Would be set" : "Set");
		print_escaped(scope);
		printf(", over the profile of each job: ");
		override_print_variables(json_array(o, "variables"));
	}
	override_print_end(json_number(o, "until", 0));
	printf(".\n");
	if (mode && !streq(mode, "on"))
		printf("Mode is %s: nothing is set until cudaenvctl on.\n", mode);
	if (json_string(o, "warning"))
		ctl_note("%s", json_string(o, "warning"));
}

static void print_ended(struct json_object *ended, const char *scope, bool dry_run)
{
	size_t n = ended ? json_object_array_length(ended) : 0;

	if (n == 0 && scope) {
		printf("There is no override for ");
		print_escaped(scope);
		printf(".\n");
	}
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(ended, i);
		_cleanup_(freep) char *text = override_describe(o);
		const char *whose = json_string(o, "scope");

		printf("%s for ", dry_run ? "Would end" : "Ended");
		print_escaped(whose ? whose : "");
		printf(": ");
		print_escaped(text ? text : "");
		printf(".\n");
	}
}

/* What was done for TARGET (NULL: rollback, for the node). */
static void print_done(struct json_object *o, const struct target *target)
{
	const char *action = json_string(o, "action");
	bool node = !target || target->scope.kind == SCOPE_NODE;
	bool is_reset = action && streq(action, "reset");

	if (is_reset)
		print_ended(json_array(o, "ended"), node ? NULL : target->text, false);
	if (node && (is_reset || !target || target->seconds == 0))
		print_switch(o, false);
	else if (!is_reset)
		print_override(o, target->text, false);
}

static int finish(struct ctl *ctl, struct json_object *o, const struct target *target)
{
	_cleanup_(stays_done) struct stays stays = STAYS_NULL;
	bool node = !target || target->scope.kind == SCOPE_NODE;
	int r;

	stays.scope = node ? NULL : &target->scope;
	r = stays_find(ctl, &stays);
	if (r != CTL_GOOD)
		return r;
	if (ctl->json) {
		json_object_object_add(o, "stays", stays_json(&stays));
		json_object_object_add(o, "own_job", own_job_json(&stays.own));
		json_print(o);
		return CTL_GOOD;
	}
	print_done(o, target);
	if (node && (!target || target->seconds == 0))
		override_print_others(stays.published.status);
	stays_print(&stays);
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

static int ask(struct ctl *ctl, struct json_object **ret_list, struct json_object **ret_status)
{
	int r = ctl_call(ctl, "List", NULL, ret_list);

	return r == CTL_GOOD ? ctl_call(ctl, "GetStatus", NULL, ret_status) : r;
}

/* The fields that every answer about an override has; a verb's own follow. */
static void override_dry_fields(struct json_object *o, const char *action,
				struct json_object *status, const struct target *target)
{
	struct json_object *earlier = override_find(status, action, target->text);

	json_object_object_add(o, "action", json_text(action));
	json_object_object_add(o, "mode", json_text(json_string(status, "mode")));
	json_object_object_add(o, "from", json_text(json_string(earlier, "digest")));
	json_object_object_add(o, "to", NULL);
	json_object_object_add(o, "digest", NULL);
	json_object_object_add(o, "profile", NULL);
	json_object_object_add(o, "generation",
			       json_object_new_int64(json_number(status, "generation", 0)));
	json_object_object_add(o, "scope", json_text(target->text));
	json_object_object_add(
		o, "until", json_number_or_null(target->seconds > 0 ? target_until(target) : -1));
	json_object_object_add(o, "dry_run", json_object_new_boolean(true));
	json_object_object_add(o, "own_job", NULL);
}

static int dry_override(struct ctl *ctl, struct json_object *status, const char *name,
			const char *digest, const struct target *target)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();

	override_dry_fields(o, "use", status, target);
	json_object_object_add(o, "to", json_text(digest));
	json_object_object_add(o, "digest", json_text(digest));
	json_object_object_add(o, "profile", json_text(name));
	if (ctl->json)
		json_print(o);
	else
		print_override(o, target->text, true);
	return CTL_GOOD;
}

static bool is_given(int argc, char *argv[], const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
			return true;
	return false;
}

/* Those that are set now and stay, and the given ones. */
static struct json_object *joined_variables(struct json_object *earlier, int argc, char *argv[])
{
	struct json_object *list = json_object_new_array(), *old = json_array(earlier, "variables");

	for (size_t i = 0; old && i < json_object_array_length(old); i++) {
		struct json_object *v = json_object_array_get_idx(old, i);
		const char *name = json_string(v, "name");

		if (name && !is_given(argc, argv, name))
			json_object_array_add(list, json_object_get(v));
	}
	for (int i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=') + 1;
		_cleanup_(freep) char *name = strndup(argv[i], (size_t)(value - argv[i]) - 1);
		struct json_object *v = json_object_new_object();

		json_object_object_add(v, "name", json_text(name));
		json_object_object_add(v, "value", json_text(value));
		json_object_array_add(list, v);
	}
	return list;
}

static int dry_set(struct ctl *ctl, int argc, char *argv[], const struct target *target)
{
	_cleanup_(json_putp) struct json_object *o = NULL, *status = NULL;
	int r = ctl_call(ctl, "GetStatus", NULL, &status);

	if (r != CTL_GOOD)
		return r;
	o = json_object_new_object();
	override_dry_fields(o, "set", status, target);
	json_object_object_add(
		o, "variables",
		joined_variables(override_find(status, "set", target->text), argc, argv));
	if (ctl->json)
		json_print(o);
	else
		print_override(o, target->text, true);
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
		return dry_answer(ctl, &p, "use", status, name, digest);
	return dry_override(ctl, status, name, digest, target);
}

/* Back to what the settings say. */
static int dry_reset_node(struct ctl *ctl, struct json_object *list, struct json_object *status)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	const char *name = json_string(list, "configured");
	int r = ctl_published(ctl, &p);

	if (r != CTL_GOOD)
		return r;
	return dry_answer(ctl, &p, "reset", status, name,
			  name ? json_string(find_profile(list, name), "digest") : NULL);
}

static int dry_reset(struct ctl *ctl, const struct target *target)
{
	_cleanup_(json_putp) struct json_object *list = NULL, *status = NULL, *o = NULL;
	struct json_object *ended, *all;
	int r = ask(ctl, &list, &status);

	if (r != CTL_GOOD)
		return r;
	if (target->scope.kind == SCOPE_NODE)
		return dry_reset_node(ctl, list, status);
	o = json_object_new_object();
	ended = json_object_new_array();
	all = json_array(status, "overrides");
	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *one = json_object_array_get_idx(all, i);
		const char *scope = json_string(one, "scope");

		if (scope && streq(scope, target->text))
			json_object_array_add(ended, json_object_get(one));
	}
	override_dry_fields(o, "reset", status, target);
	json_object_object_add(o, "ended", ended);
	if (ctl->json)
		json_print(o);
	else
		print_ended(ended, target->text, true);
	return CTL_GOOD;
}

/* CTL_GOOD, or CTL_USAGE after an error line. */
static int check_arguments(int argc, char *argv[])
{
	if (arg_reset && argc > 0)
		return ctl_error(CTL_USAGE, "--reset takes no profile, but '%s' is given", argv[0]);
	if (arg_reset && arg_options.duration)
		return ctl_error(CTL_USAGE, "--reset is at once: it takes no --for");
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
	return r == CTL_GOOD ? finish(ctl, o, target) : r;
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
	if (arg_reset)
		return reset(ctl, &target);
	if (ctl->dry_run)
		return dry_use(ctl, argv[0], &target);
	const char *const strings[] = {argv[0], target.request, ctl->reason, NULL};
	const struct control_arguments arguments = {.strings = strings, .number = &target.seconds};

	r = ctl_call_with(ctl, "Use", &arguments, &o);
	return r == CTL_GOOD ? finish(ctl, o, &target) : r;
}

static int run_set(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(freep) char *fault = NULL;
	struct target target;
	int r;

	r = target_find(&arg_options, &target);
	if (r != CTL_GOOD)
		return r;
	if (target.scope.kind == SCOPE_NODE)
		return ctl_error(CTL_USAGE,
				 "for whom? --user USER or --unit UNIT; for all jobs edit "
				 "the profile");
	r = derive_check((const char *const *)argv, (size_t)argc, &fault);
	if (fault)
		return ctl_error(CTL_USAGE, "%s", fault);
	if (r < 0)
		return ctl_error(CTL_FAILED, "%s", strerror(-r));
	if (ctl->dry_run)
		return dry_set(ctl, argc, argv, &target);
	const char *const strings[] = {target.request, ctl->reason, NULL};
	const struct control_arguments arguments = {
		.list = (const char *const *)argv, .strings = strings, .number = &target.seconds};

	r = ctl_call_with(ctl, "Set", &arguments, &o);
	return r == CTL_GOOD ? finish(ctl, o, &target) : r;
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
	return r == CTL_GOOD ? finish(ctl, o, NULL) : r;
}

static const struct ctl_option use_options[] = {
	OVERRIDE_OPTIONS(arg_options),
	{.name = "reset",
	 .help = "end the overrides of --unit or --user; alone: all, and the choice of use",
	 .flag = &arg_reset},
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
	.flags = VERB_CHANGES,
	.min_arguments = 0,
	.max_arguments = 1,
	.options = use_options,
	.run = run_use,
};

static const struct ctl_option set_options[] = {OVERRIDE_OPTIONS(arg_options), {0}};

const struct verb verb_set = {
	.name = "set",
	.arguments = "NAME=VALUE...",
	.summary = "New jobs of a unit or a user get these variables over their profile.",
	.help = "Each takes the place of the profile's own, with its rule; what the profile\n"
		"lacks is set where the process has none. Further ones join those that are set\n"
		"for the same unit or user, and the end is that of the last command. The same\n"
		"names and values are refused as in a profile. Taken back by cudaenvctl use\n"
		"--reset. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.min_arguments = 1,
	.max_arguments = -1,
	.options = set_options,
	.run = run_set,
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
