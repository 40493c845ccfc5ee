/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/change.h"

#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/stays.h"
#include "client/ctl/table.h"
#include "common/util.h"

static void print_switch(const struct ctl *ctl, struct json_object *o, bool dry_run)
{
	const char *profile = json_string(o, "profile"), *to = json_string(o, "to"),
		   *from = json_string(o, "from"), *mode = json_string(o, "mode");
	_cleanup_(freep) char *reason = NULL, *fix = NULL;

	printf("%s", dry_run ? "Would be in use: " : "In use: ");
	print_escaped(profile && to ? profile : "no profile");
	if (to)
		printf(", snapshot %.*s", DIGEST_SHOWN, to);
	if (from && to && streq(from, to))
		printf(" (as before)");
	else if (from)
		printf(" (%s: %.*s)", dry_run ? "now" : "before", DIGEST_SHOWN, from);
	printf(".\n");
	if (profile && !to)
		reason = missing_version_reason(ctl, profile, &fix);
	if (reason)
		ctl_note("%s; %s", reason, fix);
	if (mode && !streq(mode, "on"))
		printf("Mode is %s: nothing is set until cudaenvctl%s on.\n", mode,
		       ctl_user_option(ctl));
	if (json_string(o, "warning"))
		ctl_note("%s", json_string(o, "warning"));
}

void change_print_override(const struct ctl *ctl, struct json_object *o,
			   const struct target *target, bool dry_run)
{
	const char *profile = json_string(o, "profile"), *to = json_string(o, "to"),
		   *from = json_string(o, "from"), *mode = json_string(o, "mode"),
		   *scope = target->text;

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
	override_print_end(json_number(o, "until", 0), target->seconds);
	printf(".\n");
	if (mode && !streq(mode, "on"))
		printf("Mode is %s: nothing is set until cudaenvctl%s on.\n", mode,
		       ctl_user_option(ctl));
	if (json_string(o, "warning"))
		ctl_note("%s", json_string(o, "warning"));
}

void change_print_ended(struct json_object *ended, const char *scope, bool dry_run)
{
	size_t n = ended ? json_object_array_length(ended) : 0;

	/* For the node it is its choice that was to end. */
	if (n == 0 && !streq(scope, "node")) {
		bool all = streq(scope, "all");

		printf("There is no override%s", all ? "" : " for ");
		print_escaped(all ? "" : scope);
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
static void print_done(const struct ctl *ctl, struct json_object *o, const struct target *target)
{
	const char *action = json_string(o, "action");
	bool node = !target || target->scope.kind == SCOPE_NODE;
	bool is_reset = action && streq(action, "reset");

	if (is_reset)
		change_print_ended(json_array(o, "ended"), target->text, false);
	if (node && (is_reset || !target || target->seconds == 0))
		print_switch(ctl, o, false);
	else if (!is_reset)
		change_print_override(ctl, o, target, false);
}

void change_print_json(const struct ctl *ctl, struct json_object *o)
{
	static const char *const fields[] = {"until", "warning", "stays", "own_job"};

	json_object_object_add(o, "dry_run", json_object_new_boolean(ctl->dry_run));
	if (!json_string(o, "scope"))
		json_object_object_add(o, "scope", json_text("node"));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!json_object_object_get_ex(o, fields[i], NULL))
			json_object_object_add(o, fields[i], NULL);
	json_print(o);
}

int change_finish(struct ctl *ctl, struct json_object *o, const struct target *target)
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
		change_print_json(ctl, o);
		return CTL_GOOD;
	}
	print_done(ctl, o, target);
	if (node && (!target || target->seconds == 0))
		override_print_others(stays.published.status);
	stays_print(&stays);
	return CTL_GOOD;
}

/* The document and the lines of a switch that is not made. TO: NULL for none. */
int change_dry_node(struct ctl *ctl, const struct published *p, const char *action,
		    struct json_object *status, const char *profile, const char *to,
		    const char *scope, struct json_object *ended)
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
	json_object_object_add(o, "own_job", own_job_json(&own));
	json_object_object_add(o, "scope", json_text(scope));
	if (ended)
		json_object_object_add(o, "ended", json_object_get(ended));
	if (ctl->json) {
		change_print_json(ctl, o);
	} else {
		if (ended)
			change_print_ended(ended, scope, true);
		print_switch(ctl, o, true);
		own_job_print(&own, true);
	}
	return CTL_GOOD;
}

/* The fields that every answer about an override has; a verb's own follow. */
void change_dry_fields(struct json_object *o, const char *action, struct json_object *status,
		       const struct target *target)
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
}
