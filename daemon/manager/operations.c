/* SPDX-License-Identifier: MIT */
/* What control calls ask for. Rights have been checked; names and reasons are still anybody's text.
 */
#include <config.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/control.h"
#include "daemon/manager/json.h"
#include "daemon/manager/manager.h"

int operation_fail(sd_bus_error *error, int r, const char *what)
{
	(void)sd_bus_error_setf(error, ERROR_FAILED, "%s: %s", what, strerror(-r));
	return r;
}

int operation_check_reason(const char *reason, sd_bus_error *error)
{
	if (strlen(reason) <= STATE_REASON_MAX)
		return 0;
	return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "a reason has at most %d bytes",
				 STATE_REASON_MAX);
}

int operation_prepare(struct manager *m, struct active *ret, sd_bus_error *error)
{
	int r = switch_heal(m);

	if (r < 0)
		return operation_fail(error, r, m->paths.runtime);
	r = active_copy(&m->state->active, ret);
	return r < 0 ? operation_fail(error, r, "cannot change anything") : 0;
}

int operation_outcome(const struct manager *m, json_object *o, const char *action, const char *from,
		      const char *to)
{
	const struct active *a = &m->state->active;

	if (json_add_string(o, "action", action) ||
	    json_add_string(o, "mode", mode_name(a->mode)) ||
	    json_add_string(o, "from", from && from[0] ? from : NULL) ||
	    json_add_string(o, "to", to && to[0] ? to : NULL) ||
	    json_add_string(o, "digest", a->digest[0] ? a->digest : NULL) ||
	    json_add_string(o, "profile", a->profile[0] ? a->profile : NULL) ||
	    json_add_number(o, "generation", (int64_t)a->generation) ||
	    json_add_string(o, "warning", m->unsaved ? m->last_error : NULL))
		return -ENOMEM;
	return 0;
}

static int answer(const struct manager *m, const char *action, const char *from, const char *to,
		  char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();

	return !o || operation_outcome(m, o, action, from, to) ? -ENOMEM : json_print(o, ret);
}

int operation_commit(struct manager *m, struct active *next, const struct caller *who,
		     const char *action, const char *reason, sd_bus_error *error)
{
	const struct change why = {
		.action = action, .uid = who->uid, .user = who->user, .reason = reason};
	int r;

	switch_save(m);
	r = switch_commit(m, next, &why);
	if (r == -E2BIG || r == -EFBIG || r == -EBADMSG)
		return sd_bus_error_set(error, ERROR_TOO_MANY,
					"nothing has changed: settings and overrides together are "
					"more rules than a start may look at; end overrides by "
					"cudaenvctl use --reset"),
		       r;
	if (r == -EMSGSIZE)
		return sd_bus_error_set(error, ERROR_TOO_MANY,
					"nothing has changed: a profile and the variables that are "
					"set over it are too large together"),
		       r;
	return r < 0 ? operation_fail(error, r, "nothing has changed") : 0;
}

int operation_find_profile(struct manager *m, const char *name, const struct profile **ret,
			   sd_bus_error *error)
{
	const struct profile *p = profile_set_find(&m->profiles, name);
	_cleanup_(freep) char *fault = NULL;

	if (!p) {
		(void)sd_bus_error_setf(error, ERROR_NO_SUCH_PROFILE,
					"there is no profile '%.128s' in %s", name,
					m->paths.profiles[0]);
		return -ENOENT;
	}
	if (!p->valid) {
		if (document_fault(p, &fault) < 0)
			return -ENOMEM;
		(void)sd_bus_error_set(error, ERROR_INVALID, fault);
		return -EBADMSG;
	}
	*ret = p;
	return 0;
}

/* Everything but the profile that was asked for keeps its version. */
static int use(struct manager *m, const struct profile *p, struct active *next)
{
	static const struct scope node = {.kind = SCOPE_NODE};

	overrides_remove(&next->overrides, &node);
	next->chosen = true;
	strcpy(next->profile, p->name);
	strcpy(next->digest, p->digest);
	if (active_set_applied(next, p->name, p->digest) < 0)
		return -ENOMEM;
	return switch_resolve(m, NULL, next);
}

