/* SPDX-License-Identifier: MIT */
/*
 * Profiles from directories: which files count, precedence, masks, and in which order profiles are
 * joined with the ones that they inherit.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/profile-internal.h"
#include "common/util.h"

#define SUFFIX ".ini"

/* Printable text for any file name: other bytes and the backslash as \xNN, so that two names never
 * become one. */
static int escape(const char *name, size_t size, char **ret)
{
	char *text = malloc(4 * size + 1), *out = text;

	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c > 0x20 && c < 0x7f && c != '\\')
			*out++ = (char)c;
		else
			out += sprintf(out, "\\x%02x", c);
	}
	*out = '\0';
	*ret = text;
	return 0;
}

/* The place of NAME in SET, and whether it is there. */
static size_t find(const struct profile_set *set, const char *name, bool *ret_found)
{
	size_t low = 0, high = set->n_profiles;

	*ret_found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = strcmp(set->profiles[middle]->name, name);

		if (c == 0) {
			*ret_found = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct profile *profile_set_find(const struct profile_set *set, const char *name)
{
	bool found;
	size_t i = find(set, name, &found);

	return found ? set->profiles[i] : NULL;
}

static int insert_at(struct profile_set *set, size_t i, struct profile *p)
{
	struct profile **grown = reallocarray(set->profiles, set->n_profiles + 1, sizeof *grown);

	if (!grown)
		return -ENOMEM;
	set->profiles = grown;
	memmove(&grown[i + 1], &grown[i], (set->n_profiles - i) * sizeof *grown);
	grown[i] = p;
	set->n_profiles++;
	return 0;
}

static int file_fault(struct profile *p, const char *rule, const char *fix, const char *message)
{
	return findings_add(&p->findings, FINDING_ERROR, 0, 0, rule, NULL, fix, "%s", message);
}

/* A group that is its owner's alone (same number) is not "others". */
static bool others_write(const struct stat *st)
{
	return (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != st->st_uid);
}

/* Who else than root and oneself decides what the file says. */
static int check_trust(struct profile *p, const struct stat *st, const char *what)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return findings_add(&p->findings, FINDING_WARNING, 0, 0, "file-owner", NULL,
				    "give it to root", "%s belongs to uid %u", what,
				    (unsigned)st->st_uid);
	if (others_write(st))
		return findings_add(&p->findings, FINDING_WARNING, 0, 0, "file-writable", NULL,
				    "chmod go-w", "%s can be written by others than its owner",
				    what);
	return 0;
}

/* Reads until the end, one byte more than allowed at most. */
static int read_all(int fd, char **ret, size_t *ret_size)
{
	_cleanup_(freep) char *bytes = malloc(PROFILE_MAX_BYTES + 1);
	size_t size = 0;

	if (!bytes)
		return -ENOMEM;
	while (size <= PROFILE_MAX_BYTES) {
		ssize_t n = read(fd, bytes + size, PROFILE_MAX_BYTES + 1 - size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
	}
	*ret = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}

/* Opens only regular files: a device may act when it is opened, a FIFO blocks its reader. /dev/null
 * gives -ENODATA. */
static int open_regular(int dir_fd, const char *name, struct stat *ret_st)
{
	_cleanup_(closep) int fd = -EBADF;

	if (fstatat(dir_fd, name, ret_st, 0) < 0)
		return -errno;
	if (S_ISCHR(ret_st->st_mode) && ret_st->st_rdev == makedev(1, 3))
		return -ENODATA;
	if (S_ISDIR(ret_st->st_mode))
		return -EISDIR;
	if (!S_ISREG(ret_st->st_mode))
		return -EINVAL;
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	if (!S_ISREG(ret_st->st_mode))
		return -EINVAL;
	return TAKE_FD(fd);
}

/* Reads and parses the file. 0 (also where faults became findings or a mask), or why it cannot be
 * read. */
static int read_file(struct profile *p, int dir_fd, const char *name)
{
	_cleanup_(closep) int fd = -EBADF;
	_cleanup_(freep) char *bytes = NULL;
	struct stat st;
	size_t size = 0;
	int r;

	fd = open_regular(dir_fd, name, &st);
	if (fd == -ENODATA) {
		p->masked = true;
		return 0;
	}
	if (fd < 0)
		return fd;
	r = check_trust(p, &st, "the file");
	if (r < 0)
		return r;
	r = read_all(fd, &bytes, &size);
	if (r < 0)
		return r;
	if (size > PROFILE_MAX_BYTES)
		return file_fault(p, "too-large", "split it, or shorten it",
				  "the file is larger than 512 KiB");
	return profile_read(p, bytes, size);
}

static int unreadable(struct profile *p, int error)
{
	if (error == -EISDIR)
		return file_fault(p, "not-a-file", "remove or rename it", "this is a directory");
	if (error == -EINVAL)
		return file_fault(p, "not-a-file", "remove or rename it",
				  "this is not a regular file");
	if (error == -ENOENT || error == -ELOOP)
		return file_fault(p, "not-a-file", "remove it, or correct where it points",
				  "this symlink leads nowhere");
	return findings_add(&p->findings, FINDING_ERROR, 0, 0, "unreadable", NULL,
			    "correct its mode and owner", "the file cannot be read: %s",
			    strerror(-error));
}

/* In settings and commands `none` is no profile, and `auto` is one by [match]. */
static int check_label(struct profile *p)
{
	if (streq(p->name, "none") || streq(p->name, "auto"))
		return file_fault(p, "bad-file-name", "rename it",
				  "none and auto have a meaning of their own");
	if (snapshot_label_valid(p->name, strlen(p->name)))
		return 0;
	return file_fault(p, "bad-file-name",
			  "rename it: letters, digits, _ . @ and -, at most 128, not - first",
			  "the file's name cannot be a profile's name");
}

static bool gone(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

struct directory {
	const char *path;
	int fd;
	struct stat st;
};

/* Loads one entry of a directory into SET, unless a directory before had that name. */
static int load_entry(struct profile_set *set, const struct directory *dir, const char *file)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	_cleanup_(freep) char *name = NULL, *shown = NULL, *path = NULL;
	bool found;
	size_t i;
	int r;

	r = escape(file, strlen(file) - STRLEN(SUFFIX), &name);
	if (r < 0)
		return r;
	i = find(set, name, &found);
	if (found)
		return 0;
	r = escape(file, strlen(file), &shown);
	if (r < 0)
		return r;
	if (asprintf(&path, "%s/%s", dir->path, shown) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = profile_new(name, path, &p);
	if (r < 0)
		return r;
	r = read_file(p, dir->fd, file);
	if (r == -ENOENT && gone(dir->fd, file))
		return 0; /* removed since the directory was listed */
	if (r == -ENOMEM || r == -EIO)
		return r;
	if (r < 0)
		r = unreadable(p, r);
	if (r >= 0 && !p->masked)
		r = check_trust(p, &dir->st, "the directory");
	if (r >= 0 && !p->masked)
		r = check_label(p);
	if (r < 0)
		return r;
	r = insert_at(set, i, p);
	if (r >= 0)
		p = NULL;
	return r;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static bool is_profile_file(const char *file)
{
	size_t n = strlen(file);

	return file[0] != '.' && n > STRLEN(SUFFIX) && streq(file + n - STRLEN(SUFFIX), SUFFIX);
}

static int load_directory(struct profile_set *set, const char *path)
{
	_cleanup_(closedirp) DIR *d = opendir(path);
	struct directory dir = {.path = path};
	struct dirent *e;
	int r;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	dir.fd = dirfd(d);
	if (fstat(dir.fd, &dir.st) < 0)
		return -errno;
	while ((errno = 0, e = readdir(d))) {
		if (!is_profile_file(e->d_name))
			continue;
		r = load_entry(set, &dir, e->d_name);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int load_directories(struct profile_set *set, const char *const *dirs)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && dirs && dirs[i]; i++)
		r = load_directory(set, dirs[i]);
	return r;
}

/* Masks have done their work once all directories were read. */
static void drop_masked(struct profile_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n_profiles; i++) {
		if (set->profiles[i]->masked)
			(void)profile_free(set->profiles[i]);
		else
			set->profiles[kept++] = set->profiles[i];
	}
	set->n_profiles = kept;
}

static struct profile *parent_of(const struct profile_set *set, const struct profile *p)
{
	return p->inherits ? profile_set_find(set, p->inherits) : NULL;
}

static int inherits_fault(struct profile *p, const char *rule, const char *fix, const char *before,
			  const char *after)
{
	return findings_add(&p->findings, FINDING_ERROR, p->inherits_line, p->inherits_column, rule,
			    NULL, fix, "%s%s%s", before, p->inherits, after);
}

/* Finds circles and lines of inheritance that are too long, before anything is joined. 1: the line
 * is good. */
static int check_line(const struct profile_set *set, struct profile *p)
{
	const struct profile *q = p;

	for (unsigned depth = 1; depth <= PROFILE_MAX_DEPTH; depth++) {
		q = parent_of(set, q);
		if (!q)
			return 1;
		if (q == p)
			return inherits_fault(p, "inherits-itself", "break the circle", "through ",
					      " this profile inherits itself");
	}
	return inherits_fault(p, "inherits-too-deep", "inherit from fewer",
			      "the line of inheritance through ",
			      " goes in a circle or has more than 16 profiles");
}

/* Joins P with its parent, which is joined first. The depth is bounded by check_line(). */
static int join_line(const struct profile_set *set, const struct facts *facts, struct profile *p)
{
	struct profile *parent = NULL;
	int r = 1;

	if (p->joined)
		return 0;
	if (p->inherits) {
		r = check_line(set, p);
		if (r < 0)
			return r;
		parent = r == 1 ? parent_of(set, p) : NULL;
	}
	if (parent) {
		r = join_line(set, facts, parent);
		if (r >= 0 && !parent->valid)
			r = inherits_fault(p, "broken-parent", "correct that one first",
					   "the profile ", ", which this one inherits, has errors");
	} else if (p->inherits && r == 1) {
		r = inherits_fault(p, "no-parent", "write the name of a profile that is there",
				   "there is no profile ", "");
	}
	if (r < 0)
		return r;
	r = profile_join(p, parent && parent->valid ? parent : NULL);
	if (r < 0)
		return r;
	return profile_finish(p, facts);
}

static int join_all(struct profile_set *set, const struct facts *facts)
{
	int r = 0;

	drop_masked(set);
	for (size_t i = 0; r >= 0 && i < set->n_profiles; i++)
		r = join_line(set, facts, set->profiles[i]);
	return r;
}

int profile_set_load(const char *const *dirs, const struct facts *facts, struct profile_set *ret)
{
	_cleanup_(profile_set_done) struct profile_set set = {0};
	int r;

	r = load_directories(&set, dirs);
	if (r < 0)
		return r;
	r = join_all(&set, facts);
	if (r < 0)
		return r;
	*ret = set;
	set = (struct profile_set){0};
	return 0;
}

void profile_set_done(struct profile_set *set)
{
	for (size_t i = 0; i < set->n_profiles; i++)
		(void)profile_free(set->profiles[i]);
	free(set->profiles);
	*set = (struct profile_set){0};
}

/* The profile's name: the file's, without directories and .ini. */
static int name_of(const char *path, char **ret)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	size_t n = strlen(file);

	if (n > STRLEN(SUFFIX) && streq(file + n - STRLEN(SUFFIX), SUFFIX))
		n -= STRLEN(SUFFIX);
	return escape(file, n, ret);
}

/* Puts P into SET in place of the profile of that name: its children and parents see the file that
 * is checked. */
static int put(struct profile_set *set, struct profile *p)
{
	bool found;
	size_t i = find(set, p->name, &found);

	if (!found)
		return insert_at(set, i, p);
	(void)profile_free(set->profiles[i]);
	set->profiles[i] = p;
	return 0;
}

int profile_load_file(const char *path, const char *const *dirs, const struct facts *facts,
		      struct profile **ret)
{
	_cleanup_(profile_set_done) struct profile_set set = {0};
	_cleanup_(profile_freep) struct profile *p = NULL;
	_cleanup_(freep) char *name = NULL;
	struct profile *file;
	size_t i;
	bool found;
	int r;

	r = name_of(path, &name);
	if (r < 0)
		return r;
	r = profile_new(name, path, &p);
	if (r < 0)
		return r;
	r = read_file(p, AT_FDCWD, path);
	if (r < 0)
		return r;
	r = p->masked ? 0 : check_label(p);
	if (r < 0)
		return r;
	if (p->masked) {
		*ret = TAKE_PTR(p);
		return 0;
	}
	r = load_directories(&set, dirs);
	if (r == -ENOMEM)
		return r;
	r = put(&set, p);
	if (r < 0)
		return r;
	file = TAKE_PTR(p); /* now the set's */
	r = join_all(&set, facts);
	if (r < 0)
		return r;
	i = find(&set, file->name, &found);
	memmove(&set.profiles[i], &set.profiles[i + 1],
		(--set.n_profiles - i) * sizeof *set.profiles);
	*ret = file;
	return 0;
}
