/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/manager/files.h"
#include "daemon/manager/state.h"

#define ACTIVE_MAX_BYTES  ((size_t)1024 * 1024)
#define HISTORY_MAX_BYTES ((size_t)8 * 1024 * 1024)

struct state *state_free(struct state *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_history; i++)
		history_entry_done(&s->history[i]);
	free(s->history);
	active_done(&s->active);
	s->snapshots_fd = safe_close(s->snapshots_fd);
	s->dir_fd = safe_close(s->dir_fd);
	s->lock_fd = safe_close(s->lock_fd);
	free(s->path);
	free(s);
	return NULL;
}

/* NAME, NAME.1, ... NAME.9: the evidence of an earlier damage is not overwritten until there are
 * ten. */
static int move_aside(struct state *s, const char *name, const char *why, struct words *complaints)
{
	char aside[NAME_MAX + 1];

	for (unsigned i = 0; i < 10; i++) {
		(void)snprintf(aside, sizeof(aside), "%s.damaged-%u", name, i);
		if (faccessat(s->dir_fd, aside, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			break;
	}
	if (renameat(s->dir_fd, name, s->dir_fd, aside) < 0)
		return words_addf(complaints, "%s/%s %s and cannot be moved aside: %s", s->path,
				  name, why, strerror(errno));
	return words_addf(complaints, "%s/%s %s: moved aside as %s", s->path, name, why, aside);
}

static int load_active(struct state *s, struct words *complaints)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	int r;

	r = file_read(s->dir_fd, "active", ACTIVE_MAX_BYTES, &text, &size);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = active_parse(text, size, &s->active);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return move_aside(s, "active", "is damaged", complaints);
	s->found = true;
	return 0;
}

int state_peek(const char *path, struct active *ret)
{
	_cleanup_(closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	size_t size;
	int r;

	if (fd < 0)
		return -errno;
	r = file_read(fd, "active", ACTIVE_MAX_BYTES, &text, &size);
	return r < 0 ? r : active_parse(text, size, ret);
}

static int push_history(struct state *s, struct history_entry *e)
{
	struct history_entry *items =
		reallocarray(s->history, s->n_history + 1, sizeof(*s->history));

	if (!items)
		return -ENOMEM;
	s->history = items;
	s->history[s->n_history++] = *e;
	*e = (struct history_entry){.uid = STATE_UID_UNKNOWN};
	return 0;
}

/* Counts lines that are no entry in *ret_bad. A last line without LF is a write that was cut: not
 * counted. */
static int parse_lines(struct state *s, char *text, size_t size, unsigned *ret_bad, bool *ret_cut)
{
	char *end = text + size;

	while (text < end) {
		char *eol = memchr(text, '\n', (size_t)(end - text));
		struct history_entry e;
		int r;

		if (!eol) {
			*ret_cut = true;
			return 0;
		}
		*eol = '\0';
		r = strlen(text) == (size_t)(eol - text) ? history_parse(text, &e) : -EBADMSG;
		if (r == 0)
			r = push_history(s, &e);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			(*ret_bad)++;
		text = eol + 1;
	}
	return 0;
}

static int write_history(struct state *s)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int r = 0;

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < s->n_history; i++) {
		_cleanup_(freep) char *line = NULL;

		r = history_format(&s->history[i], &line);
		if (r == 0)
			fprintf(f, "%s\n", line);
	}
	if (fclose(f) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		r = file_replace(s->dir_fd, "history", text, size, 0600, FILE_SYNC);
	s->history_unsaved = r < 0;
	return r;
}

static int load_history(struct state *s, struct words *complaints)
{
	_cleanup_(freep) char *text = NULL;
	unsigned bad = 0;
	bool cut = false;
	size_t size;
	int r;

	r = file_read(s->dir_fd, "history", HISTORY_MAX_BYTES, &text, &size);
	if (r == -ENOENT || r == -ENOMEM)
		return r == -ENOENT ? 0 : r;
	if (r < 0)
		return move_aside(s, "history", "cannot be read", complaints);
	r = parse_lines(s, text, size, &bad, &cut);
	if (r < 0)
		return r;
	if (bad > 0)
		r = move_aside(s, "history", "has damaged lines", complaints);
	if (r == 0 && (bad > 0 || cut)) {
		r = write_history(s);
		if (r < 0)
			r = words_addf(complaints, "%s/history cannot be rewritten: %s", s->path,
				       strerror(-r));
	}
	return r;
}

/* The choice in force as the history tells it, for when the file "active" is lost. */
static int reconstruct(struct state *s, struct words *complaints)
{
	for (size_t i = 0; i < s->n_history; i++) {
		const struct history_entry *e = &s->history[i];
		enum mode mode;

		if (e->generation > s->active.generation)
			s->active.generation = e->generation;
		if (streq(e->scope, "node") && mode_parse(e->action, &mode) == 0)
			s->active.mode = mode;
		if (!history_is_choice(e))
			continue;
		s->active.digest[0] = s->active.profile[0] = '\0';
		/* "apply" follows an edit, whoever chose the profile. */
		if (streq(e->action, "config") || streq(e->action, "reload") ||
		    streq(e->action, "reset"))
			s->active.chosen = false;
		else if (!streq(e->action, "apply"))
			s->active.chosen = true;
		if (!e->to || !digest_valid(e->to))
			continue;
		strcpy(s->active.digest, e->to);
		if (e->profile && snapshot_label_valid(e->profile, strlen(e->profile)))
			strcpy(s->active.profile, e->profile);
	}
	if (s->active.profile[0] &&
	    active_set_applied(&s->active, s->active.profile, s->active.digest) < 0)
		return -ENOMEM;
	s->found = s->rebuilt = true;
	return words_addf(complaints,
			  "%s/active is lost: mode and profile are taken from the history",
			  s->path);
}

static int open_directories(struct state *s)
{
	int r;

	r = directory_make(s->path, 0700);
	if (r < 0)
		return r;
	s->dir_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return -errno;
	if (mkdirat(s->dir_fd, "snapshots", 0700) < 0 && errno != EEXIST)
		return -errno;
	s->snapshots_fd =
		openat(s->dir_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->snapshots_fd < 0 ? -errno : 0;
}

int state_open(const char *path, struct state **ret, struct words *complaints, pid_t *ret_pid)
{
	_cleanup_(state_freep) struct state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->dir_fd = s->snapshots_fd = s->lock_fd = -EBADF;
	s->active.mode = MODE_OBSERVE;
	s->path = strdup(path);
	if (!s->path)
		return -ENOMEM;
	r = open_directories(s);
	if (r < 0)
		return r;
	s->lock_fd = file_lock(s->dir_fd, "lock", ret_pid);
	if (s->lock_fd < 0)
		return s->lock_fd;
	(void)file_sweep(s->dir_fd);
	(void)file_sweep(s->snapshots_fd);
	r = load_active(s, complaints);
	if (r == 0)
		r = load_history(s, complaints);
	if (r == 0 && !s->found && s->n_history > 0)
		r = reconstruct(s, complaints);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

int state_save(struct state *s, const struct active *a)
{
	_cleanup_(freep) char *text = NULL;
	struct active copy;
	int r;

	if (a != &s->active) {
		r = active_copy(a, &copy);
		if (r < 0)
			return r;
		active_done(&s->active);
		s->active = copy;
	}
	r = active_format(&s->active, &text);
	if (r == 0)
		r = file_replace(s->dir_fd, "active", text, strlen(text), 0600, FILE_SYNC);
	if (r == 0 && s->history_unsaved)
		r = write_history(s);
	return r;
}

static int append_line(struct state *s, const char *line)
{
	_cleanup_(closep) int fd = -EBADF;
	struct stat st;
	size_t n = strlen(line);
	char *buf;
	ssize_t k;

	fd = openat(s->dir_fd, "history",
		    O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	buf = malloc(n + 1);
	if (!buf)
		return -ENOMEM;
	memcpy(buf, line, n);
	buf[n] = '\n';
	k = write(fd, buf, n + 1);
	free(buf);
	if (k == (ssize_t)n + 1)
		return fsync(fd) < 0 ? -errno : 0;
	k = k < 0 ? -errno : -ENOSPC;
	(void)!ftruncate(fd, st.st_size); /* a part of a line would spoil the next one */
	return (int)k;
}

static void drop_older_half(struct state *s)
{
	size_t gone = s->n_history / 2;

	for (size_t i = 0; i < gone; i++)
		history_entry_done(&s->history[i]);
	s->n_history -= gone;
	memmove(s->history, s->history + gone, s->n_history * sizeof(*s->history));
}

int state_record(struct state *s, struct history_entry *e)
{
	_cleanup_(freep) char *line = NULL;
	int r;

	r = push_history(s, e);
	if (r < 0)
		return r;
	if (s->n_history > STATE_HISTORY_MAX)
		drop_older_half(s);
	else if (!s->history_unsaved) {
		r = history_format(&s->history[s->n_history - 1], &line);
		if (r == 0)
			r = append_line(s, line);
		s->history_unsaved = r < 0;
		return r;
	}
	return write_history(s);
}

struct stored {
	char digest[DIGEST_SIZE];
	struct timespec mtime;
};

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct stored *)a)->mtime,
			      *y = &((const struct stored *)b)->mtime;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static int list_stored(struct state *s, struct stored **ret, size_t *ret_n)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	_cleanup_(freep) struct stored *items = NULL;
	_cleanup_(closep) int fd = -EBADF;
	const struct dirent *e;
	size_t n = 0;

	fd = openat(s->snapshots_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	fd = -EBADF; /* closedir() closes it */
	while ((e = readdir(dir))) {
		struct stored *more;
		struct stat st;

		if (!digest_valid(e->d_name) ||
		    fstatat(s->snapshots_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		more = reallocarray(items, n + 1, sizeof(*items));
		if (!more)
			return -ENOMEM;
		items = more;
		strcpy(items[n].digest, e->d_name);
		items[n++].mtime = st.st_mtim;
	}
	if (n > 1)
		qsort(items, n, sizeof(*items), by_age);
	*ret = TAKE_PTR(items);
	*ret_n = n;
	return 0;
}

int state_prune(struct state *s, const struct words *keep)
{
	_cleanup_(freep) struct stored *items = NULL;
	size_t n = 0, left;
	int r;

	r = list_stored(s, &items, &n);
	if (r < 0)
		return r;
	left = n;
	for (size_t i = 0; i < n && left > STATE_SNAPSHOTS_MAX; i++) {
		if (words_contain(keep, items[i].digest))
			continue;
		if (unlinkat(s->snapshots_fd, items[i].digest, 0) < 0)
			return -errno;
		left--;
	}
	return 0;
}

int state_store(struct state *s, const char *digest, const char *bytes, size_t size)
{
	_cleanup_(freep) char *old = NULL;
	size_t old_size;

	if (state_fetch(s, digest, &old, &old_size) == 0) {
		/* Its age is that of its last use. */
		(void)utimensat(s->snapshots_fd, digest, NULL, AT_SYMLINK_NOFOLLOW);
		return 0;
	}
	return file_replace(s->snapshots_fd, digest, bytes, size, 0400, FILE_SYNC);
}

int state_fetch(struct state *s, const char *digest, char **ret, size_t *ret_size)
{
	_cleanup_(freep) char *bytes = NULL;
	char proof[DIGEST_SIZE];
	size_t size;
	int r;

	r = file_read(s->snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &bytes, &size);
	if (r == 0) {
		digest_bytes(bytes, size, proof);
		if (!streq(proof, digest))
			r = -EUCLEAN;
	}
	if (r == -ENOMEM || r == -ENOENT)
		return r;
	if (r < 0) {
		(void)unlinkat(s->snapshots_fd, digest, 0);
		return -EUCLEAN;
	}
	*ret = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}
