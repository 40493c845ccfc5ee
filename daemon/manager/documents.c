/* SPDX-License-Identifier: MIT */
/* The JSON documents of DESIGN section 10: fields may be added, never renamed; what is unknown is
 * null. */
#include <config.h>

#include "common/profile-text.h"
#include "common/util.h"
#include "daemon/manager/json.h"
#include "daemon/manager/manager.h"

static const char *or_null(const char *s)
{
	return s && s[0] ? s : NULL;
}

int document_fault(const struct profile *p, char **ret)
{
	for (size_t i = 0; i < p->findings.n; i++)
		if (p->findings.items[i].severity == FINDING_ERROR)
			return finding_format(&p->findings.items[i], p->path, ret);
	*ret = strdup("not valid");
	return *ret ? 0 : -ENOMEM;
}

#define VERSIONS_MAX 256

/* What a digest stands for never changes, so that everybody may ask often. NULL: its bytes are
 * lost, or no memory. */
static const struct version *version_of(struct manager *m, const char *digest)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	struct version *versions, v = {0};
	size_t size;

	for (size_t i = 0; i < m->n_versions; i++)
		if (streq(m->versions[i].digest, digest))
			return &m->versions[i];
	if (!digest[0] || switch_fetch(m, digest, &bytes, &size) < 0 ||
	    snapshot_parse(bytes, size, &s) < 0)
		return NULL;
	strcpy(v.digest, digest);
	v.scope = s->scope_any ? "any" : "user";
	if (m->facts)
		(void)profile_rank_digest(s, m->facts, v.rank_digest);
	if (m->n_versions == VERSIONS_MAX)
		m->n_versions = 0;
	versions = reallocarray(m->versions, m->n_versions + 1, sizeof(*versions));
	if (!versions)
		return NULL;
	m->versions = versions;
	versions[m->n_versions] = v;
	return &versions[m->n_versions++];
}

/* Is the file of a profile in force something else than what is in force? */
static bool is_edited(const struct manager *m, const char *name)
{
	const char *applied = active_applied(&m->state->active, name);
	const struct profile *p = profile_set_find(&m->profiles, name);
	const char *file = p && p->valid ? p->digest : "";

	for (size_t i = 0; i < m->state->active.overrides.n; i++) {
		const struct override *o = &m->state->active.overrides.items[i];

		if (streq(o->profile, name) && !streq(o->digest, file))
			return true;
	}
	return applied && !streq(file, applied);
}

/* Names of profiles in force whose file is gone are listed as well. */
static int profile_names(const struct manager *m, struct words *ret)
{
	const struct active *a = &m->state->active;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->profiles.n_profiles; i++)
		r = words_add(ret, m->profiles.profiles[i]->name);
	for (size_t i = 0; r == 0 && i < a->n_applied; i++)
		if (!words_contain(ret, a->applied[i].profile))
			r = words_add(ret, a->applied[i].profile);
	for (size_t i = 0; r == 0 && i < a->overrides.n; i++) {
		const char *name = a->overrides.items[i].profile;

		if (name[0] && !words_contain(ret, name))
			r = words_add(ret, name);
	}
	return r;
}

/* That of the last override with profile NAME; "": there is none. */
static const char *digest_of_override(const struct manager *m, const char *name)
{
	const struct overrides *all = &m->state->active.overrides;

	for (size_t i = all->n; i > 0; i--)
		if (streq(all->items[i - 1].profile, name))
			return all->items[i - 1].digest;
	return "";
}

static const char *in_force_or_file(const struct manager *m, const char *name)
{
	const char *applied = active_applied(&m->state->active, name);
	const struct profile *p = profile_set_find(&m->profiles, name);

	return applied ? applied : p && p->valid ? p->digest : digest_of_override(m, name);
}

static int add_status_profiles(struct manager *m, json_object *o)
{
	json_object *list = json_object_new_array(), *edited = json_object_new_array();
	struct words names = {0};
	int r = profile_names(m, &names);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const char *digest = in_force_or_file(m, names.items[i]);
		const struct version *v = version_of(m, digest);
		json_object *item;

		if (is_edited(m, names.items[i]))
			r = json_append_take(edited, json_object_new_string(names.items[i]));
		if (r < 0 || !v)
			continue;
		item = json_object_new_object();
		r = json_append_take(list, item);
		if (r == 0 && (json_add_string(item, "name", names.items[i]) ||
			       json_add_string(item, "digest", digest) ||
			       json_add_string(item, "scope", v->scope)))
			r = -ENOMEM;
	}
	words_done(&names);
	if (json_add_take(o, "edited", edited) || json_add_take(o, "profiles", list))
		return -ENOMEM;
	return r;
}

