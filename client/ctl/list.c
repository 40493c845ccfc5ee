/* SPDX-License-Identifier: MIT */
/* list and history: what the manager has and had. */
#include "config.h"

#include <inttypes.h>

#include "client/ctl/control.h"
#include "client/ctl/fallback.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/rules.h"
#include "client/ctl/table.h"
#include "common/util.h"

static bool arg_why;
static struct rules_question arg_question;

/* A digest shortened for people; other words (modes, none) whole. */
static void cell_short(struct table *t, const char *s)
{
	if (s && strlen(s) == 64)
		table_cell_format(t, "%.*s", DIGEST_SHOWN, s);
	else
		table_cell(t, s);
}

static void cell_state(struct table *t, struct json_object *o)
{
	bool active = json_true(o, "active"), known = json_object_object_get(o, "valid");
	const char *fault = !known                   ? NULL
			    : !json_true(o, "valid") ? "has errors"
			    : json_true(o, "edited") ? "edited"
						     : NULL;

	if (fault)
		table_cell_format(t, "%s%s", active ? "in use, " : "", fault);
	else
		table_cell(t, active ? "in use" : known ? "ready" : "published");
}

static int finish_table(const struct table *t, const char *none)
{
	if (table_print(t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (t->n_cells == 0)
		ctl_note("%s", none);
	return CTL_GOOD;
}

static int run_list(struct ctl *ctl, int argc, char *argv[])
{
	static const char *const headers[] = {"PROFILE",     "STATE", "SNAPSHOT", "SCOPE",
					      "DESCRIPTION", "FILE",  NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(table_done) struct table t = {0};
	struct json_object *profiles;
	int r;

	if (arg_why)
		return rules_list(ctl, &arg_question);
	if (arg_question.pid || arg_question.unit || arg_question.user || arg_question.exe)
		return ctl_error(CTL_USAGE, "--pid, --unit, --user and --exe go with --why; one's "
					    "own cudaenvd is cudaenvctl --user list");
	r = fallback_list(ctl, &o);
	if (r != CTL_GOOD)
		return r;
	if (ctl->json) {
		json_print(o);
		return CTL_GOOD;
	}
	profiles = json_array(o, "profiles");
	table_init(&t, headers);
	for (size_t i = 0; profiles && i < json_object_array_length(profiles); i++) {
		struct json_object *p = json_object_array_get_idx(profiles, i);

		table_cell(&t, json_string(p, "name"));
		cell_state(&t, p);
		cell_short(&t, json_string(p, "digest"));
		table_cell(&t, json_string(p, "scope"));
		/* Of a profile that is refused, why: FILE:LINE:COL: error: text. */
		table_cell(&t, json_string(p, json_true(p, "valid") ? "description" : "error"));
		table_cell(&t, json_string(p, "path"));
	}
	return finish_table(&t, ctl->paths.user
					? "no profile yet: write NAME.ini into profiles.d of "
					  "your configuration directory"
					: "no profile yet: write /etc/cudaenv/profiles.d/NAME.ini");
}

/* What the settings or an edited file did is cudaenvd's own doing. */
static void cell_user(struct table *t, struct json_object *e)
{
	const char *user = json_string(e, "user"), *action = json_string(e, "action");
	int64_t uid = json_number(e, "uid", -1);

	if (user)
		table_cell(t, user);
	else if (uid >= 0)
		table_cell_format(t, "%" PRId64, uid);
	else
		table_cell(t, action && (streq(action, "config") || streq(action, "apply"))
				      ? "cudaenvd"
				      : "unknown");
}

static int run_history(struct ctl *ctl, int argc, char *argv[])
{
	static const char *const headers[] = {"TIME", "USER", "ACTION", "SCOPE",
					      "FROM", "TO",   "REASON", NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(table_done) struct table t = {0};
	struct json_object *entries;
	int r;

	r = ctl_call(ctl, "History", NULL, &o);
	if (r != CTL_GOOD)
		return r;
	if (ctl->json) {
		json_print(o);
		return CTL_GOOD;
	}
	entries = json_array(o, "entries");
	table_init(&t, headers);
	for (size_t i = 0; entries && i < json_object_array_length(entries); i++) {
		struct json_object *e = json_object_array_get_idx(entries, i);

		table_cell(&t, json_string(e, "time"));
		cell_user(&t, e);
		table_cell(&t, json_string(e, "action"));
		table_cell(&t, json_string(e, "scope"));
		cell_short(&t, json_string(e, "from"));
		/* What was set over a profile has no digest of its own. */
		cell_short(&t, json_string(e, json_string(e, "to") ? "to" : "variables"));
		table_cell(&t, json_string(e, "reason"));
	}
	return finish_table(&t, "nothing has been changed yet");
}

static const struct ctl_option list_options[] = {
	{"why", 0, NULL, "the rules that give a new job its profile, in order", .flag = &arg_why},
	{"pid", 0, "PID", "with --why: what each says of this process", .value = &arg_question.pid},
	{"unit", 0, "UNIT", "with --why: ... of this unit", .value = &arg_question.unit},
	{"user", 0, "USER", "with --why: ... of this user", .value = &arg_question.user},
	{"exe", 0, "FILE", "with --why: ... of this program", .value = &arg_question.exe},
	{0},
};

const struct verb verb_list = {
	.name = "list",
	.arguments = "",
	.summary = "The profiles, which is in use, which are edited or have errors.",
	.help = "edited: the file was saved after it was applied; use applies it.\n"
		"has errors: the last good version stays in force; check shows them all.\n"
		"published: cudaenvd is dead or frozen, this is what it published last.\n"
		"--why needs no daemon. ANSWER: decides, miss, ended, behind (a hit, but an\n"
		"earlier rule decides), unknown (it asks for what was not given), perhaps (the\n"
		"first hit behind such a one). --user before the verb is your own cudaenvd.",
	.options = list_options,
	.run = run_list,
};

const struct verb verb_history = {
	.name = "history",
	.arguments = "",
	.summary = "Who changed what and why.",
	.run = run_history,
};
