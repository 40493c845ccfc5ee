/* SPDX-License-Identifier: MIT */
#include "common/paths.h"

#include "common/util.h"

static int format(char **ret, const char *a, const char *b)
{
	return asprintf(ret, "%s%s", a, b) < 0 ? (*ret = NULL, -ENOMEM) : 0;
}

/* An environment variable that holds an absolute path; unset, empty and relative ones do not count
 * (as XDG has it). */
static const char *environment_path(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

/* $XDG/cudaenv, else $HOME/FALLBACK/cudaenv. */
static int user_directory(const char *xdg, const char *fallback, char **ret)
{
	const char *base = environment_path(xdg), *home = environment_path("HOME");

	if (base)
		return format(ret, base, "/cudaenv");
	if (!home)
		return -ENXIO;
	return asprintf(ret, "%s/%s/cudaenv", home, fallback) < 0 ? (*ret = NULL, -ENOMEM) : 0;
}

static int user_runtime(char **ret)
{
	const char *base = environment_path("XDG_RUNTIME_DIR");

	if (base)
		return format(ret, base, "/cudaenv");
	return asprintf(ret, "/run/user/%u/cudaenv", (unsigned)geteuid()) < 0
		       ? (*ret = NULL, -ENOMEM)
		       : 0;
}

static int fill_user(struct paths *p)
{
	int r = user_directory("XDG_CONFIG_HOME", ".config", &p->config);

	if (r < 0)
		return r;
	r = user_directory("XDG_STATE_HOME", ".local/state", &p->state);
	if (r < 0)
		return r;
	if (!p->runtime)
		r = user_runtime(&p->runtime);
	if (r < 0)
		return r;
	r = format(&p->control, p->runtime, "/control");
	if (r < 0)
		return r;
	r = format(&p->drop_ins[0], p->config, "/cudaenvd.conf.d");
	if (r < 0)
		return r;
	return format(&p->profiles[0], p->config, "/profiles.d");
}

/* systemd's order: the operator's, this boot's, the packages'. */
static int fill_precedence(struct paths *p)
{
	const char *const bases[] = {p->config, p->runtime, "/usr/lib/cudaenv"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(bases); i++) {
		r = format(&p->drop_ins[i], bases[i], "/cudaenvd.conf.d");
		if (r == 0)
			r = format(&p->profiles[i], bases[i], "/profiles.d");
	}
	return r;
}

static int fill_system(struct paths *p)
{
	bool own = p->runtime;
	int r;

	if (!own && !(p->runtime = strdup("/run/cudaenv")))
		return -ENOMEM;
	p->config = strdup("/etc/cudaenv");
	p->state = strdup("/var/lib/cudaenv");
	if (!p->config || !p->state)
		return -ENOMEM;
	r = own ? format(&p->control, p->runtime, "/control")
		: format(&p->control, "/run/cudaenvd", "/control");
	if (r < 0)
		return r;
	return fill_precedence(p);
}

int paths_init(bool user, struct paths *ret)
{
	const char *runtime = secure_getenv("CUDAENV_RUNTIME_DIR");
	struct paths p = {.user = user};
	int r = 0;

	if (runtime && runtime[0] != '\0') {
		if (runtime[0] != '/')
			return -EINVAL;
		p.runtime = strdup(runtime);
		if (!p.runtime)
			return -ENOMEM;
	}
	r = user ? fill_user(&p) : fill_system(&p);
	if (r < 0) {
		paths_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

int paths_find(bool user, struct paths *ret)
{
	const char *runtime = secure_getenv("CUDAENV_RUNTIME_DIR");
	struct paths p;
	int r;

	if (user || (runtime && runtime[0] != '\0'))
		return paths_init(true, ret);
	if (access("/run/cudaenv", F_OK) < 0) {
		r = paths_init(true, &p);
		if (r == 0) {
			if (access(p.runtime, F_OK) == 0) {
				*ret = p;
				return 0;
			}
			paths_done(&p);
		} else if (r != -ENXIO) {
			return r;
		}
	}
	return paths_init(false, ret);
}

char *paths_no_session(const struct paths *p)
{
	const char *given = secure_getenv("CUDAENV_RUNTIME_DIR");
	char *advice, directory[64];

	(void)snprintf(directory, sizeof directory, "/run/user/%u", (unsigned)geteuid());
	if (!p->user || (given && given[0]) || environment_path("XDG_RUNTIME_DIR") ||
	    access(directory, F_OK) == 0)
		return NULL;
	return asprintf(&advice,
			"%s does not exist (no login session): export XDG_RUNTIME_DIR=DIR, a "
			"directory of your own with mode 0700, in this and every later shell",
			directory) < 0
		       ? NULL
		       : advice;
}

void paths_done(struct paths *p)
{
	free(p->runtime);
	free(p->control);
	free(p->config);
	free(p->state);
	for (size_t i = 0; i < ARRAY_SIZE(p->profiles); i++) {
		free(p->drop_ins[i]);
		free(p->profiles[i]);
	}
	*p = (struct paths){0};
}
