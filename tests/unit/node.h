/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A node made of plain files in a temporary folder: /proc (as one or more viewers see it),
 * /sys/fs/cgroup and a runtime directory. For tests of the modules that read those by descriptor.
 * Everything is removed by node_done().
 */
#include <ftw.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "common/job.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C64 "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

/* Beyond pid_max, so that no process of this machine has such a number. */
#define P(n) (5000000 + (n))

struct node {
	char dir[64];
	int proc_fd;
	int inner_fd; /* /proc of a pid namespace below: numbers are those of node_process.inner */
	int cgroup_fd;
	struct runtime rt;
	struct assign *assign;
};

struct node_process {
	pid_t pid, ppid;
	pid_t inner, inner_ppid; /* 0: not in the inner namespace */
	pid_t session, pgrp;     /* 0: one's own */
	int tty;
	uint64_t start; /* 0: 1000 */
	uid_t uid;      /* 0: that of the test */
	const char *comm;
	const char *cgroup; /* text of the file; NULL: none */
	const char *inner_cgroup;
};

_printf_(3, 0) static inline void node_path(const struct node *n, char ret[512], const char *format,
					    va_list ap)
{
	int used = snprintf(ret, 512, "%s/", n->dir);

	check(vsnprintf(ret + used, 512 - (size_t)used, format, ap) < 512 - used);
}

_printf_(2, 3) static inline void node_mkdir(const struct node *n, const char *format, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, format);
	node_path(n, path, format, ap);
	va_end(ap);
	for (char *p = path + strlen(n->dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		check(mkdir(path, 0755) == 0 || errno == EEXIST);
	}
	check(mkdir(path, 0755) == 0 || errno == EEXIST);
}

static inline void node_write(const struct node *n, const char *name, const char *text, size_t size)
{
	char path[512];
	FILE *f;

	check(snprintf(path, sizeof path, "%s/%s", n->dir, name) < (int)sizeof path);
	f = fopen(path, "we");
	check(f && fwrite(text, 1, size, f) == size && fclose(f) == 0);
}

static inline uint64_t node_inode(const struct node *n, const char *name)
{
	char path[512];
	struct stat st;

	check(snprintf(path, sizeof path, "%s/%s", n->dir, name) < (int)sizeof path);
	check(stat(path, &st) == 0);
	return st.st_ino;
}

static inline int node_open(const struct node *n, const char *name)
{
	char path[512];
	int fd;

	check(snprintf(path, sizeof path, "%s/%s", n->dir, name) < (int)sizeof path);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	check(fd >= 0);
	return fd;
}

static inline void node_assign(struct node *n, const char *text)
{
	(void)assign_free(n->assign);
	n->assign = NULL;
	check(assign_parse(text, strlen(text), &n->assign, NULL) == 0);
}

#define NODE_ASSIGN(mode, fallback, more)                                                          \
	"cudaenv-assign 1\ngeneration 1\nmode " mode "\ndefault " fallback "\n" more "end\n"
#define NODE_BOUNDARIES                                                                            \
	"boundary sshd\nboundary tmux*\nsupervisor slurmd.service\nsupervisor cron.service\n"

static inline void node_init(struct node *n)
{
	char path[128];

	*n = (struct node){.rt = RUNTIME_NULL};
	(void)strcpy(n->dir, "/tmp/cudaenv-node-XXXXXX");
	check(mkdtemp(n->dir) && chmod(n->dir, 0755) == 0);
	node_mkdir(n, "proc");
	node_mkdir(n, "inner");
	node_mkdir(n, "cgroup");
	node_mkdir(n, "run/snapshots");
	node_mkdir(n, "run/jobs");
	node_mkdir(n, "run/procs");
	(void)snprintf(path, sizeof path, "%s/run/jobs", n->dir);
	check(chmod(path, 01777) == 0);
	(void)snprintf(path, sizeof path, "%s/run/procs", n->dir);
	check(chmod(path, 01777) == 0);
	(void)snprintf(path, sizeof path, "%s/run", n->dir);
	check(runtime_open(path, geteuid(), &n->rt) == 0);
	n->proc_fd = node_open(n, "proc");
	n->inner_fd = node_open(n, "inner");
	n->cgroup_fd = node_open(n, "cgroup");
	node_assign(n, NODE_ASSIGN("on", A64, NODE_BOUNDARIES));
	node_write(n, "run/snapshots/" A64, "a", 1);
	node_write(n, "run/snapshots/" B64, "b", 1);
}

