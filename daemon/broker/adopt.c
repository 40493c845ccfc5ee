/* SPDX-License-Identifier: MIT */
#include "daemon/broker/adopt.h"

#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/decide.h"
#include "common/procfs.h"
#include "common/util.h"
#include "daemon/broker/pidfd.h"

#define SLICE       32
#define SOME_EVENTS 4 /* buffers */
#define AGAIN_USEC  (60 * UINT64_C(1000000))

static int watch(int inotify_fd, int dir_fd)
{
	char path[64];
	int wd;

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", dir_fd);
	wd = inotify_add_watch(inotify_fd, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
	return wd < 0 ? -errno : wd;
}

int adopt_init(struct adopt *a, const struct runtime *rt, struct registry *registry,
	       struct roots *roots)
{
	int r;

	*a = (struct adopt){.rt = rt,
			    .registry = registry,
			    .roots = roots,
			    .inotify_fd = -EBADF,
			    .phase = ADOPT_PROCS};
	r = search_init(&a->search, roots->proc_fd);
	if (r < 0)
		return r;
	a->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (a->inotify_fd < 0)
		return -errno;
	a->procs_wd = watch(a->inotify_fd, rt->procs_fd);
	a->jobs_wd = watch(a->inotify_fd, rt->jobs_fd);
	return a->procs_wd < 0 ? a->procs_wd : a->jobs_wd < 0 ? a->jobs_wd : 0;
}

void adopt_done(struct adopt *a)
{
	search_done(&a->search);
	if (a->dir)
		(void)closedir(a->dir);
	a->dir = NULL;
	a->inotify_fd = safe_close(a->inotify_fd);
}

static void remove_name(struct adopt *a, int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 ||
	    (errno == EISDIR && unlinkat(dir_fd, name, AT_REMOVEDIR) == 0))
		a->n_removed++;
}

/* As the above, for names that somebody needs. */
static void clear_name(struct adopt *a, int dir_fd, const char *name)
{
	a->n_removed += runtime_clear(dir_fd, name) == 0;
}

void adopt_remove_pin(struct adopt *a, const struct job *j)
{
	struct job_key name = j->parsed;

	for (name.slot = 0; name.slot < JOB_SLOTS; name.slot++) {
		char text[JOB_KEY_SIZE];

		job_key_format(&name, text);
		(void)unlinkat(a->rt->jobs_fd, text, 0);
	}
}

/* Owner and text of a link, whoever made it. -EINVAL: something else than a link, or a text that is
 * too long. */
