/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pyall.h"

#include <limits.h>
#include <stdarg.h>

#include "client/ctl/pyjudge.h"
#include "client/ctl/pylog.h"
#include "client/ctl/pyshow.h"
#include "client/ctl/table.h"
#include "common/util.h"

enum step {
	STEP_INSTALL,
	STEP_REPLACE, /* an older one, or one with other settings */
	STEP_REPAIR,
	STEP_KEEP,
	STEP_BASE, /* a venv whose base's hook is its own as well */
	STEP_SKIP,
	STEP_REMOVE,
	STEP_NONE, /* nothing to remove */
	STEP_FAILED,
};

static const char *const step_names[] = {
	[STEP_INSTALL] = "install", [STEP_REPLACE] = "replace", [STEP_REPAIR] = "repair",
	[STEP_KEEP] = "keep",       [STEP_BASE] = "by base",    [STEP_SKIP] = "skip",
	[STEP_REMOVE] = "remove",   [STEP_NONE] = "none",       [STEP_FAILED] = "failed",
};

static const char *const done_names[] = {
	[STEP_INSTALL] = "installed", [STEP_REPLACE] = "replaced", [STEP_REPAIR] = "repaired",
	[STEP_KEEP] = "kept",         [STEP_BASE] = "by base",     [STEP_SKIP] = "skipped",
	[STEP_REMOVE] = "removed",    [STEP_NONE] = "none",        [STEP_FAILED] = "failed",
};

struct row {
	enum step step;
	bool look_failed, changed;
	struct pycover cover;
	enum pyhook_method method; /* of install */
	char why[PYEXE_WHY_SIZE];
};

struct plan {
	struct pyfind found;
	struct row *rows;   /* one for each that was found */
	bool removes, done; /* done: carried out */
};

static void plan_done(struct plan *p)
{
	for (size_t i = 0; p->rows && i < p->found.n; i++)
		pycover_done(&p->rows[i].cover);
	free(p->rows);
	pyfind_done(&p->found);
}

const char *pyaction_name(enum pyaction action)
{
	static const char *const names[] = {"install", "remove", "status"};

	return names[action];
}

_printf_(3, 4) static void set(struct row *row, enum step step, const char *format, ...)
{
	va_list ap;

	row->step = step;
	va_start(ap, format);
	(void)vsnprintf(row->why, sizeof row->why, format, ap);
	va_end(ap);
}

static bool is_python(const struct pyfind_item *item)
{
	return item->kind == PYFIND_BASE || item->kind == PYFIND_VENV;
}

/* --- the plan */

static bool runs(const struct row *row, enum pyhook_method method)
{
	return (row->step == STEP_INSTALL || row->step == STEP_REPLACE ||
		row->step == STEP_REPAIR || row->step == STEP_KEEP) &&
	       row->method == method;
}

static bool same_runtime(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

/* ROW's method is chosen: what that means there. */
static void plan_place(const struct pyexe *exe, const struct pywork_options *work, struct row *row)
{
	const struct pyplace *place = &row->cover.place[row->method];

	if (!place->parent) {
		set(row, STEP_SKIP, "no place for method %s", pyhook_method_name(row->method));
		return;
	}
	row->step = STEP_SKIP;
	if (!pyjudge(exe, place->parent, row->why))
		return;
	switch (row->cover.state[row->method]) {
	case PYCOVER_ABSENT:
		row->step = STEP_INSTALL;
		break;
	case PYCOVER_OLDER:
		row->step = STEP_REPLACE;
		break;
	case PYCOVER_DAMAGED:
		row->step = STEP_REPAIR;
		break;
	case PYCOVER_FOREIGN:
		set(row, STEP_SKIP, "%s/%s is not cudaenv's", place->parent, place->name);
		break;
	case PYCOVER_GOOD:
		row->step =
			same_runtime(place->runtime, work->runtime_dir) ? STEP_KEEP : STEP_REPLACE;
	}
}

static void plan_base(const struct pyfind_item *item, const struct pywork_options *work,
		      struct row *row)
{
	row->method = pywork_method(&item->exe, &row->cover, work->method);
	plan_place(&item->exe, work, row);
	if (row->method == PYHOOK_IN_SITE && runs(row, PYHOOK_IN_SITE))
		set(row, row->step, "its venvs are not covered: each with --python");
}

/* A venv gets none of its own by --all, but one that it has is kept up to date. */
static void plan_venv(const struct plan *p, const struct pyfind_item *item,
		      const struct pywork_options *work, struct row *row)
{
	const struct row *base = item->base < p->found.n ? &p->rows[item->base] : NULL;

	if (row->cover.own != PYCOVER_ABSENT && row->cover.own != PYCOVER_FOREIGN) {
		row->method = PYHOOK_IN_SITE;
		plan_place(&item->exe, work, row);
	} else if (base && (runs(base, PYHOOK_DIRECTORY) ||
			    (item->exe.system_site && runs(base, PYHOOK_IN_SITE))))
		row->step = STEP_BASE;
	else
		set(row, STEP_SKIP, "its base is not covered for venvs: with --python");
}

static void plan_remove(const struct pywork_options *work, struct row *row)
{
	row->step = STEP_NONE;
	for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++) {
		enum pycover_state state = row->cover.state[m];

		if (work->method && !streq(work->method, pyhook_method_name(m)))
			continue;
		if (state != PYCOVER_ABSENT && state != PYCOVER_FOREIGN)
			row->step = STEP_REMOVE;
	}
}

