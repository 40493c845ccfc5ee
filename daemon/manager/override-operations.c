/* SPDX-License-Identifier: MIT */
/* What control calls ask for about overrides, what the history says of them, and their ends. Rights
 * have been checked; names and values are still anybody's text. */
#include <config.h>

#include <time.h>

#include "common/profile-derive.h"
#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/manager.h"

static int64_t seconds_now(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_REALTIME, &t) == 0 ? (int64_t)t.tv_sec : 0;
}

/* In the journal: names of variables, never values. */
static char *names_of(const struct override *o)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; i < o->variables.n; i++)
		fprintf(f, "%s%.*s", i > 0 ? " " : "", (int)strcspn(o->variables.items[i], "="),
			o->variables.items[i]);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static void announce(const struct override *o, bool ended, const char *action,
		     const struct change *why)
{
	_cleanup_(freep) char *names = o->action == OVERRIDE_SET ? names_of(o) : NULL;
	char scope[SCOPE_TEXT_SIZE], uid[24] = "", until[32] = "";
	time_t end = (time_t)o->until;
	struct tm tm;

	scope_format(&o->scope, scope);
	if (why->uid != STATE_UID_UNKNOWN)
		(void)snprintf(uid, sizeof(uid), "%u", (unsigned)why->uid);
	if (!ended && o->until > 0 && gmtime_r(&end, &tm))
		(void)strftime(until, sizeof(until), " until %FT%TZ", &tm);
	log_struct(LOG_NOTICE, 0,
		   LOG_FIELDS({"CUDAENV_SCOPE", scope},
			      {"CUDAENV_PROFILE", o->profile[0] ? o->profile : NULL},
			      {"CUDAENV_DIGEST", o->digest[0] ? o->digest : NULL},
			      {"CUDAENV_ACTION", action}, {"CUDAENV_UID", uid[0] ? uid : NULL}),
		   "Override for %s %s: %s %s%s: %s%s%s", scope, ended ? "ended" : "in force",
		   names ? "variables" : "profile", names ? names : o->profile, until, action,
		   uid[0] ? " by uid " : "", uid);
}

/* By the history's words: what the command did to this override. That it ended another one is that
 * one's reset. */
static const char *action_of(const struct change *why, const struct override *o, bool ended)
{
	if (ended)
		return streq(why->action, "expired") ? "expired" : "reset";
	if (streq(why->action, "adopt") || streq(why->action, "apply"))
		return why->action;
	return override_action_name(o->action);
}

/* FROM: the digest before, NULL none; O is the ended one, or the one that is in force. */
static int record(struct manager *m, const struct change *why, const struct override *o, bool ended,
		  const char *from)
{
	_cleanup_(freep) char *variables =
		o->action == OVERRIDE_SET ? override_variables_text(o) : NULL;
	const char *action = action_of(why, o, ended);
	char scope[SCOPE_TEXT_SIZE];
	const struct record what = {
		.action = action,
		.scope = scope,
		.from = ended ? o->digest : from,
		.to = ended ? NULL : o->digest,
		.profile = o->profile,
		.variables = variables,
		.until = o->until,
	};

	scope_format(&o->scope, scope);
	announce(o, ended, action, why);
	return switch_record(m, why, &what);
}

int switch_record_overrides(struct manager *m, const struct overrides *old,
			    const struct change *why)
{
	const struct overrides *new = &m->state->active.overrides;
	int r = 0, k = 0;

	for (size_t i = 0; i < old->n; i++) {
		const struct override *was = &old->items[i];

		if (!overrides_find(new, was->action, &was->scope))
			k = record(m, why, was, true, NULL);
		r = r < 0 ? r : k;
	}
	for (size_t i = 0; i < new->n; i++) {
		const struct override *o = &new->items[i],
				      *was = overrides_find(old, o->action, &o->scope);

		if (!was || !override_same(was, o))
			k = record(m, why, o, false, was ? was->digest : NULL);
		r = r < 0 ? r : k;
	}
	return r;
}

/* Is E about an override that began or ended? */
static bool is_override(const struct history_entry *e)
{
	return startswith(e->scope, "unit ") || startswith(e->scope, "user ") ||
	       (streq(e->scope, "node") && e->until > 0);
}

