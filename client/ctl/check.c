/* SPDX-License-Identifier: MIT */
/*
 * check: profiles by name, files anywhere, standard input; grammar and structure by common/profile,
 * the same code as the manager's. Needs no daemon.
 */
#include "config.h"

#include "client/ctl/ctl.h"
#include "client/ctl/expect.h"
#include "client/ctl/findings.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/table.h"
#include "common/profile.h"
#include "common/util.h"

#define STDIN_NAME "<stdin>"

static const char *arg_expect;

struct check {
	struct ctl *ctl;
	const char *const *dirs;
	struct json_object *findings; /* only with --json */
	size_t n_files;
	size_t errors;
	size_t warnings;
	size_t advices;
};

static void take_findings(struct check *c, const struct findings *findings, const char *file)
{
	c->n_files++;
	c->errors += findings->errors;
	c->warnings += findings->warnings;
	c->advices += findings->advices;
	for (size_t i = 0; i < findings->n; i++) {
		if (c->ctl->json)
			json_object_array_add(c->findings, finding_json(&findings->items[i], file));
		else
			finding_print(&findings->items[i], file);
	}
}

/* A file that cannot be had is a finding like any other, so that a script has one place to look. */
static int take_unreadable(struct check *c, const char *file, const char *fix, int r)
{
	_cleanup_(findings_done) struct findings findings = {0};

	if (findings_add(&findings, FINDING_ERROR, 0, 0, "unreadable", NULL, fix,
			 "cannot be read: %s", strerror(-r)) < 0)
		return -ENOMEM;
	take_findings(c, &findings, file);
	return 0;
}

static int check_file(struct check *c, const char *path)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r;

	r = profile_load_file(path, c->dirs, NULL, &p);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return take_unreadable(c, path, NULL, r);
	take_findings(c, &p->findings, path);
	return 0;
}

/* One byte more than a profile may have: the parser says that it is too large. */
static int read_stdin(char bytes[PROFILE_MAX_BYTES + 1], size_t *ret_size)
{
	*ret_size = fread(bytes, 1, PROFILE_MAX_BYTES + 1, stdin);
	return ferror(stdin) ? -EIO : 0;
}

static int check_stdin(struct check *c)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	bytes = malloc(PROFILE_MAX_BYTES + 1);
	if (!bytes)
		return -ENOMEM;
	r = read_stdin(bytes, &size);
	if (r < 0)
		return take_unreadable(c, STDIN_NAME, NULL, r);
	r = profile_parse("stdin", STDIN_NAME, bytes, size, NULL, &p);
	if (r < 0)
		return r;
	take_findings(c, &p->findings, STDIN_NAME);
	if (p->inherits)
		ctl_note("what it inherits from %s was not looked at: check the file in its place",
			 p->inherits);
	return 0;
}

static bool is_file_name(const char *argument)
{
	size_t n = strlen(argument);

	return strchr(argument, '/') || (n > 4 && streq(argument + n - 4, ".ini"));
}

static int take_missing(struct check *c, const char *argument)
{
	_cleanup_(findings_done) struct findings findings = {0};
	_cleanup_(freep) char *message = missing_profile_message(c->ctl, argument),
			      *fix = missing_profile_fix(c->ctl, argument);

	if (!message || !fix)
		return -ENOMEM;
	if (findings_add(&findings, FINDING_ERROR, 0, 0, "unreadable", NULL, fix, "%s%s",
			 is_file_name(argument) ? "there is no such file, and " : "", message) < 0)
		return -ENOMEM;
	take_findings(c, &findings, argument);
	return 0;
}

static int check_argument(struct check *c, const struct profile_set *set, const char *argument)
{
	const struct profile *p;

	if (streq(argument, "-"))
		return check_stdin(c);
	p = is_file_name(argument) ? NULL : profile_set_find(set, argument);
	if (p) {
		take_findings(c, &p->findings, p->path);
		return 0;
	}
	/* NAME.ini that is no file here may be meant as the profile. */
	if (strchr(argument, '/') || access(argument, F_OK) == 0)
		return check_file(c, argument);
	return take_missing(c, argument);
}

static int finish(const struct check *c)
{
	if (c->ctl->json) {
		_cleanup_(json_putp) struct json_object *o = json_object_new_object();

		json_object_object_add(o, "errors", json_object_new_int64((int64_t)c->errors));
		json_object_object_add(o, "warnings", json_object_new_int64((int64_t)c->warnings));
		json_object_object_add(o, "advices", json_object_new_int64((int64_t)c->advices));
		json_object_object_add(o, "findings", json_object_get(c->findings));
		json_print(o);
	} else if (c->n_files == 0) {
		printf("No profile to check in");
		for (size_t i = 0; c->dirs[i]; i++) {
			printf("%s ", i > 0 ? "," : "");
			print_escaped(c->dirs[i]);
		}
		printf(".\n");
	} else {
		printf("%s%zu error%s, %zu warning%s, %zu advice%s in %zu profile%s.%s\n",
		       colour_begin(c->errors ? COLOUR_BAD : COLOUR_GOOD), c->errors,
		       c->errors == 1 ? "" : "s", c->warnings, c->warnings == 1 ? "" : "s",
		       c->advices, c->advices == 1 ? "" : "s", c->n_files,
		       c->n_files == 1 ? "" : "s", colour_end());
	}
	return c->errors > 0 || c->n_files == 0 ? CTL_BAD_NEWS : CTL_GOOD;
}

static int run_check(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(json_putp) struct json_object *findings = json_object_new_array();
	_cleanup_(profile_set_done) struct profile_set set = {0};
	struct check c = {.ctl = ctl, .findings = findings};
	const struct paths *paths = ctl_paths(ctl);
	int r = 0;

	if (arg_expect && argc > 0)
		return ctl_error(CTL_USAGE,
				 "check --expect is about what is in force, and checks no "
				 "file: %s",
				 argv[0]);
	if (arg_expect)
		return check_expected(ctl, arg_expect);
	if (!paths)
		return CTL_FAILED;
	c.dirs = (const char *const *)paths->profiles;
	r = profile_set_load(c.dirs, NULL, &set);
	if (r < 0 && r != -ENOMEM)
		return ctl_error(CTL_FAILED, "cannot read the profile directories: %s",
				 strerror(-r));
	for (size_t i = 0; argc == 0 && i < set.n_profiles; i++)
		take_findings(&c, &set.profiles[i]->findings, set.profiles[i]->path);
	for (int i = 0; r == 0 && i < argc; i++)
		r = check_argument(&c, &set, argv[i]);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot check: %s", strerror(-r));
	return finish(&c);
}

static const struct ctl_option options[] = {
	{"expect", 0, "DIGEST", "is this snapshot or rank digest in force, in mode on?",
	 .value = &arg_expect},
	{0},
};

const struct verb verb_check = {
	.name = "check",
	.arguments = "[PROFILE|FILE|-]...",
	.summary = "Errors and warnings in profiles, with the way out of each.",
	.help = "PROFILE is a name in profiles.d, FILE a path or a name that ends in .ini,\n"
		"- standard input. Without arguments: all profiles. Needs no daemon.\n"
		"Findings are FILE:LINE:COL: severity: text. Errors give exit status 1, and so\n"
		"does nothing to check; warnings alone 0.\n"
		"--expect is for readiness scripts: one line, status 0 or 1, and no file is "
		"checked.",
	.flags = VERB_FILES | VERB_BROKEN,
	.max_arguments = -1,
	.options = options,
	.run = run_check,
};
