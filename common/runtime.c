/* SPDX-License-Identifier: MIT */
/*
 * Opening and judging the runtime directory, and reading what is published in it. The path is
 * walked component by component, symlinks included, and each one is judged by the descriptor that
 * is then used, so nothing can be swapped between a check and its use. A directory that others may
 * write is accepted on the way only with the sticky bit: an entry there that belongs to root or
 * oneself cannot be replaced by anybody else.
 */
#include "common/runtime.h"

#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/util.h"

#define SYMLINKS_MAX         16
#define WRITABLE_BY_OTHERS   (S_IWGRP | S_IWOTH)
#define OVERFLOW_UID_DEFAULT 65534 /* where /proc does not tell */

/* Descriptors 0 to 2 may be closed in a process that we are a guest in; what it opens next must
 * still not be ours. */
static int above_stdio(int fd)
{
	int high, saved;

	if (fd < 0 || fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	saved = errno == EINVAL ? EMFILE : errno;
	(void)close(fd);
	errno = saved;
	return high;
}

/* A descriptor of at least 3, or negative errno. */
static int open_at(int dir_fd, const char *name, int flags)
{
	int fd;

	do
		fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	fd = above_stdio(fd);
	return fd < 0 ? -errno : fd;
}

/* Up to SIZE bytes from FD; less only at the end of the file. */
static ssize_t read_full(int fd, char *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, buf + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Text of a file in /proc, with a NUL; -EFBIG where BUF cannot hold it. */
static int read_proc(const char *path, char *buf, size_t size)
{
	_cleanup_(closep) int fd = open_at(AT_FDCWD, path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read_full(fd, buf, size);
	if (n < 0)
		return (int)n;
	if ((size_t)n == size)
		return -EFBIG;
	buf[n] = '\0';
	return 0;
}

/* The next decimal number of *TEXT, skipping blanks; false: there is none. */
static bool next_number(const char **text, uint64_t *ret)
{
	const char *s = *text;
	uint64_t n = 0;

	while (*s == ' ' || *s == '\t' || *s == '\n')
		s++;
	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (n > UINT32_MAX)
			return false;
		n = n * 10 + (uint64_t)(*s - '0');
	}
	*text = s;
	*ret = n;
	return true;
}

static uid_t overflow_uid(void)
{
	char buf[32] = "";
	const char *text = buf;
	uint64_t uid;

	if (read_proc("/proc/sys/kernel/overflowuid", buf, sizeof buf) < 0 ||
	    !next_number(&text, &uid))
		return OVERFLOW_UID_DEFAULT;
	return (uid_t)uid;
}

/* Does this user namespace leave out the uid 0 of the one around it? Where that cannot be told, it
 * does not. */
static bool root_unmapped(void)
{
	char buf[16 * 1024] = ""; /* 340 lines of three numbers are the kernel's limit */
	const char *text = buf;
	uint64_t inside, outside, count;

	if (read_proc("/proc/self/uid_map", buf, sizeof buf) < 0)
		return false;
	while (next_number(&text, &inside)) {
		if (!next_number(&text, &outside) || !next_number(&text, &count))
			return false;
		if (outside == 0 && count > 0)
			return false;
	}
	return *text == '\0' || streq(text, "\n");
}

/* A walk from / down. */
struct walk {
	uid_t self;
	int fd;          /* the directory that is reached */
	struct stat st;  /* of it */
	bool met_shared; /* a directory that others may write, with the sticky bit */
	bool overflow_known;
	bool overflow_is_root; /* files of root appear as OVERFLOW here */
	uid_t overflow;
};

static void walk_done(struct walk *w)
{
	w->fd = safe_close(w->fd);
}

/* The overflow uid stands for root only in a namespace that does not map root; only when it matters
 * /proc is asked. */
static bool stands_for_root(struct walk *w, uid_t uid)
{
	if (!w->overflow_known) {
		w->overflow = overflow_uid();
		w->overflow_is_root = root_unmapped();
		w->overflow_known = true;
	}
	return w->overflow_is_root && uid == w->overflow;
}

/* May this owner decide what is found below? Below a shared directory the overflow uid may be
 * anybody, also where it seems to be oneself (a process whose own uid is not mapped). */
static bool owner_believed(struct walk *w, uid_t uid)
{
	if (uid == 0 || (uid == w->self && !w->met_shared))
		return true;
	if (stands_for_root(w, uid))
		return !w->met_shared;
	return uid == w->self;
}

/* On the way a user's own directory may be writable by the group that has the user's number: the
 * private group, for which login sessions get umask 002. Where no uid is mapped all numbers look
 * alike. */
static bool shared_with_others(struct walk *w, const struct stat *st)
{
	if (!S_ISDIR(st->st_mode) || !(st->st_mode & WRITABLE_BY_OTHERS))
		return false;
	return (st->st_mode & S_IWOTH) || w->self == 0 || st->st_uid != w->self ||
	       st->st_gid != w->self || stands_for_root(w, w->self);
}

/* Judges one component; -EPERM or 0. */
static int judge(struct walk *w, const struct stat *st)
{
	if (!owner_believed(w, st->st_uid))
		return -EPERM;
	if (shared_with_others(w, st)) {
		if (!(st->st_mode & S_ISVTX))
			return -EPERM;
		w->met_shared = true;
	}
	return 0;
}

static int walk_to(struct walk *w, int fd_take, const struct stat *st)
{
	(void)safe_close(w->fd);
	w->fd = fd_take;
	w->st = *st;
	return 0;
}

static int walk_root(struct walk *w)
{
	_cleanup_(closep) int fd = open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	r = judge(w, &st);
	return r < 0 ? r : walk_to(w, TAKE_FD(fd), &st);
}

/* Puts the text of the symlink FD in front of REST in PATH (PATH_MAX bytes; REST points into it).
 */
static int expand(int fd, char *path, const char *rest)
{
	char text[PATH_MAX];
	size_t rest_size = strlen(rest) + 1;
	ssize_t n = readlinkat(fd, "", text, sizeof text);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ENOENT;
	if ((size_t)n + 1 + rest_size > PATH_MAX)
		return -ENAMETOOLONG;
	memmove(path + n + 1, rest, rest_size);
	memcpy(path, text, (size_t)n);
	path[n] = '/';
	return 0;
}

/* One component NAME below w->fd. 1: it is a symlink, whose descriptor is in *RET_LINK. */
static int walk_step(struct walk *w, const char *name, int *ret_link)
{
	_cleanup_(closep) int fd = open_at(w->fd, name, O_PATH);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return -ENOTDIR;
	r = judge(w, &st);
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode)) {
		*ret_link = TAKE_FD(fd);
		return 1;
	}
	return walk_to(w, TAKE_FD(fd), &st);
}

