/* SPDX-License-Identifier: MIT */
#include <config.h>

#include "common/profile-derive.h"
#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/manager/override.h"

#define UID_UNKNOWN     ((uid_t)-1)
#define VARIABLES_SHOWN 1000 /* bytes */

static const char *const action_names[] = {[OVERRIDE_USE] = "use", [OVERRIDE_SET] = "set"};

const char *override_action_name(enum override_action action)
{
	return action_names[action];
}

void override_done(struct override *o)
{
	free(o->user);
	words_done(&o->variables);
	*o = (struct override){.uid = UID_UNKNOWN};
}

void overrides_done(struct overrides *all)
{
	for (size_t i = 0; i < all->n; i++)
		override_done(&all->items[i]);
	free(all->items);
	*all = (struct overrides){0};
}

static int copy_override(const struct override *from, struct override *ret)
{
	struct override o = *from;
	int r = 0;

	o.user = from->user ? strdup(from->user) : NULL;
	o.variables = (struct words){0};
	if (from->user && !o.user)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < from->variables.n; i++)
		r = words_add(&o.variables, from->variables.items[i]);
	if (r < 0) {
		override_done(&o);
		return r;
	}
	*ret = o;
	return 0;
}

/* Room for one more. */
static int grow(struct overrides *all)
{
	struct override *items = reallocarray(all->items, all->n + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	all->items = items;
	return 0;
}

int overrides_copy(const struct overrides *from, struct overrides *ret)
{
	struct overrides all = {0};

	for (size_t i = 0; i < from->n; i++) {
		int r = grow(&all);

		if (r == 0)
			r = copy_override(&from->items[i], &all.items[all.n]);
		if (r < 0) {
			overrides_done(&all);
			return r;
		}
		all.n++;
	}
	*ret = all;
	return 0;
}

static bool same_words(const struct words *a, const struct words *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!streq(a->items[i], b->items[i]))
			return false;
	return true;
}

bool override_same(const struct override *a, const struct override *b)
{
	return a->action == b->action && scope_same(&a->scope, &b->scope) && a->until == b->until &&
	       streq(a->profile, b->profile) && streq(a->digest, b->digest) &&
	       same_words(&a->variables, &b->variables);
}

bool overrides_same(const struct overrides *a, const struct overrides *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!override_same(&a->items[i], &b->items[i]))
			return false;
	return true;
}

struct override *overrides_find(const struct overrides *all, enum override_action action,
				const struct scope *scope)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->items[i].action == action && scope_same(&all->items[i].scope, scope))
			return &all->items[i];
	return NULL;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

static bool has_name(const struct words *variables, const char *assignment)
{
	for (size_t i = 0; i < variables->n; i++)
		if (same_name(assignment, variables->items[i]))
			return true;
	return false;
}

static int by_word(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t bytes_of(const struct words *w)
{
	size_t bytes = 0;

	for (size_t i = 0; i < w->n; i++)
		bytes += strlen(w->items[i]);
	return bytes;
}

int override_join(const struct words *earlier, const struct words *later, struct words *ret)
{
	int r = 0;

	for (size_t i = 0; r == 0 && earlier && i < earlier->n; i++)
		if (!has_name(later, earlier->items[i]))
			r = words_add(ret, earlier->items[i]);
	for (size_t i = 0; r == 0 && i < later->n; i++)
		r = words_add(ret, later->items[i]);
	if (ret->n > 1)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_word);
	if (r == 0 && (ret->n > DERIVE_VARIABLES_MAX || bytes_of(ret) > DERIVE_BYTES_MAX))
		r = -EFBIG;
	return r;
}

static void take_out(struct overrides *all, size_t i)
{
	override_done(&all->items[i]);
	memmove(&all->items[i], &all->items[i + 1], (all->n - i - 1) * sizeof(*all->items));
	all->n--;
}

int overrides_put(struct overrides *all, struct override *o)
{
	struct override *old = overrides_find(all, o->action, &o->scope);
	struct words variables = {0};
	size_t bytes = 0;
	int r;

	if (!old && all->n >= OVERRIDES_MAX)
		return -E2BIG;
	r = override_join(old ? &old->variables : NULL, &o->variables, &variables);
	for (size_t i = 0; i < all->n; i++)
		bytes += &all->items[i] == old ? 0 : bytes_of(&all->items[i].variables);
	if (r == 0 && bytes + bytes_of(&variables) > OVERRIDE_VARIABLES_MAX)
		r = -EFBIG;
	if (r == 0)
		r = grow(all);
	if (r < 0) {
		words_done(&variables);
		return r;
	}
	words_done(&o->variables);
	o->variables = variables;
	old = overrides_find(all, o->action, &o->scope);
	if (old)
		take_out(all, (size_t)(old - all->items));
	all->items[all->n++] = *o;
	*o = (struct override){.uid = UID_UNKNOWN};
	return 0;
}

void overrides_remove(struct overrides *all, const struct scope *scope)
{
	for (size_t i = all->n; i > 0; i--)
		if (!scope || scope_same(&all->items[i - 1].scope, scope))
			take_out(all, i - 1);
}

