/* SPDX-License-Identifier: MIT */
#include "client/ctl/pyshow.h"

#include <limits.h>

#include "common/util.h"

/* "3.13t" */
static void number(const struct pyexe *exe, char ret[PYSHOW_VERSION_SIZE])
{
	(void)snprintf(ret, PYSHOW_VERSION_SIZE, "3.%u%s", exe->version.minor,
		       exe->version.free_threaded ? "t" : "");
}

void pyshow_version(const struct pyexe *exe, char ret[PYSHOW_VERSION_SIZE])
{
	(void)snprintf(ret, PYSHOW_VERSION_SIZE, "%s 3.%u%s", exe->version.pypy ? "PyPy" : "Python",
		       exe->version.minor, exe->version.free_threaded ? "t" : "");
}

struct json_object *pyshow_exe(const struct pyexe *exe)
{
	struct json_object *o = json_object_new_object();
	char version[PYSHOW_VERSION_SIZE];

	number(exe, version);
	json_object_object_add(o, "python", json_text(exe->exe));
	json_object_object_add(o, "kind", json_text(exe->venv ? "venv" : "base"));
	json_object_object_add(o, "implementation",
			       json_text(exe->version.pypy ? "PyPy" : "CPython"));
	json_object_object_add(o, "version", json_text(version));
	json_object_object_add(o, "owner_uid", json_object_new_int64(exe->owner));
	return o;
}

static struct json_object *place_json(const struct pyplace *place, enum pycover_state state,
				      enum pyhook_method method)
{
	struct json_object *o = json_object_new_object(), *files = json_object_new_array();
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/%s", place->parent, place->name);
	json_object_object_add(o, "method", json_text(pyhook_method_name(method)));
	json_object_object_add(o, "path", json_text(path));
	json_object_object_add(o, "state", json_text(pycover_state_name(state)));
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

struct json_object *pyshow_hooks(const struct pycover *c)
{
	struct json_object *hooks = json_object_new_array();

	for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++)
		if (c->place[m].parent)
			json_object_array_add(hooks, place_json(&c->place[m], c->state[m], m));
	return hooks;
}
