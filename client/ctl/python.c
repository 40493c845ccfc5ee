/* SPDX-License-Identifier: MIT */
/*
 * `cudaenvctl python install|remove|status`: the start hook of one base interpreter or one venv.
 * This file chooses the place and speaks; pyexe finds the interpreter, pyhook makes the files,
 * pyplace changes the disk.
 */
#include "config.h"

#include <limits.h>

#include "client/ctl/ctl.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/published.h"
#include "client/ctl/pyall.h"
#include "client/ctl/pylog.h"
#include "client/ctl/pyshow.h"
#include "client/ctl/pytrust.h"
#include "client/ctl/table.h"
#include "common/runtime.h"
#include "common/util.h"

#define SOURCE_DIR PYCOVER_SOURCE_DIR

static const char *arg_python, *arg_method, *arg_runtime_dir, *arg_reason = "";
static bool arg_all;

static int exe_error(int r, const char *why)
{
	return ctl_error(r == -ENOENT || r == -ENOEXEC || r == -ENOTUNIQ ? CTL_USAGE : CTL_FAILED,
			 "%s", why);
}

/* What was refused is an answer; what failed is not. */
static int place_error(int r, const char *why)
{
	return ctl_error(pywork_refused(r) ? CTL_BAD_NEWS : CTL_FAILED, "%s", why);
}

/* The directory that a hook must know: not the system's, where a client looks anyway. One's own
 * default comes after that, so it is recorded where it was asked for; where it was only found,
 * since there is none of the system yet, it is not. */
static int recorded_directory(struct ctl *ctl, const char **ret)
{
	bool asked = ctl->user || arg_runtime_dir || secure_getenv("CUDAENV_RUNTIME_DIR");
	const char *directory = arg_runtime_dir;
	char own[64];

	*ret = NULL;
	if (!directory) {
		const struct paths *paths = ctl_paths(ctl);

		if (!paths)
			return CTL_FAILED;
		directory = paths->runtime;
	}
	if (*directory != '/' || strchr(directory, '\n') || strlen(directory) >= PATH_MAX)
		return ctl_error(CTL_USAGE, "%s is no absolute path: the hook is to look there",
				 directory);
	(void)snprintf(own, sizeof own, "/run/user/%u/cudaenv", (unsigned)geteuid());
	if (!streq(directory, RUNTIME_DIR_DEFAULT) && (asked || !streq(directory, own)))
		*ret = directory;
	return CTL_GOOD;
}

/* --- install */

/* What every process will load. */
static void say_extension(void)
{
	char who[PYEXE_WHY_SIZE], *extension = realpath(SOURCE_DIR "/" PYHOOK_EXTENSION, NULL);

	if (!extension)
		ctl_note("%s/%s is not there: the hook uses its pure Python reader", SOURCE_DIR,
			 PYHOOK_EXTENSION);
	else if (!pytrust_path(extension, who, sizeof who))
		ctl_note("every process of this interpreter will load %s, and others than you can "
			 "change %s",
			 extension, who);
	free(extension);
}

static void say_notes(const struct pyexe *exe, const struct pyhook *hook)
{
	if (!hook->compiled)
		ctl_note("installed without compiled files (%s): a start takes about 2 ms longer",
			 hook->note);
	say_extension();
	if (geteuid() == 0 && exe->owner != 0)
		ctl_note("this interpreter belongs to uid %u, who can change or remove the hook",
			 (unsigned)exe->owner);
}

/* Does `assign` give a profile to any job? */
static bool in_use(const struct published *p)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;

	return p->assign->fallback[0] || (runtime_read(&p->runtime, p->runtime.dir_fd, "assign",
						       ASSIGN_MAX_BYTES, &text, &size) == 0 &&
					  strstr(text, "\nrule "));
}

/* Why the hook will set nothing, as far as what is published tells. */
static void say_why_nothing(struct ctl *ctl)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	const struct paths *paths = arg_runtime_dir ? NULL : ctl_paths(ctl);
	const char *directory = paths ? paths->runtime : arg_runtime_dir;
	int r = directory ? published_open(directory, &p) : -EINVAL;

	if (r == 0 && !p.assign)
		r = p.assign_error;
	if (r == -ENOENT)
		ctl_note("nothing is published in %s: nothing is set until cudaenvd runs",
			 directory);
	if (r < 0)
		return;
	if (p.assign->mode != MODE_ON)
		ctl_note("mode is %s: nothing is set until cudaenvctl%s on",
			 mode_name(p.assign->mode), ctl->user ? " --user" : "");
	if (!in_use(&p))
		ctl_note("no profile is in use: nothing is set until cudaenvctl%s use PROFILE",
			 ctl->user ? " --user" : "");
}

