/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/slurp.h"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/util.h"

int slurp_open(int root_fd, const char *path, int flags)
{
	/* With O_PATH nothing is opened that could wait, and openat2(2) takes no other flags. */
	int more = flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct open_how how = {
		.flags = (unsigned)(flags | more),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	do
		fd = root_fd < 0 ? open(path, (int)how.flags)
				 : syscall(SYS_openat2, root_fd, path, &how, sizeof how);
	while (fd < 0 && (errno == EINTR || errno == EAGAIN) && root_fd >= 0);
	return fd < 0 ? -errno : (int)fd;
}

int slurp_open_file(int root_fd, const char *path)
{
	_cleanup_(closep) int fd = slurp_open(root_fd, path, O_PATH);
	char again[STRLEN("/proc/self/fd/") + 16];
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode) && !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		return -EINVAL;
	(void)snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
	return slurp_open(SLURP_ROOT_HERE, again, O_RDONLY);
}

int slurp_fd(int fd, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_(freep) char *bytes = NULL;
	size_t size = 0, capacity = 0;

	for (;;) {
		ssize_t n;

		if (capacity - size < 2) {
			char *grown;

			capacity = capacity == 0 ? 4096 : capacity * 2;
			grown = realloc(bytes, capacity);
			if (!grown)
				return -ENOMEM;
			bytes = grown;
		}
		n = read(fd, bytes + size, capacity - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max)
			return -EFBIG;
	}
	bytes[size] = '\0';
	*ret = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}

int slurp(int root_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_(closep) int fd = slurp_open_file(root_fd, path);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Files of /proc say 0. */
	if (st.st_size > 0 && (size_t)st.st_size > max)
		return -EFBIG;
	return slurp_fd(fd, max, ret, ret_size);
}

bool slurp_masked(int root_fd, const char *path)
{
	_cleanup_(closep) int fd = slurp_open(root_fd, path, O_PATH | O_NOFOLLOW);
	char text[sizeof "/dev/null"];

	return fd >= 0 && readlinkat(fd, "", text, sizeof text) == (ssize_t)sizeof text - 1 &&
	       memcmp(text, "/dev/null", sizeof text - 1) == 0;
}

const char *slurp_error(int r)
{
	return r == -EINVAL ? "it is no regular file" : strerror(-r);
}
