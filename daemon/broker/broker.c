/* SPDX-License-Identifier: MIT */
#include "daemon/broker/broker.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/util.h"
#include "daemon/broker/pidfd.h"

#define END_SLICE 32

static int open_facts(struct broker *b)
{
	struct stat st;

	b->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->proc_fd < 0)
		return -errno;
	if (fstatat(b->proc_fd, "self/ns/pid", &st, 0) < 0)
		return -errno;
	b->own_pidns = st.st_ino;
	b->cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->cgroup_fd < 0)
		b->cgroup_fd = -EBADF;
	b->hub_fd = epoll_create1(EPOLL_CLOEXEC);
	return b->hub_fd < 0 ? -errno : 0;
}

static int watch_assign(struct broker *b)
{
	char path[64];

	b->assign_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (b->assign_fd < 0)
		return -errno;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", b->rt.dir_fd);
	if (inotify_add_watch(b->assign_fd, path, IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR) < 0)
		return -errno;
	return 0;
}

static int load_assign(struct broker *b)
{
	struct assign *a;

	b->assign_error = assign_load(&b->rt, &a);
	if (b->assign_error == 0) {
		assign_freep(&b->assign);
		b->assign = a;
		b->uses_gids = assign_uses_gids(a);
	}
	return b->assign_error;
}

