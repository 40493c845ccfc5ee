/* SPDX-License-Identifier: MIT */
/* Changing what is in force. The order of the steps in switch_commit() is what a kill at any moment
 * leaves behind; adopt.c takes it up from there. */
#include <config.h>

#include <stdarg.h>
#include <systemd/sd-daemon.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/compile.h"
#include "daemon/manager/manager.h"

void manager_set_error(struct manager *m, const char *format, ...)
{
	char *text = NULL;
	va_list ap;

	if (format) {
		va_start(ap, format);
		if (vasprintf(&text, format, ap) < 0)
			text = NULL;
		va_end(ap);
	}
	free(m->last_error);
	m->last_error = text;
}

static int add_once(struct words *w, const char *digest)
{
	return !digest[0] || words_contain(w, digest) ? 0 : words_add(w, digest);
}

/* The versions of profiles that A gives. */
static int in_force(const struct active *a, struct words *ret)
{
	int r = add_once(ret, a->digest);

	for (size_t i = 0; r == 0 && i < a->n_applied; i++)
		r = add_once(ret, a->applied[i].digest);
	for (size_t i = 0; r == 0 && i < a->overrides.n; i++)
		r = add_once(ret, a->overrides.items[i].digest);
	return r;
}

/* Digests that must not be pruned: all that is in force, and the profiles' present versions. */
static int in_use(const struct manager *m, const struct active *a, struct words *ret)
{
	int r = in_force(a, ret);

	for (size_t i = 0; r == 0 && i < m->derived.n; i++)
		r = add_once(ret, m->derived.items[i]->digest);
	for (size_t i = 0; r == 0 && i < m->profiles.n_profiles; i++)
		if (m->profiles.profiles[i]->valid)
			r = words_add(ret, m->profiles.profiles[i]->digest);
	return r;
}

/* Of those that are read, and those that were derived from them. NULL: none. */
static const struct profile *profile_of(const struct manager *m, const char *digest)
{
	for (size_t i = 0; i < m->profiles.n_profiles; i++) {
		const struct profile *p = m->profiles.profiles[i];

		if (p->valid && streq(p->digest, digest))
			return p;
	}
	return derived_find(&m->derived, digest);
}

int switch_fetch(struct manager *m, const char *digest, char **ret, size_t *ret_size)
{
	struct runtime rt = RUNTIME_NULL;
	const struct profile *p;
	int r;

	r = state_fetch(m->state, digest, ret, ret_size);
	if (r == 0 || r == -ENOMEM)
		return r;
	p = profile_of(m, digest);
	if (p) {
		*ret = malloc(p->snapshot_size + 1);
		if (!*ret)
			return -ENOMEM;
		memcpy(*ret, p->snapshot_text, p->snapshot_size);
		(*ret)[p->snapshot_size] = '\0';
		*ret_size = p->snapshot_size;
		return 0;
	}
	if (publisher_has(m->publisher, digest) != 1)
		return -ENOENT;
	r = runtime_open(m->paths.runtime, geteuid(), &rt);
	if (r == 0)
		r = runtime_read(&rt, rt.snapshots_fd, digest, SNAPSHOT_MAX_BYTES, ret, ret_size);
	runtime_done(&rt);
	return r < 0 && r != -ENOMEM ? -ENOENT : r;
}