/* Who chose what new jobs get where no rule says otherwise; NULL: nobody. */
static const char *chosen_by(const struct manager *m, char buf[24])
{
	for (size_t i = m->state->n_history; m->state->active.chosen && i > 0; i--) {
		const struct history_entry *e = &m->state->history[i - 1];

		if (!history_is_choice(e))
			continue;
		if (e->user || e->uid == STATE_UID_UNKNOWN)
			return e->user;
		(void)snprintf(buf, 24, "%u", (unsigned)e->uid);
		return buf;
	}
	return NULL;
}

/* Why a new job gets what it gets: the rules in the order in which they are asked. */
static int add_rules(const struct manager *m, json_object *o)
{
	json_object *list = json_object_new_array(), *last;
	const char *by;
	char buf[24];

	if (json_add_take(o, "rules", list) || rules_to_json(&m->rules, list))
		return -ENOMEM;
	by = chosen_by(m, buf);
	if (m->rules.n == 0 || !by)
		return 0;
	last = json_object_array_get_idx(list, m->rules.n - 1);
	return json_add_string(last, "by", by);
}

static int add_overrides(const struct manager *m, json_object *o)
{
	const struct overrides *all = &m->state->active.overrides;
	json_object *list = json_object_new_array();

	if (json_add_take(o, "overrides", list))
		return -ENOMEM;
	for (size_t i = 0; i < all->n; i++) {
		json_object *item = json_object_new_object();

		if (json_append_take(list, item) || override_to_json(&all->items[i], item))
			return -ENOMEM;
	}
	return 0;
}

/* The profile that the whole node has for a while, or its own choice; "" none. */
static const char *profile_of_node(const struct active *a)
{
	static const struct scope node = {.kind = SCOPE_NODE};
	const struct override *o = overrides_find(&a->overrides, OVERRIDE_USE, &node);

	return o ? o->profile : a->digest[0] ? a->profile : "";
}

static int format_verdict(const struct manager *m, char **ret)
{
	const struct active *a = &m->state->active;
	const char *profile = profile_of_node(a);
	int n;

	if (a->mode == MODE_OFF)
		n = asprintf(ret, "off: nothing is set");
	else if (a->mode == MODE_OBSERVE)
		n = asprintf(ret, "observing: nothing is set, %s%s",
			     profile[0] ? "new jobs would get " : "no profile is in use", profile);
	else if (!profile[0])
		n = asprintf(ret, "on, but no profile is in use: only rules give one");
	else
		n = asprintf(ret, "OK: new jobs get %s", profile);
	return n < 0 ? -ENOMEM : 0;
}

static int add_status(struct manager *m, json_object *o)
{
	const struct active *a = &m->state->active;
	const struct version *v = version_of(m, a->digest);
	_cleanup_(freep) char *verdict = NULL;
	int64_t valid = 0, broken = 0;

	for (size_t i = 0; i < m->profiles.n_profiles; i++)
		*(m->profiles.profiles[i]->valid ? &valid : &broken) += 1;
	if (format_verdict(m, &verdict) || json_add_string(o, "verdict", verdict) ||
	    json_add_string(o, "mode", mode_name(a->mode)) ||
	    json_add_string(o, "active", or_null(a->profile)) ||
	    json_add_string(o, "digest", or_null(a->digest)) ||
	    json_add_string(o, "rank_digest", v ? or_null(v->rank_digest) : NULL) ||
	    json_add_string(o, "facts_version", m->facts ? facts_version(m->facts) : NULL) ||
	    json_add_number(o, "generation", (int64_t)a->generation) ||
	    json_add_number(o, "profiles_valid", valid) ||
	    json_add_number(o, "profiles_broken", broken) ||
	    json_add_string(o, "processes", NULL) || json_add_string(o, "jobs", NULL) ||
	    json_add_string(o, "jobs_split", NULL) ||
	    json_add_string(o, "last_error", m->last_error) ||
	    json_add_number(o, "manager_pid", getpid()))
		return -ENOMEM;
	return add_status_profiles(m, o) || add_rules(m, o) || add_overrides(m, o) ? -ENOMEM : 0;
}

int document_status(struct manager *m, char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();
	int r = o ? add_status(m, o) : -ENOMEM;

	return r < 0 ? r : json_print(o, ret);
}

