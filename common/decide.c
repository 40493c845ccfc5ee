/* SPDX-License-Identifier: MIT */
/*
 * The decision. What the job found and the token say is combined here; DESIGN section 6. A job with
 * a pin costs no look at the rules, and with a registered ancestor none at the cgroup either.
 */
#include "common/decide.h"

#include <sys/stat.h>

#include "common/util.h"

bool decide_published(const struct runtime *rt, const char *digest)
{
	struct stat st;

	return digest_valid(digest) && rt->snapshots_fd >= 0 &&
	       fstatat(rt->snapshots_fd, digest, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && st.st_uid == rt->publisher;
}

/* The token that counts, or NULL. */
static const char *effective_token(const struct job_source *src, const struct job_subject *subject,
				   const struct job_facts *facts)
{
	if (!subject->token || facts->ignore_token || !decide_published(src->rt, subject->token))
		return NULL;
	return subject->token;
}

/* Does the token ask for another job than the one with this pin (NULL: it has none)? */
static bool token_differs(const struct job_subject *subject, const char *token,
			  const struct pin *pin)
{
	if (!token)
		return false;
	return subject->token_chosen || !pin || !pin_has(pin, token);
}

/* KEY with the token part TOKEN in place of its own. */
static int add_token(char key[JOB_KEY_SIZE], const char *token)
{
	struct job_key k;

	if (job_key_parse(key, &k) < 0)
		return -EINVAL;
	memcpy(k.digest, token, DIGEST_SIZE);
	job_key_format(&k, key);
	return 0;
}

/* What a new job gets by the rules. */
static int choose(const struct job_source *src, const struct job_subject *subject,
		  const struct assign_subject *match, struct job_facts *facts, struct decision *ret)
{
	struct assign_subject m = match ? *match : (struct assign_subject){0};
	const char *rule;
	int r;

	r = facts->placed ? 0 : job_place(src, subject, facts);
	if (r < 0)
		return r;
	m.uid = subject->has_key_uid ? subject->key_uid : subject->uid;
	m.unit = facts->unit[0] ? facts->unit : NULL;
	m.cgroup = facts->cgroup[0] ? facts->cgroup : NULL;
	(void)stpcpy(ret->digest, assign_choose(src->assign, &m, &rule));
	ret->reason = rule ? DECIDED_RULE : DECIDED_DEFAULT;
	if (rule)
		(void)snprintf(ret->rule, sizeof ret->rule, "%s", rule);
	return 0;
}

/* Reads RET's pin, if there is one. 1, 0, or negative errno: it cannot be looked at. */
static int read_pin(const struct runtime *rt, const struct job_subject *subject,
		    const struct decision *d, struct pin *ret)
{
	int r;

	r = pin_read(rt, d->key, subject->uid, ret);
	return r == 0 ? 1 : r == -ENOENT || r == -EPERM ? 0 : r;
}

static void take_pin(const struct pin *pin, struct decision *ret)
{
	ret->reason = DECIDED_PIN;
	ret->pinned = true;
	ret->rule[0] = '\0';
	memcpy(ret->digest, pin->digest, sizeof ret->digest);
}

/* A job without a pin: token, mode, rules; and then whoever was first. Where no pin can be made, it
 * is this process's answer alone; but not where that is for want of descriptors, since others may
 * have made one. */
static int decide_new(const struct job_source *src, const struct job_subject *subject,
		      const struct assign_subject *match, const char *token,
		      struct job_facts *facts, struct decision *ret)
{
	struct pin pin;
	int r = 0;

	if (src->assign->mode == MODE_OBSERVE && !(token && subject->token_chosen)) {
		ret->reason = DECIDED_OBSERVE;
	} else if (token) {
		ret->reason = DECIDED_TOKEN;
		memcpy(ret->digest, token, DIGEST_SIZE);
	} else {
		r = choose(src, subject, match, facts, ret);
	}
	if (r < 0)
		return r;
	r = pin_settle(src->rt, ret->key, subject->uid, ret->digest, &pin);
	ret->pinned = r >= 0;
	if (r == 0)
		take_pin(&pin, ret);
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM ? r : 0;
}

static void copy_facts(const struct job_facts *facts, struct decision *ret)
{
	(void)stpcpy(ret->key, facts->key);
	ret->below = facts->below;
	ret->nspid = facts->nspid;
	ret->start = facts->start;
	if (strlen(facts->cgroup_dir) < sizeof ret->cgroup_dir)
		(void)stpcpy(ret->cgroup_dir, facts->cgroup_dir);
}

int decide(const struct job_source *src, const struct job_subject *subject,
	   const struct assign_subject *match, struct decision *ret)
{
	struct decision d = {.reason = DECIDED_OFF, .uid = subject->uid};
	struct job_facts facts;
	const char *token;
	struct pin pin;
	int r;

	if (!src->assign)
		return -ENODATA;
	if (src->assign->mode == MODE_OFF) {
		*ret = d;
		return 0;
	}
	r = job_find(src, subject, &facts);
	if (r < 0)
		return r;
	copy_facts(&facts, &d);
	token = effective_token(src, subject, &facts);
	r = read_pin(src->rt, subject, &d, &pin);
	if (r >= 0 && token_differs(subject, token, r > 0 ? &pin : NULL)) {
		r = add_token(d.key, token);
		if (r == 0)
			r = read_pin(src->rt, subject, &d, &pin);
	}
	if (r > 0)
		take_pin(&pin, &d);
	else if (r == 0)
		r = decide_new(src, subject, match, token, &facts, &d);
	if (r < 0)
		return r;
	d.below = d.below || (token && streq(token, d.digest));
	*ret = d;
	return 0;
}

/* The link is this job's: with another digest it is of an earlier program of the same process, before
 * a release. A stranger's directory entry stays, and so does the link then: only people read that. */
static void update_link(const struct runtime *rt, const char *name, const char *text)
{
	char beside[JOB_PROC_SIZE + 1];

	(void)snprintf(beside, sizeof beside, ".%s", name);
	if (symlinkat(text, rt->procs_fd, beside) == 0 &&
	    renameat(rt->procs_fd, beside, rt->procs_fd, name) < 0)
		(void)unlinkat(rt->procs_fd, beside, 0);
}

int decide_register(const struct runtime *rt, uint64_t pidns, const struct decision *d)
{
	char name[JOB_PROC_SIZE], text[JOB_LINK_SIZE], old[JOB_LINK_SIZE];
	bool may_remove = rt->self == 0 || rt->self == rt->broker;
	int r;

	if (rt->procs_fd < 0)
		return -EBADF;
	job_proc_format(pidns, d->nspid, d->start, name);
	job_link_format(d->key, d->digest, text);
	for (unsigned i = 0; i < 2; i++) {
		if (symlinkat(text, rt->procs_fd, name) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
		r = runtime_readlink(rt, rt->procs_fd, name, d->uid, old, sizeof old);
		if (r == 0) {
			if (streq(text, old))
				return 0;
			(void)job_link_cut(old);
			if (!streq(old, d->key))
				return -EEXIST;
			update_link(rt, name, text);
			return 0;
		}
		if (!may_remove || (r != -EPERM && r != -ENAMETOOLONG) ||
		    runtime_clear(rt->procs_fd, name) < 0)
			return r;
	}
	return -EPERM;
}
