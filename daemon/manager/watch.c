/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <dirent.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#include "common/util.h"
#include "daemon/manager/watch.h"

#define SETTLE_USEC   (30 * 1000ull)
#define PATIENCE_USEC (250 * 1000ull)
#define LINKS_MAX     16
#define CONTENT_MASK                                                                               \
	(IN_CREATE | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE)
#define SELF_MASK (IN_DELETE_SELF | IN_MOVE_SELF)

/* One reason to look at events of a watch descriptor; several may share one. */
struct interest {
	int wd;
	uint32_t mask;
	char *name; /* of content events only those about this entry; NULL: all */
};

struct watch {
	watch_handler handler;
	void *userdata;
	struct watch_target *targets;
	size_t n_targets;
	uint32_t content_mask;
	int fd;
	struct interest *interests;
	size_t n_interests;
	sd_event *event;
	sd_event_source *io;
	sd_event_source *timer;
	uint64_t first_usec; /* of the changes not yet told; 0: none */
};

static void drop_interests(struct watch *w)
{
	for (size_t i = 0; i < w->n_interests; i++)
		free(w->interests[i].name);
	free(w->interests);
	w->interests = NULL;
	w->n_interests = 0;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	(void)sd_event_source_disable_unref(w->io);
	(void)sd_event_source_disable_unref(w->timer);
	(void)sd_event_unref(w->event);
	drop_interests(w);
	w->fd = safe_close(w->fd);
	for (size_t i = 0; i < w->n_targets; i++)
		free(w->targets[i].path);
	free(w->targets);
	free(w);
	return NULL;
}

int watch_add(struct watch *w, enum watch_kind kind, const char *path)
{
	struct watch_target *targets = reallocarray(w->targets, w->n_targets + 1, sizeof(*targets));
	char *copy;

	if (!targets)
		return -ENOMEM;
	w->targets = targets;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	w->targets[w->n_targets++] = (struct watch_target){kind, copy};
	return 0;
}

/* Watches PATH for MASK; events count when they are about NAME (NULL: any). Absent is fine: whoever
 * asked looks again. */
static int interest_add(struct watch *w, const char *path, uint32_t mask, const char *name)
{
	struct interest *items;
	char *copy = NULL;
	int wd;

	wd = inotify_add_watch(w->fd, path, mask | IN_MASK_ADD);
	if (wd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (name) {
		copy = strdup(name);
		if (!copy)
			return -ENOMEM;
	}
	items = reallocarray(w->interests, w->n_interests + 1, sizeof(*items));
	if (!items) {
		free(copy);
		return -ENOMEM;
	}
	w->interests = items;
	w->interests[w->n_interests++] = (struct interest){wd, mask, copy};
	return 0;
}

static int walk(struct watch *w, const char *path, enum watch_kind kind, unsigned links);

/* The symlink NAME in DIR: whoever swaps it changes the entry; what it points to is walked like a
 * target. */
static int walk_link(struct watch *w, const char *dir, const char *link, enum watch_kind kind,
		     unsigned links)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n < 0 || links >= LINKS_MAX)
		return 0;
	target[n] = '\0';
	if (target[0] == '/')
		return walk(w, target, kind, links + 1);
	if (snprintf(joined, sizeof(joined), "%s/%s", dir, target) >= PATH_MAX)
		return 0;
	return walk(w, joined, kind, links + 1);
}

/* Files that symlinks in a watched directory point to: an edit there is no event in the directory.
 */
static int walk_entries(struct watch *w, const char *path, unsigned links)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return 0;
	while (r == 0 && (e = readdir(dir))) {
		char link[2 * PATH_MAX];
		struct stat st;

		if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
			continue;
		if (snprintf(link, sizeof(link), "%s/%s", path, e->d_name) >= PATH_MAX)
			continue;
		/* Not devices: a mask's /dev/null is written to all the time. */
		if (stat(link, &st) == 0 && S_ISREG(st.st_mode))
			r = walk_link(w, path, link, WATCH_FILE, links);
	}
	(void)closedir(dir);
	return r;
}

/* The end of a path, which is there. */
static int arrive(struct watch *w, const char *path, enum watch_kind kind, unsigned links)
{
	int r;

	if (kind == WATCH_FILE)
		return 0; /* its directory is watched for its name */
	if (kind == WATCH_PASSAGE)
		return interest_add(w, path, SELF_MASK, NULL);
	r = interest_add(w, path, w->content_mask | SELF_MASK, NULL);
	return r < 0 ? r : walk_entries(w, path, links);
}

/* One step: CURRENT is a directory that is there, NAME the next component, NEXT both. 1: go on, 0:
 * the walk ends here. */
