/* SPDX-License-Identifier: MIT */
/*
 * Readers of /proc. One open, read and close a file; the buffers are on the stack. A file that does
 * not fit is refused, except status, of which only the three NS lines are looked at (the Groups
 * line before them may be long).
 */
#include "common/procfs.h"

#include <sys/stat.h>

#include "common/util.h"

#define PATH_SIZE    40
#define STAT_SIZE    1024
#define STATUS_SIZE  4096        /* holds the three NS lines of 32 namespaces */
#define UID_MAP_SIZE (16 * 1024) /* 340 lines are the kernel's limit */

/* "PID/NAME", or "self/NAME" for 0; without NAME the directory. */
static void proc_path(pid_t pid, const char *name, char ret[PATH_SIZE])
{
	char digits[16], *d = digits + sizeof digits, *p = ret;
	unsigned n = (unsigned)pid;

	if (pid == 0) {
		p = stpcpy(p, "self");
	} else {
		*--d = '\0';
		do
			*--d = (char)('0' + n % 10);
		while ((n /= 10) > 0);
		p = stpcpy(p, d);
	}
	if (name) {
		*p++ = '/';
		(void)stpcpy(p, name);
	}
}

/* What /proc says when a process has gone. */
static int gone(int error)
{
	return error == ENOENT ? -ESRCH : -error;
}

static int open_file(int proc_fd, pid_t pid, const char *name)
{
	char path[PATH_SIZE];
	int fd;

	if (pid < 0)
		return -ESRCH;
	proc_path(pid, name, path);
	do
		fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? gone(errno) : fd;
}

/* Appends what FD still has to the TEXT of *USED bytes. -E2BIG: there is more than fits. */
static int read_more(int fd, char *text, size_t size, size_t *used, bool once)
{
	ssize_t n;

	do {
		n = read(fd, text + *used, size - 1 - *used);
		if (n < 0 && errno != EINTR)
			return gone(errno);
		if (n > 0)
			*used += (size_t)n;
		text[*used] = '\0';
		if (*used == size - 1)
			return -E2BIG;
	} while ((n < 0 || !once) && n != 0);
	return n > 0;
}

/* The whole file; NUL bytes in it end the text. */
static int read_text(int fd, char *text, size_t size)
{
	size_t used = 0;
	int r;

	r = read_more(fd, text, size, &used, false);
	return r < 0 ? r : used > 0 ? 0 : -ESRCH;
}

int procfs_number(const char **s, uint64_t max, uint64_t *ret)
{
	const char *p = *s;
	uint64_t n = 0;

	if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9'))
		return -EBADMSG;
	for (; *p >= '0' && *p <= '9'; p++) {
		unsigned digit = (unsigned)(*p - '0');

		if (n > (max - digit) / 10)
			return -EBADMSG;
		n = n * 10 + digit;
	}
	*s = p;
	*ret = n;
	return 0;
}

/* One blank and a number, which may be negative. */
static int field(const char **s, uint64_t max, int64_t *ret)
{
	uint64_t n;
	bool negative;

	if (**s != ' ')
		return -EBADMSG;
	(*s)++;
	negative = **s == '-';
	*s += negative;
	if (procfs_number(s, max, &n) < 0 || (negative && n > INT64_MAX))
		return -EBADMSG;
	*ret = negative ? -(int64_t)n : (int64_t)n;
	return 0;
}

static int skip_fields(const char **s, unsigned n)
{
	int64_t ignored;

	while (n-- > 0)
		if (field(s, UINT64_MAX, &ignored) < 0)
			return -EBADMSG;
	return 0;
}

/* The comm may hold anything; behind it stand one letter and numbers, so the last parenthesis ends
 * it. */
int procfs_parse_stat(const char *text, struct proc_facts *ret)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')'), *s;
	int64_t ppid, pgrp, session, tty, start;
	size_t n;

	if (!open || !close || close < open || close[1] != ' ' || close[2] == '\0')
		return -EBADMSG;
	s = close + 3;
	if (field(&s, INT32_MAX, &ppid) < 0 || field(&s, INT32_MAX, &pgrp) < 0 ||
	    field(&s, INT32_MAX, &session) < 0 || field(&s, INT32_MAX, &tty) < 0 ||
	    skip_fields(&s, 14) < 0 || field(&s, INT64_MAX, &start) < 0)
		return -EBADMSG;
	if (ppid < 0 || start < 0 || (*s != ' ' && *s != '\n' && *s != '\0'))
		return -EBADMSG;
	n = (size_t)(close - open - 1);
	if (n >= sizeof ret->comm)
		n = sizeof ret->comm - 1;
	memcpy(ret->comm, open + 1, n);
	ret->comm[n] = '\0';
	ret->ppid = (pid_t)ppid;
	ret->pgrp = (pid_t)pgrp;
	ret->session = (pid_t)session;
	ret->tty_nr = (int)tty;
	ret->start = (uint64_t)start;
	return 0;
}

int procfs_open(int proc_fd, pid_t pid)
{
	return open_file(proc_fd, pid, "stat");
}

