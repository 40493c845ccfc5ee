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
#include "client/ctl/pyplace.h"
#include "client/ctl/pyplan.h"
#include "client/ctl/pytrust.h"
#include "client/ctl/table.h"
#include "common/runtime.h"
#include "common/util.h"

#define SOURCE_DIR PKGLIBDIR "/python"

static const char *arg_python, *arg_method, *arg_runtime_dir;

enum action { INSTALL, REMOVE, STATUS };

static const char *const action_names[] = {"install", "remove", "status"};

/* --- what is said of an interpreter and its hooks */

static void version_text(const struct pyexe *exe, char *ret, size_t size)
{
	(void)snprintf(ret, size, "3.%u%s", exe->version.minor,
		       exe->version.free_threaded ? "t" : "");
}

static struct json_object *exe_json(const struct pyexe *exe)
{
	struct json_object *o = json_object_new_object();
	char version[16];

	version_text(exe, version, sizeof version);
	json_object_object_add(o, "python", json_text(exe->exe));
	json_object_object_add(o, "kind", json_text(exe->venv ? "venv" : "base"));
	json_object_object_add(o, "implementation",
			       json_text(exe->version.pypy ? "PyPy" : "CPython"));
	json_object_object_add(o, "version", json_text(version));
	json_object_object_add(o, "owner_uid", json_object_new_int64(exe->owner));
	return o;
}

/* "absent", "installed", "older", "damaged", "foreign" */
static const char *place_state(const struct pyplace *place, enum pyhook_method method)
{
	const struct pyhook_options now = {.source_dir = SOURCE_DIR, .method = method};
	char header[PYHOOK_LINE_MAX];

	if (place->state == PYPLACE_GOOD && place->header && pyhook_header(&now, header) == 0 &&
	    !streq(place->header, header))
		return "older";
	return pyplace_state_name(place->state);
}

static struct json_object *place_json(const struct pyplace *place, enum pyhook_method method)
{
	struct json_object *o = json_object_new_object(), *files = json_object_new_array();
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/%s", place->parent, place->name);
	json_object_object_add(o, "method", json_text(pyhook_method_name(method)));
	json_object_object_add(o, "path", json_text(path));
	json_object_object_add(o, "state", json_text(place_state(place, method)));
	json_object_object_add(o, "hook_version", json_text(place->version));
	json_object_object_add(o, "runtime_dir", json_text(place->runtime));
	json_object_object_add(o, "files", files);
	for (size_t i = 0; i < place->n_entries; i++) {
		struct json_object *f = json_object_new_object();

		json_object_object_add(f, "path", json_text(place->entries[i].path));
		json_object_object_add(
			f, "state", json_text(pyplace_entry_state_name(place->entries[i].state)));
		json_object_array_add(files, f);
	}
	return o;
}

static int exe_error(int r, const char *why)
{
	return ctl_error(r == -ENOENT || r == -ENOEXEC || r == -ENOTUNIQ ? CTL_USAGE : CTL_FAILED,
			 "%s", why);
}

/* What was refused is an answer; what failed is not. */
static int place_error(int r, const char *why)
{
	bool refused = r == -EEXIST || r == -EREMOTE || r == -EOPNOTSUPP || r == -EUCLEAN;

	return ctl_error(refused ? CTL_BAD_NEWS : CTL_FAILED, "%s", why);
}

/* --- places */

/* Looks at the place of METHOD; state PYPLACE_ABSENT with no parent where there is no such place.
 */
static int look(const struct pyexe *exe, enum pyhook_method method, struct pyplace *ret,
		char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyhook_done) struct pyhook hook = PYHOOK_NULL;
	int r = pyhook_locate(exe, method, &hook, why);

	if (r == -EOPNOTSUPP) {
		*ret = (struct pyplace)PYPLACE_NULL;
		return 0;
	}
	return r < 0 ? r : pyplace_look(hook.parent, hook.name, ret, why);
}

/* --method, else the directory where there is one and nothing of others stands there. */
static int choose_method(const struct pyexe *exe, enum pyhook_method *ret, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyplace_done) struct pyplace place = PYPLACE_NULL;
	int r;

	*ret = PYHOOK_IN_SITE;
	if (arg_method && streq(arg_method, "directory"))
		*ret = PYHOOK_DIRECTORY;
	if (arg_method || exe->venv || !exe->zip)
		return 0;
	r = look(exe, PYHOOK_DIRECTORY, &place, why);
	if (r == 0 && place.state != PYPLACE_FOREIGN)
		*ret = PYHOOK_DIRECTORY;
	return r;
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

