/* SPDX-License-Identifier: MIT */
/* The first line is a path to resolve, the rest a mount table as the kernel shows it: mount points
 * have names of their users' choice. What is resolved is an absolute path without links, or a
 * barrier that stands in the table. */
#include <stdint.h>
#include <sys/mman.h>

#include "client/ctl/mounts.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	size_t n = end ? (size_t)(end - data) : size;
	_cleanup_(freep) char *path = strndup((const char *)data, n);
	_cleanup_(mounts_done) struct mounts m = {.n = 0};
	_cleanup_(closep) int fd = memfd_create("mountinfo", MFD_CLOEXEC);
	const struct mount *stop = NULL;
	char file[64], real[PATH_MAX];
	int r;

	if (!path || fd < 0 || (end && write(fd, end + 1, size - n - 1) < 0))
		return 0;
	(void)snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
	if (mounts_load(file, &m) < 0)
		return 0;
	r = mounts_resolve(&m, path, real, &stop);
	if (r == 0 && (*real != '/' || strstr(real, "/../") || strstr(real, "//")))
		abort();
	if (r == -EREMOTE && (!stop || stop < m.items || stop >= m.items + m.n))
		abort();
	return 0;
}
