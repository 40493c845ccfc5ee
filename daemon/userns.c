/* SPDX-License-Identifier: MIT */
#include "daemon/userns.h"

#include <signal.h>

#include "common/util.h"

#define ID_MAP_SIZE (64 * 1024) /* 340 lines are the kernel's limit */

static int read_map(int proc_fd, const char *process, const char *map, char *buf, size_t size)
{
	_cleanup_(closep) int fd = -EBADF;
	char path[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", process, map);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

bool userns_is_ours(pid_t pid, int proc_fd)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	_cleanup_(freep) char *theirs = malloc(ID_MAP_SIZE), *ours = malloc(ID_MAP_SIZE);
	char process[24];
	int r;

	if (!theirs || !ours || pid <= 0)
		return false;
	(void)snprintf(process, sizeof(process), "%d", (int)pid);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		if (read_map(proc_fd, "self", maps[i], ours, ID_MAP_SIZE) < 0)
			return false;
		r = read_map(proc_fd, process, maps[i], theirs, ID_MAP_SIZE);
		if (r == -ENOENT)
			return kill(pid, 0) == 0 || errno == EPERM;
		if (r < 0 || !streq(ours, theirs))
			return false;
	}
	return true;
}