static int read_link(int dir_fd, const char *name, uid_t *ret_owner, char *ret, size_t size)
{
	struct stat st;
	ssize_t n;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return -EINVAL;
	n = readlinkat(dir_fd, name, ret, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -EINVAL;
	ret[n] = '\0';
	*ret_owner = st.st_uid;
	return 0;
}

static bool is_dots(const char *name)
{
	return streq(name, ".") || streq(name, "..");
}

static bool is_ours(const struct adopt *a, uid_t owner)
{
	return owner == 0 || owner == a->rt->broker;
}

/* A process's own link names a job of its own uid; ours may name another's (its uid has changed
 * since). */
static bool may_name(const struct adopt *a, uid_t owner, uid_t process_uid, const char *key)
{
	struct job_key parsed;

	if (job_key_parse(key, &parsed) < 0 || parsed.slot > 0)
		return false;
	return is_ours(a, owner) || (owner == process_uid && owner == parsed.uid);
}

/* The process of link NAME, text KEY, is PID. */
static void take_link(struct adopt *a, const char *name, uid_t owner, const char *key,
		      const struct process_id *id)
{
	_cleanup_(closep) int pidfd = -EBADF;
	struct proc_facts facts;
	struct process *p;
	int r;

	pidfd = pidfd_of(a->roots->proc_fd, id->pid, id->start);
	if (pidfd == -ESRCH) {
		remove_name(a, a->rt->procs_fd, name);
		return;
	}
	r = procfs_facts(a->roots->proc_fd, id->pid, &facts);
	if (!may_name(a, owner, r < 0 ? owner : facts.uid, key)) {
		remove_name(a, a->rt->procs_fd, name);
		return;
	}
	r = registry_add(a->registry, id, key, &pidfd, &p);
	if (r < 0)
		a->again = true;
	else
		a->n_adopted += (uint64_t)r;
}

static void judge_link(struct adopt *a, const char *name)
{
	struct process_id id;
	char key[JOB_LINK_SIZE];
	uid_t owner;
	int r;

	if (is_dots(name))
		return;
	if (job_proc_parse(name, &id.pidns, &id.nspid, &id.start) < 0) {
		remove_name(a, a->rt->procs_fd, name);
		return;
	}
	/* Most links are those that the broker has just made. */
	if (registry_find_named(a->registry, id.pidns, id.nspid, id.start))
		return;
	r = read_link(a->rt->procs_fd, name, &owner, key, sizeof key);
	if (r == -EINVAL)
		clear_name(a, a->rt->procs_fd, name);
	if (r < 0)
		return;
	(void)job_link_cut(key);
	id.pid = id.nspid;
	if (id.pidns == a->roots->own_pidns)
		take_link(a, name, owner, key, &id);
	else if (search_add(&a->search, id.nspid, id.start, true, name) < 0)
		a->again = true;
}

/* A job without members: as long as its root lives it is one. */
static void judge_pin(struct adopt *a, const char *name)
{
	char text[PATH_MAX], key[JOB_KEY_SIZE];
	struct job_key parsed;
	struct pin pin;
	struct job *j;
	uid_t owner;
	int r;

	if (is_dots(name))
		return;
	r = read_link(a->rt->jobs_fd, name, &owner, text, sizeof text);
	if (r == 0 && name[0] == '.' && is_ours(a, owner)) /* what job_node_publish() says */
		return;
	if (r == 0)
		r = job_key_parse(name, &parsed);
	if (r == -EINVAL || (r == 0 && ((!is_ours(a, owner) && owner != parsed.uid) ||
					pin_parse(text, &pin) < 0))) {
		(job_key_parse(name, &parsed) == 0 ? clear_name : remove_name)(a, a->rt->jobs_fd,
									       name);
		return;
	}
	if (r < 0)
		return;
	parsed.slot = 0;
	job_key_format(&parsed, key);
	r = registry_job_make(a->registry, key, &j);
	/* Beyond a user's share it is not kept for them: names without end for one process that
	 * lives would leave no room for the pins of others. */
	if (r == -EDQUOT && !is_ours(a, owner))
		remove_name(a, a->rt->jobs_fd, name);
	else if (r < 0)
		a->again = true;
}

/* --- reading the directories --- */

static void begin_reading(struct adopt *a)
{
	if (a->dir)
		(void)closedir(a->dir);
	a->dir = NULL;
	a->phase = ADOPT_PROCS;
	a->again = false;
}

bool adopt_reading(const struct adopt *a)
{
	return a->phase != ADOPT_IDLE;
}

bool adopt_complete(const struct adopt *a)
{
	return a->phase == ADOPT_IDLE && !a->again && a->search.wanted.n == 0;
}

static void read_step(struct adopt *a)
{
	int dir_fd = a->phase == ADOPT_PROCS ? a->rt->procs_fd : a->rt->jobs_fd;

	if (!a->dir) {
		int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		a->dir = fd >= 0 ? fdopendir(fd) : NULL;
		if (!a->dir) {
			(void)safe_close(fd);
			a->phase = ADOPT_IDLE;
			a->again = true;
			return;
		}
	}
	for (int i = 0; i < SLICE; i++) {
		struct dirent *e = readdir(a->dir);

		if (!e) {
			(void)closedir(a->dir);
			a->dir = NULL;
			a->phase = a->phase == ADOPT_PROCS ? ADOPT_JOBS : ADOPT_IDLE;
			if (a->phase == ADOPT_IDLE)
				search_begin(&a->search);
			return;
		}
		(a->phase == ADOPT_PROCS ? judge_link : judge_pin)(a, e->d_name);
	}
}

static void on_event(struct adopt *a, const struct inotify_event *e)
{
	if (e->mask & IN_Q_OVERFLOW) {
		begin_reading(a);
		return;
	}
	if (e->len == 0)
		return;
	if (e->wd == a->procs_wd)
		judge_link(a, e->name);
	else if (e->wd == a->jobs_wd)
		judge_pin(a, e->name);
}

bool adopt_read(struct adopt *a, bool only_some)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t n;

	for (int i = 0; !only_some || i < SOME_EVENTS; i++) {
		n = read(a->inotify_fd, buf, sizeof buf);
		if (n <= 0)
			return true;
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *e = (const void *)p;

			p += sizeof *e + e->len;
			on_event(a, e);
		}
	}
	return false;
}

/* --- what is numbered elsewhere --- */

struct found {
	struct adopt *adopt;
	uint64_t now_usec;
};

static void on_found(void *userdata, bool link, const char *name, pid_t pid)
{
	struct found *f = userdata;
	struct adopt *a = f->adopt;
	struct process_id id = {.pid = pid};
	char key[JOB_LINK_SIZE];
	struct job *j;
	uid_t owner;

	if (!link) {
		j = registry_job(a->registry, name);
		if (!j || j->root != ROOT_UNKNOWN)
			return;
		if (pid > 0)
			roots_set_process(a->roots, j, pid, f->now_usec);
		else
			roots_set_gone(a->roots, j, f->now_usec);
		return;
	}
	if (pid == 0)
		remove_name(a, a->rt->procs_fd, name);
	else if (job_proc_parse(name, &id.pidns, &id.nspid, &id.start) == 0 &&
		 read_link(a->rt->procs_fd, name, &owner, key, sizeof key) == 0) {
		(void)job_link_cut(key);
		take_link(a, name, owner, key, &id);
	}
}

void adopt_find_root(struct adopt *a, const struct job *j)
{
	if (search_add(&a->search, j->parsed.pid, j->parsed.start, false, j->key) < 0)
		a->again = true;
}

bool adopt_pending(const struct adopt *a)
{
	return adopt_reading(a) || search_running(&a->search);
}

void adopt_step(struct adopt *a, uint64_t now_usec)
{
	struct found f = {a, now_usec};

	if (adopt_reading(a))
		read_step(a);
	else if (search_running(&a->search))
		search_step(&a->search, on_found, &f);
}

bool adopt_needs_sweep(const struct adopt *a)
{
	return a->again || (a->search.wanted.n > 0 && !search_running(&a->search));
}

void adopt_sweep(struct adopt *a, uint64_t now_usec)
{
	if (a->again && !adopt_reading(a) && now_usec - a->read_usec >= AGAIN_USEC) {
		a->read_usec = now_usec;
		begin_reading(a);
	}
	search_begin(&a->search);
}
