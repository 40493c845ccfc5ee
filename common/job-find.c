/* SPDX-License-Identifier: MIT */
/*
 * Which job: the four rules of DESIGN section 6, first hit. The process and its ancestors are read
 * once, from the process up to the boundary, two small reads each; cgroup and jobs/ only where no
 * ancestor is registered. In a pid namespace other than that of this /proc the numbers come from
 * the NS lines of status, so that the broker outside of a container and the client in it find the
 * same key.
 */
#include <dirent.h>

#include "common/job.h"
#include "common/pin.h"
#include "common/util.h"

/* A process with its place in its pid namespace. */
struct who {
	struct proc_facts facts;
	pid_t nspid;
	unsigned depth;
};

struct search {
	const struct job_source *src;
	const struct job_subject *subject;
	struct who self;
	struct who top; /* outermost below the boundary */
	struct who parent;
	bool has_parent;     /* parent is filled in */
	bool parent_is_init; /* pid 1 of the namespace */
};

/* What the cgroup says. */
struct spot {
	enum cgroup_kind kind;
	uint64_t inode; /* of a kind that names a job */
	bool service;
};

/* What could not be read for want of these would have changed the answer, which must be that of all
 * others: no answer then. Everything else that cannot be read is as if it were not there. */
static bool is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

static uid_t key_uid(const struct job_subject *subject)
{
	return subject->has_key_uid ? subject->key_uid : subject->uid;
}

static int read_who(const struct job_source *src, pid_t pid, struct who *ret)
{
	struct who who = {.nspid = pid};
	int r;

	r = src->facts ? src->facts(src->userdata, pid, &who.facts)
		       : procfs_facts(src->proc_fd, pid, &who.facts);
	if (r < 0)
		return r;
	if (!src->same_pidns) {
		r = procfs_nspid(src->proc_fd, pid, &who.nspid, &who.depth);
		if (r < 0 && r != -ENODATA)
			return r;
	}
	*ret = who;
	return 0;
}

/* A key that this process may have by being below, or being, a registered one. */
static bool key_fits(const struct search *s, const char *key)
{
	struct job_key k;

	return job_key_parse(key, &k) == 0 && k.slot == 0 && k.uid == key_uid(s->subject);
}

/* 1 and its job's key, 0, or negative errno when that cannot be told. */
static int is_registered(const struct search *s, const struct who *who, char ret[JOB_KEY_SIZE])
{
	const struct job_source *src = s->src;
	char name[JOB_PROC_SIZE], key[JOB_LINK_SIZE];
	int r = src->registered ? src->registered(src->userdata, &who->facts, key) : 0;

	if (r < 0)
		return 0;
	if (r > 0 && key_fits(s, key)) {
		(void)stpcpy(ret, key);
		return 1;
	}
	job_proc_format(s->subject->pidns, who->nspid, who->facts.start, name);
	r = runtime_readlink(src->rt, src->rt->procs_fd, name, s->subject->uid, key, sizeof key);
	if (r < 0)
		return is_shortage(r) ? r : 0;
	(void)job_link_cut(key);
	if (!key_fits(s, key))
		return 0;
	(void)stpcpy(ret, key);
	return 1;
}

/* A shell at a terminal, where each command typed is a job of its own: it gives each a process
 * group, which a script does not do that leads its session (ssh -t, a window of tmux, docker run
 * -it). */
static bool is_prompt(const struct proc_facts *child, const struct proc_facts *f)
{
	static const char *const shells[] = {
		"ash",  "bash", "busybox", "csh",  "dash", "elvish", "fish", "ksh",  "ksh93",
		"lksh", "mksh", "nu",      "oksh", "osh",  "pdksh",  "posh", "pwsh", "rbash",
		"rc",   "rksh", "rzsh",    "sh",   "tcsh", "xonsh",  "yash", "zsh"};

	if (f->session != f->pid || f->tty_nr == 0 || child->session != f->session ||
	    child->pgrp == f->pgrp)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (streq(f->comm, shells[i]))
			return true;
	return false;
}

/* systemd as a user's manager: what it starts are jobs, and orphans come to it. */
static bool is_manager(const struct who *who)
{
	return streq(who->facts.comm, "systemd");
}

static bool is_boundary(const struct search *s, const struct who *child, const struct who *who)
{
	const struct assign *assign = s->src->assign;

	return who->facts.uid != s->subject->uid || who->facts.start > child->facts.start ||
	       is_manager(who) || is_prompt(&child->facts, &who->facts) ||
	       (assign && assign_is_boundary(assign, who->facts.comm));
}

