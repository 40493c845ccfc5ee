/* SPDX-License-Identifier: MIT */
#include "tests/unit/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int left = -1;
static int left_to_failure = -1;
static int failure;

void crash_at(int n)
{
	left = n;
}

void fail_from(int n, int error)
{
	left_to_failure = error ? n : -1;
	failure = error;
}

static int now(void)
{
	if (left >= 0 && left-- == 0)
		_exit(CRASH_STATUS);
	if (left_to_failure > 0)
		left_to_failure--;
	if (left_to_failure == 0) {
		errno = failure;
		return -1;
	}
	return 0;
}

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
	if (fd == STDERR_FILENO)
		return __real_write(fd, bytes, size);
	if (left == 0)
		(void)!__real_write(fd, bytes, size / 2);
	return now() < 0 ? -1 : __real_write(fd, bytes, size);
}

#define WRAP(name, parameters, arguments)                                                          \
	int __real_##name parameters;                                                              \
	int __wrap_##name parameters;                                                              \
	int __wrap_##name parameters                                                               \
	{                                                                                          \
		return now() < 0 ? -1 : __real_##name arguments;                                   \
	}

WRAP(fsync, (int fd), (fd))
WRAP(fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(ftruncate, (int fd, off_t size), (fd, size))
WRAP(unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(mkdirat, (int fd, const char *name, mode_t mode), (fd, name, mode))
WRAP(symlinkat, (const char *target, int fd, const char *name), (target, fd, name))
WRAP(renameat, (int from, const char *old, int to, const char *new), (from, old, to, new))
WRAP(utimensat, (int fd, const char *name, const struct timespec times[2], int flags),
     (fd, name, times, flags))
