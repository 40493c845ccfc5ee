/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pywork.h"

#include "common/util.h"

static bool ours(enum pycover_state state)
{
	return state != PYCOVER_ABSENT && state != PYCOVER_FOREIGN;
}

enum pyhook_method pywork_method(const struct pyexe *exe, const struct pycover *cover,
				 const char *asked)
{
	if (asked)
		return streq(asked, "directory") ? PYHOOK_DIRECTORY : PYHOOK_IN_SITE;
	if (exe->venv || !exe->zip || cover->state[PYHOOK_DIRECTORY] == PYCOVER_FOREIGN)
		return PYHOOK_IN_SITE;
	return !ours(cover->state[PYHOOK_DIRECTORY]) && ours(cover->state[PYHOOK_IN_SITE])
		       ? PYHOOK_IN_SITE
		       : PYHOOK_DIRECTORY;
}

int pywork_install(const struct pyexe *exe, const struct pywork_options *options,
		   struct pyhook *ret, char why[PYEXE_WHY_SIZE])
{
	struct pyhook_options make = {.source_dir = PYCOVER_SOURCE_DIR,
				      .runtime_dir = options->runtime_dir};
	_cleanup_(pycover_done) struct pycover cover = PYCOVER_NULL;
	struct pyhook hook = PYHOOK_NULL;
	int r = pycover_look(exe, &cover, why);

	if (r < 0)
		return r;
	make.method = pywork_method(exe, &cover, options->method);
	r = pyhook_make(exe, &make, &hook, why);
	if (r < 0)
		return r;
	r = options->dry_run ? 1 : pyplace_install(&hook, why);
	if (r < 0)
		pyhook_done(&hook);
	else
		*ret = hook;
	return r;
}

int pywork_remove(const struct pyexe *exe, enum pyhook_method method, bool asked, bool dry_run,
		  char ret[PATH_MAX], char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pycover_done) struct pycover cover = PYCOVER_NULL;
	const struct pyplace *place = &cover.place[method];
	int r = pycover_look(exe, &cover, why);

	if (r < 0 || cover.state[method] == PYCOVER_ABSENT ||
	    (cover.state[method] == PYCOVER_FOREIGN && !asked))
		return r;
	(void)snprintf(ret, PATH_MAX, "%s/%s", place->parent, place->name);
	return dry_run ? 1 : pyplace_remove(place->parent, place->name, exe->owner, why);
}

bool pywork_refused(int r)
{
	return r == -EEXIST || r == -EREMOTE || r == -EOPNOTSUPP || r == -EUCLEAN;
}
