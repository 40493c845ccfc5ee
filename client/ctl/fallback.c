/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/fallback.h"

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/pick.h"
#include "client/ctl/published.h"
#include "common/util.h"

/* CTL_GOOD: the manager's answer, or *ret is NULL, P open with a status, and WHY says what is wrong
 * with the manager. */
static int ask(struct ctl *ctl, const char *method, const char *const *arguments,
	       struct json_object **ret, struct published *p, const char **ret_why)
{
	_cleanup_(control_result_done) struct control_result answer = {0};
	const struct paths *paths = ctl_paths(ctl);
	int r;

	*ret = NULL;
	if (!paths)
		return CTL_FAILED;
	r = control_call(paths->control, method, arguments, CONTROL_DEADLINE_USEC, &answer);
	if ((r != -ENOENT && r != -ECONNREFUSED && r != -ETIMEDOUT) ||
	    published_open(paths->runtime, p) < 0 || !p->status)
		return ctl_call_finish(ctl, method, r, &answer, ret);
	*ret_why = r == -ETIMEDOUT ? "does not answer" : "is not running";
	return CTL_GOOD;
}

static void add_note(const char *why)
{
	ctl_note("cudaenvd %s: this is what it published last, whatever the files say now", why);
}

/* The status file has it of one snapshot. */
static struct json_object *rank_digest(const struct published *p, const char *digest)
{
	const char *active = json_string(p->status, "digest");

	return json_text(active && streq(active, digest) ? json_string(p->status, "rank_digest")
							 : NULL);
}

static struct json_object *list_or_empty(struct json_object *status, const char *key)
{
	struct json_object *list = json_array(status, key);

	return list ? json_object_get(list) : json_object_new_array();
}

static struct json_object *listed(const struct published *p, struct json_object *profile)
{
	static const char *const unknown[] = {"path",    "valid",       "edited", "description",
					      "applied", "file_digest", "error"};
	const char *name = json_string(profile, "name"), *digest = json_string(profile, "digest"),
		   *active = json_string(p->status, "active");
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "name", json_text(name ? name : ""));
	json_object_object_add(o, "active",
			       json_object_new_boolean(active && name && streq(active, name)));
	json_object_object_add(o, "digest", json_text(digest));
	json_object_object_add(o, "rank_digest", rank_digest(p, digest ? digest : ""));
	json_object_object_add(o, "scope", json_text(json_string(profile, "scope")));
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		json_object_object_add(o, unknown[i], NULL);
	return o;
}

int fallback_list(struct ctl *ctl, struct json_object **ret)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	struct json_object *profiles, *list;
	const char *why;
	int r = ask(ctl, "List", NULL, ret, &p, &why);

	if (r != CTL_GOOD || *ret)
		return r;
	*ret = json_object_new_object();
	list = json_object_new_array();
	json_object_object_add(*ret, "profiles", list);
	profiles = json_array(p.status, "profiles");
	for (size_t i = 0; profiles && i < json_object_array_length(profiles); i++)
		json_object_array_add(list, listed(&p, json_object_array_get_idx(profiles, i)));
	json_object_object_add(*ret, "rules", list_or_empty(p.status, "rules"));
	json_object_object_add(*ret, "overrides", list_or_empty(p.status, "overrides"));
	json_object_object_add(*ret, "configured", NULL);
	add_note(why);
	return CTL_GOOD;
}

static struct json_object *shown(const struct published *p, const char *name,
				 const struct snapshot *s)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();

	json_object_object_add(o, "profile", json_text(name));
	json_object_object_add(o, "digest", json_text(s->digest));
	json_object_object_add(o, "rank_digest", rank_digest(p, s->digest));
	json_object_object_add(o, "toolkit_root", json_text(s->toolkit_root));
	json_object_object_add(o, "edited", NULL);
	json_object_object_add(o, "variables", list);
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];
		struct json_object *v = json_object_new_object();

		json_object_object_add(v, "name", json_text(e->name));
		json_object_object_add(v, "rule", json_text(snapshot_rule_name(e->rule)));
		json_object_object_add(v, "value",
				       json_text(e->rule == SNAPSHOT_UNSET ? NULL : e->value));
		json_object_object_add(v, "group", json_text(e->group));
		json_object_object_add(v, "file", NULL);
		json_object_object_add(v, "line", NULL);
		json_object_array_add(list, v);
	}
	return o;
}

int fallback_show(struct ctl *ctl, const char *name, struct json_object **ret)
{
	const char *const arguments[] = {name, NULL};
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
	char digest[DIGEST_SIZE];
	const char *why;
	int r = ask(ctl, "Show", arguments, ret, &p, &why);

	if (r != CTL_GOOD || *ret)
		return r;
	if (!name[0])
		name = json_string(p.status, "active");
	if (!name)
		return ctl_error(CTL_BAD_NEWS,
				 "no profile is in use; cudaenvctl%s list shows what there is",
				 ctl_user_option(ctl));
	/* As the manager does: a name alone. */
	r = digest_valid(name) ? ctl_no_profile(ctl, name) : ctl_pick(ctl, &p, name, digest);
	if (r == CTL_GOOD)
		r = ctl_pick_look(&p, digest, &snapshot);
	if (r != CTL_GOOD)
		return r;
	*ret = shown(&p, name, snapshot);
	add_note(why);
	return CTL_GOOD;
}
