/* SPDX-License-Identifier: MIT */
#include <config.h>

#include "common/near.h"
#include "common/util.h"
#include "daemon/manager/config-missing.h"

/* The profile without errors whose name is most like NAME, or NULL. */
static const char *near_profile(const struct profile_set *set, const char *name)
{
	_cleanup_(freep) const char **names = calloc(set->n_profiles + 1, sizeof *names);

	size_t n = 0;

	for (size_t i = 0; names && i < set->n_profiles; i++)
		if (set->profiles[i]->valid)
			names[n++] = set->profiles[i]->name;
	return names ? near_match(name, names, n) : NULL;
}

struct place {
	const char *file;
	unsigned line;
	const char *who; /* gets nothing */
};

static int look_at(const struct place *place, const char *name, const struct profile_set *set,
		   const struct active *a, struct words *ret)
{
	const struct profile *p = profile_set_find(set, name);
	const char *near;

	if ((p && p->valid) || active_applied(a, name))
		return 0;
	if (p)
		return words_addf(ret,
				  "%s:%u: warning: profile '%s' has errors, and no version of it "
				  "is in force; %s",
				  place->file, place->line, name, place->who);
	near = near_profile(set, name);
	return words_addf(ret, "%s:%u: warning: there is no profile '%s'%s%s%s; %s", place->file,
			  place->line, name, near ? ", did you mean '" : "", near ? near : "",
			  near ? "'" : "", place->who);
}

int config_missing(const struct config *c, const struct profile_set *set, const struct active *a,
		   struct words *ret)
{
	struct place place = {c->profile_file, c->profile_line, "new jobs get nothing from it"};
	int r = 0;

	if (c->profile_file && !streq(c->profile, "none") && !streq(c->profile, "auto"))
		r = look_at(&place, c->profile, set, a, ret);
	for (size_t i = 0; r == 0 && i < c->n_rules; i++) {
		const struct config_rule *rule = &c->rules[i];

		place = (struct place){rule->file, rule->profile_line,
				       "jobs of this rule get nothing"};
		if (!streq(rule->profile, "none"))
			r = look_at(&place, rule->profile, set, a, ret);
	}
	return r;
}

int config_missing_load(const struct config *c, const struct paths *paths, struct words *ret)
{
	_cleanup_(profile_set_done) struct profile_set set = {0};
	struct active a = {0};
	int r;

	r = profile_set_load((const char *const *)paths->profiles, NULL, &set);
	if (r < 0)
		return r;
	/* Without it no version is known. */
	r = state_peek(paths->state, &a);
	if (r == -ENOMEM)
		return r;
	r = config_missing(c, &set, &a, ret);
	active_done(&a);
	return r;
}