static void say_notes(const struct pyexe *exe, const struct pyhook *hook)
{
	char who[PYEXE_WHY_SIZE], *extension = realpath(SOURCE_DIR "/" PYHOOK_EXTENSION, NULL);

	if (!hook->compiled)
		ctl_note("installed without compiled files (%s): a start takes about 2 ms longer",
			 hook->note);
	if (!extension)
		ctl_note("%s/%s is not there: the hook uses its pure Python reader", SOURCE_DIR,
			 PYHOOK_EXTENSION);
	else if (!pytrust_path(extension, who, sizeof who))
		ctl_note("every process of this interpreter will load %s, and others than you can "
			 "change %s",
			 extension, who);
	free(extension);
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
	char version[16];

	version_text(exe, version, sizeof version);
	fputs(ctl->dry_run ? "Would install " : changed ? "Installed " : "Already there: ", stdout);
	print_escaped(hook->parent);
	putchar('/');
	print_escaped(hook->name);
	printf(" (%s %s, %s).\n", exe->version.pypy ? "PyPy" : "Python", version,
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
	struct pyhook_options options = {.source_dir = SOURCE_DIR};
	char why[PYEXE_WHY_SIZE] = "";
	int r = recorded_directory(ctl, &options.runtime_dir);

	if (r != CTL_GOOD)
		return r;
	r = choose_method(exe, &options.method, why);
	if (r == 0)
		r = pyhook_make(exe, &options, &hook, why);
	if (r == 0 && !ctl->dry_run)
		r = pyplace_install(&hook, why);
	if (r < 0)
		return place_error(r, why);
	say_notes(exe, &hook);
	if (ctl->json) {
		_cleanup_(json_putp) struct json_object *o = exe_json(exe);
		char path[PATH_MAX];

		(void)snprintf(path, sizeof path, "%s/%s", hook.parent, hook.name);
		json_object_object_add(o, "action", json_text("install"));
		json_object_object_add(o, "dry_run", json_object_new_boolean(ctl->dry_run));
		json_object_object_add(o, "changed", json_object_new_boolean(r == 1));
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

/* 1: taken away (or would be), 0: nothing there. */
static int remove_method(struct ctl *ctl, const struct pyexe *exe, enum pyhook_method method,
			 struct json_object *removed, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyplace_done) struct pyplace place = PYPLACE_NULL;
	char path[PATH_MAX];
	int r = look(exe, method, &place, why);

	/* What is not ours is in nobody's way here, unless it was asked for. */
	if (r < 0 || place.state == PYPLACE_ABSENT ||
	    (place.state == PYPLACE_FOREIGN && !arg_method))
		return r;
	if (ctl->dry_run)
		r = 1;
	else
		r = pyplace_remove(place.parent, place.name, exe->owner, why);
	if (r <= 0)
		return r;
	(void)snprintf(path, sizeof path, "%s/%s", place.parent, place.name);
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
	_cleanup_(json_putp) struct json_object *o = exe_json(exe);
	struct json_object *removed = json_object_new_array();
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
		if (r < 0)
			status = place_error(r, why);
	}
	if (ctl->json)
		json_print(o);
	else if (status == CTL_GOOD && json_object_array_length(removed) == 0)
		puts("No hook of cudaenv is there.");
	return status;
}

/* --- status */

/* Adds the interpreter to LIST, or a row to T. 1: covered by a whole hook, 0: not, -EUCLEAN: a
 * damaged one. */
static int describe(const struct pyexe *exe, struct json_object *list, struct table *t,
		    char why[PYEXE_WHY_SIZE])
{
	struct json_object *o = exe_json(exe), *hooks = json_object_new_array();
	const char *state = "absent";
	char path[PATH_MAX] = "", version[16];
	int answer = 0, r = 0;

	json_object_object_add(o, "hooks", hooks);
	json_object_array_add(list, o);
	for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++) {
		_cleanup_(pyplace_done) struct pyplace place = PYPLACE_NULL;

		r = look(exe, m, &place, why);
		if (r < 0)
			return r;
		if (!place.parent)
			continue;
		json_object_array_add(hooks, place_json(&place, m));
		if (!path[0] || place.state == PYPLACE_GOOD || place.state == PYPLACE_DAMAGED) {
			(void)snprintf(path, sizeof path, "%s/%s", place.parent, place.name);
			state = place_state(&place, m);
		}
		if (place.state == PYPLACE_DAMAGED)
			answer = -EUCLEAN;
		else if (place.state == PYPLACE_GOOD && answer == 0)
			answer = 1;
	}
	version_text(exe, version, sizeof version);
	table_cell(t, exe->exe);
	table_cell_format(t, "%s %s", exe->version.pypy ? "PyPy" : "Python", version);
	table_cell(t, exe->venv ? "venv" : "base");
	table_cell(t, state);
	table_cell(t, path[0] ? path : NULL);
	return answer;
}

