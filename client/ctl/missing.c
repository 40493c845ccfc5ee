/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/missing.h"

#include <limits.h>
#include <unistd.h>

#include "common/util.h"

#define SUFFIX ".ini"

/* Is there a file of this name's profile, whether it is one or not? */
static bool has_profile(const struct paths *paths, const char *name, size_t size)
{
	if (size == 0 || size > NAME_MAX)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(paths->profiles) && paths->profiles[i]; i++) {
		_cleanup_(freep) char *path = NULL;

		if (asprintf(&path, "%s/%.*s" SUFFIX, paths->profiles[i], (int)size, name) < 0) {
			path = NULL;
			return false;
		}
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

/* NAME without the directories and .ini that somebody wrote with it; its size. */
static const char *bare_name(const char *name, size_t *ret_size)
{
	const char *slash = strrchr(name, '/'), *bare = slash ? slash + 1 : name;
	size_t n = strlen(bare);

	if (n > STRLEN(SUFFIX) && streq(bare + n - STRLEN(SUFFIX), SUFFIX))
		n -= STRLEN(SUFFIX);
	*ret_size = n;
	return bare;
}

const char *ctl_user_option(const struct ctl *ctl)
{
	return ctl->paths.user && !secure_getenv("CUDAENV_RUNTIME_DIR") ? " --user" : "";
}

static bool has_own_user_option(const struct verb *verb)
{
	for (const struct ctl_option *o = verb ? verb->options : NULL; o && o->name; o++)
		if (streq(o->name, "user"))
			return true;
	return false;
}

/* The other cudaenvd, the system's or one's own, has it: how it is asked. */
static const char *elsewhere(const struct ctl *ctl, const char *name, size_t size)
{
	_cleanup_(paths_done) struct paths other = {0};

	if (secure_getenv("CUDAENV_RUNTIME_DIR") || paths_init(!ctl->paths.user, &other) < 0 ||
	    !has_profile(&other, name, size))
		return NULL;
	if (!ctl->paths.user)
		return has_own_user_option(ctl->verb) ? "yours: --user before the verb"
						      : "yours: --user";
	return ctl->user ? "the system's: without --user" : NULL;
}

char *missing_profile_message(const struct ctl *ctl, const char *name)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "no profile %s in", name);
	for (size_t i = 0; i < ARRAY_SIZE(ctl->paths.profiles) && ctl->paths.profiles[i]; i++)
		fprintf(f, "%s %s", i > 0 ? "," : "", ctl->paths.profiles[i]);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Is a profile named by -p, and not as an argument? */
static bool takes_profile_option(const struct verb *verb)
{
	for (const struct ctl_option *o = verb ? verb->options : NULL; o && o->name; o++)
		if (o->letter == 'p')
			return true;
	return false;
}

char *missing_profile_fix(const struct ctl *ctl, const char *name)
{
	const char *verb = ctl->verb ? ctl->verb->name : "show", *other;
	bool option = takes_profile_option(ctl->verb);
	size_t size;
	const char *bare = bare_name(name, &size);
	char *text;
	int n;

	other = elsewhere(ctl, bare, size);
	if (!streq(bare, name) || size < strlen(bare)) {
		if (has_profile(&ctl->paths, bare, size)) {
			n = asprintf(&text, "leave out %s: cudaenvctl%s %s%s %.*s",
				     size < strlen(bare) ? SUFFIX : "the directory",
				     ctl_user_option(ctl), verb, option ? " -p" : "", (int)size,
				     bare);
			return n < 0 ? NULL : text;
		}
	}
	if (other)
		return strdup(other);
	n = asprintf(&text, "cudaenvctl%s list shows what there is", ctl_user_option(ctl));
	return n < 0 ? NULL : text;
}

int ctl_no_profile(const struct ctl *ctl, const char *name)
{
	_cleanup_(freep) char *message = missing_profile_message(ctl, name),
			      *fix = missing_profile_fix(ctl, name);

	if (!message || !fix)
		return ctl_error(CTL_FAILED, "out of memory");
	return ctl_error(CTL_BAD_NEWS, "%s; %s", message, fix);
}

char *ctl_start_advice(const struct ctl *ctl)
{
	_cleanup_(freep) char *no_session = paths_no_session(&ctl->paths);
	bool own = ctl->paths.user || secure_getenv("CUDAENV_RUNTIME_DIR");
	char *text;
	int n;

	if (no_session)
		n = asprintf(&text, "%s; then start it with cudaenvd --user", no_session);
	else if (own || access("/run/systemd/system", F_OK) < 0)
		n = asprintf(&text, "start it with cudaenvd --user");
	else
		n = asprintf(&text, "start it with systemctl start cudaenvd");
	return n < 0 ? NULL : text;
}
