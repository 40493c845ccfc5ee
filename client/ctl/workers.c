/* SPDX-License-Identifier: MIT */
/*
 * Three passes over one list of /proc: who is registered, who was forked off one of those, and for
 * both the job, its pin and what a new job would get. A process that vanishes between two of them
 * stays unlisted.
 */
#include "config.h"

#include "client/ctl/workers.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "client/ctl/execblock.h"
#include "client/ctl/subject.h"
#include "client/ctl/table.h"
#include "common/ranks.h"
#include "common/util.h"

#define CMDLINE_MAX 4096
#define CHAIN_MAX   JOB_DEPTH_MAX

struct scan {
	const struct published *published;
	int proc_fd, cgroup_fd;
	uint64_t own_pidns;
	uid_t viewer;
	struct workers *out;
};

static int by_pid(const void *a, const void *b)
{
	const struct worker *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct worker *find_pid(const struct workers *w, pid_t pid)
{
	struct worker wanted = {.pid = pid};

	return w->n > 0 ? bsearch(&wanted, w->items, w->n, sizeof wanted, by_pid) : NULL;
}

static ssize_t read_file(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_(closep) int fd = -EBADF;
	char path[64];
	size_t used = 0;

	(void)snprintf(path, sizeof path, "%d/%s", (int)pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (used + 1 < size) {
		ssize_t n = read(fd, buf + used, size - used - 1);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	buf[used] = '\0';
	return (ssize_t)used;
}

/* Field 3 (state) and field 28 (start of the stack) of stat; the name before them may hold
 * anything. */
static int read_stat(int proc_fd, pid_t pid, char *ret_state, uint64_t *ret_stack)
{
	char buf[2048], *p;

	if (read_file(proc_fd, pid, "stat", buf, sizeof buf) <= 0)
		return -ESRCH;
	p = strrchr(buf, ')');
	if (!p || p[1] != ' ' || !p[2])
		return -EBADMSG;
	*ret_state = p[2];
	p++;
	for (int field = 3; field < 28; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			return -EBADMSG;
	}
	*ret_stack = strtoull(p, NULL, 10);
	return 0;
}

static char *read_exe(int proc_fd, pid_t pid)
{
	char path[64], target[PATH_MAX];
	ssize_t n;

	(void)snprintf(path, sizeof path, "%d/exe", (int)pid);
	n = readlinkat(proc_fd, path, target, sizeof target - 1);
	if (n <= 0)
		return NULL;
	target[n] = '\0';
	return strdup(target);
}

/* Namespace and number of a process: those of another user's cannot be read, and are then taken for
 * our own. */
static void read_namespace(const struct scan *s, struct worker *w)
{
	char path[64];
	struct stat st;
	unsigned depth;

	w->pidns = s->own_pidns;
	w->nspid = w->pid;
	(void)snprintf(path, sizeof path, "%d/ns/pid", (int)w->pid);
	if (fstatat(s->proc_fd, path, &st, 0) == 0)
		w->pidns = st.st_ino;
	if (w->pidns != s->own_pidns)
		(void)procfs_nspid(s->proc_fd, w->pid, &w->nspid, &depth);
}

static int add_process(struct scan *s, pid_t pid, size_t *allocated)
{
	struct workers *out = s->out;
	struct proc_facts facts;
	struct worker w = {.pid = pid, .stale = TRI_UNKNOWN, .job_stale = TRI_UNKNOWN};
	char state = 0;

	if (procfs_facts(s->proc_fd, pid, &facts) < 0 ||
	    read_stat(s->proc_fd, pid, &state, &w.stack) < 0 || state == 'Z' || state == 'X')
		return 0;
	w.ppid = facts.ppid;
	w.uid = facts.uid;
	w.start = facts.start;
	read_namespace(s, &w);
	if (out->n == *allocated) {
		size_t n = *allocated ? 2 * *allocated : 256;
		struct worker *items = reallocarray(out->items, n, sizeof *items);

		if (!items)
			return -ENOMEM;
		out->items = items;
		*allocated = n;
	}
	out->items[out->n++] = w;
	return 0;
}

static int list_processes(struct scan *s)
{
	_cleanup_(closep) int fd = openat(s->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	size_t allocated = 0;
	int r = 0;

	if (!dir)
		return -errno;
	(void)TAKE_FD(fd);
	for (struct dirent *e; r >= 0 && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			r = add_process(s, (pid_t)strtol(e->d_name, NULL, 10), &allocated);
	(void)closedir(dir);
	if (s->out->n > 0)
		qsort(s->out->items, s->out->n, sizeof *s->out->items, by_pid);
	return r;
}

static bool wanted(const struct scan *s, const struct worker *w)
{
	return s->viewer == WORKERS_EVERYONE || w->uid == s->viewer;
}

/* The job that the link NAME gives W. Only the broker's may name another uid's (W's has changed
 * since): by one of its own a process would put itself into the job of a stranger, who would then
 * be released to what the rules give that process. */
static bool read_key(const struct runtime *rt, const char *name, struct worker *w,
		     char key[JOB_LINK_SIZE])
{
	struct job_key parts;
	const char *digest;

	if (rt->procs_fd < 0 ||
	    runtime_readlink(rt, rt->procs_fd, name, w->uid, key, JOB_LINK_SIZE) < 0)
		return false;
	digest = job_link_cut(key);
	if (job_key_parse(key, &parts) < 0)
		return false;
	(void)snprintf(w->answered, sizeof w->answered, "%s", digest);
	return parts.uid == w->uid ||
	       (runtime_readlink(rt, rt->procs_fd, name, 0, key, JOB_LINK_SIZE) == 0 &&
		job_link_cut(key) && job_key_parse(key, &parts) == 0);
}

/* What W was answered with, from the text that its link or its parent's has: the beginning of one of
 * the job's digests, or none; the job's present one where it tells nothing. */
static void find_answered(const struct worker_job *job, struct worker *w)
{
	const char *found = job->snapshot;
	size_t n = strlen(w->answered);

	if (streq(w->answered, "none"))
		found = "";
	for (unsigned i = 0; n >= 12 && i < job->n_former; i++)
		if (strncmp(job->snapshot, w->answered, n) != 0 &&
		    strncmp(job->former[i], w->answered, n) == 0)
			found = job->former[i];
	memmove(w->answered, found, strlen(found) + 1);
}

static void find_registered(struct scan *s)
{
	const struct runtime *rt = &s->published->runtime;
	char name[JOB_PROC_SIZE], key[JOB_LINK_SIZE];

	for (size_t i = 0; i < s->out->n; i++) {
		struct worker *w = &s->out->items[i];

		job_proc_format(w->pidns, w->nspid, w->start, name);
		if (!read_key(rt, name, w, key))
			continue;
		w->registered = true;
		w->key = strdup(key);
		w->exe = read_exe(s->proc_fd, w->pid);
	}
}

/* The registered process that W was forked off, through any number of forks. */
static const struct worker *forked_off(const struct scan *s, struct worker *w)
{
	const struct worker *parent = w;

	for (int depth = 0; depth < CHAIN_MAX; depth++) {
		parent = find_pid(s->out, parent->ppid);
		if (!parent || w->stack == 0 || parent->stack != w->stack || parent->uid != w->uid)
			return NULL;
		if (!parent->registered)
			continue;
		w->exe = read_exe(s->proc_fd, w->pid);
		return w->exe && parent->exe && streq(w->exe, parent->exe) ? parent : NULL;
	}
	return NULL;
}

static void find_forked(struct scan *s)
{
	for (size_t i = 0; i < s->out->n; i++) {
		struct worker *w = &s->out->items[i];
		const struct worker *parent = w->registered ? NULL : forked_off(s, w);

		if (!parent || !parent->key)
			continue;
		w->key = strdup(parent->key);
		w->forked_off = parent->pid;
		memcpy(w->answered, parent->answered, sizeof w->answered);
	}
}

static bool has_registered_ancestor(const struct workers *out, const struct worker *w)
{
	const struct worker *parent = w;

	for (int depth = 0; depth < CHAIN_MAX; depth++) {
		parent = find_pid(out, parent->ppid);
		if (!parent)
			return false;
		if (parent->registered && parent->key && streq(parent->key, w->key))
			return true;
	}
	return false;
}

static void find_started(const struct scan *s, struct worker *w)
{
	char cmdline[CMDLINE_MAX];
	ssize_t n = read_file(s->proc_fd, w->pid, "cmdline", cmdline, sizeof cmdline);

	w->started = n > 0 ? started_classify(cmdline, (size_t)n) : STARTED_OTHER;
	/* A fork shows its parent's command line: of a server it tells what the child is, else
	 * nothing. */
	if (!w->registered && w->started != STARTED_FORKSERVER)
		w->started = STARTED_FORK;
	else if (w->started == STARTED_OTHER && !has_registered_ancestor(s->out, w))
		w->started = STARTED_MAIN;
}

static void find_unit_and_stale(const struct scan *s, struct worker *w)
{
	const struct assign *assign = s->published->assign;
	const struct subject_source source = {s->published, s->proc_fd, s->cgroup_fd, s->own_pidns};
	_cleanup_(subject_done) struct subject subject;
	const char *rule, *now;

	subject_of(&source, w, &subject);
	if (subject.unit[0])
		w->unit = strdup(subject.unit);
	if (subject.cgroup[0])
		w->cgroup = strdup(subject.cgroup);
	if (!assign || !w->pin_known)
		return;
	now = assign->mode == MODE_ON ? assign_choose(assign, &subject.match, &rule) : "";
	w->stale = streq(now, w->answered) ? TRI_NO : TRI_YES;
	w->job_stale = streq(now, w->snapshot) ? TRI_NO : TRI_YES;
}

static void find_required(const struct scan *s, struct worker *w)
{
	_cleanup_(exec_block_done) struct exec_block block = {.state = EXEC_BLOCK_DENIED};
	const char *required;

	exec_block_read(s->proc_fd, w->pid, &block);
	required = exec_block_find(&block, "CUDAENV_REQUIRE");
	/* Anybody's text; what is longer is no digest anyhow. */
	w->required = required ? strndup(required, DIGEST_HEX) : NULL;
	w->required_met = required && ranks_met(&s->published->runtime, required, w->answered);
	/* Whatever the rules say: in its place the same would be asked for. */
	if (w->required_met)
		w->stale = w->job_stale = TRI_NO;
}

static int by_key(const void *a, const void *b)
{
	const struct worker_job *x = a, *y = b;

	return strcmp(x->key, y->key);
}

const struct worker_job *workers_job(const struct workers *w, const char *key)
{
	struct worker_job wanted_job = {.key = (char *)key};

	return key && w->n_jobs > 0
		       ? bsearch(&wanted_job, w->jobs, w->n_jobs, sizeof wanted_job, by_key)
		       : NULL;
}

static pid_t find_root(const struct scan *s, const struct job_key *parts)
{
	const struct workers *out = s->out;
	const struct worker *root;

	if (parts->kind != JOB_TREE)
		return 0;
	root = parts->pidns == s->own_pidns ? find_pid(out, parts->pid) : NULL;
	if (root)
		return root->start == parts->start ? root->pid : 0;
	for (size_t i = 0; parts->pidns != s->own_pidns && i < out->n; i++) {
		const struct worker *w = &out->items[i];

		if (w->pidns == parts->pidns && w->nspid == parts->pid && w->start == parts->start)
			return w->pid;
	}
	return 0;
}

/* NAME: of a pin or a key, whatever its slot. */
static int add_job(struct scan *s, const char *name)
{
	struct workers *out = s->out;
	struct worker_job job = {0}, *jobs;
	char key[JOB_KEY_SIZE];
	struct pin pin;

	if (job_key_parse(name, &job.parts) < 0 ||
	    (s->viewer != WORKERS_EVERYONE && job.parts.uid != s->viewer))
		return 0;
	job.parts.slot = 0;
	job_key_format(&job.parts, key);
	job.root_pid = find_root(s, &job.parts);
	job.pin_known = pin_read(&s->published->runtime, key, job.parts.uid, &pin) == 0;
	if (job.pin_known) {
		memcpy(job.snapshot, pin.digest, sizeof job.snapshot);
		memcpy(job.former, pin.former, sizeof job.former);
		job.n_former = pin.n_former;
	}
	job.key = strdup(key);
	jobs = reallocarray(out->jobs, out->n_jobs + 1, sizeof *jobs);
	if (jobs)
		out->jobs = jobs;
	if (!jobs || !job.key) {
		free(job.key);
		return -ENOMEM;
	}
	out->jobs[out->n_jobs++] = job;
	return 0;
}

static void sort_jobs(struct workers *out)
{
	size_t kept = 0;

	if (out->n_jobs == 0)
		return;
	qsort(out->jobs, out->n_jobs, sizeof *out->jobs, by_key);
	for (size_t i = 0; i < out->n_jobs; i++) {
		if (kept > 0 && streq(out->jobs[kept - 1].key, out->jobs[i].key))
			free(out->jobs[i].key);
		else
			out->jobs[kept++] = out->jobs[i];
	}
	out->n_jobs = kept;
}

/* Jobs that are pinned, then those that a process names although their pin is gone. */
static int list_jobs(struct scan *s)
{
	struct workers pinned;
	_cleanup_(closep) int fd = -EBADF;
	DIR *dir;
	int r = 0;

	if (s->published->runtime.jobs_fd >= 0)
		fd = openat(s->published->runtime.jobs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (dir) {
		(void)TAKE_FD(fd);
		for (struct dirent *e; r >= 0 && (e = readdir(dir));)
			r = add_job(s, e->d_name);
		(void)closedir(dir);
	}
	sort_jobs(s->out);
	for (size_t i = 0, n_pinned = s->out->n_jobs; r >= 0 && i < s->out->n; i++) {
		/* The sorted part alone is searched; what is added behind it may be there twice. */
		pinned = (struct workers){.jobs = s->out->jobs, .n_jobs = n_pinned};
		if (s->out->items[i].key && !workers_job(&pinned, s->out->items[i].key))
			r = add_job(s, s->out->items[i].key);
	}
	sort_jobs(s->out);
	return r;
}

static void count_members(struct workers *out)
{
	size_t kept = 0;

	for (size_t i = 0; i < out->n; i++) {
		struct worker *w = &out->items[i];
		struct worker_job *job = (struct worker_job *)workers_job(out, w->key);

		if (!job)
			continue;
		job->members++;
		w->pin_known = job->pin_known;
		memcpy(w->snapshot, job->snapshot, sizeof w->snapshot);
		find_answered(job, w);
	}
	/* A pin whose processes are all gone is the broker's to remove, and no job any more. */
	for (size_t i = 0; i < out->n_jobs; i++) {
		if (out->jobs[i].members > 0 || out->jobs[i].root_pid > 0)
			out->jobs[kept++] = out->jobs[i];
		else
			free(out->jobs[i].key);
	}
	out->n_jobs = kept;
}

void worker_done(struct worker *w)
{
	free(w->exe);
	free(w->unit);
	free(w->cgroup);
	free(w->key);
	free(w->required);
}

static void keep_listed(const struct scan *s)
{
	struct workers *out = s->out;
	size_t kept = 0;

	for (size_t i = 0; i < out->n; i++) {
		if (out->items[i].key && wanted(s, &out->items[i]))
			out->items[kept++] = out->items[i];
		else
			worker_done(&out->items[i]);
	}
	out->n = kept;
}

/* With thousands of each, a look at all processes for every job takes seconds. */
static void link_members(struct workers *out)
{
	for (size_t i = 0; i < out->n_jobs; i++)
		out->jobs[i].first = WORKERS_NONE;
	for (size_t i = out->n; i > 0; i--) {
		struct worker *w = &out->items[i - 1];
		struct worker_job *job = (struct worker_job *)workers_job(out, w->key);

		w->next = job ? job->first : WORKERS_NONE;
		if (job)
			job->first = i - 1;
	}
}

/* /proc shows threads by number as well, without listing them. */
static bool is_thread(int proc_fd, pid_t pid)
{
	char buf[4096], *line;

	if (read_file(proc_fd, pid, "status", buf, sizeof buf) <= 0)
		return false;
	line = strstr(buf, "\nTgid:");
	return line && strtol(line + STRLEN("\nTgid:"), NULL, 10) != pid;
}

int workers_look(const struct published *published, pid_t pid, struct worker *ret)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closep) int cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(workers_done) struct workers out = {0};
	struct scan s = {published, proc_fd, cgroup_fd, 0, WORKERS_EVERYONE, &out};
	size_t allocated = 0;
	struct stat st;
	int r;

	if (proc_fd < 0 || fstatat(proc_fd, "self/ns/pid", &st, 0) < 0)
		return -ENOSYS;
	s.own_pidns = st.st_ino;
	r = is_thread(proc_fd, pid) ? 0 : add_process(&s, pid, &allocated);
	if (r < 0 || out.n == 0)
		return r < 0 ? r : -ESRCH;
	out.items[0].exe = read_exe(proc_fd, pid);
	find_unit_and_stale(&s, &out.items[0]);
	find_required(&s, &out.items[0]);
	*ret = out.items[0];
	out.n = 0;
	return 0;
}

int workers_collect(const struct published *published, uid_t viewer, struct workers *ret)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closep) int cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(workers_done) struct workers out = {0};
	struct scan s = {published, proc_fd, cgroup_fd, 0, viewer, &out};
	struct stat st;
	int r;

	if (proc_fd < 0 || fstatat(proc_fd, "self/ns/pid", &st, 0) < 0)
		return -ENOSYS;
	s.own_pidns = st.st_ino;
	r = list_processes(&s);
	if (r < 0)
		return r;
	find_registered(&s);
	find_forked(&s);
	for (size_t i = 0; i < out.n; i++)
		if (out.items[i].key)
			find_started(&s, &out.items[i]);
	r = list_jobs(&s);
	if (r < 0)
		return r;
	count_members(&out);
	keep_listed(&s);
	link_members(&out);
	for (size_t i = 0; i < out.n; i++) {
		find_unit_and_stale(&s, &out.items[i]);
		find_required(&s, &out.items[i]);
	}
	*ret = out;
	out = (struct workers){0};
	return 0;
}

bool workers_of_others(const struct published *published, uid_t viewer)
{
	_cleanup_(closep) int fd = -EBADF;
	bool found = false;
	struct stat st;
	DIR *dir;

	if (published->runtime.procs_fd >= 0)
		fd = openat(published->runtime.procs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return false;
	(void)TAKE_FD(fd);
	for (struct dirent *e; !found && (e = readdir(dir));)
		found = e->d_name[0] != '.' &&
			fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISLNK(st.st_mode) && st.st_uid != viewer;
	(void)closedir(dir);
	return found;
}

void workers_done(struct workers *w)
{
	for (size_t i = 0; i < w->n; i++)
		worker_done(&w->items[i]);
	free(w->items);
	for (size_t i = 0; i < w->n_jobs; i++)
		free(w->jobs[i].key);
	free(w->jobs);
	*w = (struct workers){0};
}

bool workers_job_stale(const struct workers *w, const struct worker_job *job)
{
	for (size_t i = job->first; i != WORKERS_NONE; i = w->items[i].next)
		if (w->items[i].job_stale == TRI_YES)
			return true;
	return false;
}

const char *workers_job_unit(const struct workers *w, const struct worker_job *job)
{
	for (size_t i = job->first; i != WORKERS_NONE; i = w->items[i].next)
		if (w->items[i].unit)
			return w->items[i].unit;
	return NULL;
}

int workers_key_shown(const char *key)
{
	const char *dot = ctl_terminal() ? strchr(key, '.') : NULL;

	return dot ? (int)(dot - key) + 1 + DIGEST_SHOWN : (int)strlen(key);
}