static void publish_profiles(struct manager *m)
{
	struct words keep = {0};
	bool any = false;

	if (in_use(m, &m->state->active, &keep) < 0) {
		words_done(&keep);
		return;
	}
	for (size_t i = 0; i < m->profiles.n_profiles; i++) {
		const struct profile *p = m->profiles.profiles[i];
		int r;

		if (!p->valid || publisher_has(m->publisher, p->digest) == 1)
			continue;
		any = true;
		/* Kept in the state directory as well: from there a damaged one is restored. */
		r = state_store(m->state, p->digest, p->snapshot_text, p->snapshot_size);
		if (r < 0)
			(void)log_warning_errno(r, "Failed to keep profile %s in %s: %m", p->name,
						m->state->path);
		r = publisher_snapshot(m->publisher, p->digest, p->snapshot_text, p->snapshot_size);
		if (r < 0) {
			manager_set_error(m, "cannot publish profile %s: %s", p->name,
					  strerror(-r));
			(void)log_error_errno(r, "Failed to publish profile %s: %m", p->name);
		}
	}
	if (any)
		(void)state_prune(m->state, &keep);
	(void)publisher_prune(m->publisher, &keep);
	switch_publish_ranks(m, m->state->active.digest);
	words_done(&keep);
}

/* Each fault of a profile once, not at every reading. */
static int complain(struct manager *m)
{
	struct words now = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->profiles.n_profiles; i++) {
		const struct profile *p = m->profiles.profiles[i];
		_cleanup_(freep) char *fault = NULL;

		if (p->valid)
			continue;
		r = document_fault(p, &fault);
		if (r == 0)
			r = words_add(&now, fault);
		if (r == 0 && !words_contain(&m->complained, fault))
			log_warning("Profile %s is refused: %s", p->name, fault);
	}
	words_done(&m->complained);
	m->complained = now;
	return r;
}

static int find_changed(const struct profile_set *old, const struct profile_set *new,
			struct words *ret)
{
	for (size_t i = 0; i < new->n_profiles; i++) {
		const struct profile *p = new->profiles[i], *was = profile_set_find(old, p->name);
		int r;

		if (!p->valid || (was && was->valid && streq(was->digest, p->digest)))
			continue;
		r = words_add(ret, p->name);
		if (r < 0)
			return r;
	}
	return 0;
}

int switch_load_profiles(struct manager *m, struct words *changed)
{
	struct profile_set set = {0};
	int r;

	r = profile_set_load((const char *const *)m->paths.profiles, m->facts, &set);
	if (r < 0)
		return r;
	if (changed)
		r = find_changed(&m->profiles, &set, changed);
	profile_set_done(&m->profiles);
	m->profiles = set;
	if (r == 0)
		r = complain(m);
	publish_profiles(m);
	return r;
}

/* The version of NAME that NEXT gives: "" if there is none at all. */
static int version_of(struct manager *m, const char *name, const struct words *refresh,
		      const struct active *next, char ret[DIGEST_SIZE])
{
	const struct profile *p = profile_set_find(&m->profiles, name);
	const char *applied = active_applied(next, name);
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	if (applied && !(p && p->valid && refresh && words_contain(refresh, name))) {
		r = switch_fetch(m, applied, &bytes, &size);
		if (r == 0 || r == -ENOMEM) {
			strcpy(ret, applied);
			return r;
		}
		log_warning("The applied version of profile %s (%s) is lost", name, applied);
	}
	strcpy(ret, p && p->valid ? p->digest : "");
	return 0;
}

static int resolve_one(struct manager *m, const char *name, const struct words *refresh,
		       const struct active *next, struct active *kept, char ret[DIGEST_SIZE])
{
	int r = version_of(m, name, refresh, next, ret);

	if (r < 0)
		return r;
	return ret[0] ? active_set_applied(kept, name, ret) : 0;
}

/* The version of an override's profile is its own: an edit that is tried on one user reaches nobody
 * else. It follows the file only where edits are applied at once. */
static int resolve_overrides(struct manager *m, const struct words *refresh,
			     struct overrides *overrides)
{
	for (size_t i = 0; i < overrides->n; i++) {
		struct override *o = &overrides->items[i];
		const struct profile *p = profile_set_find(&m->profiles, o->profile);
		_cleanup_(freep) char *bytes = NULL;
		bool valid = p && p->valid;
		size_t size;
		int r;

		if (o->action != OVERRIDE_USE)
			continue;
		if (valid && m->config->apply_on_change && refresh &&
		    words_contain(refresh, o->profile))
			strcpy(o->digest, p->digest);
		r = o->digest[0] ? switch_fetch(m, o->digest, &bytes, &size) : -ENOENT;
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			strcpy(o->digest, valid ? p->digest : "");
	}
	return 0;
}

