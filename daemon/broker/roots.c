/* SPDX-License-Identifier: MIT */
#include "daemon/broker/roots.h"

#include <dirent.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/procfs.h"
#include "common/util.h"
#include "daemon/broker/pidfd.h"

#define WALK_DEPTH_MAX 32
#define WALK_DIRS_MAX  65536

int roots_init(struct roots *roots, struct registry *registry, int proc_fd, int cgroup_fd,
	       int hub_fd, uint64_t own_pidns)
{
	*roots = (struct roots){.registry = registry,
				.proc_fd = proc_fd,
				.cgroup_fd = cgroup_fd,
				.hub_fd = hub_fd,
				.own_pidns = own_pidns};
	roots->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return roots->inotify_fd < 0 ? -errno : 0;
}

void roots_done(struct roots *roots)
{
	roots->inotify_fd = safe_close(roots->inotify_fd);
}

static bool is_lost(const struct job *j)
{
	return j->root == ROOT_UNKNOWN && j->parsed.kind != JOB_TREE;
}

static bool is_unwatched(const struct job *j)
{
	return (j->root == ROOT_PROCESS && j->root_fd < 0) ||
	       (j->root == ROOT_CGROUP && j->cgroup_wd < 0);
}

static void set_state(struct roots *roots, struct job *j, enum root_state state, uint64_t now_usec)
{
	roots->n_lost -= is_lost(j);
	roots->n_unwatched -= is_unwatched(j);
	j->root = state;
	roots->n_lost += is_lost(j);
	roots->n_unwatched += is_unwatched(j);
	registry_job_settle(roots->registry, j, now_usec);
}

/* --- a process --- */

static void watch_process(struct roots *roots, struct job *j, pid_t pid, int fd_take,
			  uint64_t now_usec)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = j};

	if (fd_take >= 0 && epoll_ctl(roots->hub_fd, EPOLL_CTL_ADD, fd_take, &e) < 0)
		fd_take = safe_close(fd_take);
	j->root_fd = fd_take;
	j->root_pid = pid;
	set_state(roots, j, ROOT_PROCESS, now_usec);
}

void roots_set_process(struct roots *roots, struct job *j, pid_t pid, uint64_t now_usec)
{
	struct process *p = registry_find(roots->registry, pid, j->parsed.start);
	int fd;

	if (p && p->job == j) {
		set_state(roots, j, ROOT_MEMBER, now_usec);
		return;
	}
	fd = pidfd_of(roots->proc_fd, pid, j->parsed.start);
	if (fd == -ESRCH)
		set_state(roots, j, ROOT_GONE, now_usec);
	else
		watch_process(roots, j, pid, fd, now_usec);
}

/* In another pid namespace the key's number is not ours, but the root is an ancestor of the member.
 */
static pid_t find_ancestor(const struct roots *roots, const struct job *j, pid_t pid)
{
	for (int depth = 0; depth < JOB_DEPTH_MAX && pid > 0; depth++) {
		struct proc_facts facts;
		unsigned levels;
		pid_t nspid;

		if (procfs_facts(roots->proc_fd, pid, &facts) < 0)
			return 0;
		if (facts.start == j->parsed.start &&
		    procfs_nspid(roots->proc_fd, pid, &nspid, &levels) == 0 &&
		    nspid == j->parsed.pid)
			return pid;
		pid = facts.ppid;
	}
	return 0;
}

/* --- a cgroup --- */

static bool is_cgroup(const struct roots *roots, const char *path, uint64_t inode)
{
	struct stat st;

	return fstatat(roots->cgroup_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode) && st.st_ino == inode;
}

/* The path below cgroup_fd of the cgroup INODE, in which PID lies in one of the hierarchies. */
static bool find_cgroup(const struct roots *roots, pid_t pid, uint64_t inode, char ret[PATH_MAX])
{
	struct proc_cgroups cgroups;

	if (pid <= 0 || roots->cgroup_fd < 0 || procfs_cgroups(roots->proc_fd, pid, &cgroups) < 0)
		return false;
	for (unsigned i = 0; i < cgroups.n; i++) {
		const char *path = cgroups.lines[i].path;
		char mount[64];
		size_t length;
		int n;

		cgroup_mount(roots->cgroup_fd, cgroups.lines[i].controllers, mount);
		if (!cgroup_find(roots->cgroup_fd, mount, path, inode, &length))
			continue;
		n = snprintf(ret, PATH_MAX, "%s%.*s", mount, (int)length, path);
		return n > 0 && n < PATH_MAX;
	}
	return false;
}