/* The parent of CHILD. 1, 0: none in the namespace, or not to be seen; negative errno. */
static int read_parent(struct search *s, const struct who *child, struct who *ret)
{
	pid_t ppid = child->facts.ppid;
	bool first = child == &s->self;
	int r;

	/* The parent is 0 where it is outside of the namespace that this /proc shows. */
	if (ppid <= 0)
		return 0;
	if (first && s->src->same_pidns)
		s->parent_is_init = ppid == 1;
	r = read_who(s->src, ppid, ret);
	if (r < 0 || ret->depth < s->self.depth)
		return is_shortage(r) ? r : 0;
	if (first) {
		s->parent = *ret;
		s->has_parent = true;
		s->parent_is_init = ret->nspid == 1;
	}
	return 1;
}

/* Up to the boundary. 1: an ancestor is registered, and RET is its job (rule 1); 0; negative errno.
 */
static int find_above(struct search *s, char ret[JOB_KEY_SIZE])
{
	struct who child = s->self, parent;
	int r;

	s->top = s->self;
	r = read_parent(s, &s->self, &parent);
	for (unsigned n = 0; r > 0 && n < JOB_DEPTH_MAX; n++) {
		if (is_boundary(s, &child, &parent))
			return 0;
		r = is_registered(s, &parent, ret);
		if (r != 0)
			return r;
		if (parent.nspid == 1)
			return 0;
		s->top = child = parent;
		r = read_parent(s, &child, &parent);
	}
	return r < 0 ? r : 0;
}

/* In which hierarchy the claimed root of the cgroup namespace is above the process, and where. */
static bool find_claimed(const struct search *s, const struct proc_cgroups *cgroups,
			 unsigned *ret_line, size_t *ret_base)
{
	static const char *const hierarchies[] = {"name=systemd", ""};
	int fd = s->src->cgroup_fd;
	char mount[64];

	if (s->subject->cgroup_claim == 0)
		return false;
	for (unsigned h = 0; h < ARRAY_SIZE(hierarchies); h++)
		for (unsigned i = 0; i < cgroups->n; i++) {
			if (!streq(cgroups->lines[i].controllers, hierarchies[h]))
				continue;
			cgroup_mount(fd, hierarchies[h], mount);
			if (cgroup_find(fd, mount, cgroups->lines[i].path, s->subject->cgroup_claim,
					ret_base)) {
				*ret_line = i;
				return true;
			}
		}
	return false;
}

/* The hierarchy that names units and containers: systemd's own where the process is below its root,
 * which it is not where that one is only kept for old programs; else the unified one. A Slurm step
 * may be in the controllers' alone. */
static bool choose_line(const struct proc_cgroups *cgroups, unsigned *ret,
			struct cgroup_place *place)
{
	int chosen = -1;

	for (unsigned i = 0; i < cgroups->n; i++) {
		const char *controllers = cgroups->lines[i].controllers;

		if (streq(controllers, "name=systemd") && !streq(cgroups->lines[i].path, "/"))
			chosen = (int)i;
		else if (chosen < 0 && controllers[0] == '\0')
			chosen = (int)i;
	}
	if (chosen >= 0)
		cgroup_classify(cgroups->lines[chosen].path, place);
	if (chosen >= 0 && (place->kind == CGROUP_SLURM || place->kind == CGROUP_CONTAINER)) {
		*ret = (unsigned)chosen;
		return true;
	}
	for (unsigned i = 0; i < cgroups->n; i++) {
		struct cgroup_place other;

		cgroup_classify(cgroups->lines[i].path, &other);
		if (other.kind != CGROUP_SLURM)
			continue;
		*place = other;
		*ret = i;
		return true;
	}
	*ret = chosen < 0 ? 0 : (unsigned)chosen;
	return chosen >= 0;
}

/* Inode of the directory that the path's first LENGTH bytes name. */
static uint64_t place_inode(int cgroup_fd, const char *mount, const char *path, size_t length,
			    bool container)
{
	const char *rest = path + length;
	uint64_t inode = cgroup_inode(cgroup_fd, mount, path, length);

	/* A container in the host's cgroup namespace often sees its own directory in place of the
	 * root. */
	if (inode == 0 && container && cgroup_inode(cgroup_fd, mount, rest, strlen(rest)) != 0)
		inode = cgroup_inode(cgroup_fd, mount, "", 0);
	return inode;
}