int switch_resolve(struct manager *m, const struct words *refresh, struct active *next)
{
	struct active kept = *next;
	const char *profile = m->config->profile;
	char digest[DIGEST_SIZE];
	int r = 0;

	kept.applied = NULL;
	kept.n_applied = 0;
	kept.overrides = (struct overrides){0};
	if (!kept.chosen) {
		kept.profile[0] = kept.digest[0] = '\0';
		if (!streq(profile, "none") && !streq(profile, "auto"))
			strcpy(kept.profile, profile);
	}
	if (kept.profile[0]) {
		r = resolve_one(m, kept.profile, refresh, next, &kept, digest);
		if (r == 0)
			strcpy(kept.digest, digest);
	}
	for (size_t i = 0; r == 0 && i < m->config->n_rules; i++) {
		const char *name = m->config->rules[i].profile;

		if (!streq(name, "none") && !active_applied(&kept, name))
			r = resolve_one(m, name, refresh, next, &kept, digest);
	}
	if (r == 0)
		r = resolve_overrides(m, refresh, &next->overrides);
	if (r < 0) {
		active_done(&kept);
		return r;
	}
	kept.overrides = next->overrides;
	next->overrides = (struct overrides){0};
	active_done(next);
	*next = kept;
	return 0;
}

/* Snapshots first: nobody may read a digest in `assign` that is not there. */
static int publish_snapshots(struct manager *m, const struct active *a,
			     const struct derived *derived)
{
	struct words digests = {0};
	int r = in_force(a, &digests);

	for (size_t i = 0; r == 0 && i < derived->n; i++)
		r = publisher_snapshot(m->publisher, derived->items[i]->digest,
				       derived->items[i]->snapshot_text,
				       derived->items[i]->snapshot_size);
	for (size_t i = 0; r == 0 && i < digests.n; i++) {
		_cleanup_(freep) char *bytes = NULL;
		size_t size;

		if (publisher_has(m->publisher, digests.items[i]) == 1)
			continue;
		r = switch_fetch(m, digests.items[i], &bytes, &size);
		if (r == 0)
			r = publisher_snapshot(m->publisher, digests.items[i], bytes, size);
	}
	words_done(&digests);
	return r;
}

/* Profiles that are not in force were kept when they were published; what was derived is made
 * again. */
static int store_snapshots(struct manager *m, const struct active *a)
{
	struct words keep = {0}, digests = {0};
	int r = in_use(m, a, &keep);

	if (r == 0)
		r = in_force(a, &digests);
	for (size_t i = 0; r == 0 && i < digests.n; i++) {
		_cleanup_(freep) char *bytes = NULL;
		size_t size;

		r = switch_fetch(m, digests.items[i], &bytes, &size);
		if (r == 0)
			r = state_store(m->state, digests.items[i], bytes, size);
	}
	if (r == 0)
		r = state_prune(m->state, &keep);
	words_done(&digests);
	words_done(&keep);
	return r;
}

static char *copy(const char *s)
{
	return s && s[0] ? strdup(s) : NULL;
}

int switch_record(struct manager *m, const struct change *why, const struct record *what)
{
	struct history_entry e = {
		.time = time(NULL),
		.generation = m->state->active.generation,
		.uid = why->uid,
		.user = copy(why->user),
		.reason = copy(why->reason),
		.action = copy(what->action),
		.scope = copy(what->scope),
		.from = copy(what->from),
		.to = copy(what->to),
		.profile = copy(what->profile),
		.variables = copy(what->variables),
		.until = what->until,
	};
	int r = e.action && e.scope ? state_record(m->state, &e) : -ENOMEM;

	history_entry_done(&e);
	return r;
}