static void say_installed(struct ctl *ctl, const struct pyexe *exe, const struct pyhook *hook,
			  const char *runtime_dir, bool changed)
{
	char version[PYSHOW_VERSION_SIZE];

	pyshow_version(exe, version);
	fputs(ctl->dry_run ? "Would install " : changed ? "Installed " : "Already there: ", stdout);
	print_escaped(hook->parent);
	putchar('/');
	print_escaped(hook->name);
	printf(" (%s, %s).\n", version,
	       exe->venv ? "this venv"
	       : hook->method == PYHOOK_DIRECTORY
		       ? "the base and all its venvs"
		       : "the base, and venvs that see its site-packages");
	if (runtime_dir) {
		fputs("It looks first in ", stdout);
		print_escaped(runtime_dir);
		puts(".");
	}
	if (!ctl->dry_run)
		puts("It takes effect at each start from now on.");
}

static int install(struct ctl *ctl, const struct pyexe *exe)
{
	_cleanup_(pyhook_done) struct pyhook hook = PYHOOK_NULL;
	struct pywork_options options = {.method = arg_method, .dry_run = ctl->dry_run};
	char why[PYEXE_WHY_SIZE] = "";
	int r = recorded_directory(ctl, &options.runtime_dir);

	if (r != CTL_GOOD)
		return r;
	r = pywork_install(exe, &options, &hook, why);
	if (r < 0)
		return place_error(r, why);
	if (r == 1 && !ctl->dry_run)
		pylog(PYTHON_INSTALL, exe, arg_reason);
	say_notes(exe, &hook);
	if (ctl->json) {
		_cleanup_(json_putp) struct json_object *o = pyshow_exe(exe);
		char path[PATH_MAX];

		(void)snprintf(path, sizeof path, "%s/%s", hook.parent, hook.name);
		json_object_object_add(o, "action", json_text("install"));
		json_object_object_add(o, "dry_run", json_object_new_boolean(ctl->dry_run));
		json_object_object_add(o, "changed",
				       json_object_new_boolean(!ctl->dry_run && r == 1));
		json_object_object_add(o, "method", json_text(pyhook_method_name(hook.method)));
		json_object_object_add(o, "path", json_text(path));
		json_object_object_add(o, "runtime_dir", json_text(options.runtime_dir));
		json_object_object_add(o, "compiled", json_object_new_boolean(hook.compiled));
		json_object_object_add(o, "note", json_text(hook.compiled ? NULL : hook.note));
		json_print(o);
	} else
		say_installed(ctl, exe, &hook, options.runtime_dir, r == 1);
	say_why_nothing(ctl);
	return CTL_GOOD;
}

/* --- remove */

static int remove_method(struct ctl *ctl, const struct pyexe *exe, enum pyhook_method method,
			 struct json_object *removed, char why[PYEXE_WHY_SIZE])
{
	char path[PATH_MAX];
	/* What is not ours is in nobody's way here, unless it was asked for. */
	int r = pywork_remove(exe, method, arg_method != NULL, ctl->dry_run, path, why);

	if (r <= 0)
		return r;
	json_object_array_add(removed, json_text(path));
	if (!ctl->json) {
		fputs(ctl->dry_run ? "Would remove " : "Removed ", stdout);
		print_escaped(path);
		puts(".");
	}
	return 1;
}

static int remove_hooks(struct ctl *ctl, const struct pyexe *exe)
{
	_cleanup_(json_putp) struct json_object *o = pyshow_exe(exe);
	struct json_object *removed = json_object_new_array();
	bool changed = false;
	int status = CTL_GOOD;

	json_object_object_add(o, "action", json_text("remove"));
	json_object_object_add(o, "dry_run", json_object_new_boolean(ctl->dry_run));
	json_object_object_add(o, "removed", removed);
	for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++) {
		char why[PYEXE_WHY_SIZE] = "";
		int r;

		if (arg_method && !streq(arg_method, pyhook_method_name(m)))
			continue;
		r = remove_method(ctl, exe, m, removed, why);
		/* -EUCLEAN: all but what somebody changed. */
		changed |= r == 1 || r == -EUCLEAN;
		if (r < 0)
			status = place_error(r, why);
	}
	if (changed && !ctl->dry_run)
		pylog(PYTHON_REMOVE, exe, arg_reason);
	if (ctl->json)
		json_print(o);
	else if (status == CTL_GOOD && json_object_array_length(removed) == 0)
		puts("No hook of cudaenv is there.");
	return status;
}

/* --- status */

