/* SPDX-License-Identifier: MIT */
#include "common/ranks.h"

#include <sys/stat.h>

#include "common/decide.h"
#include "common/util.h"

int ranks_get(const struct runtime *rt, const char *name, char ret[DIGEST_SIZE])
{
	_cleanup_(closep) int fd = -EBADF;
	char text[DIGEST_SIZE];
	struct stat st;
	int r;

	if (!digest_valid(name))
		return -ENOENT;
	fd = openat(rt->dir_fd, "ranks", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != rt->publisher || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	r = runtime_readlink(rt, fd, name, rt->publisher, text, sizeof text);
	if (r < 0)
		return r;
	if (!digest_valid(text))
		return -EBADMSG;
	memcpy(ret, text, sizeof text);
	return 0;
}

bool ranks_met(const struct runtime *rt, const char *required, const char *digest)
{
	char rank[DIGEST_SIZE];

	if (!digest_valid(required) || !digest_valid(digest))
		return false;
	return streq(required, digest) ||
	       (ranks_get(rt, digest, rank) == 0 && streq(required, rank));
}

int ranks_resolve(const struct runtime *rt, const char *required, char ret[DIGEST_SIZE])
{
	char digest[DIGEST_SIZE];

	if (!digest_valid(required))
		return -ENOENT;
	if (decide_published(rt, required)) {
		memcpy(ret, required, DIGEST_SIZE);
		return 0;
	}
	if (ranks_get(rt, required, digest) < 0 || !decide_published(rt, digest))
		return -ENOENT;
	memcpy(ret, digest, DIGEST_SIZE);
	return 0;
}
