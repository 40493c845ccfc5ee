/* SPDX-License-Identifier: MIT */
/* What another hand, or an earlier life of ours, left in the runtime tree: newer and believable is
 * adopted, the rest is put right. */
#include <config.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/compile.h"
#include "daemon/manager/manager.h"

/* The profile of a published snapshot. 0, -ENOENT, -EBADMSG, -ENOMEM. */
static int profile_of(struct manager *m, const char *digest, char ret[STATE_NAME_SIZE])
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	r = switch_fetch(m, digest, &bytes, &size);
	if (r == 0)
		r = snapshot_parse(bytes, size, &s);
	if (r < 0)
		return r;
	if (strlen(s->profile) >= STATE_NAME_SIZE)
		return -EBADMSG;
	strcpy(ret, s->profile);
	return 0;
}

static int adopt_rules(struct manager *m, const char *text, struct active *next)
{
	struct words digests = {0};
	int r = compile_rule_digests(text, &digests);

	for (size_t i = 0; r == 0 && i < digests.n; i++) {
		char profile[STATE_NAME_SIZE];

		r = profile_of(m, digests.items[i], profile);
		if (r == 0)
			r = active_set_applied(next, profile, digests.items[i]);
		r = r == -ENOMEM ? r : 0;
	}
	words_done(&digests);
	return r;
}

static int adopt_default(struct manager *m, const char *digest, struct active *next)
{
	int r;

	if (streq(next->digest, digest))
		return 0;
	next->chosen = true;
	next->profile[0] = '\0';
	strcpy(next->digest, digest);
	if (!digest[0])
		return 0;
	r = profile_of(m, digest, next->profile);
	if (r < 0) {
		/* A digest without its bytes gives nobody anything. */
		next->digest[0] = '\0';
		return r == -ENOMEM ? r : 0;
	}
	return active_set_applied(next, next->profile, digest);
}

static int read_assign(struct manager *m, char **ret, struct assign **ret_assign)
{
	struct runtime rt = RUNTIME_NULL;
	size_t size = 0;
	int r;

	r = runtime_open(m->paths.runtime, geteuid(), &rt);
	if (r == 0)
		r = runtime_read(&rt, rt.dir_fd, "assign", ASSIGN_MAX_BYTES, ret, &size);
	runtime_done(&rt);
	return r < 0 ? r : assign_parse(*ret, size, ret_assign, NULL);
}

/* `cudaenvctl off` where there was nothing that could be kept: it says off, and not that there is
 * no profile. */
static bool is_bare_off(const struct assign *a)
{
	return a->mode == MODE_OFF && !a->fallback[0] && a->n_lines == 0;
}

/* What we published and may not have persisted when we were killed: all of it, where `assign` alone
 * cannot tell overrides, and who chose. GENERATION is that of `assign`, which may be a later one.
 * 1, 0: nothing newer than the state, -ENOMEM. */
static int read_basis(struct manager *m, uint64_t generation, struct active *ret)
{
	const struct state *s = m->state;
	_cleanup_(freep) char *text = NULL;
	struct active basis;
	size_t size;
	int r;

	r = publisher_read_basis(m->publisher, &text, &size);
	if (r == 0)
		r = active_parse(text, size, &basis);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (basis.generation > generation ||
	    (s->found && basis.generation < s->active.generation) ||
	    (s->found && !s->rebuilt && basis.generation == s->active.generation)) {
		active_done(&basis);
		return 0;
	}
	*ret = basis;
	return 1;
}

/* Only once: then the state knows better than the history it was made from. */
static bool is_newer(struct manager *m, const struct assign *a)
{
	struct state *s = m->state;
	bool rebuilt = s->rebuilt && a->generation == s->active.generation;

	return !s->found || rebuilt || a->generation > s->active.generation;
}