static bool has_ended(const struct override *o, int64_t now)
{
	return o->until > 0 && o->until <= now;
}

void overrides_remove_ended(struct overrides *all, int64_t now)
{
	for (size_t i = all->n; i > 0; i--)
		if (has_ended(&all->items[i - 1], now))
			take_out(all, i - 1);
}

int64_t overrides_first_end(const struct overrides *all)
{
	int64_t first = 0;

	for (size_t i = 0; i < all->n; i++) {
		int64_t until = all->items[i].until;

		if (until > 0 && (first == 0 || until < first))
			first = until;
	}
	return first;
}

static void print_scope(const struct scope *s, FILE *f)
{
	switch (s->kind) {
	case SCOPE_NODE:
		fputs("scope node\n", f);
		return;
	case SCOPE_UNIT:
		fprintf(f, "scope unit %s\n", s->name);
		return;
	case SCOPE_USER:
		fprintf(f, "scope user %u %s\n", (unsigned)s->uid, s->name);
	}
}

void overrides_print(const struct overrides *all, FILE *f)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct override *o = &all->items[i];

		fprintf(f, "override %s\n", action_names[o->action]);
		print_scope(&o->scope, f);
		fprintf(f, "since %lld\n", (long long)o->since);
		if (o->until > 0)
			fprintf(f, "until %lld\n", (long long)o->until);
		else
			fputs("until never\n", f);
		if (o->uid == UID_UNKNOWN)
			fputs("by -", f);
		else
			fprintf(f, "by %u", (unsigned)o->uid);
		fprintf(f, " %s\n", o->user ? o->user : "-");
		if (o->action == OVERRIDE_USE)
			fprintf(f, "profile %s %s\n", o->profile,
				o->digest[0] ? o->digest : "none");
		for (size_t k = 0; k < o->variables.n; k++)
			fprintf(f, "variable %s\n", o->variables.items[k]);
	}
}

/* The value of the line "KEY value", cut out of *CURSOR; NULL: that is not the next line. */
static char *next_value(char **cursor, const char *key)
{
	char *line = *cursor, *end = strchr(line, '\n');
	size_t n = strlen(key);

	if (!end || strncmp(line, key, n) != 0 || line[n] != ' ')
		return NULL;
	*end = '\0';
	*cursor = end + 1;
	return line + n + 1;
}

/* A decimal number up to MAX, cut at a blank or the end; *RET_REST is what follows ("" at the end).
 */
static bool parse_number(const char *s, uint64_t max, uint64_t *ret, const char **ret_rest)
{
	uint64_t n;
	char *end;

	if (s[0] < '0' || s[0] > '9')
		return false;
	errno = 0;
	n = strtoull(s, &end, 10);
	if (errno != 0 || n > max || (*end != '\0' && *end != ' '))
		return false;
	*ret = n;
	*ret_rest = *end ? end + 1 : end;
	return true;
}

static int parse_time(const char *s, int64_t *ret)
{
	const char *rest;
	uint64_t n;

	if (!s || !parse_number(s, INT64_MAX, &n, &rest) || *rest != '\0')
		return -EBADMSG;
	*ret = (int64_t)n;
	return 0;
}

static int parse_scope(const char *s, struct scope *ret)
{
	struct scope scope = {.kind = SCOPE_NODE};
	const char *rest, *name;
	uint64_t uid;

	if (!s)
		return -EBADMSG;
	if (streq(s, "node")) {
		*ret = scope;
		return 0;
	}
	if ((name = startswith(s, "unit ")) && scope_unit_valid(name)) {
		scope.kind = SCOPE_UNIT;
	} else if ((rest = startswith(s, "user ")) &&
		   parse_number(rest, UINT32_MAX - 1, &uid, &name) && scope_user_valid(name)) {
		scope.kind = SCOPE_USER;
		scope.uid = (uid_t)uid;
	} else {
		return -EBADMSG;
	}
	(void)snprintf(scope.name, sizeof(scope.name), "%s", name);
	*ret = scope;
	return 0;
}

static int parse_by(const char *s, struct override *o)
{
	const char *user;
	uint64_t uid;

	if (!s)
		return -EBADMSG;
	if ((user = startswith(s, "- ")))
		o->uid = UID_UNKNOWN;
	else if (parse_number(s, UINT32_MAX - 1, &uid, &user))
		o->uid = (uid_t)uid;
	else
		return -EBADMSG;
	if (user[0] == '\0')
		return -EBADMSG;
	if (streq(user, "-"))
		return 0;
	o->user = strdup(user);
	return o->user ? 0 : -ENOMEM;
}

static int parse_profile(char *s, struct override *o)
{
	char *digest = s ? strchr(s, ' ') : NULL;

	if (!digest)
		return -EBADMSG;
	*digest++ = '\0';
	if (!snapshot_label_valid(s, strlen(s)) ||
	    (!streq(digest, "none") && !digest_valid(digest)))
		return -EBADMSG;
	strcpy(o->profile, s);
	if (!streq(digest, "none"))
		strcpy(o->digest, digest);
	return 0;
}

