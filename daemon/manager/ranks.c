/* SPDX-License-Identifier: MIT */
/* ranks/ of the runtime tree, see common/ranks.h: follows what is in snapshots/. */
#include <config.h>

#include <dirent.h>
#include <sys/stat.h>

#include "common/profile-text.h"
#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/files.h"
#include "daemon/manager/manager.h"

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* Open for reading, made where it is absent. */
static int open_ranks(struct publisher *p)
{
	struct stat st;
	int fd;

	if (mkdirat(p->dir_fd, "ranks", 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(p->dir_fd, "ranks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & 07777) != 0755)
		(void)fchmod(fd, 0755);
	return fd;
}

/* Has NAME the text TARGET? */
static bool says(int fd, const char *name, const char *target)
{
	char text[DIGEST_SIZE + 1];
	ssize_t n = readlinkat(fd, name, text, sizeof(text));

	return n == DIGEST_HEX && memcmp(text, target, DIGEST_HEX) == 0;
}

static int put(int fd, const char *name, const char *target)
{
	return says(fd, name, target) ? 0 : file_link_replace(fd, name, target);
}

/* A link is believed once all were made by the facts that we have. */
static int rank_of(struct manager *m, int fd, const char *digest, char ret[DIGEST_SIZE])
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	char text[DIGEST_SIZE] = "";
	size_t size;
	int r;

	if (m->ranks_proven && readlinkat(fd, digest, text, DIGEST_HEX) == DIGEST_HEX &&
	    digest_valid(text)) {
		strcpy(ret, text);
		return 0;
	}
	r = switch_fetch(m, digest, &bytes, &size);
	if (r == 0)
		r = snapshot_parse(bytes, size, &s);
	return r == 0 ? profile_rank_digest(s, m->facts, ret) : r;
}

/* The snapshot DIGEST, and itself as the one with its rank digest where there is none yet, or where
 * it is the node's CHOICE. */
static int put_snapshot(struct manager *m, int fd, const char *digest, bool choice)
{
	char rank[DIGEST_SIZE], old[DIGEST_SIZE] = "";
	int r;

	r = rank_of(m, fd, digest, rank);
	if (r == 0)
		r = put(fd, digest, rank);
	if (r < 0)
		return r;
	(void)readlinkat(fd, rank, old, DIGEST_HEX);
	return choice || !digest_valid(old) || publisher_has(m->publisher, old) != 1
		       ? put(fd, rank, digest)
		       : 0;
}

/* What names a snapshot that is gone. */
static int sweep(struct manager *m, int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closedirp) DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d)
		return -errno;
	for (const struct dirent *e; (e = readdir(d));) {
		char text[DIGEST_SIZE] = "";

		if (e->d_name[0] == '.')
			continue;
		(void)readlinkat(fd, e->d_name, text, DIGEST_HEX);
		if (publisher_has(m->publisher, e->d_name) != 1 &&
		    (!digest_valid(text) || publisher_has(m->publisher, text) != 1))
			(void)unlinkat(fd, e->d_name, 0);
	}
	return 0;
}

void switch_publish_ranks(struct manager *m, const char *choice)
{
	_cleanup_(closep) int fd = -EBADF;
	int r = 0;

	if (!m->facts)
		return;
	fd = open_ranks(m->publisher);
	r = fd < 0 ? fd : file_sweep(fd);
	for (size_t i = 0; r >= 0 && i < m->publisher->n_items; i++) {
		const char *digest = m->publisher->items[i].digest;

		r = put_snapshot(m, fd, digest, streq(digest, choice));
	}
	if (r >= 0)
		r = sweep(m, fd);
	m->ranks_proven = r >= 0;
	if (r < 0)
		(void)log_warning_errno(r, "Failed to publish rank digests: %m");
}
