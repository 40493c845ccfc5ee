/* SPDX-License-Identifier: MIT */
/*
 * Cgroup paths. The name patterns are those of systemd, Docker, Podman, CRI-O, containerd,
 * Kubernetes, LXC, nspawn and Slurm; a container is also whatever has an id of 64 hex digits as its
 * name, because that is how runtimes with the cgroupfs driver write it. The path is walked once
 * from its root; the innermost container counts, and what lies in it is judged like a machine of
 * its own: a unit of a systemd that runs in a container is a job, its user.slice is not.
 */
#include "common/cgroup.h"

#include <sys/stat.h>

#include "common/util.h"

#define ROOT_INODE 1 /* of every kernfs hierarchy */

/* One component of the path: not NUL-terminated. */
struct part {
	const char *s;
	size_t n;
};

static bool begins(struct part p, const char *prefix)
{
	size_t n = strlen(prefix);

	return p.n >= n && memcmp(p.s, prefix, n) == 0;
}

static bool ends(struct part p, const char *suffix)
{
	size_t n = strlen(suffix);

	return p.n >= n && memcmp(p.s + p.n - n, suffix, n) == 0;
}

static bool is(struct part p, const char *name)
{
	return p.n == strlen(name) && memcmp(p.s, name, p.n) == 0;
}

static bool is_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= '0' && s[i] <= '9') && !(s[i] >= 'a' && s[i] <= 'f'))
			return false;
	return n > 0;
}

/* An id of 64 hex digits, alone or as RUNTIME-ID.scope; the scope of the monitor beside a container
 * is not one. */
static bool is_container_id(struct part p)
{
	if (ends(p, ".scope"))
		p.n -= STRLEN(".scope");
	if (p.n < 64 || !is_hex(p.s + p.n - 64, 64))
		return false;
	p.n -= 64;
	return p.n == 0 || (p.s[p.n - 1] == '-' && !ends(p, "conmon-"));
}

static bool is_runtime_scope(struct part p)
{
	static const char *const runtimes[] = {"docker-", "libpod-", "crio-", "cri-containerd-",
					       "nerdctl-"};

	if (ends(p, ".scope"))
		for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++)
			if (begins(p, runtimes[i]))
				return !begins(p, "libpod-conmon-") && !begins(p, "crio-conmon-");
	return begins(p, "libpod-") && !ends(p, ".slice") && !begins(p, "libpod-conmon-");
}

static bool is_machine(struct part p, struct part before)
{
	if (begins(p, "machine-") && ends(p, ".scope"))
		return true;
	if (begins(p, "systemd-nspawn@") && ends(p, ".service"))
		return true;
	if (begins(p, "lxc.payload.") || is(before, "lxc.payload"))
		return true;
	return is(before, "lxc") || is(before, "docker");
}

/* A pod counts where no container is below it. */
static bool is_pod(struct part p, bool in_kubepods)
{
	if (!in_kubepods)
		return false;
	if (ends(p, ".slice"))
		for (size_t i = 0; i + 4 < p.n; i++)
			if (memcmp(p.s + i, "-pod", 4) == 0)
				return true;
	return begins(p, "pod") && p.n > 3;
}

static bool is_kubepods(struct part p)
{
	return is(p, "kubepods") || begins(p, "kubepods.") || begins(p, "kubepods-") ||
	       begins(p, "kubelet-kubepods");
}

static bool is_step(struct part p)
{
	return begins(p, "step_") &&
	       ((p.n > 5 && p.s[5] >= '0' && p.s[5] <= '9') || is(p, "step_batch"));
}

static bool is_unit(struct part p)
{
	return (ends(p, ".service") || ends(p, ".scope")) && !is(p, "init.scope");
}

/* What is known on the way down. */
struct walk {
	struct cgroup_place *place;
	struct part before;
	bool in_kubepods;
	bool shared;
	size_t unit_end; /* 0: none yet */
};

static void enter(struct walk *w, enum cgroup_kind kind, size_t end)
{
	w->place->kind = kind;
	w->place->length = end;
	w->place->service = false;
	w->place->unit[0] = '\0';
	w->shared = false;
	w->unit_end = 0;
}

static void see_unit(struct walk *w, struct part p, size_t end)
{
	w->place->service = ends(p, ".service");
	if (w->unit_end > 0)
		return;
	w->unit_end = end;
	if (p.n < sizeof w->place->unit) {
		memcpy(w->place->unit, p.s, p.n);
		w->place->unit[p.n] = '\0';
	}
	if (ends(p, "slurmstepd.scope"))
		w->shared = true;
}

static void step(struct walk *w, struct part p, size_t end)
{
	if (is_container_id(p) || is_runtime_scope(p) || is_machine(p, w->before) ||
	    is_pod(p, w->in_kubepods))
		enter(w, CGROUP_CONTAINER, end);
	else if (begins(w->before, "job_") && is_step(p))
		enter(w, CGROUP_SLURM, end);
	else if (is(p, "user.slice"))
		w->shared = true;
	else if (is_unit(p))
		see_unit(w, p, end);
	w->in_kubepods = w->in_kubepods || is_kubepods(p);
	w->before = p;
}

void cgroup_classify(const char *path, struct cgroup_place *ret)
{
	struct cgroup_place place = {.kind = CGROUP_NONE};
	struct walk w = {.place = &place, .before = {"", 0}};
	const char *p = path;

	while (*(p += strspn(p, "/")) != '\0') {
		struct part part = {p, strcspn(p, "/")};

		p += part.n;
		step(&w, part, (size_t)(p - path));
	}
	if (w.shared && place.kind != CGROUP_SLURM) {
		place.kind = CGROUP_SHARED;
	} else if (w.unit_end > 0 && place.kind != CGROUP_SLURM) {
		place.kind = CGROUP_UNIT;
		place.length = w.unit_end;
	}
	*ret = place;
}

void cgroup_mount(int cgroup_fd, const char *controllers, char ret[64])
{
	const char *name = startswith(controllers, "name=");
	struct stat st;

	if (controllers[0] == '\0')
		name = fstatat(cgroup_fd, "unified", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				       S_ISDIR(st.st_mode)
			       ? "unified"
			       : ".";
	else if (!name)
		name = controllers;
	/* No mount has a longer name; a name that is none leads nowhere. */
	(void)stpcpy(ret,
		     strlen(name) < 64 && !strchr(name, '/') && !streq(name, "..") ? name : "-");
}

uint64_t cgroup_inode(int cgroup_fd, const char *mount, const char *path, size_t length)
{
	char full[64 + CGROUP_PATH_SIZE], *p;
	struct stat st;

	if (length >= CGROUP_PATH_SIZE || strlen(mount) >= 64)
		return 0;
	p = stpcpy(full, mount);
	memcpy(p, path, length);
	p[length] = '\0';
	/* A cgroup called ".." cannot be, but a cgroup namespace writes what lies outside of it so.
	 */
	if (strstr(p, "/.."))
		return 0;
	if (fstatat(cgroup_fd, full, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    st.st_ino == ROOT_INODE)
		return 0;
	return st.st_ino;
}

bool cgroup_find(int cgroup_fd, const char *mount, const char *path, uint64_t inode,
		 size_t *ret_length)
{
	size_t length = 0;

	for (;;) {
		if (cgroup_inode(cgroup_fd, mount, path, length) == inode) {
			*ret_length = length;
			return true;
		}
		length += strspn(path + length, "/");
		if (path[length] == '\0')
			return false;
		length += strcspn(path + length, "/");
	}
}