static void copy_path(char ret[CGROUP_PATH_SIZE], const char *mount, const char *path,
		      size_t length)
{
	size_t n = strlen(mount);

	if (n + length >= CGROUP_PATH_SIZE)
		return;
	memcpy(ret, mount, n);
	memcpy(ret + n, path, length);
	ret[n + length] = '\0';
}

static void name_directory(const struct search *s, const char *controllers, const char *path,
			   const struct cgroup_place *place, size_t base, struct spot *spot,
			   struct job_facts *ret)
{
	size_t length = base + place->length;
	char mount[64];

	cgroup_mount(s->src->cgroup_fd, controllers, mount);
	spot->inode = place_inode(s->src->cgroup_fd, mount, path, length,
				  place->kind == CGROUP_CONTAINER);
	if (spot->inode == 0)
		spot->kind = CGROUP_NONE;
	else
		copy_path(ret->cgroup_dir, mount, path, length);
}

/* Fills in what the rules of `assign` look at, and tells what rule 2 needs. */
static int find_spot(const struct search *s, struct spot *spot, struct job_facts *ret)
{
	const struct assign *assign = s->src->assign;
	struct cgroup_place place = {.kind = CGROUP_NONE};
	struct proc_cgroups cgroups;
	const char *path;
	unsigned line;
	size_t base = 0;
	bool claimed;
	int r;

	*spot = (struct spot){.kind = CGROUP_NONE};
	ret->placed = true;
	ret->cgroup[0] = ret->unit[0] = ret->cgroup_dir[0] = '\0';
	if (s->src->cgroup_fd < 0 || s->subject->cgroup_claim == JOB_CGROUP_UNSEEN)
		return 0;
	r = procfs_cgroups(s->src->proc_fd, s->subject->pid, &cgroups);
	if (r < 0)
		return is_shortage(r) ? r : 0;
	claimed = find_claimed(s, &cgroups, &line, &base);
	if (claimed)
		cgroup_classify(cgroups.lines[line].path + base, &place);
	else if (!choose_line(&cgroups, &line, &place))
		return 0;
	/* What is at the root of a container's own cgroup namespace is the container. */
	if (claimed && place.kind == CGROUP_NONE)
		place.kind = CGROUP_CONTAINER;
	if (place.kind == CGROUP_UNIT && assign && assign_is_supervisor(assign, place.unit))
		place.kind = CGROUP_SHARED;
	path = cgroups.lines[line].path;
	copy_path(ret->cgroup, path[base] == '/' ? "" : "/", path + base, strlen(path + base));
	(void)stpcpy(ret->unit, place.unit);
	spot->kind = place.kind;
	spot->service = place.service;
	if (place.kind != CGROUP_NONE && place.kind != CGROUP_SHARED)
		name_directory(s, cgroups.lines[line].controllers, path, &place, base, spot, ret);
	return 0;
}

/* Rule 2. */
static bool find_cgroup(const struct search *s, const struct spot *spot, char ret[JOB_KEY_SIZE])
{
	static const enum job_kind kinds[] = {
		[CGROUP_SLURM] = JOB_SLURM,
		[CGROUP_CONTAINER] = JOB_CONTAINER,
		[CGROUP_UNIT] = JOB_UNIT,
	};
	struct job_key k = {.uid = key_uid(s->subject), .inode = spot->inode};

	if (spot->kind == CGROUP_NONE || spot->kind == CGROUP_SHARED)
		return false;
	k.kind = kinds[spot->kind];
	job_key_format(&k, ret);
	return true;
}

static bool below_manager(const struct search *s)
{
	return s->parent_is_init || (s->has_parent && is_manager(&s->parent));
}

/* One that systemd itself started. */
static bool is_first_of_unit(const struct search *s, const struct spot *spot)
{
	return below_manager(s) && s->self.facts.session == s->self.facts.pid &&
	       (spot->kind == CGROUP_UNIT || spot->service);
}

/* Sessions are inherited, or one's own: a process in another one than its parent's has not been
 * started by it. */
static bool is_reparented(const struct search *s)
{
	const struct proc_facts *self = &s->self.facts;

	return below_manager(s) || (s->has_parent && self->session != self->pid &&
				    self->session != s->parent.facts.session);
}

/* Rule 3, over all names in jobs/. */
struct choice {
	const struct search *s;
	struct proc_ns ns; /* of the process */
	unsigned score;    /* of the best one so far; 0: none */
	char key[JOB_KEY_SIZE];
};

