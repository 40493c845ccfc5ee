/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>

#include "client/ctl/ctl.h"
#include "client/ctl/fallback.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/profile.h"
#include "common/util.h"

#define N_COLUMNS 5

/* Marks the document: is the root of its [toolkit] on this node, as this process sees it? */
static bool toolkit_absent(struct json_object *o)
{
	const char *root = json_string(o, "toolkit_root");
	bool here = root && access(root, F_OK) == 0;

	json_object_object_add(o, "toolkit_here", root ? json_object_new_boolean(here) : NULL);
	return root && !here;
}

static void variable_row(struct table *t, struct json_object *v, bool absent)
{
	const char *group = json_string(v, "group");
	const char *file = json_string(v, "file");
	int64_t line = json_number(v, "line", 0);

	table_cell(t, json_string(v, "name"));
	table_cell(t, json_string(v, "rule"));
	table_cell(t, json_string(v, "value"));
	if (file && line > 0)
		table_cell_format(t, "%s:%" PRId64, file, line);
	else
		table_cell(t, file);
	if (t->n_columns == N_COLUMNS)
		table_cell(t, absent && group && streq(group, PROFILE_TOOLKIT_GROUP)
				      ? "not on this node"
				      : NULL);
}

static int run_show(struct ctl *ctl, int argc, char *argv[])
{
	const char *headers[N_COLUMNS + 1] = {"VARIABLE", "RULE", "VALUE", "FROM", "NOTE"};
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(table_done) struct table t = {0};
	struct json_object *variables;
	const char *name, *digest;
	bool absent;
	int r;

	r = fallback_show(ctl, argc > 0 ? argv[0] : "", &o);
	if (r != CTL_GOOD)
		return r;
	absent = toolkit_absent(o);
	if (ctl->json) {
		json_print(o);
		return CTL_GOOD;
	}
	variables = json_array(o, "variables");
	name = json_string(o, "profile");
	digest = json_string(o, "digest");
	/* In a pipe rows alone, for cut and awk. */
	if (ctl_terminal()) {
		printf("Profile ");
		print_escaped(name ? name : "?");
		printf(", snapshot %s\n\n", digest ? digest : "none");
	}
	/* People need not see a column without a word. */
	if (ctl_terminal() && !absent)
		headers[N_COLUMNS - 1] = NULL;
	table_init(&t, headers);
	for (size_t i = 0; variables && i < json_object_array_length(variables); i++)
		variable_row(&t, json_object_array_get_idx(variables, i), absent);
	if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (t.n_cells == 0)
		ctl_note("this profile has no variables");
	return CTL_GOOD;
}

const struct verb verb_show = {
	.name = "show",
	.arguments = "[PROFILE]",
	.summary = "A profile's variables, each with its rule, file and line.",
	.help = "Without PROFILE: the one in use. Inherited variables show the file they stand "
		"in.\n"
		"not on this node: the root of the profile's [toolkit] is not here, and its\n"
		"variables are set only where a process sees it.\n"
		"Without cudaenvd: what was published last, without files and lines.",
	.flags = VERB_BROKEN,
	.max_arguments = 1,
	.run = run_show,
};