int procfs_read(int proc_fd, int stat_fd, pid_t pid, struct proc_facts *ret)
{
	struct proc_facts facts = {.pid = pid, .uid = (uid_t)-1};
	char path[PATH_SIZE], text[STAT_SIZE];
	struct stat st;
	ssize_t n;
	int r;

	/* Before the read: it fails unless the process still is, and then this was its directory.
	 */
	if (proc_fd >= 0) {
		proc_path(pid, NULL, path);
		if (fstatat(proc_fd, path, &st, 0) < 0)
			return gone(errno);
		facts.uid = st.st_uid;
	}
	/* One read returns the whole line. */
	do
		n = pread(stat_fd, text, sizeof text - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return gone(errno);
	if (n == 0)
		return -ESRCH;
	if ((size_t)n == sizeof text - 1)
		return -EBADMSG;
	text[n] = '\0';
	r = procfs_parse_stat(text, &facts);
	if (r < 0)
		return r;
	*ret = facts;
	return 0;
}

int procfs_facts(int proc_fd, pid_t pid, struct proc_facts *ret)
{
	_cleanup_(closep) int fd = procfs_open(proc_fd, pid);

	return fd < 0 ? fd : procfs_read(proc_fd, fd, pid, ret);
}

/* The numbers behind the line that begins with NAME: the last one, and how many. -ENODATA: no such
 * line, or it is cut. */
static int last_number(const char *text, const char *name, pid_t *ret, unsigned *ret_n)
{
	const char *line = strstr(text, name), *s;
	unsigned n = 0;
	uint64_t number = 0;

	if (!line)
		return -ENODATA;
	for (s = line + strlen(name); *s == '\t'; n++) {
		s++;
		if (procfs_number(&s, INT32_MAX, &number) < 0)
			return *s ? -EBADMSG : -ENODATA;
	}
	if (*s != '\n')
		return *s ? -EBADMSG : -ENODATA;
	if (n == 0)
		return -EBADMSG;
	*ret = (pid_t)number;
	if (ret_n)
		*ret_n = n;
	return 0;
}

/* The kernel escapes newlines in the Name line, so that no process writes a line of its own. */
int procfs_parse_ns(const char *text, struct proc_ns *ret)
{
	struct proc_ns ns;
	int r;

	r = last_number(text, "\nNSpid:", &ns.pid, &ns.depth);
	if (r == 0)
		r = last_number(text, "\nNSpgid:", &ns.pgrp, NULL);
	if (r == 0)
		r = last_number(text, "\nNSsid:", &ns.session, NULL);
	if (r == 0)
		*ret = ns;
	return r;
}

/* Drops what stands before the NSpid line, or, while that has not come, all but what may be its
 * beginning. */
static void drop_before_ns(char *text, size_t *used)
{
	const char *ns = strstr(text, "\nNSpid:");
	size_t keep = ns ? *used - (size_t)(ns - text) : *used < 8 ? *used : 8;

	memmove(text, text + *used - keep, keep);
	text[keep] = '\0';
	*used = keep;
}

int procfs_ns(int proc_fd, pid_t pid, struct proc_ns *ret)
{
	_cleanup_(closep) int fd = open_file(proc_fd, pid, "status");
	char text[STATUS_SIZE] = "";
	size_t used = 0;
	int r, more;

	if (fd < 0)
		return fd;
	do {
		drop_before_ns(text, &used);
		if (used == sizeof text - 1)
			return -EBADMSG;
		more = read_more(fd, text, sizeof text, &used, true);
		if (more < 0 && more != -E2BIG)
			return more;
		r = procfs_parse_ns(text, ret);
	} while (r == -ENODATA && more != 0);
	return used == 0 ? -ESRCH : r;
}

int procfs_nspid(int proc_fd, pid_t pid, pid_t *ret_nspid, unsigned *ret_depth)
{
	struct proc_ns ns;
	int r;

	r = procfs_ns(proc_fd, pid, &ns);
	if (r < 0)
		return r;
	*ret_nspid = ns.pid;
	*ret_depth = ns.depth;
	return 0;
}

/* ID:CONTROLLERS:PATH; the path may hold colons, and no newline. Lines beyond the array are left
 * out. */
int procfs_parse_cgroups(struct proc_cgroups *cgroups)
{
	char *line = cgroups->text;

	cgroups->n = 0;
	while (*line != '\0' && cgroups->n < PROC_CGROUP_LINES) {
		char *end = strchr(line, '\n'), *controllers, *path;

		if (!end)
			return -EBADMSG;
		*end = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path || path[1] != '/')
			return -EBADMSG;
		*path = '\0';
		cgroups->lines[cgroups->n].controllers = controllers + 1;
		cgroups->lines[cgroups->n].path = path + 1;
		cgroups->n++;
		line = end + 1;
	}
	return 0;
}

int procfs_cgroups(int proc_fd, pid_t pid, struct proc_cgroups *ret)
{
	_cleanup_(closep) int fd = open_file(proc_fd, pid, "cgroup");
	int r;

	ret->n = 0;
	if (fd < 0)
		return fd;
	r = read_text(fd, ret->text, sizeof ret->text);
	if (r < 0)
		return r == -E2BIG ? -ENAMETOOLONG : r;
	r = procfs_parse_cgroups(ret);
	if (r < 0)
		ret->n = 0;
	return r;
}

/* A number of uid_map, after its blanks. */
static int map_number(const char **s, uint64_t *ret)
{
	*s += strspn(*s, " ");
	return procfs_number(s, UINT32_MAX, ret);
}

int procfs_parse_uid_map(const char *text, uid_t uid, uid_t *ret)
{
	uint64_t inside, outside, count;

	for (const char *s = text; *s != '\0'; s++) {
		if (map_number(&s, &inside) < 0 || map_number(&s, &outside) < 0 ||
		    map_number(&s, &count) < 0 || *s != '\n')
			return -EBADMSG;
		if (uid >= inside && uid - inside < count) {
			*ret = (uid_t)(outside + (uid - inside));
			return 0;
		}
	}
	return -ENOENT;
}

int procfs_outer_uid(int proc_fd, pid_t pid, uid_t uid, uid_t *ret)
{
	_cleanup_(closep) int fd = open_file(proc_fd, pid, "uid_map");
	char text[UID_MAP_SIZE];
	int r;

	if (fd < 0)
		return fd;
	r = read_text(fd, text, sizeof text);
	return r < 0 ? r : procfs_parse_uid_map(text, uid, ret);
}