static int step(struct watch *w, const char *current, const char *name, const char *next, bool last,
		enum watch_kind kind, unsigned links)
{
	struct stat st;
	bool file = last && kind == WATCH_FILE;
	int r;

	r = interest_add(w, current, SELF_MASK, NULL);
	if (r == 0 && (file || lstat(next, &st) < 0 || S_ISLNK(st.st_mode)))
		r = interest_add(w, current, w->content_mask, name);
	if (r < 0)
		return r;
	/* Only now is what we see the state from which changes are told. */
	if (lstat(next, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		r = walk_link(w, current, next, last ? kind : WATCH_PASSAGE, links);
		return r < 0 ? r : stat(next, &st) == 0;
	}
	return 1;
}

static int walk(struct watch *w, const char *path, enum watch_kind kind, unsigned links)
{
	char current[PATH_MAX] = "/", next[PATH_MAX] = "";
	const char *p = path;

	while (*p == '/')
		p++;
	while (*p) {
		size_t n = strcspn(p, "/"), used = strlen(next);
		char name[NAME_MAX + 1];
		int r;

		if (n > NAME_MAX || used + n + 2 > sizeof(next))
			return 0;
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		while (*p == '/')
			p++;
		next[used] = '/';
		memcpy(next + used + 1, name, n + 1);
		r = step(w, current, name, next, *p == '\0', kind, links);
		if (r <= 0)
			return r;
		strcpy(current, next);
	}
	return arrive(w, current, kind, links);
}

static int on_inotify_io(sd_event_source *source, int fd, uint32_t events, void *userdata);

int watch_start(struct watch *w)
{
	_cleanup_(closep) int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	sd_event_source *io = NULL;
	int r;

	if (fd < 0)
		return -errno;
	r = sd_event_add_io(w->event, &io, fd, EPOLLIN, on_inotify_io, w);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(io, "watch");
	(void)sd_event_source_disable_unref(w->io);
	w->io = io;
	drop_interests(w);
	(void)safe_close(w->fd);
	w->fd = TAKE_FD(fd);
	for (size_t i = 0; i < w->n_targets; i++) {
		int k = walk(w, w->targets[i].path, w->targets[i].kind, 0);

		if (k < 0)
			r = k;
	}
	return r < 0 ? r : 0;
}

static uint64_t now_usec(const struct watch *w)
{
	uint64_t now = 0;

	(void)sd_event_now(w->event, CLOCK_MONOTONIC, &now);
	return now;
}

static int changed(struct watch *w)
{
	uint64_t now = now_usec(w), due;
	int r;

	if (w->first_usec == 0)
		w->first_usec = now;
	due = now + SETTLE_USEC;
	if (due > w->first_usec + PATIENCE_USEC)
		due = w->first_usec + PATIENCE_USEC;
	r = sd_event_source_set_time(w->timer, due);
	return r < 0 ? r : sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

static bool is_of_interest(const struct watch *w, const struct inotify_event *e)
{
	if (e->mask & (IN_Q_OVERFLOW | IN_UNMOUNT))
		return true;
	for (size_t i = 0; i < w->n_interests; i++) {
		const struct interest *in = &w->interests[i];

		if (in->wd != e->wd || !(in->mask & e->mask))
			continue;
		if (!in->name || (e->mask & SELF_MASK) || (e->len > 0 && streq(in->name, e->name)))
			return true;
	}
	return false;
}

static int on_inotify_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	_Alignas(struct inotify_event) char buf[16 * 1024];
	struct watch *w = userdata;
	bool found = false;
	ssize_t n;

	n = read(fd, buf, sizeof(buf));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (char *p = buf; p < buf + n;) {
		const struct inotify_event *e = (const void *)p;

		found = found || is_of_interest(w, e);
		p += sizeof(*e) + e->len;
	}
	return found ? changed(w) : 0;
}

static int on_settle_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct watch *w = userdata;

	w->first_usec = 0;
	w->handler(watch_start(w), w->userdata);
	return 0;
}

int watch_new(sd_event *event, bool writes, watch_handler handler, void *userdata,
	      struct watch **ret)
{
	_cleanup_(watch_freep) struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->fd = -EBADF;
	w->content_mask = CONTENT_MASK | (writes ? IN_MODIFY : 0);
	w->handler = handler;
	w->userdata = userdata;
	w->event = sd_event_ref(event);
	r = sd_event_add_time(event, &w->timer, CLOCK_MONOTONIC, 0, 0, on_settle_timer, w);
	if (r < 0)
		return r;
	r = sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(w);
	return 0;
}
