/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/util.h"

static void variable_row(struct table *t, struct json_object *v)
{
	const char *file = json_string(v, "file");
	int64_t line = json_number(v, "line", 0);

	table_cell(t, json_string(v, "name"));
	table_cell(t, json_string(v, "rule"));
	table_cell(t, json_string(v, "value"));
	if (file && line > 0)
		table_cell_format(t, "%s:%" PRId64, file, line);
	else
		table_cell(t, file);
}

static int run_show(struct ctl *ctl, int argc, char *argv[])
{
	static const char *const headers[] = {"VARIABLE", "RULE", "VALUE", "FROM", NULL};
	const char *const arguments[] = {argc > 0 ? argv[0] : "", NULL};
	_cleanup_(json_putp) struct json_object *o = NULL;
	_cleanup_(table_done) struct table t = {0};
	struct json_object *variables;
	const char *name, *digest;
	int r;

	r = ctl_call(ctl, "Show", arguments, &o);
	if (r != CTL_GOOD)
		return r;
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
	table_init(&t, headers);
	for (size_t i = 0; variables && i < json_object_array_length(variables); i++)
		variable_row(&t, json_object_array_get_idx(variables, i));
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
	.help = "Without PROFILE: the one in use. Inherited variables show the file they stand in.",
	.max_arguments = 1,
	.run = run_show,
};
