/* SPDX-License-Identifier: MIT */
#include "client/ctl/pyplan.h"

#include <glob.h>

#include "common/util.h"

static const char *const patterns[] = {
	"/usr/bin/python3.[0-9]*",
	"/usr/bin/pypy3",
	"/usr/local/bin/python3.[0-9]*",
	"/usr/local/bin/pypy3",
	"/opt/*/bin/python3",
	"/opt/*/bin/pypy3",
	"/opt/pyenv/versions/*/bin/python3",
	"/opt/pyenv/versions/*/bin/pypy3",
};

/* Below directories that the environment names. */
static const struct {
	const char *variable, *rest;
} below[] = {
	{"PYENV_ROOT", "versions/*/bin/python3"}, {"HOME", ".pyenv/versions/*/bin/python3"},
	{"HOME", "miniconda3/bin/python3"},       {"HOME", "anaconda3/bin/python3"},
	{"HOME", "miniforge3/bin/python3"},       {"CONDA_PREFIX", "bin/python3"},
	{"VIRTUAL_ENV", "bin/python3"},
};

static bool same(const struct pyexe *a, const struct pyexe *b)
{
	if (a->venv || b->venv)
		return a->venv && b->venv && streq(a->venv, b->venv);
	return streq(a->stdlib, b->stdlib);
}

static int add(struct pyplan *plan, const char *path)
{
	struct pyexe exe = PYEXE_NULL, *items;
	char why[PYEXE_WHY_SIZE];
	bool known = false;

	if (pyexe_find(path, &exe, why) < 0)
		return 0;
	for (size_t i = 0; i < plan->n && !known; i++)
		known = same(&plan->items[i], &exe);
	items = known ? NULL : realloc(plan->items, (plan->n + 1) * sizeof *items);
	if (!items) {
		pyexe_done(&exe);
		return known ? 0 : -ENOMEM;
	}
	plan->items = items;
	plan->items[plan->n++] = exe;
	return 0;
}

static int add_pattern(struct pyplan *plan, const char *pattern)
{
	glob_t g = {.gl_pathc = 0};
	int r = 0;

	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
			r = add(plan, g.gl_pathv[i]);
	globfree(&g);
	return r;
}

int pyplan_find(struct pyplan *ret)
{
	struct pyplan plan = {.n = 0};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(patterns) && r == 0; i++)
		r = add_pattern(&plan, patterns[i]);
	for (size_t i = 0; i < ARRAY_SIZE(below) && r == 0; i++) {
		const char *directory = getenv(below[i].variable);
		_cleanup_(freep) char *pattern = NULL;

		if (!directory || *directory != '/')
			continue;
		if (asprintf(&pattern, "%s/%s", directory, below[i].rest) < 0) {
			pattern = NULL;
			r = -ENOMEM;
		} else
			r = add_pattern(&plan, pattern);
	}
	if (r < 0)
		pyplan_done(&plan);
	else
		*ret = plan;
	return r;
}

void pyplan_done(struct pyplan *p)
{
	for (size_t i = 0; i < p->n; i++)
		pyexe_done(&p->items[i]);
	free(p->items);
	*p = (struct pyplan){.n = 0};
}
