/* SPDX-License-Identifier: MIT */
#include "daemon/broker/ancestors.h"

#include "common/util.h"

void ancestors_init(struct ancestors *a, int proc_fd)
{
	*a = (struct ancestors){.proc_fd = proc_fd};
}

void ancestors_done(struct ancestors *a)
{
	for (size_t i = 0; i < ANCESTORS_MAX; i++)
		if (a->slots[i].pid > 0)
			(void)close(a->slots[i].fd);
	*a = (struct ancestors){.proc_fd = -EBADF};
}

int ancestors_facts(struct ancestors *a, pid_t pid, struct proc_facts *ret)
{
	size_t slot = (size_t)pid % ANCESTORS_MAX;
	int fd, r;

	if (a->slots[slot].pid == pid && pid > 0) {
		r = procfs_read(a->proc_fd, a->slots[slot].fd, pid, ret);
		if (r == 0)
			return 0;
	}
	/* Not known, or gone, and its number perhaps another's. */
	fd = procfs_open(a->proc_fd, pid);
	if (fd < 0)
		return fd;
	r = procfs_read(a->proc_fd, fd, pid, ret);
	if (r < 0) {
		(void)safe_close(fd);
		return r;
	}
	if (a->slots[slot].pid > 0)
		(void)close(a->slots[slot].fd);
	a->slots[slot].pid = pid;
	a->slots[slot].fd = fd;
	return 0;
}