static bool same_override(const struct history_entry *a, const struct history_entry *b)
{
	return streq(a->scope, b->scope) && !a->variables == !b->variables;
}

/* The last entry about what E is about. */
static bool is_last_word(const struct state *s, size_t i)
{
	for (size_t k = i + 1; k < s->n_history; k++)
		if (is_override(&s->history[k]) && same_override(&s->history[k], &s->history[i]))
			return false;
	return true;
}

static bool says_ended(const struct history_entry *e)
{
	return streq(e->action, "reset") || streq(e->action, "expired");
}

static bool is_about(const struct history_entry *e, const struct override *o)
{
	char scope[SCOPE_TEXT_SIZE];

	scope_format(&o->scope, scope);
	return is_override(e) && streq(e->scope, scope) &&
	       !e->variables == (o->action == OVERRIDE_USE);
}

/* Is O in force by the history's last word? */
static bool is_known(const struct state *s, const struct override *o)
{
	for (size_t i = s->n_history; i > 0; i--)
		if (is_about(&s->history[i - 1], o))
			return !says_ended(&s->history[i - 1]);
	return false;
}

static bool is_in_force(const struct overrides *all, const struct history_entry *e)
{
	for (size_t i = 0; i < all->n; i++)
		if (is_about(e, &all->items[i]))
			return true;
	return false;
}

/* We were killed after an override was taken out, and before that was recorded. */
static void record_ended(struct manager *m, const struct history_entry *e)
{
	static const struct change why = {.action = "adopt",
					  .uid = STATE_UID_UNKNOWN,
					  .reason = "was no longer in force when cudaenvd started"};
	bool over = e->until > 0 && e->until <= seconds_now();
	const struct record what = {
		.action = over ? "expired" : "reset",
		.scope = e->scope,
		.from = e->to,
		.profile = e->profile,
		.variables = e->variables,
		.until = e->until,
	};

	(void)switch_record(m, &why, &what);
}

void switch_record_found_overrides(struct manager *m, const struct change *why)
{
	const struct overrides *all = &m->state->active.overrides;

	for (size_t i = 0; i < all->n; i++)
		if (!is_known(m->state, &all->items[i]))
			(void)record(m, why, &all->items[i], false, NULL);
	for (size_t i = 0, n = m->state->n_history; i < n && i < m->state->n_history; i++) {
		const struct history_entry *e = &m->state->history[i];
		struct history_entry copy = *e;

		if (!is_override(e) || says_ended(e) || is_in_force(all, e) ||
		    !is_last_word(m->state, i))
			continue;
		record_ended(m, &copy);
	}
}

static int on_end_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	switch_end_overrides(userdata);
	return 0;
}

int switch_arm(struct manager *m)
{
	int64_t first = overrides_first_end(&m->state->active.overrides);
	uint64_t usec = (uint64_t)first * 1000 * 1000;
	int r;

	if (!m->ends && first == 0)
		return 0;
	if (!m->ends)
		return sd_event_add_time(m->event, &m->ends, CLOCK_REALTIME, usec, 0, on_end_timer,
					 m);
	if (first == 0)
		return sd_event_source_set_enabled(m->ends, SD_EVENT_OFF);
	r = sd_event_source_set_time(m->ends, usec);
	return r < 0 ? r : sd_event_source_set_enabled(m->ends, SD_EVENT_ONESHOT);
}

void switch_end_overrides(struct manager *m)
{
	static const struct change why = {.action = "expired", .uid = STATE_UID_UNKNOWN};
	struct active next;
	int r;

	r = active_copy(&m->state->active, &next);
	if (r == 0) {
		overrides_remove_ended(&next.overrides, seconds_now());
		r = switch_commit(m, &next, &why);
	}
	/* Nobody gets it any more in any case; with the next change it is tried again. */
	if (r < 0)
		(void)log_warning_errno(r, "Failed to take out an override that has ended: %m");
}

