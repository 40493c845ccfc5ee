/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <dirent.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/util.h"
#include "daemon/manager/files.h"

#define TEMP_SUFFIX ".new"

static int read_all(int fd, char *buf, size_t size, size_t *ret_size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t k = read(fd, buf + n, size - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		n += (size_t)k;
	}
	*ret_size = n;
	return 0;
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t k = write(fd, bytes, size);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		bytes += k;
		size -= (size_t)k;
	}
	return 0;
}

static int read_bounded(int dir_fd, const char *name, int flags, size_t max, char **ret,
			size_t *ret_size)
{
	_cleanup_(closep) int fd = -EBADF;
	_cleanup_(freep) char *buf = NULL;
	struct stat st;
	size_t n;
	int r;

	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size < 0 || (size_t)st.st_size > max)
		return -EFBIG;
	/* One byte more than it says, so that a file which grows meanwhile is noticed. */
	buf = malloc((size_t)st.st_size + 2);
	if (!buf)
		return -ENOMEM;
	r = read_all(fd, buf, (size_t)st.st_size + 1, &n);
	if (r < 0)
		return r;
	if (n > (size_t)st.st_size)
		return -EAGAIN;
	buf[n] = '\0';
	*ret = TAKE_PTR(buf);
	*ret_size = n;
	return 0;
}

int file_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_size)
{
	return read_bounded(dir_fd, name, O_NOFOLLOW, max, ret, ret_size);
}

int file_read_followed(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_size)
{
	return read_bounded(dir_fd, name, 0, max, ret, ret_size);
}

static int temp_name(const char *name, char ret[NAME_MAX + 1])
{
	int n = snprintf(ret, NAME_MAX + 1, ".%s" TEMP_SUFFIX, name);

	return n > NAME_MAX ? -ENAMETOOLONG : 0;
}

static int read_back(int fd, const void *bytes, size_t size)
{
	_cleanup_(freep) char *buf = malloc(size + 1);
	size_t n;
	int r;

	if (!buf)
		return -ENOMEM;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = read_all(fd, buf, size + 1, &n);
	if (r < 0)
		return r;
	return n == size && memcmp(buf, bytes, size) == 0 ? 0 : -EIO;
}

/* Something that cannot be renamed over stands in the place of a file: an operator's or an
 * attacker's directory. */
static int clear_place(int dir_fd, const char *name)
{
	char aside[NAME_MAX + 1];

	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (snprintf(aside, sizeof(aside), ".%s.moved-aside", name) >= (int)sizeof(aside))
		return -ENAMETOOLONG;
	return renameat(dir_fd, name, dir_fd, aside) < 0 ? -errno : 0;
}

static int rename_over(int dir_fd, const char *temp, const char *name)
{
	int r;

	if (renameat(dir_fd, temp, dir_fd, name) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	r = clear_place(dir_fd, name);
	if (r < 0)
		return r;
	return renameat(dir_fd, temp, dir_fd, name) < 0 ? -errno : 0;
}

static int write_temp(int dir_fd, const char *temp, const void *bytes, size_t size, mode_t mode,
		      unsigned flags)
{
	_cleanup_(closep) int fd = -EBADF;
	int r;

	(void)unlinkat(dir_fd, temp, 0);
	fd = openat(dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, bytes, size);
	if (r < 0)
		return r;
	r = read_back(fd, bytes, size);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return -errno;
	if ((flags & FILE_SYNC) && fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_replace(int dir_fd, const char *name, const void *bytes, size_t size, mode_t mode,
		 unsigned flags)
{
	char temp[NAME_MAX + 1];
	int r;

	r = temp_name(name, temp);
	if (r < 0)
		return r;
	r = write_temp(dir_fd, temp, bytes, size, mode, flags);
	if (r == 0)
		r = rename_over(dir_fd, temp, name);
	if (r < 0) {
		(void)unlinkat(dir_fd, temp, 0);
		return r;
	}
	if ((flags & FILE_SYNC) && fsync(dir_fd) < 0)
		return -errno;
	return 0;
}

int file_link_replace(int dir_fd, const char *name, const char *target)
{
	char temp[NAME_MAX + 1];
	int r;

	r = temp_name(name, temp);
	if (r < 0)
		return r;
	(void)unlinkat(dir_fd, temp, 0);
	if (symlinkat(target, dir_fd, temp) < 0)
		return -errno;
	r = rename_over(dir_fd, temp, name);
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0);
	return r;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

int file_sweep(int dir_fd)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	_cleanup_(closep) int fd = -EBADF;
	const struct dirent *e;

	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)TAKE_FD(fd);
	while ((e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		if (e->d_name[0] == '.' && n > STRLEN(TEMP_SUFFIX) &&
		    streq(e->d_name + n - STRLEN(TEMP_SUFFIX), TEMP_SUFFIX))
			(void)unlinkat(dir_fd, e->d_name, 0);
	}
	return 0;
}

int directory_make(const char *path, mode_t mode)
{
	char buf[PATH_MAX];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(buf))
		return n == 0 ? -EINVAL : -ENAMETOOLONG;
	memcpy(buf, path, n + 1);
	for (char *p = buf + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(buf, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	if (mkdir(buf, mode) == 0)
		return chmod(buf, mode) < 0 ? -errno : 0;
	return errno == EEXIST ? 0 : -errno;
}

int file_lock(int dir_fd, const char *name, pid_t *ret_pid)
{
	_cleanup_(closep) int fd = -EBADF;
	char buf[24] = "";
	size_t n;
	int r;

	/* 0600: whoever can open a file can hold a lock on it. */
	fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		if (r != -EWOULDBLOCK)
			return r;
		if (read_all(fd, buf, sizeof(buf) - 1, &n) < 0)
			n = 0;
		buf[n] = '\0';
		*ret_pid = (pid_t)strtol(buf, NULL, 10);
		return -EBUSY;
	}
	(void)snprintf(buf, sizeof(buf), "%d\n", (int)getpid());
	/* The pid is for people: a full disk must not keep us from starting. */
	if (ftruncate(fd, 0) == 0)
		(void)write_all(fd, buf, strlen(buf));
	return TAKE_FD(fd);
}