/* Walks the absolute path in PATH (PATH_MAX bytes, overwritten). */
static int walk_path(struct walk *w, char *path)
{
	unsigned links = 0;
	char *p = path;
	int r;

	r = walk_root(w);
	while (r >= 0) {
		_cleanup_(closep) int link = -EBADF;
		char *name, *rest;

		p += strspn(p, "/");
		if (*p == '\0')
			return 0;
		name = p;
		rest = p + strcspn(p, "/");
		p = rest;
		if (*rest != '\0') {
			*rest = '\0';
			p = rest + 1;
		}
		r = walk_step(w, name, &link);
		if (r <= 0)
			continue;
		if (++links > SYMLINKS_MAX)
			return -ELOOP;
		r = expand(link, path, p);
		p = path;
		if (r == 0 && *p == '/')
			r = walk_root(w);
	}
	return r;
}

/* Opens a directory directly below the runtime directory; where it is absent nothing is touched.
 * jobs/ and procs/ may be SHARED, with the sticky bit. */
static int open_sub(int dir_fd, const char *name, bool shared, int *ret_fd, uid_t *ret_owner)
{
	_cleanup_(closep) int fd = open_at(dir_fd, name, O_PATH | O_DIRECTORY);
	struct stat st;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd == -ELOOP || fd == -ENOTDIR ? -EPERM : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & WRITABLE_BY_OTHERS) && !(shared && (st.st_mode & S_ISVTX)))
		return -EPERM;
	*ret_fd = TAKE_FD(fd);
	*ret_owner = st.st_uid;
	return 0;
}

static int open_subs(struct runtime *rt)
{
	uid_t owner = rt->publisher;
	int r;

	r = open_sub(rt->dir_fd, "snapshots", false, &rt->snapshots_fd, &owner);
	if (r < 0)
		return r;
	if (owner != rt->publisher)
		return -EPERM;
	r = open_sub(rt->dir_fd, "jobs", true, &rt->jobs_fd, &owner);
	if (r < 0)
		return r;
	rt->broker = owner;
	r = open_sub(rt->dir_fd, "procs", true, &rt->procs_fd, &owner);
	if (r < 0)
		return r;
	/* Who owns a directory can rename the links of others in it. */
	return owner == rt->broker || owner == rt->publisher ? 0 : -EPERM;
}

void runtime_done(struct runtime *rt)
{
	rt->dir_fd = safe_close(rt->dir_fd);
	rt->snapshots_fd = safe_close(rt->snapshots_fd);
	rt->jobs_fd = safe_close(rt->jobs_fd);
	rt->procs_fd = safe_close(rt->procs_fd);
}

