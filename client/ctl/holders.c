/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "client/ctl/workers.h"
#include "common/util.h"

bool holders_maps_line(const char *line)
{
	static const char *const names[] = {"libcuda.so", "libnccl.so"};
	/* The path begins after five fields; it may hold blanks itself. */
	const char *path = strchr(line, '/'), *base = path ? strrchr(path, '/') : NULL;

	for (size_t i = 0; base && i < ARRAY_SIZE(names); i++)
		if (startswith(base + 1, names[i]))
			return true;
	return false;
}

static bool holds(int proc_fd, pid_t pid)
{
	_cleanup_(closep) int fd = -EBADF;
	_cleanup_(fclosep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	char path[64];
	size_t size = 0;

	(void)snprintf(path, sizeof path, "%d/maps", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!f)
		return false;
	(void)TAKE_FD(fd);
	while (getline(&line, &size, f) > 0)
		if (holders_maps_line(line))
			return true;
	return false;
}

static int add_pid(struct holders *h, const char *key, uid_t uid, pid_t pid, bool pinned)
{
	struct holder *item = NULL, *items;
	pid_t *pids;

	for (size_t i = 0; i < h->n && !item; i++)
		if (streq(h->items[i].key, key))
			item = &h->items[i];
	if (!item) {
		items = reallocarray(h->items, h->n + 1, sizeof *items);
		if (!items)
			return -ENOMEM;
		h->items = items;
		item = &h->items[h->n];
		*item = (struct holder){.key = strdup(key), .uid = uid, .pinned = pinned};
		if (!item->key)
			return -ENOMEM;
		h->n++;
	}
	pids = reallocarray(item->pids, item->n_pids + 1, sizeof *pids);
	if (!pids)
		return -ENOMEM;
	item->pids = pids;
	item->pids[item->n_pids++] = pid;
	return 0;
}

static int look_at(const struct published *p, const struct job_source *base, uint64_t own_pidns,
		   uid_t viewer, pid_t pid, struct holders *h)
{
	struct job_source source = *base;
	struct job_subject subject = {.pid = pid, .pidns = own_pidns};
	struct proc_facts proc;
	struct job_facts facts;
	struct stat st;
	struct pin pin;
	char path[64];

	if (procfs_facts(base->proc_fd, pid, &proc) < 0 ||
	    (viewer != WORKERS_EVERYONE && proc.uid != viewer) || !holds(base->proc_fd, pid))
		return 0;
	(void)snprintf(path, sizeof path, "%d/ns/pid", (int)pid);
	if (fstatat(base->proc_fd, path, &st, 0) == 0)
		subject.pidns = st.st_ino;
	source.same_pidns = subject.pidns == own_pidns;
	subject.uid = proc.uid;
	if (job_find(&source, &subject, &facts) < 0)
		return 0;
	return add_pid(h, facts.key, proc.uid, pid,
		       pin_read(&p->runtime, facts.key, proc.uid, &pin) == 0);
}

int holders_find(const struct published *p, uid_t viewer, struct holders *ret)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closep) int cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(holders_done) struct holders h = {0};
	struct job_source source = {
		.proc_fd = proc_fd, .cgroup_fd = cgroup_fd, .rt = &p->runtime, .assign = p->assign};
	struct stat st;
	DIR *dir;
	int r = 0, list_fd;

	if (proc_fd < 0 || fstatat(proc_fd, "self/ns/pid", &st, 0) < 0)
		return -ENOSYS;
	list_fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = list_fd >= 0 ? fdopendir(list_fd) : NULL;
	if (!dir) {
		r = -errno;
		(void)safe_close(list_fd);
		return r;
	}
	for (struct dirent *e; r >= 0 && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			r = look_at(p, &source, st.st_ino, viewer,
				    (pid_t)strtol(e->d_name, NULL, 10), &h);
	(void)closedir(dir);
	if (r < 0)
		return r;
	*ret = h;
	h = (struct holders){0};
	return 0;
}

void holders_pin(const struct published *p, struct holders *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct holder *item = &h->items[i];
		struct pin pin;
		int r;

		if (item->pinned)
			continue;
		r = pin_settle(&p->runtime, item->key, item->uid, "", &pin);
		/* 0: somebody was faster, and that job has its pin. */
		item->pinned = r == 0;
		item->error = r < 0 ? r : 0;
	}
}

void holders_done(struct holders *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->items[i].key);
		free(h->items[i].pids);
	}
	free(h->items);
	*h = (struct holders){0};
}
