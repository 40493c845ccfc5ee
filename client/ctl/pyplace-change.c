/* SPDX-License-Identifier: MIT */
/* Brings a hook to its place and takes it away: see client/ctl/pyplace.h for the order of the
 * steps. */
#include "client/ctl/pyplace-internal.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "client/ctl/pytrust.h"
#include "common/util.h"

#define STAGE_PREFIX ".cudaenv-stage-"
#define STAGE_SIZE   32

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

_printf_(3, 4) static int refuse(int r, char why[PYEXE_WHY_SIZE], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(why, PYEXE_WHY_SIZE, format, ap);
	va_end(ap);
	return r;
}

/* The parent, locked against a second installer; whose files are to be whose. */
struct parent {
	int fd;
	const char *path;
	bool give; /* our files are given to the owner of a user's tree, who must be able to delete
		      it */
	uid_t uid;
	gid_t gid;
};

static void parent_done(struct parent *p)
{
	p->fd = safe_close(p->fd);
}

/* OWNER: of the interpreter. A link of a user may lead anywhere, so root looks at whose the place
 * is. */
static int parent_open(const char *path, uid_t owner, struct parent *ret, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(parent_done) struct parent p = {.fd = place_open_directory(path), .path = path};
	struct stat st;

	if (p.fd < 0)
		return refuse(p.fd, why, "cannot open %s: %s", path, strerror(-p.fd));
	if (fstat(p.fd, &st) < 0)
		return -errno;
	if (geteuid() == 0 && owner != 0 && st.st_uid != owner)
		return refuse(-EPERM, why,
			      "%s belongs to uid %u, the interpreter that leads there to uid %u: "
			      "nothing is changed there",
			      path, (unsigned)st.st_uid, (unsigned)owner);
	if (flock(p.fd, LOCK_EX | LOCK_NB) < 0)
		return refuse(-EBUSY, why, "%s is being changed by another cudaenvctl", path);
	p.give = geteuid() == 0 && st.st_uid != 0;
	p.uid = st.st_uid;
	p.gid = st.st_gid;
	*ret = p;
	p.fd = -EBADF;
	return 0;
}

/* --- staging */

static void stage_name(char ret[STAGE_SIZE])
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = (uint64_t)getpid();
	(void)snprintf(ret, STAGE_SIZE, STAGE_PREFIX "%016jx", (uintmax_t)random);
}

/* Deletes the directory NAME with the files in it and in its __pycache__. */
static int delete_tree(int parent_fd, const char *name, bool inner)
{
	_cleanup_(closedirp) DIR *d = NULL;
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	struct dirent *e;

	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		(void)safe_close(fd);
		return -ENOMEM;
	}
	while ((e = readdir(d))) {
		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		if (!inner && streq(e->d_name, "__pycache__"))
			r = delete_tree(fd, e->d_name, true);
		else if (unlinkat(fd, e->d_name, 0) < 0)
			r = -errno;
	}
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && r == 0)
		r = -errno;
	return r;
}

/* What an interrupted installation left. */
static void delete_stale(const struct parent *p)
{
	int fd = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		(void)safe_close(fd);
		return;
	}
	while ((e = readdir(d)))
		if (startswith(e->d_name, STAGE_PREFIX) && unlinkat(p->fd, e->d_name, 0) < 0)
			(void)delete_tree(p->fd, e->d_name, false);
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		}
	}
	return 0;
}

static int write_file(const struct parent *p, int dir_fd, const char *name, const char *bytes,
		      size_t size)
{
	_cleanup_(closep) int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, bytes, size);
	if (r < 0)
		return r;
	if (p->give && fchown(fd, p->uid, p->gid) < 0)
		return -errno;
	return fchmod(fd, 0644) < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* A new directory of our own. Who owns the directory above could have put another in its place
 * meanwhile. */
static int make_directory(int dir_fd, const char *name)
{
	_cleanup_(closep) int fd = -EBADF;
	struct stat st;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_uid != geteuid() ? -EPERM : TAKE_FD(fd);
}