/* One name: is it a job of this user that had the token as its pin, and how likely is it this
 * process's? */
static int consider(struct choice *c, const char *name)
{
	const struct job_subject *subject = c->s->subject;
	char key[JOB_KEY_SIZE];
	struct job_key k;
	struct pin pin;
	unsigned score = 1;
	int r;

	if (job_key_parse(name, &k) < 0 || k.uid != key_uid(subject))
		return 0;
	if (k.kind == JOB_TREE && (k.pidns != subject->pidns || k.start > c->s->self.facts.start))
		return 0;
	r = pin_read_name(c->s->src->rt, name, subject->uid, &pin);
	if (r < 0 || !pin_has(&pin, subject->token))
		return is_shortage(r) ? r : 0;
	if (streq(pin.digest, subject->token))
		score += 1;
	if (k.kind == JOB_TREE && (k.pid == c->ns.pgrp || k.pid == c->ns.session))
		score += 2;
	k.slot = 0;
	job_key_format(&k, key);
	if (score > c->score || (score == c->score && strcmp(key, c->key) < 0)) {
		c->score = score;
		(void)stpcpy(c->key, key);
	}
	return 0;
}

/* 1 and the key, 0, negative errno. */
static int find_by_token(const struct search *s, char ret[JOB_KEY_SIZE])
{
	const struct proc_facts *self = &s->self.facts;
	struct choice c = {.s = s, .ns = {.pgrp = self->pgrp, .session = self->session}};
	_cleanup_(closep) int fd = -EBADF;
	_Alignas(struct dirent64) char buf[4096];
	unsigned seen = 0;
	ssize_t n;
	int r = 0;

	if (s->src->rt->jobs_fd < 0)
		return 0;
	if (!s->src->same_pidns)
		r = procfs_ns(s->src->proc_fd, self->pid, &c.ns);
	if (r < 0)
		return is_shortage(r) ? r : 0;
	fd = openat(s->src->rt->jobs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return is_shortage(-errno) ? -errno : 0;
	while ((n = getdents64(fd, buf, sizeof buf)) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(buf + at);

			at += e->d_reclen;
			if (++seen > JOB_SCAN_MAX)
				return 0;
			r = e->d_type == DT_LNK ? consider(&c, e->d_name) : 0;
			if (r < 0)
				return r;
		}
	if (c.score == 0)
		return 0;
	(void)stpcpy(ret, c.key);
	return 1;
}

/* Rule 4. */
static void name_tree(const struct search *s, char ret[JOB_KEY_SIZE])
{
	struct job_key k = {
		.kind = JOB_TREE,
		.uid = key_uid(s->subject),
		.pidns = s->subject->pidns,
		.pid = s->top.nspid,
		.start = s->top.facts.start,
	};

	job_key_format(&k, ret);
}

/* Rules 2 to 4. */
static int find_in_place(const struct search *s, struct job_facts *ret)
{
	const struct job_subject *subject = s->subject;
	struct spot spot;
	int r;

	r = find_spot(s, &spot, ret);
	if (r < 0)
		return r;
	ret->ignore_token =
		!subject->token_chosen && !subject->token_required && is_first_of_unit(s, &spot);
	if (find_cgroup(s, &spot, ret->key))
		return 0;
	if (subject->token && !subject->token_chosen && !ret->ignore_token && is_reparented(s)) {
		r = find_by_token(s, ret->key);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	name_tree(s, ret->key);
	return 0;
}

int job_find(const struct job_source *src, const struct job_subject *subject, struct job_facts *ret)
{
	struct search s = {.src = src, .subject = subject};
	int r;

	r = read_who(src, subject->pid, &s.self);
	if (r < 0)
		return r;
	ret->nspid = s.self.nspid;
	ret->start = s.self.facts.start;
	ret->ignore_token = ret->placed = false;
	ret->cgroup[0] = ret->unit[0] = ret->cgroup_dir[0] = '\0';
	r = is_registered(&s, &s.self, ret->key);
	if (r == 0)
		r = find_above(&s, ret->key);
	if (r < 0)
		return r;
	ret->below = r > 0;
	return ret->below ? 0 : find_in_place(&s, ret);
}

int job_place(const struct job_source *src, const struct job_subject *subject,
	      struct job_facts *ret)
{
	struct search s = {.src = src, .subject = subject};
	struct spot spot;

	return find_spot(&s, &spot, ret);
}