/* The first failure; the others are recorded all the same. */
static int record(struct manager *m, const struct active *old, const struct change *why)
{
	const struct active *new = &m->state->active;
	int r = 0, k;

	if (old->mode != new->mode)
		r = switch_record(m, why,
				  &(struct record){.action = mode_name(new->mode),
						   .scope = "node",
						   .from = mode_name(old->mode),
						   .to = mode_name(new->mode)});
	if (!streq(old->digest, new->digest)) {
		k = switch_record(m, why,
				  &(struct record){.action = why->action,
						   .scope = "node",
						   .from = old->digest,
						   .to = new->digest,
						   .profile = new->profile});
		r = r < 0 ? r : k;
	}
	for (size_t i = 0; i < new->n_applied; i++) {
		const struct applied_version *v = &new->applied[i];
		const char *was = active_applied(old, v->profile);

		if (streq(v->profile, new->profile) || (was && streq(was, v->digest)))
			continue;
		k = switch_record(m, why,
				  &(struct record){.action = why->action,
						   .scope = "rules",
						   .from = was,
						   .to = v->digest,
						   .profile = v->profile});
		r = r < 0 ? r : k;
	}
	k = switch_record_overrides(m, &old->overrides, why);
	return r < 0 ? r : k;
}

static int persist(struct manager *m)
{
	int r = store_snapshots(m, &m->state->active);

	return r < 0 ? r : state_save(m->state, &m->state->active);
}

static void note_persisted(struct manager *m, int r)
{
	m->unsaved = r < 0;
	if (r == 0)
		return;
	manager_set_error(m, "in force until reboot only, %s cannot be written: %s", m->state->path,
			  strerror(-r));
	(void)log_error_errno(r, "Failed to persist in %s, the change is in force until reboot: %m",
			      m->state->path);
}

void switch_save(struct manager *m)
{
	if (!m->unsaved)
		return;
	note_persisted(m, persist(m));
	if (!m->unsaved) {
		manager_set_error(m, NULL);
		log_notice("Persisted in %s what was in force", m->state->path);
	}
	switch_update_status(m);
}

static bool is_same(const struct active *a, const struct active *b)
{
	if (a->generation != b->generation || a->mode != b->mode || a->chosen != b->chosen ||
	    !streq(a->profile, b->profile) || !streq(a->digest, b->digest) ||
	    a->n_applied != b->n_applied || !overrides_same(&a->overrides, &b->overrides))
		return false;
	for (size_t i = 0; i < a->n_applied; i++) {
		const char *digest = active_applied(b, a->applied[i].profile);

		if (!digest || !streq(digest, a->applied[i].digest))
			return false;
	}
	return true;
}

static void announce(const struct active *a, const struct change *why)
{
	char uid[24] = "";

	if (why->uid != STATE_UID_UNKNOWN)
		(void)snprintf(uid, sizeof(uid), "%u", (unsigned)why->uid);
	log_struct(LOG_NOTICE, 0,
		   LOG_FIELDS({"CUDAENV_PROFILE", a->profile}, {"CUDAENV_DIGEST", a->digest},
			      {"CUDAENV_MODE", mode_name(a->mode)}, {"CUDAENV_ACTION", why->action},
			      {"CUDAENV_UID", uid[0] ? uid : NULL}),
		   "Mode %s, profile %s (%.12s), generation %llu: %s%s%s", mode_name(a->mode),
		   a->profile[0] ? a->profile : "none", a->digest[0] ? a->digest : "-",
		   (unsigned long long)a->generation, why->action, uid[0] ? " by uid " : "", uid);
}

/* What `assign` is made of, and what it says. */
struct compiled {
	struct rules rules;
	struct derived derived;
	char *text;
	size_t size;
};

static void compiled_done(struct compiled *c)
{
	rules_done(&c->rules);
	derived_done(&c->derived);
	free(c->text);
}