static int parse_variables(char **cursor, struct override *o)
{
	_cleanup_(freep) char *fault = NULL;
	const char *v;
	int r = 0;

	while (r == 0 && (v = next_value(cursor, "variable")))
		r = words_add(&o->variables, v);
	if (r == 0)
		r = derive_check((const char *const *)o->variables.items, o->variables.n, NULL,
				 &fault);
	if (r == 0 && o->variables.n == 0)
		r = -EBADMSG;
	return r == -EINVAL ? -EBADMSG : r;
}

/* After the line "override ACTION". */
static int parse_override(char **cursor, const char *action, struct override *o)
{
	const char *until;
	int r;

	if (!streq(action, "use") && !streq(action, "set"))
		return -EBADMSG;
	o->action = streq(action, "set") ? OVERRIDE_SET : OVERRIDE_USE;
	r = parse_scope(next_value(cursor, "scope"), &o->scope);
	if (r == 0)
		r = parse_time(next_value(cursor, "since"), &o->since);
	if (r < 0)
		return r;
	until = next_value(cursor, "until");
	if (!until || !streq(until, "never"))
		r = parse_time(until, &o->until);
	if (r == 0 && until && !streq(until, "never") && o->until == 0)
		r = -EBADMSG;
	/* The node's own choice without an end is no override. */
	if (r == 0 && o->scope.kind == SCOPE_NODE && (o->action == OVERRIDE_SET || o->until == 0))
		r = -EBADMSG;
	if (r == 0)
		r = parse_by(next_value(cursor, "by"), o);
	if (r < 0)
		return r;
	return o->action == OVERRIDE_USE ? parse_profile(next_value(cursor, "profile"), o)
					 : parse_variables(cursor, o);
}

int overrides_parse(char **cursor, struct overrides *ret)
{
	struct overrides all = {0};
	const char *action;
	int r = 0;

	while (r == 0 && (action = next_value(cursor, "override"))) {
		struct override o = {.uid = UID_UNKNOWN};

		r = parse_override(cursor, action, &o);
		if (r == 0 && overrides_find(&all, o.action, &o.scope))
			r = -EBADMSG;
		if (r == 0)
			r = overrides_put(&all, &o);
		override_done(&o);
	}
	if (r < 0) {
		overrides_done(&all);
		return r == -ENOMEM ? r : -EBADMSG;
	}
	*ret = all;
	return 0;
}

int override_by(const struct override *o, char **ret)
{
	char number[24] = "", *by;
	const char *name = o->user ? o->user : number;

	if (o->uid != UID_UNKNOWN)
		(void)snprintf(number, sizeof(number), "%u", (unsigned)o->uid);
	by = name[0] ? strdup(name) : NULL;
	if (name[0] && !by)
		return -ENOMEM;
	free(*ret);
	*ret = by;
	return 0;
}

char *override_variables_text(const struct override *o)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; i < o->variables.n; i++)
		fprintf(f, "%s%s", i > 0 ? " " : "", o->variables.items[i]);
	if (fclose(f) != 0)
		return NULL;
	if (size > VARIABLES_SHOWN) {
		size = VARIABLES_SHOWN - STRLEN("...");
		/* Not in the middle of a character. */
		while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
			size--;
		strcpy(text + size, "...");
	}
	return TAKE_PTR(text);
}

static int variables_to_json(const struct words *variables, json_object *list)
{
	for (size_t i = 0; i < variables->n; i++) {
		const char *value = strchr(variables->items[i], '=') + 1;
		_cleanup_(freep) char *name =
			strndup(variables->items[i], (size_t)(value - variables->items[i]) - 1);
		json_object *o = json_object_new_object();

		if (json_append_take(list, o) || !name || json_add_string(o, "name", name) ||
		    json_add_string(o, "value", value))
			return -ENOMEM;
	}
	return 0;
}

static int add_number(json_object *o, const char *key, bool known, int64_t n)
{
	return known ? json_add_number(o, key, n) : json_add_string(o, key, NULL);
}

int override_to_json(const struct override *o, json_object *ret)
{
	json_object *variables = json_object_new_array();
	bool use = o->action == OVERRIDE_USE, user = o->scope.kind == SCOPE_USER;
	char scope[SCOPE_TEXT_SIZE];

	scope_format(&o->scope, scope);
	if (json_add_take(ret, "variables", variables) ||
	    variables_to_json(&o->variables, variables) ||
	    json_add_string(ret, "action", action_names[o->action]) ||
	    json_add_string(ret, "scope", scope) ||
	    add_number(ret, "uid", user, (int64_t)o->scope.uid) ||
	    json_add_string(ret, "unit", o->scope.kind == SCOPE_UNIT ? o->scope.name : NULL) ||
	    json_add_string(ret, "profile", use ? o->profile : NULL) ||
	    json_add_string(ret, "digest", o->digest[0] ? o->digest : NULL) ||
	    add_number(ret, "since", o->since > 0, o->since) ||
	    add_number(ret, "until", o->until > 0, o->until) ||
	    add_number(ret, "by_uid", o->uid != UID_UNKNOWN, (int64_t)o->uid) ||
	    json_add_string(ret, "by", o->user))
		return -ENOMEM;
	return 0;
}