/* Bases first: a venv's step follows from its base's. What --all would install is status's as well.
 */
static void plan_all(struct plan *p, enum pyaction action, const struct pywork_options *work,
		     enum pyfind_kind kind)
{
	for (size_t i = 0; i < p->found.n; i++) {
		const struct pyfind_item *item = &p->found.items[i];
		struct row *row = &p->rows[i];
		char why[PYEXE_WHY_SIZE];

		if (item->kind != kind)
			continue;
		if (!is_python(item))
			set(row, STEP_SKIP, "%s", item->skip);
		else if (pycover_look(&item->exe, &row->cover, why) < 0) {
			row->look_failed = true;
			set(row, STEP_SKIP, "%s", why);
		} else if (action == PYTHON_REMOVE)
			plan_remove(work, row);
		else if (kind == PYFIND_BASE)
			plan_base(item, work, row);
		else
			plan_venv(p, item, work, row);
	}
}

static int plan_make(enum pyaction action, const struct pywork_options *work, struct plan *ret)
{
	struct pyfind_options options;
	int r;

	ret->removes = action == PYTHON_REMOVE;
	pyfind_environment(&options);
	r = pyfind(&options, &ret->found);
	if (r < 0)
		return r;
	ret->rows = calloc(ret->found.n + 1, sizeof *ret->rows);
	if (!ret->rows)
		return -ENOMEM;
	for (enum pyfind_kind kind = PYFIND_BASE; kind <= PYFIND_PLACE; kind++)
		plan_all(ret, action, work, kind);
	return 0;
}

/* --- carried out */

static void install(const struct pyexe *exe, const struct pywork_options *work, struct row *row)
{
	_cleanup_(pyhook_done) struct pyhook hook = PYHOOK_NULL;
	struct pywork_options options = *work;
	char why[PYEXE_WHY_SIZE] = "";
	int r;

	options.method = pyhook_method_name(row->method);
	r = pywork_install(exe, &options, &hook, why);
	row->changed = r == 1;
	if (r < 0) {
		set(row, STEP_FAILED, "%s", why);
		return;
	}
	if (r == 1 && row->step == STEP_KEEP)
		row->step = STEP_REPLACE;
	if (!hook.compiled && !row->why[0])
		set(row, row->step, "without compiled files: %s", hook.note);
}

static void take_away(const struct pyexe *exe, const struct pywork_options *work, struct row *row)
{
	char why[PYEXE_WHY_SIZE] = "", path[PATH_MAX];

	for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++) {
		int r;

		if (work->method && !streq(work->method, pyhook_method_name(m)))
			continue;
		r = pywork_remove(exe, m, false, false, path, why);
		row->changed |= r == 1 || r == -EUCLEAN;
		if (r < 0)
			set(row, STEP_FAILED, "%s", why);
	}
}

static void carry_out(struct plan *p, const struct pywork_options *work)
{
	p->done = true;
	for (size_t i = 0; i < p->found.n; i++) {
		struct row *row = &p->rows[i];

		if (row->step <= STEP_KEEP)
			install(&p->found.items[i].exe, work, row);
		else if (row->step == STEP_REMOVE)
			take_away(&p->found.items[i].exe, work, row);
		if (row->changed)
			pylog(p->removes ? PYTHON_REMOVE : PYTHON_INSTALL, &p->found.items[i].exe,
			      work->reason);
		if (row->step == STEP_FAILED)
			(void)ctl_error(0, "%s: %s", p->found.items[i].exe.exe, row->why);
	}
}