int switch_adopt(struct manager *m, struct active *ret)
{
	_cleanup_(assign_freep) struct assign *a = NULL;
	_cleanup_(freep) char *text = NULL;
	struct active next = {0};
	int r;

	r = read_assign(m, &text, &a);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!is_newer(m, a))
		return 0;
	r = read_basis(m, a->generation, &next);
	if (r == 0)
		r = active_copy(&m->state->active, &next);
	if (r < 0)
		return r;
	next.generation = a->generation;
	next.mode = a->mode;
	if (!is_bare_off(a)) {
		r = adopt_rules(m, text, &next);
		if (r == 0)
			r = adopt_default(m, a->fallback, &next);
	}
	if (r < 0) {
		active_done(&next);
		return r;
	}
	*ret = next;
	return 1;
}

void switch_record_found(struct manager *m)
{
	_cleanup_(freep) char *reason = NULL;
	struct change why = {.action = "adopt", .uid = STATE_UID_UNKNOWN};
	const struct active *a = &m->state->active;
	struct active known = {.mode = MODE_OBSERVE};

	for (size_t i = 0; i < m->state->n_history; i++) {
		const struct history_entry *e = &m->state->history[i];

		if (streq(e->scope, "node"))
			(void)mode_parse(e->action, &known.mode);
		if (!history_is_choice(e))
			continue;
		known.digest[0] = '\0';
		if (e->to && digest_valid(e->to))
			strcpy(known.digest, e->to);
	}
	if (asprintf(&reason, "was already in force in %s when cudaenvd started",
		     m->paths.runtime) < 0)
		reason = NULL;
	why.reason = reason;
	if (known.mode != a->mode)
		(void)switch_record(m, &why,
				    &(struct record){.action = mode_name(a->mode),
						     .scope = "node",
						     .from = mode_name(known.mode),
						     .to = mode_name(a->mode)});
	if (!streq(known.digest, a->digest))
		(void)switch_record(m, &why,
				    &(struct record){.action = why.action,
						     .scope = "node",
						     .from = known.digest,
						     .to = a->digest,
						     .profile = a->profile});
	switch_record_found_overrides(m, &why);
}

static void heal_snapshots(struct manager *m)
{
	struct words damaged = {0};

	(void)publisher_damaged(m->publisher, &damaged);
	for (size_t i = 0; i < damaged.n; i++) {
		_cleanup_(freep) char *bytes = NULL;
		size_t size;
		int r;

		r = switch_fetch(m, damaged.items[i], &bytes, &size);
		if (r == 0)
			r = publisher_snapshot(m->publisher, damaged.items[i], bytes, size);
		if (r < 0)
			(void)log_error_errno(r,
					      "Snapshot %s was damaged and cannot be restored: %m",
					      damaged.items[i]);
		else
			log_warning("Snapshot %s was damaged or removed: restored",
				    damaged.items[i]);
	}
	words_done(&damaged);
}

int switch_heal(struct manager *m)
{
	static const struct change why = {.action = "adopt",
					  .uid = STATE_UID_UNKNOWN,
					  .reason = "was put in force without cudaenvd: by off "
						    "while it did not answer, or by hand"};
	struct words complaints = {0};
	struct active next;
	int r;

	r = publisher_in_place(m->publisher, &complaints);
	for (size_t i = 0; i < complaints.n; i++)
		log_warning("%s", complaints.items[i]);
	words_done(&complaints);
	if (r < 0)
		return -ESTALE;
	heal_snapshots(m);
	if (!publisher_assign_is(m->publisher, m->assign, m->assign_size)) {
		r = switch_adopt(m, &next);
		if (r > 0) {
			log_notice("%s/assign has generation %llu from another hand: adopted",
				   m->paths.runtime, (unsigned long long)next.generation);
			return switch_commit(m, &next, &why);
		}
		log_warning("%s/assign was damaged or removed: restored", m->paths.runtime);
		r = publisher_assign(m->publisher, m->assign, m->assign_size);
		if (r < 0)
			(void)log_error_errno(r, "Failed to restore %s/assign: %m",
					      m->paths.runtime);
	}
	(void)publisher_current(m->publisher, m->state->active.digest);
	switch_update_status(m);
	return 0;
}
