/* SPDX-License-Identifier: MIT */
#include "client/ctl/mounts.h"

#include "client/ctl/pytrust.h"
#include "common/util.h"

#define MOUNTS_MAX 65536
#define LINKS_MAX  40

/* "\040" and the like, in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else
			*to++ = *s++;
	}
	*to = '\0';
}

static struct mount *find(const struct mounts *m, const char *path, size_t n)
{
	for (size_t i = 0; i < m->n; i++)
		if (strlen(m->items[i].path) == n && memcmp(m->items[i].path, path, n) == 0)
			return &m->items[i];
	return NULL;
}

/* The later one of two on one path hides the other. */
static int add(struct mounts *m, const char *path, const char *type)
{
	_cleanup_(freep) char *t = strdup(type), *p = strdup(path);
	struct mount *known = find(m, path, strlen(path)), *items;

	if (!t || !p)
		return -ENOMEM;
	if (known) {
		free(known->type);
		known->type = TAKE_PTR(t);
		return 0;
	}
	items = m->n % 64 ? m->items : realloc(m->items, (m->n + 64) * sizeof *items);
	if (!items)
		return -ENOMEM;
	m->items = items;
	m->items[m->n++] = (struct mount){TAKE_PTR(p), TAKE_PTR(t)};
	return 0;
}

/* "36 35 98:0 /root /mnt opts optional - TYPE source opts" */
static int add_line(struct mounts *m, char *line)
{
	char *dash = strstr(line, " - "), *path = line, *type;

	if (!dash)
		return 0;
	type = dash + STRLEN(" - ");
	type[strcspn(type, " \n")] = '\0';
	for (int i = 0; i < 4; i++) {
		path = strchr(path, ' ');
		if (!path || path >= dash)
			return 0;
		path++;
	}
	path[strcspn(path, " ")] = '\0';
	unescape(path);
	return *path == '/' ? add(m, path, type) : 0;
}

int mounts_load(const char *mountinfo, struct mounts *ret)
{
	_cleanup_(fclosep) FILE *f = fopen(mountinfo ? mountinfo : "/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mounts m = {.n = 0};
	size_t size = 0;
	int r = 0;

	while (f && r == 0 && m.n < MOUNTS_MAX && getline(&line, &size, f) > 0)
		r = add_line(&m, line);
	if (r < 0)
		mounts_done(&m);
	else
		*ret = m;
	return r;
}

void mounts_done(struct mounts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->items[i].path);
		free(m->items[i].type);
	}
	free(m->items);
	*m = (struct mounts){.n = 0};
}

/* --- following */

/* What may not be entered at PATH; REST is where the way goes on. What the automounter has mounted
 * already can be reached without asking it. */
static const struct mount *barrier(const struct mounts *m, const char *path, const char *rest)
{
	const struct mount *found = find(m, path, strlen(path));
	char next[PATH_MAX];
	int n;

	if (!found)
		return NULL;
	if (streq(found->type, "autofs")) {
		rest += strspn(rest, "/");
		n = snprintf(next, sizeof next, "%s/%.*s", path, (int)strcspn(rest, "/"), rest);
		return n > 0 && n < PATH_MAX && find(m, next, (size_t)n) ? NULL : found;
	}
	return pytrust_network_name(found->type) ? found : NULL;
}

static void drop_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

/* Puts the link's text in front of REST. */
static int put_in_front(char todo[PATH_MAX], const char *link, const char *rest)
{
	char both[PATH_MAX];
	int n = snprintf(both, sizeof both, "%s/%s", link, rest);

	if (n < 0 || n >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(todo, both, (size_t)n + 1);
	return 0;
}

/* One component, which was appended to DONE. 1: it was a link, TODO is new. */
static int step(char done[PATH_MAX], char todo[PATH_MAX], const char *rest)
{
	char link[PATH_MAX];
	ssize_t n = readlink(done, link, sizeof link - 1);

	if (n < 0)
		return errno == EINVAL ? 0 : -errno;
	link[n] = '\0';
	if (link[0] == '/')
		done[0] = '\0';
	else
		drop_last(done);
	n = put_in_front(todo, link, rest);
	return n < 0 ? (int)n : 1;
}

int mounts_resolve(const struct mounts *m, const char *path, char ret[PATH_MAX],
		   const struct mount **ret_mount)
{
	char done[PATH_MAX] = "", todo[PATH_MAX], *rest = todo;
	int links = 0;

	if (*path != '/')
		return -EINVAL;
	if (put_in_front(todo, path, "") < 0)
		return -ENAMETOOLONG;
	while (*(rest += strspn(rest, "/"))) {
		size_t n = strcspn(rest, "/"), used = strlen(done);
		const struct mount *stop;
		char *part = rest;
		int r;

		rest += n;
		if (n == 1 && part[0] == '.')
			continue;
		if (n == 2 && part[0] == '.' && part[1] == '.') {
			drop_last(done);
			continue;
		}
		if (used + 1 + n >= PATH_MAX)
			return -ENAMETOOLONG;
		done[used] = '/';
		memcpy(done + used + 1, part, n);
		done[used + 1 + n] = '\0';
		stop = barrier(m, done, rest);
		if (stop) {
			*ret_mount = stop;
			return -EREMOTE;
		}
		r = step(done, todo, rest);
		if (r < 0)
			return r;
		if (r == 1 && ++links > LINKS_MAX)
			return -ELOOP;
		if (r == 1)
			rest = todo;
	}
	(void)snprintf(ret, PATH_MAX, "%s", done[0] ? done : "/");
	return 0;
}