static inline int node_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void node_done(struct node *n)
{
	n->assign = assign_free(n->assign);
	runtime_done(&n->rt);
	n->proc_fd = safe_close(n->proc_fd);
	n->inner_fd = safe_close(n->inner_fd);
	n->cgroup_fd = safe_close(n->cgroup_fd);
	check(nftw(n->dir, node_remove, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static inline void node_stat(const struct node *n, const char *tree, pid_t pid, pid_t ppid,
			     pid_t pgrp, pid_t session, const struct node_process *p)
{
	char name[64], text[512];
	int size;

	size = snprintf(text, sizeof text,
			"%d (%s) S %d %d %d %d -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 %llu 3133440 "
			"418 18446744073709551615 1 1\n",
			pid, p->comm ? p->comm : "python3", ppid, pgrp, session, p->tty,
			p->start ? (unsigned long long)p->start : 1000ull);
	(void)snprintf(name, sizeof name, "%s/%d/stat", tree, pid);
	node_write(n, name, text, (size_t)size);
}

static inline void node_status(const struct node *n, const struct node_process *p)
{
	char name[64], text[512], in[32] = "", in_pgrp[32] = "", in_session[32] = "";
	pid_t pgrp = p->pgrp ? p->pgrp : p->pid, session = p->session ? p->session : p->pid;
	int size;

	if (p->inner) {
		(void)snprintf(in, sizeof in, "\t%d", p->inner);
		(void)snprintf(in_pgrp, sizeof in_pgrp, "\t%d", pgrp == p->pid ? p->inner : 0);
		(void)snprintf(in_session, sizeof in_session, "\t%d",
			       session == p->pid ? p->inner : 0);
	}
	size = snprintf(text, sizeof text,
			"Name:\tx\nPid:\t%d\nGroups:\t1 2\nNStgid:\t%d%s\nNSpid:\t%d%s\n"
			"NSpgid:\t%d%s\nNSsid:\t%d%s\nKthread:\t0\n",
			p->pid, p->pid, in, p->pid, in, pgrp, in_pgrp, session, in_session);
	(void)snprintf(name, sizeof name, "proc/%d/status", p->pid);
	node_write(n, name, text, (size_t)size);
}

static inline void node_owner(const struct node *n, const char *tree, pid_t pid, uid_t uid)
{
	char path[128];

	(void)snprintf(path, sizeof path, "%s/%s/%d", n->dir, tree, pid);
	if (uid)
		check(chown(path, uid, (gid_t)-1) == 0);
}

/* Makes the process, in the outer view and, if it is in the inner namespace, in that view. */
static inline void node_add(const struct node *n, struct node_process p)
{
	char name[64];

	node_mkdir(n, "proc/%d", p.pid);
	node_stat(n, "proc", p.pid, p.ppid, p.pgrp ? p.pgrp : p.pid, p.session ? p.session : p.pid,
		  &p);
	node_status(n, &p);
	(void)snprintf(name, sizeof name, "proc/%d/cgroup", p.pid);
	if (p.cgroup)
		node_write(n, name, p.cgroup, strlen(p.cgroup));
	node_owner(n, "proc", p.pid, p.uid);
	if (!p.inner)
		return;
	node_mkdir(n, "inner/%d", p.inner);
	node_stat(n, "inner", p.inner, p.inner_ppid, p.pgrp && p.pgrp != p.pid ? 0 : p.inner,
		  p.session && p.session != p.pid ? 0 : p.inner, &p);
	(void)snprintf(name, sizeof name, "inner/%d/cgroup", p.inner);
	if (p.inner_cgroup)
		node_write(n, name, p.inner_cgroup, strlen(p.inner_cgroup));
	node_owner(n, "inner", p.inner, p.uid);
}

static inline void node_gone(const struct node *n, pid_t pid)
{
	char path[128];

	(void)snprintf(path, sizeof path, "%s/proc/%d", n->dir, pid);
	check(nftw(path, node_remove, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

/* A link in run/jobs or run/procs, made by UID (0: the test's). */
static inline void node_link(const struct node *n, const char *where, const char *name,
			     const char *text, uid_t uid)
{
	char path[512];

	check(snprintf(path, sizeof path, "%s/run/%s/%s", n->dir, where, name) < (int)sizeof path);
	check(symlink(text, path) == 0);
	if (uid)
		check(lchown(path, uid, (gid_t)-1) == 0);
}

static inline bool node_has_link(const struct node *n, const char *where, const char *name)
{
	char path[512];
	struct stat st;

	check(snprintf(path, sizeof path, "%s/run/%s/%s", n->dir, where, name) < (int)sizeof path);
	return lstat(path, &st) == 0;
}

#define NODE_PIDNS 4026531836u

static inline struct job_source node_source(const struct node *n)
{
	return (struct job_source){.proc_fd = n->proc_fd,
				   .cgroup_fd = n->cgroup_fd,
				   .rt = &n->rt,
				   .assign = n->assign,
				   .same_pidns = true};
}

static inline struct job_subject node_subject(pid_t pid)
{
	return (struct job_subject){.pid = pid, .uid = geteuid(), .pidns = NODE_PIDNS};
}

/* "tree-UID-PIDNS-PID-START" of a process of the test's uid. */
static inline const char *node_tree(pid_t pid, uint64_t start)
{
	static char ret[4][JOB_KEY_SIZE];
	static unsigned i;
	struct job_key k = {.kind = JOB_TREE,
			    .uid = geteuid(),
			    .pidns = NODE_PIDNS,
			    .pid = pid,
			    .start = start ? start : 1000};

	i = (i + 1) % 4;
	job_key_format(&k, ret[i]);
	return ret[i];
}
