/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/missing.h"

#include <limits.h>
#include <unistd.h>

#include "client/ctl/jsonutil.h"
#include "common/near.h"
#include "common/profile.h"
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

/* The profile that may be meant by NAME, malloc()ed; NULL: none, or no memory. */
static char *near_profile(const struct profile_set *set, const char *name)
{
	_cleanup_(freep) const char **names = calloc(set->n_profiles + 1, sizeof *names);
	const char *near;

	for (size_t i = 0; names && i < set->n_profiles; i++)
		names[i] = set->profiles[i]->name;
	near = names ? near_match(name, names, set->n_profiles) : NULL;
	return near ? strdup(near) : NULL;
}

char *missing_version_reason(const struct ctl *ctl, const char *name, char **ret_fix)
{
	_cleanup_(profile_set_done) struct profile_set set = {0};
	_cleanup_(freep) char *near = NULL;
	const char *option = ctl_user_option(ctl);
	const struct profile *p;
	char *text, *fix;
	int n, k;

	(void)profile_set_load((const char *const *)ctl->paths.profiles, NULL, &set);
	p = profile_set_find(&set, name);
	near = p ? NULL : near_profile(&set, name);
	if (p && p->valid)
		n = asprintf(&text, "no version of profile %s is in force", name);
	else if (p)
		n = asprintf(&text, "profile %s has errors", name);
	else
		n = asprintf(&text, "there is no profile %s", name);
	if (p && !p->valid)
		k = asprintf(&fix, "cudaenvctl%s check %s shows them", option, name);
	else if (near)
		k = asprintf(&fix, "did you mean %s?", near);
	else
		k = asprintf(&fix, "cudaenvctl%s use %s", option, p ? name : "PROFILE");
	if (n < 0 || k < 0) {
		if (n >= 0)
			free(text);
		if (k >= 0)
			free(fix);
		return NULL;
	}
	*ret_fix = fix;
	return text;
}

char *missing_reason(const struct ctl *ctl, const struct published *p, char **ret_fix)
{
	const char *name = json_string(p->status, "active");
	struct json_object *rules = json_array(p->status, "rules");

	for (size_t i = 0; !name && rules && i < json_object_array_length(rules); i++)
		name = json_string(json_object_array_get_idx(rules, i), "profile");
	if (name)
		return missing_version_reason(ctl, name, ret_fix);
	if (asprintf(ret_fix, "cudaenvctl%s use PROFILE", ctl_user_option(ctl)) < 0) {
		*ret_fix = NULL;
		return NULL;
	}
	return strdup("no profile is in use");
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
	_cleanup_(profile_set_done) struct profile_set set = {0};
	_cleanup_(freep) char *near = NULL;
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
	(void)profile_set_load((const char *const *)ctl->paths.profiles, NULL, &set);
	near = near_profile(&set, name);
	n = near ? asprintf(&text, "did you mean %s?", near)
		 : asprintf(&text, "cudaenvctl%s list shows what there is", ctl_user_option(ctl));
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

static bool is_own(const struct ctl *ctl)
{
	return ctl->paths.user || secure_getenv("CUDAENV_RUNTIME_DIR");
}

char *ctl_start_advice(const struct ctl *ctl)
{
	_cleanup_(freep) char *no_session = paths_no_session(&ctl->paths);
	char *text;
	int n;

	if (no_session)
		n = asprintf(&text, "%s; then start it with cudaenvd --user", no_session);
	else if (is_own(ctl) || access("/run/systemd/system", F_OK) < 0)
		n = asprintf(&text, "start it with cudaenvd --user");
	else
		n = asprintf(&text, "start it with systemctl start cudaenvd");
	return n < 0 ? NULL : text;
}

const char *ctl_restart_advice(const struct ctl *ctl)
{
	return is_own(ctl) ? "end it and start cudaenvd --user again"
			   : "systemctl restart cudaenvd";
}

/* State letter of /proc/PID/stat, 0: cannot be seen. */
static char process_state(pid_t pid)
{
	_cleanup_(fclosep) FILE *f = NULL;
	char path[64], line[512], *end;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	line[fread(line, 1, sizeof line - 1, f)] = '\0';
	end = strrchr(line, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

char *ctl_wake_advice(const struct ctl *ctl, pid_t pid)
{
	char state = process_state(pid), *text;
	int n;

	if (state == 'T' || state == 't')
		n = asprintf(&text, "it was stopped by a signal: kill -CONT %d wakes it", (int)pid);
	else
		n = asprintf(&text, "it hangs, and running jobs do not mind: %s",
			     ctl_restart_advice(ctl));
	return n < 0 ? NULL : text;
}