/* Its parts come from the caller; what it becomes is filled in. */
static int begin(const struct caller *who, enum override_action action, const char *scope,
		 uint64_t seconds, struct override *ret, sd_bus_error *error)
{
	struct override o = {.action = action, .uid = who->uid, .since = seconds_now()};
	/* The second that has begun does not count: it lasts for what was asked, or a little more.
	 */
	int64_t next_second = o.since + 1;
	_cleanup_(freep) char *fault = NULL;
	int r;

	if (seconds > OVERRIDE_SECONDS_MAX)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					"an override lasts ten years at most");
	r = scope_parse(scope, &o.scope, &fault);
	if (fault)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, fault);
	if (r < 0)
		return r;
	if (o.scope.kind == SCOPE_NODE && (action == OVERRIDE_SET || seconds == 0))
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					action == OVERRIDE_SET
						? "variables are set for a unit or a user"
						: "for the whole node it needs an end");
	o.until = seconds > 0 ? next_second + (int64_t)seconds : 0;
	o.user = who->user ? strdup(who->user) : NULL;
	if (who->user && !o.user)
		return -ENOMEM;
	*ret = o;
	return 0;
}

static int put(struct active *next, struct override *o, sd_bus_error *error)
{
	int r = overrides_put(&next->overrides, o);

	if (r == -E2BIG)
		return sd_bus_error_setf(error, ERROR_TOO_MANY,
					 "there are %d overrides already; end some by cudaenvctl "
					 "use --reset",
					 OVERRIDES_MAX);
	if (r == -EFBIG)
		return sd_bus_error_setf(error, ERROR_TOO_MANY,
					 "too many variables: %d and %zu bytes for one scope, %zu "
					 "bytes in all; end some by cudaenvctl use --reset",
					 DERIVE_VARIABLES_MAX, DERIVE_BYTES_MAX,
					 OVERRIDE_VARIABLES_MAX);
	return r;
}

/* The answer about the override O, which is in force; FROM was the digest of the one before it. */
static int answer(const struct manager *m, const struct override *o, const char *from, char **ret)
{
	_cleanup_(json_putp) json_object *a = json_object_new_object(),
					 *described = json_object_new_object();
	json_object *variables = NULL;

	if (!a || !described || override_to_json(o, described) ||
	    operation_outcome(m, a, override_action_name(o->action), from, o->digest) ||
	    json_add_string(a, "digest", o->digest[0] ? o->digest : NULL) ||
	    json_add_string(a, "profile", o->profile[0] ? o->profile : NULL) ||
	    json_add_string(a, "scope",
			    json_object_get_string(json_object_object_get(described, "scope"))))
		return -ENOMEM;
	if (json_object_object_get_ex(described, "variables", &variables) &&
	    json_add_take(a, "variables", json_object_get(variables)))
		return -ENOMEM;
	if (o->until > 0 ? json_add_number(a, "until", o->until)
			 : json_add_string(a, "until", NULL))
		return -ENOMEM;
	return json_print(a, ret);
}

/* Puts O in force: emptied in every case. */
static int apply(struct manager *m, const struct caller *who, struct override *o,
		 const char *reason, char **ret, sd_bus_error *error)
{
	struct override *earlier;
	struct scope scope = o->scope;
	enum override_action action = o->action;
	char from[DIGEST_SIZE] = "";
	struct active next;
	int r;

	r = operation_prepare(m, &next, error);
	if (r < 0) {
		override_done(o);
		return r;
	}
	earlier = overrides_find(&next.overrides, action, &scope);
	if (earlier)
		strcpy(from, earlier->digest);
	r = put(&next, o, error);
	override_done(o);
	if (r == 0)
		r = switch_resolve(m, NULL, &next);
	if (r < 0) {
		active_done(&next);
		return sd_bus_error_is_set(error) ? r
						  : operation_fail(error, r, "nothing has changed");
	}
	r = operation_commit(m, &next, who, override_action_name(action), reason, error);
	if (r < 0)
		return r;
	earlier = overrides_find(&m->state->active.overrides, action, &scope);
	return earlier ? answer(m, earlier, from, ret) : -ENOENT;
}