static int make_shared(const char *runtime, const char *name)
{
	_cleanup_(freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", runtime, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	return chmod(path, 01777) < 0 ? -errno : 0;
}

static int make_directories(const char *runtime)
{
	int r;

	if (mkdir(runtime, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = make_shared(runtime, "jobs");
	return r < 0 ? r : make_shared(runtime, "procs");
}

int broker_open(struct broker *b, const char *path, bool user, const struct account_limits *limits)
{
	int r;

	*b = (struct broker){.rt = RUNTIME_NULL,
			     .proc_fd = -EBADF,
			     .cgroup_fd = -EBADF,
			     .hub_fd = -EBADF,
			     .assign_fd = -EBADF,
			     .asking_fd = -EBADF,
			     .log_limit = LOG_LIMIT(60 * UINT64_C(1000000), 5)};
	b->roots.inotify_fd = b->adopt.inotify_fd = -EBADF;
	if (user) {
		r = make_directories(path);
		if (r < 0)
			return r;
	}
	r = runtime_open(path, geteuid(), &b->rt);
	if (r < 0)
		return r;
	if (b->rt.jobs_fd < 0 || b->rt.procs_fd < 0)
		return -ENOENT;
	r = open_facts(b);
	if (r >= 0)
		r = watch_assign(b);
	ancestors_init(&b->ancestors, b->proc_fd);
	if (r >= 0)
		r = accounts_init(&b->accounts, limits);
	if (r >= 0)
		r = registry_init(&b->registry, &b->accounts, b->hub_fd);
	if (r >= 0)
		r = roots_init(&b->roots, &b->registry, b->proc_fd, b->cgroup_fd, b->hub_fd,
			       b->own_pidns);
	if (r >= 0)
		r = adopt_init(&b->adopt, &b->rt, &b->registry, &b->roots);
	if (r >= 0)
		(void)load_assign(b);
	if (r >= 0)
		r = job_node_publish(&b->rt, b->proc_fd);
	return r;
}

void broker_done(struct broker *b)
{
	broker_asked(b);
	ancestors_done(&b->ancestors);
	adopt_done(&b->adopt);
	roots_done(&b->roots);
	registry_done(&b->registry);
	accounts_done(&b->accounts);
	assign_freep(&b->assign);
	free(b->published_bytes);
	b->published_bytes = NULL;
	runtime_done(&b->rt);
	b->assign_fd = safe_close(b->assign_fd);
	b->hub_fd = safe_close(b->hub_fd);
	b->cgroup_fd = safe_close(b->cgroup_fd);
	b->proc_fd = safe_close(b->proc_fd);
}

void broker_refresh(struct broker *b)
{
	_Alignas(struct inotify_event) char buf[4096];
	bool reload = false;
	ssize_t n;

	while ((n = read(b->assign_fd, buf, sizeof buf)) > 0)
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *e = (const void *)p;

			p += sizeof *e + e->len;
			if ((e->mask & IN_Q_OVERFLOW) || (e->len > 0 && streq(e->name, "assign")))
				reload = true;
			if (e->len > 0 && streq(e->name, "socket"))
				b->changed_socket = true;
		}
	if (reload) {
		(void)load_assign(b);
		b->changed_rules = true;
	}
}

static int on_registered(void *userdata, const struct proc_facts *facts, char ret_key[JOB_KEY_SIZE])
{
	const struct broker *b = userdata;
	const struct process *p = registry_find(&b->registry, facts->pid, facts->start);

	if (!p)
		return b->memory_complete ? -ENOENT : 0;
	memcpy(ret_key, p->job->key, strlen(p->job->key) + 1);
	return 1;
}

void broker_asked(struct broker *b)
{
	b->asking_fd = safe_close(b->asking_fd);
}

/* Who asks is read once, and its uid is known from its credentials; its ancestors will be asked for
 * again. */
static int on_facts(void *userdata, pid_t pid, struct proc_facts *ret)
{
	struct broker *b = userdata;

	if (pid != b->asking)
		return ancestors_facts(&b->ancestors, pid, ret);
	broker_asked(b);
	b->asking_fd = procfs_open(b->proc_fd, pid);
	return b->asking_fd < 0 ? b->asking_fd : procfs_read(-EBADF, b->asking_fd, pid, ret);
}

struct job_source broker_source(struct broker *b, pid_t asking, bool same_pidns)
{
	b->asking = asking;
	b->memory_complete = adopt_read(&b->adopt, true) && adopt_complete(&b->adopt);
	return (struct job_source){.proc_fd = b->proc_fd,
				   .cgroup_fd = b->cgroup_fd,
				   .rt = &b->rt,
				   .assign = b->assign,
				   .same_pidns = same_pidns,
				   .facts = on_facts,
				   .registered = on_registered,
				   .userdata = b};
}

void broker_settle(struct broker *b, uint64_t now_usec)
{
	struct job *j;

	while ((j = registry_take_fresh(&b->registry))) {
		roots_look(&b->roots, j, now_usec);
		if (j->root == ROOT_UNKNOWN && j->parsed.kind == JOB_TREE)
			adopt_find_root(&b->adopt, j);
	}
}

void broker_remove_link(struct broker *b, const struct process_id *id)
{
	char name[JOB_PROC_SIZE];

	job_proc_format(id->pidns, id->nspid, id->start, name);
	(void)unlinkat(b->rt.procs_fd, name, 0);
}

void broker_on_process_exit(struct broker *b, struct process *p, uint64_t now_usec)
{
	struct process_id id = {
		.pid = p->pid, .start = p->start, .pidns = p->pidns, .nspid = p->nspid};

	broker_remove_link(b, &id);
	registry_remove(&b->registry, p, now_usec);
}

void broker_on_root_exit(struct broker *b, struct job *j, uint64_t now_usec)
{
	roots_set_gone(&b->roots, j, now_usec);
}

static bool needs_sweep(const struct broker *b)
{
	return b->registry.n_without_pidfd > 0 || roots_needs_sweep(&b->roots) ||
	       adopt_needs_sweep(&b->adopt) || b->published_bytes;
}

uint64_t broker_next_usec(const struct broker *b)
{
	const struct job *j = b->registry.empty.first;
	uint64_t next = UINT64_MAX;

	if (j && !adopt_reading(&b->adopt))
		next = j->empty_usec + BROKER_GRACE_USEC;
	if (needs_sweep(b) && b->sweep_usec < next)
		next = b->sweep_usec;
	return next;
}

static void sweep(struct broker *b, uint64_t now_usec)
{
	if (now_usec < b->sweep_usec)
		return;
	b->sweep_usec = now_usec + BROKER_SWEEP_USEC;
	for (struct process *p = registry_sweep(&b->registry, NULL), *next; p; p = next) {
		next = registry_sweep(&b->registry, p);
		if (!pidfd_alive(b->proc_fd, p->pid, p->start))
			broker_on_process_exit(b, p, now_usec);
	}
	roots_sweep(&b->roots, now_usec);
	adopt_sweep(&b->adopt, now_usec);
	free(b->published_bytes);
	b->published_bytes = NULL;
}

static void end_job(struct broker *b, struct job *j)
{
	adopt_remove_pin(&b->adopt, j);
	b->counters.pins_removed++;
	roots_release(&b->roots, j);
	registry_forget(&b->registry, j);
}

static bool may_end(const struct broker *b, uint64_t now_usec)
{
	const struct job *j = b->registry.empty.first;

	return j && !adopt_reading(&b->adopt) && now_usec >= j->empty_usec + BROKER_GRACE_USEC;
}

/* Some of those whose time has come: thousands may end with one process. The files may know of
 * members that we have not heard of: they are read first. */
static void end_jobs(struct broker *b, uint64_t now_usec)
{
	b->ending = false;
	if (!may_end(b, now_usec))
		return;
	adopt_read(&b->adopt, false);
	broker_settle(b, now_usec);
	for (int i = 0; i < END_SLICE && may_end(b, now_usec); i++)
		end_job(b, b->registry.empty.first);
	b->ending = may_end(b, now_usec);
}

bool broker_pending(const struct broker *b)
{
	return adopt_pending(&b->adopt) || b->ending;
}

void broker_step(struct broker *b, uint64_t now_usec)
{
	if (adopt_pending(&b->adopt))
		adopt_step(&b->adopt, now_usec);
	else if (b->ending)
		end_jobs(b, now_usec);
}

void broker_tick(struct broker *b, uint64_t now_usec)
{
	end_jobs(b, now_usec);
	sweep(b, now_usec);
}
