/* SPDX-License-Identifier: MIT */
#include "common/profile-path.h"

#include <limits.h>
#include <sys/stat.h>

#include "common/util.h"

#define LINKS_MAX 40 /* as the kernel */

/*
 * The walk of one path: DONE is what was judged already, without symlinks; REST is what is left.
 * Every directory on the way was found to be root's alone before the next name is looked up in it,
 * so nobody but root can change the answer while we walk.
 */
struct walk {
	char done[PATH_MAX];
	size_t n;
	char rest[PATH_MAX];
	unsigned links;
};

static int judge(const struct walk *w, const struct stat *st, char **ret_culprit)
{
	bool link = S_ISLNK(st->st_mode); /* its mode means nothing */

	if (st->st_uid == 0 && (link || (st->st_mode & (S_IWGRP | S_IWOTH)) == 0))
		return 1;
	if (ret_culprit) {
		char *culprit = strdup(w->n == 0 ? "/" : w->done);

		if (!culprit)
			return -ENOMEM;
		*ret_culprit = culprit;
	}
	return 0;
}

/* Puts a symlink's text in place of the last component. */
static int follow(struct walk *w)
{
	char text[PATH_MAX], joined[PATH_MAX];
	ssize_t size;
	int n;

	if (++w->links > LINKS_MAX)
		return -ELOOP;
	size = readlink(w->done, text, sizeof text - 1);
	if (size < 0)
		return -errno;
	text[size] = '\0';
	n = snprintf(joined, sizeof joined, "%s/%s", text, w->rest);
	if (n < 0 || (size_t)n >= sizeof joined)
		return -ENAMETOOLONG;
	memcpy(w->rest, joined, (size_t)n + 1);
	if (text[0] == '/')
		w->n = 0;
	else
		w->n = (size_t)(strrchr(w->done, '/') - w->done);
	w->done[w->n] = '\0';
	return 1;
}

/* Takes the next component from REST to DONE. 0: there is none, or it was "." or "..", which need
 * no look. */
static int take_component(struct walk *w, bool *ret_new)
{
	const char *start = w->rest + strspn(w->rest, "/");
	size_t size = strcspn(start, "/");

	*ret_new = false;
	if (size == 2 && start[0] == '.' && start[1] == '.') {
		const char *slash = strrchr(w->done, '/');

		w->n = slash ? (size_t)(slash - w->done) : 0;
	} else if (size > 0 && !(size == 1 && start[0] == '.')) {
		if (size > NAME_MAX || w->n + 1 + size >= sizeof w->done)
			return -ENAMETOOLONG;
		w->done[w->n] = '/';
		memcpy(w->done + w->n + 1, start, size);
		w->n += 1 + size;
		*ret_new = true;
	}
	w->done[w->n] = '\0';
	memmove(w->rest, start + size, strlen(start + size) + 1);
	return w->rest[strspn(w->rest, "/")] != '\0' ? 1 : 0;
}

/* Whether what is left goes upwards: once the missing part is made, it would lead elsewhere. */
static bool goes_up(const char *rest)
{
	for (const char *p = rest; *p; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (startswith(p, "..") && (p[2] == '/' || p[2] == '\0'))
			return true;
	return false;
}

int profile_path_root_only(const char *path, char **ret_culprit)
{
	struct walk w = {.n = 0};
	struct stat st;
	bool is_new;
	int r, more = 1;

	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= sizeof w.rest)
		return -ENAMETOOLONG;
	strcpy(w.rest, path);
	if (lstat("/", &st) < 0)
		return -errno;
	r = judge(&w, &st, ret_culprit);
	while (r == 1 && more) {
		more = take_component(&w, &is_new);
		if (more < 0)
			return more;
		if (!is_new)
			continue;
		if (lstat(w.done, &st) < 0) {
			if (errno != ENOENT && errno != ENOTDIR)
				return -errno;
			return goes_up(w.rest) ? -EINVAL : 1;
		}
		r = judge(&w, &st, ret_culprit);
		if (r == 1 && S_ISLNK(st.st_mode)) {
			r = follow(&w);
			more = 1;
		}
	}
	return r;
}

/* One candidate, cut out of a value. */
static int judge_piece(const char *start, size_t size, char **ret_culprit)
{
	_cleanup_(freep) char *piece = strndup(start, size);

	if (!piece)
		return -ENOMEM;
	return profile_path_root_only(piece, ret_culprit);
}

/* The element at P is, or begins with, the working directory or its parent. */
static bool is_relative(const char *p, const char *separators)
{
	size_t dots = strspn(p, ".");

	return (dots == 1 || dots == 2) && (p[dots] == '/' || strchr(separators, p[dots]));
}

int profile_value_root_only(const char *value, char **ret_culprit)
{
	static const char separators[] = ":,;= \t\"'";
	/* A path may itself contain what separates elsewhere, so a path is judged up to each kind
	 * of end. */
	static const char *const ends[] = {separators, ":,", ":", ""};

	for (const char *p = value; *p; p++) {
		size_t last = 0, left;

		if (p > value && !strchr(separators, p[-1]))
			continue;
		if (is_relative(p, separators)) {
			if (ret_culprit && !(*ret_culprit = strdup("the working directory")))
				return -ENOMEM;
			return 0;
		}
		if (*p != '/')
			continue;
		left = strnlen(p, PATH_MAX);
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
			size_t size = 0;
			int r;

			while (size < left && !strchr(ends[i], p[size]))
				size++;
			if (size == last || size == PATH_MAX)
				continue; /* what is longer than a path leads nowhere, nor does a
					     name that is too long */
			r = judge_piece(p, size, ret_culprit);
			if (r <= 0 && r != -ENAMETOOLONG)
				return r;
			last = size;
		}
	}
	return 1;
}