/* C is in force: the manager takes it over. */
static void take_compiled(struct manager *m, struct compiled *c)
{
	struct compiled old = {m->rules, m->derived, m->assign, m->assign_size};

	m->rules = c->rules;
	m->derived = c->derived;
	m->assign = c->text;
	m->assign_size = c->size;
	*c = old;
}

/* NEXT, then the text that it gives: who finds that text finds all of NEXT (switch_adopt()). */
static int publish_text(struct manager *m, const struct active *next, const struct compiled *c)
{
	_cleanup_(freep) char *basis = NULL;
	int r;

	r = active_format(next, &basis);
	if (r == 0)
		r = publisher_basis(m->publisher, basis, strlen(basis));
	return r < 0 ? r : publisher_assign(m->publisher, c->text, c->size);
}

/* A manager that cannot set its timer still publishes the time with the rule. */
static void arm(struct manager *m)
{
	int r = switch_arm(m);

	if (r < 0)
		(void)log_warning_errno(r, "Failed to set a timer for the end of overrides: %m");
}

/* Everything up to the rename that makes NEXT real. 1: it did, 0: the rules say so already. */
static int publish(struct manager *m, struct active *next)
{
	_cleanup_(compiled_done) struct compiled c = {0};
	int r;

	r = compile_rules(m->config, next, &c.rules);
	if (r == 0)
		r = derive_rules(m, &c.rules, &c.derived);
	if (r == 0)
		r = publish_snapshots(m, next, &c.derived);
	if (r == 0)
		switch_publish_ranks(m, next->digest);
	if (r == 0)
		r = compile_assign(m->config, next, &c.rules, &c.text, &c.size);
	if (r < 0)
		return r;
	if (publisher_assign_is(m->publisher, c.text, c.size)) {
		take_compiled(m, &c);
		return 0;
	}
	next->generation++;
	free(TAKE_PTR(c.text));
	r = compile_assign(m->config, next, &c.rules, &c.text, &c.size);
	if (r == 0)
		r = publish_text(m, next, &c);
	if (r < 0)
		return r;
	take_compiled(m, &c);
	return 1;
}

int switch_commit(struct manager *m, struct active *next, const struct change *why)
{
	struct active *now = &m->state->active, old;
	int published, r, k;

	published = publish(m, next);
	if (published < 0) {
		manager_set_error(m, "%s failed, nothing has changed: %s", why->action,
				  strerror(-published));
		active_done(next);
		return log_error_errno(published, "Failed to publish in %s: %m", m->paths.runtime);
	}
	r = publisher_current(m->publisher, next->digest);
	if (r < 0)
		(void)log_warning_errno(r, "Failed to make the link %s/current: %m",
					m->paths.runtime);
	if (published == 0 && is_same(now, next) && m->state->found && !m->unsaved) {
		active_done(next);
		arm(m);
		switch_update_status(m);
		return 0;
	}
	old = *now;
	*now = *next;
	*next = (struct active){0};
	r = persist(m);
	k = record(m, &old, why);
	active_done(&old);
	m->state->found = true;
	manager_set_error(m, NULL);
	note_persisted(m, r < 0 ? r : k);
	arm(m);
	if (published > 0)
		announce(now, why);
	switch_update_status(m);
	return 0;
}

void switch_update_status(struct manager *m)
{
	const struct active *a = &m->state->active;
	_cleanup_(freep) char *text = NULL;
	int r;

	r = document_status(m, &text);
	if (r == 0 && publisher_status_is(m->publisher, text, strlen(text)))
		return;
	if (r == 0)
		r = publisher_status(m->publisher, text, strlen(text));
	if (r < 0)
		(void)log_error_errno(r, "Failed to write %s/status: %m", m->paths.runtime);
	(void)sd_notifyf(0, "STATUS=Mode %s, profile %s%s%s", mode_name(a->mode),
			 a->profile[0] ? a->profile : "none", m->last_error ? ": " : "",
			 m->last_error ? m->last_error : "");
}