/* --- what is said */

static const struct row *base_of(const struct plan *p, size_t i)
{
	size_t base = p->found.items[i].base;

	return base < p->found.n && base != i ? &p->rows[base] : NULL;
}

/* For status: a venv without a working hook of its own that its base's serves. */
static bool by_base(const struct plan *p, size_t i)
{
	const struct row *base = base_of(p, i);

	return p->found.items[i].kind == PYFIND_VENV && base && !pycover_works(&p->rows[i].cover) &&
	       pycover_serves(&p->found.items[i].exe, &base->cover);
}

/* Why --all installs nothing there, or NULL. */
static const char *skipped(const struct plan *p, size_t i)
{
	if (p->rows[i].step == STEP_SKIP)
		return p->rows[i].why;
	/* A plan of removal has not looked for that. */
	return p->removes ? p->found.items[i].skip : NULL;
}

static void hook_path(const struct row *row, enum pyhook_method method, char ret[PATH_MAX])
{
	const struct pyplace *place = &row->cover.place[method];

	ret[0] = '\0';
	if (place->parent)
		(void)snprintf(ret, PATH_MAX, "%s/%s", place->parent, place->name);
}

static struct json_object *row_json(const struct plan *p, size_t i, enum pyaction action)
{
	const struct pyfind_item *item = &p->found.items[i];
	const struct row *row = &p->rows[i];
	struct json_object *o = pyshow_exe(&item->exe);

	json_object_object_add(o, "source", json_text(item->source));
	json_object_object_add(o, "skip", json_text(skipped(p, i)));
	json_object_object_add(o, "hooks", pyshow_hooks(&row->cover));
	if (action == PYTHON_STATUS) {
		bool base = by_base(p, i), covered = base || pycover_works(&row->cover);

		json_object_object_add(o, "by_base", json_object_new_boolean(base));
		json_object_object_add(o, "covered",
				       row->look_failed ? NULL : json_object_new_boolean(covered));
		return o;
	}
	json_object_object_add(o, p->done ? "result" : "step",
			       json_text((p->done ? done_names : step_names)[row->step]));
	json_object_object_add(
		o, "method",
		json_text(row->step <= STEP_KEEP ? pyhook_method_name(row->method) : NULL));
	json_object_object_add(o, "reason", json_text(row->why[0] ? row->why : NULL));
	if (p->done)
		json_object_object_add(o, "changed", json_object_new_boolean(row->changed));
	return o;
}

static struct json_object *place_json(const struct pyfind_item *item)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "path", json_text(item->exe.exe));
	json_object_object_add(o, "source", json_text(item->source));
	json_object_object_add(o, "reason", json_text(item->skip));
	return o;
}

static void print_json(const struct plan *p, enum pyaction action, bool dry_run)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array(), *places = json_object_new_array();

	if (action != PYTHON_STATUS) {
		json_object_object_add(o, p->done ? "action" : "plan",
				       json_text(pyaction_name(action)));
		json_object_object_add(o, "dry_run", json_object_new_boolean(dry_run));
	}
	json_object_object_add(o, "incomplete", json_text(p->found.cut));
	json_object_object_add(o, "pythons", list);
	json_object_object_add(o, "skipped_places", places);
	for (size_t i = 0; i < p->found.n; i++) {
		if (is_python(&p->found.items[i]))
			json_object_array_add(list, row_json(p, i, action));
		else
			json_object_array_add(places, place_json(&p->found.items[i]));
	}
	json_print(o);
}

static void name_cells(struct table *t, const struct pyfind_item *item)
{
	char version[PYSHOW_VERSION_SIZE];

	table_cell(t, item->exe.exe);
	if (is_python(item))
		pyshow_version(&item->exe, version);
	table_cell(t, is_python(item) ? version : NULL);
	table_cell(t, pyfind_kind_name(item->kind));
}

static void status_row(const struct plan *p, size_t i, struct table *t)
{
	const struct pyfind_item *item = &p->found.items[i];
	const struct row *row = &p->rows[i];
	bool base = is_python(item) && by_base(p, i);
	char path[PATH_MAX];

	name_cells(t, item);
	hook_path(base ? base_of(p, i) : row,
		  base ? base_of(p, i)->cover.method : row->cover.method, path);
	if (!is_python(item) || row->look_failed)
		table_cell(t, NULL);
	else
		table_cell(t, base ? "by base" : pycover_state_name(row->cover.own));
	table_cell(t, path[0] ? path : NULL);
	table_cell(t, skipped(p, i));
}

