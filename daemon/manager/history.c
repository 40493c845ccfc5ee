/* SPDX-License-Identifier: MIT */
/* One entry of the history as one JSON object a line, both ways, and what a rollback goes back to.
 */
#include <config.h>

#include "common/util.h"
#include "daemon/manager/json.h"
#include "daemon/manager/state.h"

void history_entry_done(struct history_entry *e)
{
	free(e->user);
	free(e->action);
	free(e->scope);
	free(e->variables);
	free(e->from);
	free(e->to);
	free(e->profile);
	free(e->reason);
	*e = (struct history_entry){.uid = STATE_UID_UNKNOWN};
}

int history_to_json(const struct history_entry *e, json_object *o)
{
	char when[32];
	struct tm tm;

	if (!gmtime_r(&e->time, &tm) ||
	    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return -EBADMSG;
	if (e->uid == STATE_UID_UNKNOWN ? json_add_string(o, "uid", NULL)
					: json_add_number(o, "uid", (int64_t)e->uid))
		return -ENOMEM;
	if (json_add_string(o, "time", when) || json_add_string(o, "user", e->user) ||
	    json_add_string(o, "action", e->action) || json_add_string(o, "scope", e->scope) ||
	    json_add_string(o, "from", e->from) || json_add_string(o, "to", e->to) ||
	    json_add_string(o, "reason", e->reason) || json_add_string(o, "profile", e->profile) ||
	    json_add_number(o, "generation", (int64_t)e->generation) ||
	    json_add_string(o, "variables", e->variables))
		return -ENOMEM;
	return e->until > 0 ? json_add_number(o, "until", e->until)
			    : json_add_string(o, "until", NULL);
}

int history_format(const struct history_entry *e, char **ret)
{
	_cleanup_(json_putp) json_object *o = json_object_new_object();
	int r;

	if (!o)
		return -ENOMEM;
	r = history_to_json(e, o);
	if (r < 0)
		return r;
	return json_print(o, ret);
}

/* 0 also when it is absent or null. */
static int get_string(json_object *o, const char *key, char **ret)
{
	json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !v)
		return 0;
	if (!json_object_is_type(v, json_type_string))
		return -EBADMSG;
	*ret = strdup(json_object_get_string(v));
	return *ret ? 0 : -ENOMEM;
}

static int get_number(json_object *o, const char *key, int64_t *ret)
{
	json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !v)
		return 0;
	if (!json_object_is_type(v, json_type_int))
		return -EBADMSG;
	*ret = json_object_get_int64(v);
	return 0;
}

static int take(json_object *o, struct history_entry *e)
{
	_cleanup_(freep) char *when = NULL;
	int64_t uid = -1, generation = 0;
	struct tm tm = {0};
	int r;

	r = get_string(o, "time", &when);
	if (r == 0 && (!when || !strptime(when, "%Y-%m-%dT%H:%M:%SZ", &tm)))
		r = -EBADMSG;
	if (r == 0)
		r = get_number(o, "uid", &uid);
	if (r == 0)
		r = get_number(o, "generation", &generation);
	if (r == 0)
		r = get_number(o, "until", &e->until);
	if (r == 0)
		r = get_string(o, "variables", &e->variables);
	if (r == 0)
		r = get_string(o, "user", &e->user);
	if (r == 0)
		r = get_string(o, "action", &e->action);
	if (r == 0)
		r = get_string(o, "scope", &e->scope);
	if (r == 0)
		r = get_string(o, "from", &e->from);
	if (r == 0)
		r = get_string(o, "to", &e->to);
	if (r == 0)
		r = get_string(o, "profile", &e->profile);
	if (r == 0)
		r = get_string(o, "reason", &e->reason);
	if (r < 0)
		return r;
	if (!e->action || !e->scope)
		return -EBADMSG;
	e->time = timegm(&tm);
	e->uid = uid >= 0 && uid < UINT32_MAX ? (uid_t)uid : STATE_UID_UNKNOWN;
	e->generation = (uint64_t)generation;
	return 0;
}

int history_parse(const char *line, struct history_entry *ret)
{
	_cleanup_(json_putp) json_object *o = json_tokener_parse(line);
	struct history_entry e = {.uid = STATE_UID_UNKNOWN};
	int r;

	if (!o || !json_object_is_type(o, json_type_object))
		return -EBADMSG;
	r = take(o, &e);
	if (r < 0) {
		history_entry_done(&e);
		return r;
	}
	*ret = e;
	return 0;
}

bool history_is_choice(const struct history_entry *e)
{
	enum mode mode;

	/* An override of the whole node always has an end. */
	return streq(e->scope, "node") && e->until == 0 && mode_parse(e->action, &mode) < 0;
}

int state_previous(const struct state *s, char ret[DIGEST_SIZE])
{
	_cleanup_(freep) const char **stack = calloc(s->n_history + 2, sizeof(*stack));
	size_t n = 0;

	if (!stack)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_history; i++) {
		const struct history_entry *e = &s->history[i];

		if (!history_is_choice(e))
			continue;
		if (n == 0)
			stack[n++] = e->from ? e->from : "";
		if (streq(e->action, "rollback") && n > 1)
			n--;
		else
			stack[n++] = e->to ? e->to : "";
	}
	if (n < 2)
		return 0;
	if (stack[n - 2][0] && !digest_valid(stack[n - 2]))
		return -EBADMSG;
	strcpy(ret, stack[n - 2]);
	return 1;
}