/* One watch serves all cgroups of a directory; its number is the same for each. */
static int watch_parent(const struct roots *roots, const char *cgroup)
{
	const char *slash = strrchr(cgroup, '/');
	char path[PATH_MAX + 64];
	int n;

	n = snprintf(path, sizeof path, "/proc/self/fd/%d/%.*s", roots->cgroup_fd,
		     slash ? (int)(slash - cgroup) : 0, cgroup);
	if (n < 0 || (size_t)n >= sizeof path)
		return -ENAMETOOLONG;
	n = inotify_add_watch(roots->inotify_fd, path, IN_DELETE | IN_ONLYDIR);
	return n < 0 ? -errno : n;
}

static void set_cgroup(struct roots *roots, struct job *j, const char *path, uint64_t now_usec)
{
	j->cgroup = strdup(path);
	if (!j->cgroup) {
		set_state(roots, j, ROOT_UNKNOWN, now_usec);
		return;
	}
	j->cgroup_wd = watch_parent(roots, path);
	j->next_cgroup = roots->jobs;
	roots->jobs = j;
	set_state(roots, j, ROOT_CGROUP, now_usec);
	if (!is_cgroup(roots, path, j->parsed.inode)) /* removed before it was watched */
		roots_set_gone(roots, j, now_usec);
}

/* --- all kinds --- */

void roots_release(struct roots *roots, struct job *j)
{
	bool shared = false;

	set_state(roots, j, ROOT_GONE, j->empty_usec);
	j->root_fd = safe_close(j->root_fd);
	if (!j->cgroup)
		return;
	for (struct job **p = &roots->jobs; *p; p = &(*p)->next_cgroup)
		if (*p == j) {
			*p = j->next_cgroup;
			break;
		}
	for (struct job *o = roots->jobs; o; o = o->next_cgroup)
		shared = shared || o->cgroup_wd == j->cgroup_wd;
	if (!shared && j->cgroup_wd >= 0)
		(void)inotify_rm_watch(roots->inotify_fd, j->cgroup_wd);
	free(j->cgroup);
	j->cgroup = NULL;
	j->cgroup_wd = -1;
}

void roots_set_gone(struct roots *roots, struct job *j, uint64_t now_usec)
{
	roots_release(roots, j);
	set_state(roots, j, ROOT_GONE, now_usec);
}

void roots_hint(struct job *j, const char *path)
{
	if (path[0] && j->root == ROOT_NEW && !j->cgroup)
		j->cgroup = strdup(path);
}

void roots_look(struct roots *roots, struct job *j, uint64_t now_usec)
{
	pid_t member = j->root_pid, pid;
	char path[PATH_MAX];

	if (j->parsed.kind != JOB_TREE) {
		_cleanup_(freep) char *hint = TAKE_PTR(j->cgroup);

		if (roots->cgroup_fd >= 0 && hint && is_cgroup(roots, hint, j->parsed.inode))
			set_cgroup(roots, j, hint, now_usec);
		else if (find_cgroup(roots, member, j->parsed.inode, path))
			set_cgroup(roots, j, path, now_usec);
		else
			set_state(roots, j, ROOT_UNKNOWN, now_usec);
		return;
	}
	pid = j->parsed.pidns == roots->own_pidns ? j->parsed.pid
	      : member > 0                        ? find_ancestor(roots, j, member)
						  : 0;
	if (pid > 0)
		roots_set_process(roots, j, pid, now_usec);
	else
		set_state(roots, j, ROOT_UNKNOWN, now_usec);
}

static void on_deleted(struct roots *roots, const struct inotify_event *e, uint64_t now_usec)
{
	for (struct job *j = roots->jobs, *next; j; j = next) {
		const char *slash = strrchr(j->cgroup, '/');

		next = j->next_cgroup;
		if (!(e->mask & IN_Q_OVERFLOW) && (j->cgroup_wd != e->wd || e->len == 0 ||
						   !streq(e->name, slash ? slash + 1 : j->cgroup)))
			continue;
		if (!is_cgroup(roots, j->cgroup, j->parsed.inode))
			roots_set_gone(roots, j, now_usec);
	}
}