static void plan_row(const struct plan *p, size_t i, enum pyaction action, struct table *t)
{
	const struct row *row = &p->rows[i];
	char path[PATH_MAX] = "";

	name_cells(t, &p->found.items[i]);
	table_cell(t, (p->done ? done_names : step_names)[row->step]);
	if (action == PYTHON_INSTALL)
		table_cell(t, row->step <= STEP_KEEP ? pyhook_method_name(row->method) : NULL);
	else {
		if (row->step == STEP_REMOVE)
			hook_path(row, row->cover.method, path);
		table_cell(t, path[0] ? path : NULL);
	}
	table_cell(t, row->why[0] ? row->why : NULL);
}

static int print_table(const struct plan *p, enum pyaction action)
{
	static const char *const headers[3][7] = {
		{"PYTHON", "VERSION", "KIND", "STEP", "METHOD", "WHY", NULL},
		{"PYTHON", "VERSION", "KIND", "STEP", "HOOK", "WHY", NULL},
		{"PYTHON", "VERSION", "KIND", "STATE", "HOOK", "NOT BY --all", NULL},
	};
	_cleanup_(table_done) struct table t = {0};

	table_init(&t, headers[action]);
	for (size_t i = 0; i < p->found.n; i++) {
		if (action == PYTHON_STATUS)
			status_row(p, i, &t);
		else
			plan_row(p, i, action, &t);
	}
	return table_print(&t, stdout, ctl_terminal());
}

static bool any_changed(const struct plan *p)
{
	for (size_t i = 0; i < p->found.n; i++)
		if (p->rows[i].changed)
			return true;
	return false;
}

static void say_rest(struct ctl *ctl, const struct plan *p, enum pyaction action)
{
	if (p->found.n == 0)
		puts("No interpreter was found in the usual places.");
	if (p->found.cut)
		ctl_note("not all was looked at: %s", p->found.cut);
	puts("Other venvs only with --python.");
	if (action != PYTHON_STATUS && !p->done)
		printf("Nothing was changed. Do so: cudaenvctl%s python %s --all, or --python EXE "
		       "for "
		       "one.\n",
		       ctl->user ? " --user" : "", pyaction_name(action));
	else if (action == PYTHON_INSTALL && any_changed(p))
		puts("It takes effect at each start from now on.");
}

/* --- the answer */

static int status_answer(const struct plan *p)
{
	int status = p->found.n == 0 ? CTL_BAD_NEWS : CTL_GOOD;

	for (size_t i = 0; i < p->found.n; i++) {
		const struct row *row = &p->rows[i];

		if (!is_python(&p->found.items[i]))
			continue;
		if (row->cover.own == PYCOVER_DAMAGED || row->look_failed)
			status = CTL_BAD_NEWS;
		if (row->step != STEP_SKIP && !pycover_works(&row->cover) && !by_base(p, i))
			status = CTL_BAD_NEWS;
	}
	return status;
}

static int answer(const struct plan *p, enum pyaction action)
{
	size_t covered = 0;
	int status = CTL_GOOD;

	if (action == PYTHON_STATUS)
		return status_answer(p);
	if (!p->done)
		return CTL_GOOD;
	for (size_t i = 0; i < p->found.n; i++) {
		if (p->rows[i].step == STEP_FAILED || p->rows[i].look_failed)
			status = CTL_BAD_NEWS;
		covered += p->rows[i].step <= STEP_KEEP;
	}
	if (action == PYTHON_INSTALL && covered == 0)
		status = ctl_error(CTL_BAD_NEWS, "no interpreter was covered");
	return status;
}

int pyall(struct ctl *ctl, enum pyaction action, const struct pywork_options *work, bool do_it)
{
	_cleanup_(plan_done) struct plan p = {.rows = NULL};
	int r = plan_make(action, work, &p);

	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot look for interpreters: %s", strerror(-r));
	if (do_it && !work->dry_run && action != PYTHON_STATUS)
		carry_out(&p, work);
	if (ctl->json)
		print_json(&p, action, work->dry_run);
	else if (print_table(&p, action) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (!ctl->json)
		say_rest(ctl, &p, action);
	return answer(&p, action);
}
