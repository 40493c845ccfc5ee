/* SPDX-License-Identifier: MIT */
/* set: single variables over the profile of a unit's or a user's jobs. */
#include "config.h"

#include "client/ctl/change.h"
#include "client/ctl/findings.h"
#include "client/ctl/jsonutil.h"
#include "common/known.h"
#include "common/profile-derive.h"
#include "common/util.h"

static struct override_options arg_options;

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

/* What `check` would say of these names and values. */
static void add_findings(const struct ctl *ctl, struct json_object *o,
			 const struct findings *findings)
{
	if (ctl->json)
		json_object_object_add(o, "findings", findings_json(findings));
	else
		findings_warn(findings);
}

/* As cudaenvd does: a member of the group may not set everything. */
static int check_rights(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(json_putp) struct json_object *o = NULL;
	int r = ctl_call(ctl, "MayChange", NULL, &o);

	for (int i = 0; r == CTL_GOOD && !json_true(o, "set_any") && i < argc; i++) {
		_cleanup_(freep) char *name = strndup(argv[i], strcspn(argv[i], "="));

		if (!name)
			return ctl_error(CTL_FAILED, "out of memory");
		if (known_kind(name) != KNOWN_PLAIN)
			return ctl_error(CTL_BAD_NEWS, "set: " KNOWN_PLAIN_ONLY, name);
	}
	return r;
}

static int dry_set(struct ctl *ctl, int argc, char *argv[], const struct target *target,
		   const struct findings *findings)
{
	_cleanup_(json_putp) struct json_object *o = NULL, *status = NULL;
	int r = check_rights(ctl, argc, argv);

	if (r == CTL_GOOD)
		r = ctl_call(ctl, "GetStatus", NULL, &status);
	if (r != CTL_GOOD)
		return r;
	o = json_object_new_object();
	change_dry_fields(o, "set", status, target);
	json_object_object_add(
		o, "variables",
		joined_variables(override_find(status, "set", target->text), argc, argv));
	add_findings(ctl, o, findings);
	if (ctl->json)
		change_print_json(ctl, o);
	else
		change_print_override(ctl, o, target, true);
	return CTL_GOOD;
}

static int run_set(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(findings_done) struct findings findings = {0};
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
	r = derive_check((const char *const *)argv, (size_t)argc, &findings, &fault);
	if (fault)
		return ctl_error(CTL_USAGE, "%s", fault);
	if (r < 0)
		return ctl_error(CTL_FAILED, "%s", strerror(-r));
	if (ctl->dry_run)
		return dry_set(ctl, argc, argv, &target, &findings);
	const char *const strings[] = {target.request, ctl->reason, NULL};
	const struct control_arguments arguments = {
		.list = (const char *const *)argv, .strings = strings, .number = &target.seconds};

	r = ctl_call_with(ctl, "Set", &arguments, &o);
	if (r != CTL_GOOD)
		return r;
	add_findings(ctl, o, &findings);
	return change_finish(ctl, o, &target);
}

static const struct ctl_option set_options[] = {OVERRIDE_OPTIONS(arg_options), {0}};

const struct verb verb_set = {
	.name = "set",
	.arguments = "NAME=VALUE...",
	.summary = "New jobs of a unit or a user get these variables over their profile.",
	.help = "Each takes the place of the profile's own, with its rule; what the profile\n"
		"lacks is set where the process has none. Further ones join those that are set\n"
		"for the same unit or user, and the end is that of the last command. The same\n"
		"names and values are refused as in a profile; a member of cudaenv-admin sets\n"
		"plain settings of NCCL, CUDA and Triton alone, root the others too. Taken back\n"
		"by cudaenvctl use --reset. Needs cudaenvd.",
	.flags = VERB_CHANGES,
	.min_arguments = 1,
	.max_arguments = -1,
	.options = set_options,
	.run = run_set,
};
