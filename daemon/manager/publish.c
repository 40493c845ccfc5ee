/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <dirent.h>
#include <limits.h>
#include <pwd.h>

#include "common/runtime.h"
#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/manager/files.h"
#include "daemon/manager/publish.h"

#define PUBLISHED_MODE     0444
#define BASIS              "active"
#define BASIS_MODE         0600
#define BROKER_USER        "cudaenv"
#define WRITABLE_BY_OTHERS (S_IWGRP | S_IWOTH)

struct publisher *publisher_free(struct publisher *p)
{
	if (!p)
		return NULL;
	p->snapshots_fd = safe_close(p->snapshots_fd);
	p->dir_fd = safe_close(p->dir_fd);
	p->lock_fd = safe_close(p->lock_fd);
	free(p->items);
	free(p->path);
	free(p);
	return NULL;
}

/* A directory for everybody's links. In the system's tree it is the broker's, which only root with
 * the right to give files away can arrange; usually tmpfiles did. */
static int make_shared(struct publisher *p, const char *name, struct words *complaints)
{
	const struct passwd *pw;

	if (mkdirat(p->dir_fd, name, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (!p->user) {
		pw = getpwnam(BROKER_USER);
		if (!pw ||
		    fchownat(p->dir_fd, name, pw->pw_uid, pw->pw_gid, AT_SYMLINK_NOFOLLOW) < 0) {
			(void)unlinkat(p->dir_fd, name, AT_REMOVEDIR);
			return words_addf(complaints,
					  "%s/%s is absent and cannot be made for user " BROKER_USER
					  ": run systemd-tmpfiles --create cudaenv.conf",
					  p->path, name);
		}
	}
	return fchmodat(p->dir_fd, name, 01777, 0) < 0 ? -errno : 0;
}

static void repair_mode(int fd, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && (st.st_mode & 07777) != mode)
		(void)fchmod(fd, mode);
}

static int open_snapshots(struct publisher *p)
{
	struct stat st;

	if (mkdirat(p->dir_fd, "snapshots", 0755) < 0 && errno != EEXIST)
		return -errno;
	p->snapshots_fd =
		openat(p->dir_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->snapshots_fd < 0)
		return -errno;
	if (fstat(p->snapshots_fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	repair_mode(p->snapshots_fd, 0755);
	return 0;
}

static int open_tree(struct publisher *p, struct words *complaints)
{
	struct runtime rt = RUNTIME_NULL;
	struct stat st;
	int r;

	r = directory_make(p->path, 0755);
	if (r < 0)
		return r;
	p->dir_fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->dir_fd < 0)
		return -errno;
	if (fstat(p->dir_fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & WRITABLE_BY_OTHERS))
		return -EPERM;
	r = open_snapshots(p);
	if (r == 0)
		r = make_shared(p, "jobs", complaints);
	if (r == 0)
		r = make_shared(p, "procs", complaints);
	if (r < 0)
		return r;
	/* What clients would say of it. */
	r = runtime_open(p->path, geteuid(), &rt);
	runtime_done(&rt);
	return r;
}

int publisher_open(const char *path, bool user, struct publisher **ret, struct words *complaints,
		   pid_t *ret_pid)
{
	_cleanup_(publisher_freep) struct publisher *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->dir_fd = p->snapshots_fd = p->lock_fd = -EBADF;
	p->user = user;
	p->path = strdup(path);
	if (!p->path)
		return -ENOMEM;
	r = open_tree(p, complaints);
	if (r < 0)
		return r;
	p->lock_fd = file_lock(p->dir_fd, ".lock", ret_pid);
	if (p->lock_fd < 0)
		return p->lock_fd;
	(void)file_sweep(p->dir_fd);
	(void)file_sweep(p->snapshots_fd);
	*ret = TAKE_PTR(p);
	return 0;
}

static int same_directory(int at_fd, const char *path, int fd)
{
	struct stat a, b;

	if (fstatat(at_fd, path, &a, 0) < 0 || fstat(fd, &b) < 0)
		return -errno;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? 0 : -ESTALE;
}

int publisher_in_place(struct publisher *p, struct words *complaints)
{
	int r = same_directory(AT_FDCWD, p->path, p->dir_fd);

	if (r == 0)
		r = same_directory(p->dir_fd, "snapshots", p->snapshots_fd);
	if (r < 0)
		return r;
	repair_mode(p->dir_fd, 0755);
	repair_mode(p->snapshots_fd, 0755);
	r = make_shared(p, "jobs", complaints);
	return r < 0 ? r : make_shared(p, "procs", complaints);
}

static struct published *find_item(struct publisher *p, const char *digest)
{
	for (size_t i = 0; i < p->n_items; i++)
		if (streq(p->items[i].digest, digest))
			return &p->items[i];
	return NULL;
}

static void forget(struct publisher *p, struct published *item)
{
	*item = p->items[--p->n_items];
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_unchanged(const struct published *i, const struct stat *st)
{
	return i->dev == st->st_dev && i->ino == st->st_ino && i->size == st->st_size &&
	       i->mode == st->st_mode && i->uid == st->st_uid &&
	       same_time(&i->mtime, &st->st_mtim) && same_time(&i->ctime, &st->st_ctim);
}

/* Is the published NAME below DIR_FD a file that a client believes? */
static bool is_believable(int dir_fd, const char *name, mode_t mode, struct stat *ret)
{
	return fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(ret->st_mode) &&
	       ret->st_uid == geteuid() && (ret->st_mode & 07777) == mode;
}

/* 1 proven, 0 not, -ENOMEM. */
static int prove(struct publisher *p, const char *digest)
{
	_cleanup_(freep) char *bytes = NULL;
	struct published *item = find_item(p, digest);
	char proof[DIGEST_SIZE];
	struct stat st;
	size_t size;
	int r;

	if (!is_believable(p->snapshots_fd, digest, PUBLISHED_MODE, &st))
		return 0;
	if (item && is_unchanged(item, &st))
		return 1;
	r = file_read(p->snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &bytes, &size);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	digest_bytes(bytes, size, proof);
	if (!streq(proof, digest))
		return 0;
	if (!item) {
		struct published *items = reallocarray(p->items, p->n_items + 1, sizeof(*items));

		if (!items)
			return -ENOMEM;
		p->items = items;
		item = &items[p->n_items++];
	}
	*item = (struct published){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.size = st.st_size,
		.mode = st.st_mode,
		.uid = st.st_uid,
		.mtime = st.st_mtim,
		.ctime = st.st_ctim,
	};
	strcpy(item->digest, digest);
	return 1;
}

int publisher_has(struct publisher *p, const char *digest)
{
	return prove(p, digest);
}

int publisher_snapshot(struct publisher *p, const char *digest, const char *bytes, size_t size)
{
	int r = prove(p, digest);

	if (r != 0)
		return r < 0 ? r : 0;
	r = file_replace(p->snapshots_fd, digest, bytes, size, PUBLISHED_MODE, 0);
	if (r < 0)
		return r;
	r = prove(p, digest);
	return r < 0 ? r : r == 1 ? 0 : -EIO;
}

static void remove_damaged(struct publisher *p, const char *digest)
{
	if (unlinkat(p->snapshots_fd, digest, 0) < 0 && errno == EISDIR)
		(void)unlinkat(p->snapshots_fd, digest, AT_REMOVEDIR);
}

int publisher_damaged(struct publisher *p, struct words *ret)
{
	for (size_t i = 0; i < p->n_items;) {
		int r = prove(p, p->items[i].digest);

		if (r == 0) {
			r = words_add(ret, p->items[i].digest);
			if (r < 0)
				return r;
			remove_damaged(p, p->items[i].digest);
			forget(p, &p->items[i]);
			continue;
		}
		if (r < 0)
			return r;
		i++;
	}
	return 0;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* Names in the directory FD for which TAKE is true. */
static int list(int fd, struct words *ret)
{
	_cleanup_(closep) int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closedirp) DIR *dir = own < 0 ? NULL : fdopendir(own);
	const struct dirent *e;

	if (!dir)
		return -errno;
	own = -EBADF; /* closedir() closes it */
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.' && words_add(ret, e->d_name) < 0)
			return -ENOMEM;
	return 0;
}

int publisher_adopt(struct publisher *p)
{
	struct words names = {0};
	int r = list(p->snapshots_fd, &names);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		if (!digest_valid(names.items[i]))
			continue;
		r = prove(p, names.items[i]);
		if (r == 0)
			remove_damaged(p, names.items[i]);
		r = r < 0 ? r : 0;
	}
	words_done(&names);
	return r;
}

/* Every digest that a pin names, former ones too: its processes may read the snapshot any time. */
static int pinned(struct publisher *p, struct words *ret)
{
	_cleanup_(closep) int fd =
		openat(p->dir_fd, "jobs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct words names = {0};
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = list(fd, &names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		char text[PATH_MAX];
		ssize_t n = readlinkat(fd, names.items[i], text, sizeof(text) - 1);

		if (n < 0)
			continue;
		text[n] = '\0';
		r = words_merge(ret, text);
	}
	words_done(&names);
	return r;
}

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct published *)a)->mtime,
			      *y = &((const struct published *)b)->mtime;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

int publisher_prune(struct publisher *p, const struct words *keep)
{
	struct words used = {0};
	uint64_t total = 0;
	int r;

	for (size_t i = 0; i < p->n_items; i++)
		total += (uint64_t)p->items[i].size;
	if (total <= PUBLISH_MAX_BYTES)
		return 0;
	r = pinned(p, &used);
	if (r == 0)
		qsort(p->items, p->n_items, sizeof(*p->items), by_age);
	for (size_t i = 0; r == 0 && i < p->n_items && total > PUBLISH_MAX_BYTES;) {
		struct published *item = &p->items[i];

		if (words_contain(keep, item->digest) || words_contain(&used, item->digest)) {
			i++;
			continue;
		}
		total -= (uint64_t)item->size;
		if (unlinkat(p->snapshots_fd, item->digest, 0) < 0 && errno != ENOENT)
			r = -errno;
		memmove(item, item + 1, (p->n_items - i - 1) * sizeof(*item));
		p->n_items--;
	}
	words_done(&used);
	return r;
}

/* 1: NAME is a believable file with exactly these bytes. */
static int file_is(const struct publisher *p, const char *name, mode_t mode, const char *text,
		   size_t size)
{
	_cleanup_(freep) char *bytes = NULL;
	struct stat st;
	size_t n;

	return is_believable(p->dir_fd, name, mode, &st) &&
	       file_read(p->dir_fd, name, RUNTIME_FILE_MAX, &bytes, &n) == 0 && n == size &&
	       memcmp(bytes, text, n) == 0;
}

int publisher_basis(struct publisher *p, const char *text, size_t size)
{
	return file_replace(p->dir_fd, BASIS, text, size, BASIS_MODE, 0);
}

int publisher_read_basis(const struct publisher *p, char **ret, size_t *ret_size)
{
	struct stat st;

	if (fstatat(p->dir_fd, BASIS, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!is_believable(p->dir_fd, BASIS, BASIS_MODE, &st))
		return -EPERM;
	return file_read(p->dir_fd, BASIS, RUNTIME_FILE_MAX, ret, ret_size);
}

int publisher_assign(struct publisher *p, const char *text, size_t size)
{
	return file_replace(p->dir_fd, "assign", text, size, PUBLISHED_MODE, 0);
}

int publisher_assign_is(const struct publisher *p, const char *text, size_t size)
{
	return file_is(p, "assign", PUBLISHED_MODE, text, size);
}

int publisher_status(struct publisher *p, const char *text, size_t size)
{
	return file_replace(p->dir_fd, "status", text, size, 0644, 0);
}

int publisher_status_is(const struct publisher *p, const char *text, size_t size)
{
	return file_is(p, "status", 0644, text, size);
}

int publisher_current(struct publisher *p, const char *digest)
{
	char target[sizeof("snapshots/") + DIGEST_HEX], old[sizeof(target)];
	ssize_t n;

	if (!digest[0])
		return unlinkat(p->dir_fd, "current", 0) < 0 && errno != ENOENT ? -errno : 0;
	(void)snprintf(target, sizeof(target), "snapshots/%s", digest);
	n = readlinkat(p->dir_fd, "current", old, sizeof(old));
	if (n == (ssize_t)strlen(target) && memcmp(old, target, (size_t)n) == 0)
		return 0;
	return file_link_replace(p->dir_fd, "current", target);
}