int operation_use(struct manager *m, const struct caller *who, const char *profile,
		  const char *reason, char **ret, sd_bus_error *error)
{
	const struct profile *p;
	char from[DIGEST_SIZE];
	struct active next;
	int r;

	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	r = switch_load_profiles(m, NULL);
	if (r < 0)
		return operation_fail(error, r, "cannot read the profiles");
	r = operation_find_profile(m, profile, &p, error);
	if (r < 0)
		return r;
	r = operation_prepare(m, &next, error);
	if (r < 0)
		return r;
	strcpy(from, next.digest);
	r = use(m, p, &next);
	if (r < 0) {
		active_done(&next);
		return operation_fail(error, r, "nothing has changed");
	}
	r = operation_commit(m, &next, who, "use", reason, error);
	return r < 0 ? r : answer(m, "use", from, m->state->active.digest, ret);
}

/* The profile's name is in the snapshot: its file may have changed or gone. */
static int roll_back_to(struct manager *m, const char *digest, struct active *next)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	next->chosen = true;
	next->profile[0] = '\0';
	strcpy(next->digest, digest);
	if (!digest[0])
		return switch_resolve(m, NULL, next);
	r = switch_fetch(m, digest, &bytes, &size);
	if (r == 0)
		r = snapshot_parse(bytes, size, &s);
	if (r < 0)
		return r;
	if (strlen(s->profile) >= sizeof(next->profile))
		return -EBADMSG;
	strcpy(next->profile, s->profile);
	r = active_set_applied(next, next->profile, digest);
	return r < 0 ? r : switch_resolve(m, NULL, next);
}

int operation_rollback(struct manager *m, const struct caller *who, const char *reason, char **ret,
		       sd_bus_error *error)
{
	char from[DIGEST_SIZE], to[DIGEST_SIZE];
	struct active next;
	int r;

	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	r = operation_prepare(m, &next, error);
	if (r < 0)
		return r;
	strcpy(from, next.digest);
	r = state_previous(m->state, to);
	if (r == 0) {
		active_done(&next);
		(void)sd_bus_error_set(error, ERROR_NOTHING_BEFORE,
				       "the history has nothing before what is in force");
		return -ENODATA;
	}
	if (r > 0)
		r = roll_back_to(m, to, &next);
	if (r < 0) {
		active_done(&next);
		return operation_fail(error, r,
				      r == -ENOENT ? "the earlier snapshot is no longer kept"
						   : "nothing has changed");
	}
	r = operation_commit(m, &next, who, "rollback", reason, error);
	return r < 0 ? r : answer(m, "rollback", from, m->state->active.digest, ret);
}

int operation_set_mode(struct manager *m, const struct caller *who, const char *mode,
		       const char *reason, char **ret, sd_bus_error *error)
{
	struct active next;
	const char *from;
	enum mode to;
	int r;

	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	if (mode_parse(mode, &to) < 0)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					"the mode is off, observe or on");
	r = operation_prepare(m, &next, error);
	if (r < 0)
		return r;
	from = mode_name(next.mode);
	next.mode = to;
	r = operation_commit(m, &next, who, mode_name(to), reason, error);
	return r < 0 ? r : answer(m, mode_name(to), from, mode_name(to), ret);
}

/* Profiles that an explicit reload brings to the version in their file: all but the one that
 * somebody chose. */
static int refreshed(const struct manager *m, struct words *ret)
{
	const struct active *a = &m->state->active;
	int r = 0;

	if (!a->chosen)
		r = words_add(ret, m->config->profile);
	for (size_t i = 0; r == 0 && i < m->config->n_rules; i++)
		if (!a->chosen || !streq(m->config->rules[i].profile, a->profile))
			r = words_add(ret, m->config->rules[i].profile);
	return r;
}

int operation_reload(struct manager *m, const struct caller *who, char **ret, sd_bus_error *error)
{
	static const struct caller nobody = {.uid = STATE_UID_UNKNOWN};
	struct words refresh = {0};
	char from[DIGEST_SIZE];
	struct active next;
	int r;

	r = operation_prepare(m, &next, error);
	if (r < 0)
		return r;
	strcpy(from, next.digest);
	r = manager_load_config(m);
	if (r == 0)
		r = switch_load_profiles(m, NULL);
	if (r == 0)
		r = refreshed(m, &refresh);
	if (r == 0)
		r = switch_resolve(m, &refresh, &next);
	words_done(&refresh);
	if (r < 0) {
		active_done(&next);
		return operation_fail(error, r, "cannot reload");
	}
	if (m->control)
		control_reload(m->control);
	r = operation_commit(m, &next, who ? who : &nobody, "reload", "", error);
	manager_say_missing(m);
	return r < 0 ? r : answer(m, "reload", from, m->state->active.digest, ret);
}