int runtime_open(const char *path, uid_t self, struct runtime *ret)
{
	_cleanup_(walk_done) struct walk w = {.self = self, .fd = -EBADF};
	_cleanup_(runtime_done) struct runtime rt = RUNTIME_NULL;
	char buf[PATH_MAX];
	size_t size = strlen(path) + 1;
	int r;

	if (path[0] != '/')
		return -EINVAL;
	if (size > sizeof buf)
		return -ENAMETOOLONG;
	memcpy(buf, path, size);
	r = walk_path(&w, buf);
	if (r < 0)
		return r;
	if (w.st.st_mode & WRITABLE_BY_OTHERS)
		return -EPERM;
	rt.self = self;
	rt.publisher = w.st.st_uid;
	rt.dir_fd = TAKE_FD(w.fd);
	r = open_subs(&rt);
	if (r < 0)
		return r;
	*ret = rt;
	rt = (struct runtime)RUNTIME_NULL;
	return 0;
}

static bool is_file_name(const char *name)
{
	return name[0] != '\0' && !strchr(name, '/') && !streq(name, ".") && !streq(name, "..");
}

/* Opens a published file; *RET_SIZE is what it says to hold. */
static int open_published(const struct runtime *rt, int dir_fd, const char *name, size_t max,
			  size_t *ret_size)
{
	_cleanup_(closep) int fd = -EBADF;
	struct stat st;

	if (dir_fd < 0)
		return -ENOENT;
	if (!is_file_name(name))
		return -EINVAL;
	fd = open_at(dir_fd, name, O_RDONLY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_uid != rt->publisher || (st.st_mode & WRITABLE_BY_OTHERS))
		return -EPERM;
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return -EFBIG;
	*ret_size = (size_t)st.st_size;
	return TAKE_FD(fd);
}

int runtime_read(const struct runtime *rt, int dir_fd, const char *name, size_t max, char **ret,
		 size_t *ret_size)
{
	_cleanup_(closep) int fd = -EBADF;
	_cleanup_(freep) char *buf = NULL;
	size_t size = 0;
	ssize_t n;

	fd = open_published(rt, dir_fd, name, max < RUNTIME_FILE_MAX ? max : RUNTIME_FILE_MAX,
			    &size);
	if (fd < 0)
		return fd;
	buf = malloc(size + 1);
	if (!buf)
		return -ENOMEM;
	/* One byte more than there should be: published files never change, one that does is
	 * refused. */
	n = read_full(fd, buf, size + 1);
	if (n < 0)
		return (int)n;
	if ((size_t)n != size)
		return -EAGAIN;
	buf[size] = '\0';
	*ret = TAKE_PTR(buf);
	*ret_size = size;
	return 0;
}

int runtime_readlink(const struct runtime *rt, int dir_fd, const char *name, uid_t owner, char *ret,
		     size_t ret_size)
{
	_cleanup_(closep) int fd = -EBADF;
	struct stat st;
	ssize_t n;

	if (dir_fd < 0)
		return -ENOENT;
	if (!is_file_name(name))
		return -EINVAL;
	/* The link itself is held open, so that the one judged is the one read. */
	fd = open_at(dir_fd, name, O_PATH);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return -EPERM;
	if (st.st_uid != 0 && st.st_uid != rt->publisher && st.st_uid != rt->broker &&
	    st.st_uid != owner)
		return -EPERM;
	n = readlinkat(fd, "", ret, ret_size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= ret_size)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

int runtime_clear(int dir_fd, const char *name)
{
	char rubbish[] = ".rubbish-0123456789abcdef";
	uint64_t number;

	if (unlinkat(dir_fd, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	/* By chance, so that nobody has taken that name as well. */
	if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
		return -EAGAIN;
	for (char *p = strchr(rubbish, '0'); *p; p++, number >>= 4)
		*p = "0123456789abcdef"[number & 15];
	return renameat(dir_fd, name, dir_fd, rubbish) < 0 ? -errno : 0;
}

/* "/run/user/UID/cudaenv" without stdio. */
static void user_path(uid_t uid, char ret[64])
{
	char digits[16];
	unsigned n = 0;
	char *p = ret;

	do
		digits[n++] = (char)('0' + uid % 10);
	while ((uid /= 10) > 0);
	p = stpcpy(p, "/run/user/");
	while (n > 0)
		*p++ = digits[--n];
	(void)stpcpy(p, "/cudaenv");
}

int runtime_find(const char *recorded, uid_t self, struct runtime *ret, char *ret_path)
{
	char user[64];
	const char *paths[] = {secure_getenv("CUDAENV_RUNTIME_DIR"), recorded, RUNTIME_DIR_DEFAULT,
			       user};

	user_path(self, user);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (!paths[i] || runtime_open(paths[i], self, ret) < 0)
			continue;
		if (ret_path)
			(void)strcpy(ret_path, paths[i]);
		return 0;
	}
	return -ENOENT;
}