void roots_read(struct roots *roots, uint64_t now_usec)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t n;

	while ((n = read(roots->inotify_fd, buf, sizeof buf)) > 0)
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *e = (const void *)p;

			p += sizeof *e + e->len;
			if (e->mask & (IN_DELETE | IN_Q_OVERFLOW))
				on_deleted(roots, e, now_usec);
		}
}

/* --- what is not watched --- */

struct walk {
	struct roots *roots;
	uint64_t now_usec;
	struct job **lost; /* by inode */
	size_t n_lost;
	unsigned n_dirs;
	char path[PATH_MAX];
};

static int compare_inodes(const void *a, const void *b)
{
	uint64_t x = (*(struct job *const *)a)->parsed.inode;
	uint64_t y = (*(struct job *const *)b)->parsed.inode;

	return (x > y) - (x < y);
}

/* Several jobs may have one cgroup: of several uids, or with a token. */
static void found_inode(struct walk *w, uint64_t inode)
{
	size_t low = 0, high = w->n_lost;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->lost[middle]->parsed.inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < w->n_lost && w->lost[low]->parsed.inode == inode; low++)
		if (is_lost(w->lost[low]))
			set_cgroup(w->roots, w->lost[low], w->path, w->now_usec);
}

static void walk_cgroups(struct walk *w, int depth)
{
	size_t used = strlen(w->path);
	struct dirent *e;
	DIR *d;
	int fd;

	if (depth > WALK_DEPTH_MAX || w->n_dirs > WALK_DIRS_MAX)
		return;
	fd = openat(w->roots->cgroup_fd, used > 0 ? w->path : ".",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		(void)safe_close(fd);
		return;
	}
	while ((e = readdir(d))) {
		int n;

		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		n = snprintf(w->path + used, sizeof w->path - used, "%s%s", used > 0 ? "/" : "",
			     e->d_name);
		if (n > 0 && (size_t)n < sizeof w->path - used) {
			w->n_dirs++;
			found_inode(w, e->d_ino);
			walk_cgroups(w, depth + 1);
		}
		w->path[used] = '\0';
	}
	(void)closedir(d);
}

/* Jobs whose cgroup no member can point to: their pins were found after a start of the broker. */
static void find_lost(struct roots *roots, uint64_t now_usec)
{
	struct walk w = {.roots = roots, .now_usec = now_usec};
	_cleanup_(freep) struct job **lost = calloc(roots->n_lost, sizeof(struct job *));
	struct table *jobs = &roots->registry->jobs;

	if (!lost)
		return;
	w.lost = lost;
	for (struct table_node *n = table_next(jobs, NULL); n; n = table_next(jobs, n)) {
		struct job *j = TABLE_CONTAINER(n, struct job, node);

		if (is_lost(j) && w.n_lost < roots->n_lost)
			lost[w.n_lost++] = j;
	}
	qsort(lost, w.n_lost, sizeof(struct job *), compare_inodes);
	walk_cgroups(&w, 0);
	roots->cannot_walk = w.n_dirs == 0 || w.n_dirs > WALK_DIRS_MAX;
	for (size_t i = 0; i < w.n_lost && !roots->cannot_walk; i++)
		if (is_lost(lost[i]))
			roots_set_gone(roots, lost[i], now_usec);
}

bool roots_needs_sweep(const struct roots *roots)
{
	return roots->n_unwatched > 0 ||
	       (roots->n_lost > 0 && roots->cgroup_fd >= 0 && !roots->cannot_walk);
}

void roots_sweep(struct roots *roots, uint64_t now_usec)
{
	struct table *jobs = &roots->registry->jobs;

	if (roots->n_lost > 0 && roots->cgroup_fd >= 0 && !roots->cannot_walk)
		find_lost(roots, now_usec);
	if (roots->n_unwatched == 0)
		return;
	for (struct table_node *n = table_next(jobs, NULL); n; n = table_next(jobs, n)) {
		struct job *j = TABLE_CONTAINER(n, struct job, node);

		if (!is_unwatched(j))
			continue;
		if (j->root == ROOT_CGROUP
			    ? !is_cgroup(roots, j->cgroup, j->parsed.inode)
			    : !pidfd_alive(roots->proc_fd, j->root_pid, j->parsed.start))
			roots_set_gone(roots, j, now_usec);
	}
}
