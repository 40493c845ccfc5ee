/* SPDX-License-Identifier: MIT */
/* Builds the new environment and the list of changes from what the rules decided. */

#include "client/apply.h"

#include "client/apply-internal.h"

char *arena_put(struct work *w, const char *data, size_t size)
{
	char *p = w->arena + w->used;

	if (size > w->size - w->used) {
		w->overflow = true;
		return p;
	}
	if (size > 0)
		memcpy(p, data, size);
	w->used += size;
	return p;
}

static const char *arena_string(struct work *w, struct slice s)
{
	const char *p = arena_put(w, s.ptr, s.size);

	(void)arena_put(w, "", 1);
	return p;
}

static bool differs(const struct variable *v)
{
	return !slice_same(v->old, v->now);
}

static bool any_differs(const struct work *w)
{
	for (size_t i = 0; i < w->n_variables; i++)
		if (differs(&w->variables[i]))
			return true;
	return false;
}

/* Values of CUDAENV_APPLIED and the token. */
static void set_own(struct work *w)
{
	struct variable *own = w->own;
	size_t start = w->used;

	for (size_t i = 0; i < w->n_variables; i++) {
		const struct variable *v = &w->variables[i];
		char text[MARK_TEXT_MAX];
		size_t n;

		if (!v->mark.there)
			continue;
		n = mark_format(&v->mark, text);
		if (own[OWN_APPLIED].name.size + 1 + w->used - start + 1 + v->name.size + n >
		    SNAPSHOT_STRING_MAX)
			break;
		if (w->used > start)
			(void)arena_put(w, ",", 1);
		(void)arena_put(w, v->name.ptr, v->name.size);
		(void)arena_put(w, text, n);
	}
	own[OWN_APPLIED].now = (struct slice){w->arena + start, w->used - start};
	own[OWN_SNAPSHOT].now = slice_of(w->snapshot->digest);
	own[OWN_PROFILE].now = slice_of(w->snapshot->profile);
	for (size_t i = 0; i < N_OWN; i++) {
		own[i].ours = true;
		rules_settle(&own[i]);
	}
}

/* NAME=VALUE in the arena; from here on the value is that one. */
static char *make_string(struct work *w, struct variable *v)
{
	char *string = arena_put(w, v->name.ptr, v->name.size);

	(void)arena_put(w, "=", 1);
	v->now.ptr = arena_string(w, v->now);
	v->made = true;
	return string;
}

static int build_env(struct work *w, struct applied *ret)
{
	size_t n = 0;

	ret->env = calloc(w->n_env + w->n_variables + N_OWN + 1, sizeof *ret->env);
	if (!ret->env)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_env; i++) {
		struct variable *v = work_find(w, w->env[i]);

		if (!v || !differs(v))
			ret->env[n++] = w->env[i];
		else if (!v->made && v->now.ptr)
			ret->env[n++] = make_string(w, v);
	}
	for (size_t i = 0; i < w->n_variables + N_OWN; i++) {
		struct variable *v =
			i < w->n_variables ? &w->variables[i] : &w->own[i - w->n_variables];

		if (v->now.ptr && !v->made && differs(v))
			ret->env[n++] = make_string(w, v);
	}
	return 0;
}

static void add_change(struct work *w, struct variable *v, const char *name, struct applied *ret)
{
	ret->changes[ret->n_changes++] = (struct apply_change){
		.name = name,
		.value = !v->now.ptr ? NULL
			 : v->made   ? v->now.ptr
				     : arena_string(w, v->now),
		.state = v->state,
		.changed = differs(v),
	};
}

static int build_changes(struct work *w, struct applied *ret)
{
	ret->changes = calloc(w->n_variables + N_OWN, sizeof *ret->changes);
	if (!ret->changes)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_variables; i++)
		if (w->variables[i].entries)
			add_change(w, &w->variables[i], w->variables[i].entries->name, ret);
	for (size_t i = 0; i < w->n_variables; i++)
		if (!w->variables[i].entries && differs(&w->variables[i]))
			add_change(w, &w->variables[i], arena_string(w, w->variables[i].name), ret);
	ret->n_variables = ret->n_changes;
	for (size_t i = 0; i < N_OWN; i++)
		add_change(w, &w->own[i], w->own[i].name.ptr, ret);
	return 0;
}

int apply(char *const *env, const struct snapshot *snapshot, uid_t uid, unsigned flags,
	  struct applied *ret)
{
	_cleanup_(work_done) struct work w = {
		.env = env,
		.snapshot = snapshot,
		.uid = uid,
		.flags = flags,
		.toolkit_here = -1,
	};
	_cleanup_(applied_done) struct applied applied = APPLIED_NULL;
	int r;

	r = work_init(&w);
	if (r < 0)
		return r;
	r = rules_decide(&w);
	if (r < 0)
		return r;
	if (!w.keep || any_differs(&w)) {
		set_own(&w);
		r = build_env(&w, &applied);
		if (r < 0)
			return r;
	}
	r = build_changes(&w, &applied);
	if (r < 0)
		return r;
	if (w.overflow)
		return -ENOMEM;
	applied.strings = TAKE_PTR(w.arena);
	*ret = applied;
	applied = (struct applied)APPLIED_NULL;
	return 0;
}

void applied_done(struct applied *a)
{
	free(a->env);
	free(a->strings);
	free(a->changes);
	*a = (struct applied)APPLIED_NULL;
}

void applied_release(struct applied *a)
{
	a->env = NULL;
	a->strings = NULL;
}