int operation_use_for(struct manager *m, const struct caller *who, const char *profile,
		      const char *scope, uint64_t seconds, const char *reason, char **ret,
		      sd_bus_error *error)
{
	const struct profile *p;
	struct override o;
	int r;

	if (streq(scope, "node") && seconds == 0)
		return operation_use(m, who, profile, reason, ret, error);
	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	r = switch_load_profiles(m, NULL);
	if (r < 0)
		return operation_fail(error, r, "cannot read the profiles");
	r = operation_find_profile(m, profile, &p, error);
	if (r == 0)
		r = begin(who, OVERRIDE_USE, scope, seconds, &o, error);
	if (r < 0)
		return r;
	strcpy(o.profile, p->name);
	strcpy(o.digest, p->digest);
	return apply(m, who, &o, reason, ret, error);
}

int operation_set(struct manager *m, const struct caller *who, const struct words *variables,
		  const char *scope, uint64_t seconds, const char *reason, char **ret,
		  sd_bus_error *error)
{
	_cleanup_(freep) char *fault = NULL;
	struct override o;
	int r;

	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	if (variables->n == 0)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "no variable is given");
	r = derive_check((const char *const *)variables->items, variables->n, NULL, &fault);
	if (fault)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, fault);
	if (r == 0)
		r = begin(who, OVERRIDE_SET, scope, seconds, &o, error);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < variables->n; i++)
		r = words_add(&o.variables, variables->items[i]);
	if (r < 0) {
		override_done(&o);
		return r;
	}
	return apply(m, who, &o, reason, ret, error);
}

static int answer_reset(const struct manager *m, const struct overrides *ended, const char *scope,
			const char *from, char **ret)
{
	_cleanup_(json_putp) json_object *a = json_object_new_object();
	json_object *list = json_object_new_array();

	if (!a || json_add_take(a, "ended", list) ||
	    operation_outcome(m, a, "reset", from, m->state->active.digest) ||
	    json_add_string(a, "scope", scope))
		return -ENOMEM;
	for (size_t i = 0; i < ended->n; i++) {
		json_object *o = json_object_new_object();

		if (json_append_take(list, o) || override_to_json(&ended->items[i], o))
			return -ENOMEM;
	}
	return json_print(a, ret);
}

/* Those of OLD, which is emptied of the others, that are in force no more. */
static void keep_ended(struct overrides *old, const struct overrides *now)
{
	size_t kept = 0;

	for (size_t i = 0; i < old->n; i++) {
		if (overrides_find(now, old->items[i].action, &old->items[i].scope))
			override_done(&old->items[i]);
		else
			old->items[kept++] = old->items[i];
	}
	old->n = kept;
}

/* Takes the overrides of SCOPE (NULL: all) out of NEXT. For the node its own choice goes too: it is
 * that of the settings again. */
static int reset(struct manager *m, const struct scope *scope, struct active *next)
{
	overrides_remove(&next->overrides, scope);
	if (scope && scope->kind == SCOPE_NODE)
		next->chosen = false;
	return switch_resolve(m, NULL, next);
}

int operation_reset(struct manager *m, const struct caller *who, const char *scope,
		    const char *reason, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *fault = NULL;
	struct overrides old = {0};
	char from[DIGEST_SIZE], text[SCOPE_TEXT_SIZE] = "all";
	struct active next;
	struct scope s;
	bool all = streq(scope, "all");
	int r;

	r = operation_check_reason(reason, error);
	if (r < 0)
		return r;
	r = all ? 0 : scope_parse(scope, &s, &fault);
	if (fault)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, fault);
	if (r == 0)
		r = operation_prepare(m, &next, error);
	if (r < 0)
		return r;
	strcpy(from, next.digest);
	if (!all)
		scope_format(&s, text);
	r = overrides_copy(&next.overrides, &old);
	if (r == 0)
		r = reset(m, all ? NULL : &s, &next);
	if (r < 0)
		active_done(&next);
	else
		r = operation_commit(m, &next, who, "reset", reason, error);
	if (r == 0) {
		keep_ended(&old, &m->state->active.overrides);
		r = answer_reset(m, &old, text, from, ret);
	}
	overrides_done(&old);
	return r;
}
