/* SPDX-License-Identifier: MIT */
#include "daemon/broker/pidfd.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/procfs.h"
#include "common/util.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int open_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static bool has_exited(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* The descriptor comes first: if the start time read after it is the right one, then it was so
 * before as well. */
int pidfd_of(int proc_fd, pid_t pid, uint64_t start)
{
	_cleanup_(closep) int fd = open_pidfd(pid);
	struct proc_facts facts;
	int r;

	if (fd == -ESRCH || fd == -EINVAL)
		return -ESRCH;
	r = procfs_facts(proc_fd, pid, &facts);
	if (r == 0 && facts.start != start)
		return -ESRCH;
	if (r == -ESRCH && (fd < 0 || has_exited(fd)))
		return -ESRCH;
	return TAKE_FD(fd);
}

bool pidfd_alive(int proc_fd, pid_t pid, uint64_t start)
{
	struct proc_facts facts;
	int r = procfs_facts(proc_fd, pid, &facts);

	return r == 0 ? facts.start == start : r != -ESRCH;
}

int pidfd_of_peer(int socket_fd, int proc_fd, pid_t pid, uint64_t start)
{
	socklen_t size = sizeof(int);
	int fd;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) {
		if (!has_exited(fd))
			return fd;
		(void)close(fd); /* Linux 6.16 has one of the dead as well */
		return -ESRCH;
	}
	if (errno == EINVAL || errno == ESRCH)
		return -ESRCH;
	return pidfd_of(proc_fd, pid, start);
}