static int status_one(struct ctl *ctl, const struct pyexe *exe)
{
	static const char *const headers[] = {"PYTHON", "VERSION", "KIND", "STATE", "HOOK", NULL};
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	_cleanup_(pycover_done) struct pycover cover = PYCOVER_NULL;
	_cleanup_(table_done) struct table t = {0};
	struct json_object *list = json_object_new_array(), *one = pyshow_exe(exe);
	const struct pyplace *place;
	char why[PYEXE_WHY_SIZE], version[PYSHOW_VERSION_SIZE];

	json_object_object_add(o, "pythons", list);
	json_object_array_add(list, one);
	if (pycover_look(exe, &cover, why) < 0)
		return ctl_error(CTL_FAILED, "%s", why);
	json_object_object_add(one, "hooks", pyshow_hooks(&cover));
	place = &cover.place[cover.method];
	pyshow_version(exe, version);
	table_init(&t, headers);
	table_cell(&t, exe->exe);
	table_cell(&t, version);
	table_cell(&t, exe->venv ? "venv" : "base");
	table_cell(&t, pycover_state_name(cover.own));
	if (place->parent)
		table_cell_format(&t, "%s/%s", place->parent, place->name);
	else
		table_cell(&t, NULL);
	if (ctl->json)
		json_print(o);
	else if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	return pycover_works(&cover) && cover.own != PYCOVER_DAMAGED ? CTL_GOOD : CTL_BAD_NEWS;
}

/* Without --python. */
static int run_all(struct ctl *ctl, enum pyaction action)
{
	struct pywork_options options = {
		.method = arg_method, .reason = arg_reason, .dry_run = ctl->dry_run};
	int r = action == PYTHON_INSTALL ? recorded_directory(ctl, &options.runtime_dir) : CTL_GOOD;

	if (r != CTL_GOOD)
		return r;
	if (action == PYTHON_INSTALL && arg_all && !ctl->dry_run)
		say_extension();
	r = pyall(ctl, action, &options, arg_all);
	if (action == PYTHON_INSTALL && arg_all && r != CTL_FAILED)
		say_why_nothing(ctl);
	return r;
}

static int run(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(pyexe_done) struct pyexe exe = PYEXE_NULL;
	char why[PYEXE_WHY_SIZE];
	enum pyaction action = PYTHON_INSTALL;
	int r;

	while (action <= PYTHON_STATUS && !streq(argv[0], pyaction_name(action)))
		action++;
	if (action > PYTHON_STATUS)
		return ctl_error(CTL_USAGE, "python %s: install, remove or status", argv[0]);
	if (arg_method && !streq(arg_method, "directory") && !streq(arg_method, "pth"))
		return ctl_error(CTL_USAGE, "--method=%s: directory or pth", arg_method);
	if (action == PYTHON_STATUS && arg_reason[0])
		return ctl_error(CTL_USAGE, "python status changes nothing: it takes no --reason");
	if (strlen(arg_reason) > PYLOG_REASON_MAX)
		return ctl_error(CTL_USAGE, "a reason has at most %d bytes", PYLOG_REASON_MAX);
	if (arg_all && arg_python)
		return ctl_error(CTL_USAGE, "--all and --python: one of them");
	if (!arg_python)
		return run_all(ctl, action);
	r = pyexe_find(arg_python, &exe, why);
	if (r < 0)
		return exe_error(r, why);
	if (action == PYTHON_INSTALL)
		return install(ctl, &exe);
	return action == PYTHON_REMOVE ? remove_hooks(ctl, &exe) : status_one(ctl, &exe);
}

static const struct ctl_option options[] = {
	{"python", 0, "EXE", "the interpreter: a base with all its venvs, or one venv's", NULL,
	 &arg_python},
	{"all", 0, NULL, "every base that was found; remove: every hook", &arg_all, NULL},
	{"method", 0, "directory|pth", "as pythonXY.zip (bases), or in site-packages", NULL,
	 &arg_method},
	{"runtime-dir", 0, "DIR", "install: where the hook looks first", NULL, &arg_runtime_dir},
	{"reason", 0, "TEXT", "kept in the journal with what root changes", NULL, &arg_reason},
	{NULL, 0, NULL, NULL, NULL, NULL},
};

const struct verb verb_python = {
	.name = "python",
	.arguments = "install|remove|status",
	.summary = "The hook in a Python interpreter that asks for variables at each start.",
	.help = "Without --python and --all it changes nothing, and shows what is found on this "
		"machine\n"
		"and what --all would do; other venvs only with --python.\n"
		"An interpreter that others could change is never run; its hook is installed "
		"without\n"
		"compiled files. remove deletes only files that are as they were installed.",
	.flags = VERB_DRY_RUN,
	.min_arguments = 1,
	.max_arguments = 1,
	.options = options,
	.run = run,
};
