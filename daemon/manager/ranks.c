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

/* Of two with one rank digest the smaller stands for it: the node's CHOICE, what a profile says
 * now by the profile's name, then former versions. So nodes with the same profiles have the same. */
static size_t standing(const struct manager *m, const char *digest, const char *choice)
{
	if (streq(digest, choice))
		return 0;
	for (size_t i = 0; i < m->profiles.n_profiles; i++)
		if (m->profiles.profiles[i]->valid &&
		    streq(m->profiles.profiles[i]->digest, digest))
			return 1 + i;
	return 1 + m->profiles.n_profiles;
}

/* Is ranks/RANK -> DIGEST what a link of a published snapshot confirms? */
static bool confirmed(struct manager *m, int fd, const char *rank, const char *digest)
{
	return digest_valid(digest) && says(fd, digest, rank) &&
	       publisher_has(m->publisher, digest) == 1;
}

static int put_snapshot(struct manager *m, int fd, const char *digest, const char *choice)
{
	char rank[DIGEST_SIZE], old[DIGEST_SIZE] = "";
	int r;

	r = rank_of(m, fd, digest, rank);
	if (r == 0)
		r = put(fd, digest, rank);
	if (r < 0)
		return r;
	(void)readlinkat(fd, rank, old, DIGEST_HEX);
	if (confirmed(m, fd, rank, old) && standing(m, old, choice) <= standing(m, digest, choice))
		return 0;
	return put(fd, rank, digest);
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
		    !confirmed(m, fd, e->d_name, text))
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

		r = put_snapshot(m, fd, digest, choice);
	}
	if (r >= 0)
		r = sweep(m, fd);
	m->ranks_proven = r >= 0;
	if (r < 0)
		(void)log_warning_errno(r, "Failed to publish rank digests: %m");
}