static int show(struct ctl *ctl, const struct pyexe *exes, size_t n, const char *action)
{
	static const char *const headers[] = {"PYTHON", "VERSION", "KIND", "STATE", "HOOK", NULL};
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	_cleanup_(table_done) struct table t = {0};
	struct json_object *list = json_object_new_array();
	char why[PYEXE_WHY_SIZE];
	int status = CTL_GOOD;

	table_init(&t, headers);
	if (action)
		json_object_object_add(o, "plan", json_text(action));
	json_object_object_add(o, "pythons", list);
	for (size_t i = 0; i < n; i++) {
		int r = describe(&exes[i], list, &t, why);

		if (r < 0 && r != -EUCLEAN)
			return ctl_error(CTL_FAILED, "%s", why);
		if (r == -EUCLEAN || (r == 0 && !action))
			status = CTL_BAD_NEWS;
	}
	if (ctl->json)
		json_print(o);
	else if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	return status;
}

/* Without --python: what there is, and how to go on. */
static int plan(struct ctl *ctl, enum action action)
{
	_cleanup_(pyplan_done) struct pyplan found = {.n = 0};
	int r = pyplan_find(&found);

	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot look for interpreters: %s", strerror(-r));
	r = show(ctl, found.items, found.n, action_names[action]);
	if (!ctl->json && found.n == 0)
		puts("No interpreter was found in the usual places.");
	if (!ctl->json && r != CTL_FAILED)
		puts("Other venvs only with --python.");
	if (!ctl->json && action != STATUS && r != CTL_FAILED)
		printf("Nothing was changed. Name the one: cudaenvctl python %s --python EXE\n",
		       action_names[action]);
	return action == STATUS || r == CTL_FAILED ? r : CTL_GOOD;
}

static int run(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(pyexe_done) struct pyexe exe = PYEXE_NULL;
	char why[PYEXE_WHY_SIZE];
	enum action action = INSTALL;
	int r;

	while (action <= STATUS && !streq(argv[0], action_names[action]))
		action++;
	if (action > STATUS)
		return ctl_error(CTL_USAGE, "python %s: install, remove or status", argv[0]);
	if (arg_method && !streq(arg_method, "directory") && !streq(arg_method, "pth"))
		return ctl_error(CTL_USAGE, "--method=%s: directory or pth", arg_method);
	if (!arg_python)
		return plan(ctl, action);
	r = pyexe_find(arg_python, &exe, why);
	if (r < 0)
		return exe_error(r, why);
	if (action == INSTALL)
		return install(ctl, &exe);
	return action == REMOVE ? remove_hooks(ctl, &exe) : show(ctl, &exe, 1, NULL);
}

static const struct ctl_option options[] = {
	{"python", 0, "EXE", "the interpreter: a base with all its venvs, or one venv's", NULL,
	 &arg_python},
	{"method", 0, "directory|pth", "as pythonXY.zip (bases), or in site-packages", NULL,
	 &arg_method},
	{"runtime-dir", 0, "DIR", "install: where the hook looks first", NULL, &arg_runtime_dir},
	{NULL, 0, NULL, NULL, NULL, NULL},
};

const struct verb verb_python = {
	.name = "python",
	.arguments = "install|remove|status",
	.summary = "The hook in a Python interpreter that asks for variables at each start.",
	.help = "Without --python it changes nothing, and shows the bases of this machine and the "
		"venv\n"
		"that is active; other venvs only with --python.\n"
		"An interpreter that others could change is never run; its hook is installed "
		"without\n"
		"compiled files. remove deletes only files that are as they were installed.",
	.flags = VERB_DRY_RUN,
	.min_arguments = 1,
	.max_arguments = 1,
	.options = options,
	.run = run,
};