static int finish_directory(const struct parent *p, int fd)
{
	if (p->give && fchown(fd, p->uid, p->gid) < 0)
		return -errno;
	return fchmod(fd, 0755) < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* The path of F in our directory, or NULL: it stands beside it. */
static const char *inside(const struct pyhook *h, const char *path)
{
	const char *rest = startswith(path, h->name);

	return rest && *rest == '/' ? rest + 1 : NULL;
}

static int build(const struct parent *p, const struct pyhook *h, const char *stage)
{
	_cleanup_(closep) int fd = make_directory(p->fd, stage), cache = -EBADF;
	int r = fd < 0 ? fd : 0;

	if (r == 0 && h->compiled) {
		cache = make_directory(fd, "__pycache__");
		r = cache < 0 ? cache : 0;
	}
	for (size_t i = 0; i < h->n_files && r == 0; i++) {
		const char *path = inside(h, h->files[i].path);
		const char *cached = path ? startswith(path, "__pycache__/") : NULL;

		if (cached)
			r = write_file(p, cache, cached, h->files[i].bytes, h->files[i].size);
		else if (path)
			r = write_file(p, fd, path, h->files[i].bytes, h->files[i].size);
	}
	if (r == 0 && h->compiled)
		r = finish_directory(p, cache);
	return r < 0 ? r : finish_directory(p, fd);
}

/* --- into place */

static bool no_such_flag(void)
{
	return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/* Where the file system cannot rename without replacing: a directory replaces an empty one at most.
 */
static int rename_new(int fd, const char *from, const char *to)
{
	if (renameat2(fd, from, fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	return no_such_flag() && renameat(fd, from, fd, to) == 0 ? 0 : -errno;
}

/* The new one at STAGE against the old one. Where the file system cannot exchange there is a moment
 * without a hook. */
static int exchange(int fd, const char *stage, const char *name)
{
	char old[STAGE_SIZE];

	if (renameat2(fd, stage, fd, name, RENAME_EXCHANGE) == 0)
		return 0;
	if (!no_such_flag())
		return -errno;
	stage_name(old);
	if (renameat(fd, name, fd, old) < 0 || renameat(fd, stage, fd, name) < 0 ||
	    renameat(fd, old, fd, stage) < 0)
		return -errno;
	return 0;
}

static int put_beside(const struct parent *p, const struct pyhook_file *f)
{
	char stage[STAGE_SIZE];
	int r;

	stage_name(stage);
	r = write_file(p, p->fd, stage, f->bytes, f->size);
	if (r == 0 && renameat(p->fd, stage, p->fd, f->path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(p->fd, stage, 0);
	return r;
}

static int put(const struct parent *p, const struct pyhook *h, bool replace)
{
	char stage[STAGE_SIZE];
	int r;

	delete_stale(p);
	stage_name(stage);
	r = build(p, h, stage);
	if (r == 0)
		r = replace ? exchange(p->fd, stage, h->name) : rename_new(p->fd, stage, h->name);
	if (r < 0 || replace)
		(void)delete_tree(p->fd, stage, false);
	for (size_t i = 0; i < h->n_files && r == 0; i++)
		if (!inside(h, h->files[i].path))
			r = put_beside(p, &h->files[i]);
	return r == 0 && fsync(p->fd) < 0 ? -errno : r;
}

/* --- may it be put there? */

static bool hook_has(const struct pyhook *h, const char *path)
{
	for (size_t i = 0; i < h->n_files; i++)
		if (streq(h->files[i].path, path))
			return true;
	return false;
}

static bool proven(const struct pyplace *place, const char *path)
{
	for (size_t i = 0; i < place->n_entries; i++)
		if (streq(place->entries[i].path, path))
			return place->entries[i].state == ENTRY_GOOD;
	return false;
}

/* A file beside our directory: absent, proven by the manifest, or the same bytes. */
static bool beside_is_ours(const struct parent *p, const struct pyplace *place,
			   const struct pyhook_file *f)
{
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r = place_read(p->fd, f->path, PLACE_FILE_MAX, &bytes, &size);

	if (r == -ENOENT || proven(place, f->path))
		return true;
	return r == 0 && size == f->size && memcmp(bytes, f->bytes, size) == 0;
}

static int check_place(const struct parent *p, const struct pyplace *place, const struct pyhook *h,
		       char why[PYEXE_WHY_SIZE])
{
	const char *network = pytrust_network(h->parent);

	if (network)
		return refuse(-EREMOTE, why,
			      "%s lies on a network file system (%s), which other nodes may share: "
			      "nothing is "
			      "installed there",
			      h->parent, network);
	if (place->state == PYPLACE_FOREIGN)
		return refuse(-EEXIST, why, "%s/%s is there already and not cudaenv's%s", h->parent,
			      h->name,
			      h->method == PYHOOK_DIRECTORY ? ": --method pth uses another place"
							    : "");
	if (place->more_foreign)
		return refuse(-EEXIST, why, "%s/%s holds many files that are not cudaenv's",
			      h->parent, h->name);
	for (size_t i = 0; i < place->n_entries; i++) {
		const struct pyplace_entry *e = &place->entries[i];

		if (e->state == ENTRY_FOREIGN && !hook_has(h, e->path))
			return refuse(-EEXIST, why, "%s/%s is not cudaenv's: move it away first",
				      h->parent, e->path);
	}
	for (size_t i = 0; i < h->n_files; i++)
		if (!inside(h, h->files[i].path) && !beside_is_ours(p, place, &h->files[i]))
			return refuse(-EEXIST, why, "%s/%s is there already and not cudaenv's",
				      h->parent, h->files[i].path);
	return 0;
}

static bool same(const struct pyplace *place, const struct pyhook *h)
{
	const struct pyhook_file *manifest = &h->files[h->n_files - 1];

	return place->state == PYPLACE_GOOD && place->manifest_text &&
	       streq(place->manifest_text, manifest->bytes);
}

int pyplace_install(const struct pyhook *hook, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyplace_done) struct pyplace place = PYPLACE_NULL;
	_cleanup_(parent_done) struct parent p = {.fd = -EBADF};
	int r;

	why[0] = '\0';
	r = parent_open(hook->parent, hook->owner, &p, why);
	if (r == 0)
		r = pyplace_look(hook->parent, hook->name, &place, why);
	if (r == 0)
		r = check_place(&p, &place, hook, why);
	if (r == 0 && same(&place, hook))
		return 0;
	if (r == 0)
		r = put(&p, hook, place.state != PYPLACE_ABSENT);
	if (r < 0 && !why[0])
		(void)refuse(r, why, "cannot write to %s: %s%s", hook->parent, strerror(-r),
			     (r == -EACCES || r == -EPERM) && geteuid() != 0
				     ? "; hook a venv of yours, or run this as root"
				     : "");
	return r < 0 ? r : 1;
}

/* --- away */

/* Names what was not removed. */
static void name_rest(const struct pyplace *place, char why[PYEXE_WHY_SIZE])
{
	size_t used =
		(size_t)snprintf(why, PYEXE_WHY_SIZE,
				 "kept in %s, since not as cudaenv installed it:", place->parent);

	for (size_t i = 0; i < place->n_entries && used < PYEXE_WHY_SIZE; i++) {
		const struct pyplace_entry *e = &place->entries[i];

		if (e->state == ENTRY_CHANGED || e->state == ENTRY_FOREIGN)
			used += (size_t)snprintf(why + used, PYEXE_WHY_SIZE - used, " %s", e->path);
	}
}

/* Beside first (the last of the manifest is what starts ours), then the directory, whole or in
 * parts. */
static int take_away(const struct parent *p, const struct pyplace *place)
{
	static const struct timespec grace = {.tv_nsec = 50000000};
	bool whole = !place->more_foreign, beside = false;
	char stage[STAGE_SIZE];

	for (size_t i = place->n_entries; i-- > 0;) {
		const struct pyplace_entry *e = &place->entries[i];

		if (e->state == ENTRY_CHANGED || e->state == ENTRY_FOREIGN)
			whole = false;
		if (e->state != ENTRY_GOOD || strchr(e->path, '/'))
			continue;
		if (unlinkat(p->fd, e->path, 0) < 0)
			return -errno;
		beside = true;
	}
	/* A start that has read the .pth line gets its package: one that is gone would be an error
	 * in its output. */
	if (beside)
		(void)nanosleep(&grace, NULL);
	if (whole) {
		stage_name(stage);
		if (rename_new(p->fd, place->name, stage) < 0)
			return -errno;
		return delete_tree(p->fd, stage, false);
	}
	for (size_t i = 0; i < place->n_entries; i++) {
		const struct pyplace_entry *e = &place->entries[i];
		int r = 0;

		if ((e->state == ENTRY_GOOD || e->state == ENTRY_CACHE) && strchr(e->path, '/'))
			r = place_unlink(p->fd, e->path);
		if (r < 0)
			return r;
	}
	return -EUCLEAN;
}

static int remove_place(const struct parent *p, const struct pyplace *place,
			char why[PYEXE_WHY_SIZE])
{
	int r;

	if (place->state == PYPLACE_FOREIGN)
		return refuse(-EEXIST, why, "%s/%s is not cudaenv's: nothing is removed", p->path,
			      place->name);
	if (!place->manifest_text)
		return refuse(-EUCLEAN, why,
			      "%s/%s/" PYHOOK_MANIFEST
			      " is damaged, so nothing there can be proven to be "
			      "cudaenv's: `cudaenvctl python install` repairs it, then remove",
			      p->path, place->name);
	r = take_away(p, place);
	if (r == -EUCLEAN)
		name_rest(place, why);
	if (fsync(p->fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int pyplace_remove(const char *parent, const char *name, uid_t owner, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyplace_done) struct pyplace place = PYPLACE_NULL;
	_cleanup_(parent_done) struct parent p = {.fd = -EBADF};
	int r;

	why[0] = '\0';
	r = parent_open(parent, owner, &p, why);
	if (r == 0)
		r = pyplace_look(parent, name, &place, why);
	if (r == 0)
		delete_stale(&p);
	if (r == 0 && place.state == PYPLACE_ABSENT)
		return 0;
	if (r == 0)
		r = remove_place(&p, &place, why);
	if (r < 0 && !why[0])
		(void)refuse(r, why, "cannot remove from %s: %s", parent, strerror(-r));
	return r < 0 ? r : 1;
}