static int add_listed(struct manager *m, const char *name, json_object *o)
{
	const struct profile *p = profile_set_find(&m->profiles, name);
	const struct active *a = &m->state->active;
	const char *digest = in_force_or_file(m, name), *applied = active_applied(a, name);
	const struct version *v = version_of(m, digest);
	_cleanup_(freep) char *fault = NULL;

	if (!p)
		fault = strdup("its file is gone; the version in force stays");
	if ((p && !p->valid && document_fault(p, &fault) < 0) || (!p && !fault))
		return -ENOMEM;
	if (json_add_string(o, "name", name) ||
	    json_add_string(o, "path", p ? or_null(p->path) : NULL) ||
	    json_add_bool(o, "active", streq(a->profile, name)) ||
	    json_add_bool(o, "valid", p && p->valid) ||
	    json_add_bool(o, "edited", is_edited(m, name)) ||
	    json_add_string(o, "digest", or_null(digest)) ||
	    json_add_string(o, "rank_digest", v ? or_null(v->rank_digest) : NULL) ||
	    json_add_string(o, "scope", v ? v->scope : NULL) ||
	    json_add_string(o, "description", p ? or_null(p->description) : NULL) ||
	    json_add_string(o, "applied", applied) ||
	    json_add_string(o, "file_digest", p && p->valid ? p->digest : NULL) ||
	    json_add_string(o, "error", fault))
		return -ENOMEM;
	return 0;
}

int document_list(struct manager *m, char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();
	json_object *list = json_object_new_array();
	struct words names = {0};
	int r = profile_names(m, &names);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		json_object *item = json_object_new_object();

		r = json_append_take(list, item);
		if (r == 0)
			r = add_listed(m, names.items[i], item);
	}
	words_done(&names);
	if (!o || json_add_take(o, "profiles", list))
		return -ENOMEM;
	if (r == 0)
		r = add_rules(m, o);
	if (r == 0)
		r = add_overrides(m, o);
	/* What `use --reset` goes back to. */
	if (r == 0)
		r = json_add_string(o, "configured",
				    streq(m->config->profile, "none") ? NULL : m->config->profile);
	return r < 0 ? r : json_print(o, ret);
}

/* Where a variable of a snapshot is written, if the file still says the same. */
static const struct profile_variable *find_source(const struct profile *p,
						  const struct snapshot_entry *e)
{
	for (size_t i = 0; p && i < p->n_variables; i++) {
		const struct profile_variable *v = &p->variables[i];

		if (v->rule == e->rule && streq(v->name, e->name) &&
		    (e->rule == SNAPSHOT_UNSET || streq(v->value ? v->value : "", e->value)))
			return v;
	}
	return NULL;
}

static int add_variable(const struct profile *p, const struct snapshot_entry *e, json_object *list)
{
	const struct profile_variable *v = find_source(p, e);
	json_object *o = json_object_new_object();

	if (json_append_take(list, o) || json_add_string(o, "name", e->name) ||
	    json_add_string(o, "rule", snapshot_rule_name(e->rule)) ||
	    json_add_string(o, "value", e->rule == SNAPSHOT_UNSET ? NULL : e->value) ||
	    json_add_string(o, "group", e->group) || json_add_string(o, "file", v ? v->file : NULL))
		return -ENOMEM;
	return v && v->line > 0 ? json_add_number(o, "line", v->line)
				: json_add_string(o, "line", NULL);
}

static int add_shown(struct manager *m, const char *name, const struct snapshot *s, json_object *o)
{
	const struct profile *p = profile_set_find(&m->profiles, name);
	const struct version *v = version_of(m, s->digest);
	json_object *list = json_object_new_array();

	if (json_add_string(o, "profile", name) || json_add_string(o, "digest", s->digest) ||
	    json_add_string(o, "rank_digest", v ? or_null(v->rank_digest) : NULL) ||
	    json_add_string(o, "toolkit_root", s->toolkit_root) ||
	    json_add_bool(o, "edited", is_edited(m, name)) || json_add_take(o, "variables", list))
		return -ENOMEM;
	for (size_t i = 0; i < s->n_entries; i++)
		if (add_variable(p, &s->entries[i], list))
			return -ENOMEM;
	return 0;
}

int document_show(struct manager *m, const char *profile, char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	const char *name = profile[0] ? profile : m->state->active.profile;
	const char *digest = in_force_or_file(m, name);
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	if (!digest[0])
		return profile_set_find(&m->profiles, name) ? -EBADMSG : -ENOENT;
	r = switch_fetch(m, digest, &bytes, &size);
	if (r == 0)
		r = snapshot_parse(bytes, size, &s);
	if (r == 0)
		r = o ? add_shown(m, name, s, o) : -ENOMEM;
	return r < 0 ? r : json_print(o, ret);
}

int document_history(const struct manager *m, char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();
	json_object *list = json_object_new_array();

	if (!o || json_add_take(o, "entries", list))
		return -ENOMEM;
	for (size_t i = 0; i < m->state->n_history; i++) {
		json_object *item = json_object_new_object();
		int r;

		if (json_append_take(list, item))
			return -ENOMEM;
		r = history_to_json(&m->state->history[i], item);
		if (r < 0)
			return r;
	}
	return json_print(o, ret);
}
