/* SPDX-License-Identifier: MIT */
/*
 * Which files are cudaenvd.conf: the main one, then the drop-ins of all their directories in the
 * order of their names. Of several directories' files of one name the first directory's counts, and
 * one that is /dev/null hides the others, as systemd has it.
 */
#include <config.h>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/util.h"
#include "daemon/manager/config.h"
#include "daemon/manager/files.h"

#define CONFIG_MAX_BYTES ((size_t)1024 * 1024)
#define SUFFIX           ".conf"

struct drop_in {
	char *name;
	const char *dir;
};

struct drop_ins {
	struct drop_in *items; /* sorted by name, each once */
	size_t n;
};

static void drop_ins_done(struct drop_ins *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->items[i].name);
	free(d->items);
	*d = (struct drop_ins){0};
}

static bool is_null_device(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, 0) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(1, 3);
}

static int load_file(struct config *c, const char *dir, const char *name, struct words *complaints)
{
	_cleanup_(freep) char *bytes = NULL, *path = NULL;
	size_t size;
	int r;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (is_null_device(AT_FDCWD, path))
		return 0;
	r = file_read_followed(AT_FDCWD, path, CONFIG_MAX_BYTES, &bytes, &size);
	if (r == -ENOMEM ||
	    (r == -ENOENT && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
		return r == -ENOMEM ? r : 0;
	if (r < 0)
		return words_addf(complaints, "%s:0: cannot be read: %s", path,
				  r == -EFBIG ? "it is larger than 1 MiB" : strerror(-r));
	return config_parse(c, path, bytes, size, complaints);
}

static bool is_drop_in(const char *name)
{
	size_t n = strlen(name);

	return name[0] != '.' && n > STRLEN(SUFFIX) && streq(name + n - STRLEN(SUFFIX), SUFFIX);
}

/* Puts NAME in its place, unless a directory before this one has it. */
static int insert(struct drop_ins *d, const char *dir, const char *name)
{
	struct drop_in *grown;
	char *copy;
	size_t i = 0;

	while (i < d->n && strcmp(d->items[i].name, name) < 0)
		i++;
	if (i < d->n && streq(d->items[i].name, name))
		return 0;
	copy = strdup(name);
	grown = copy ? reallocarray(d->items, d->n + 1, sizeof(*grown)) : NULL;
	if (!grown) {
		free(copy);
		return -ENOMEM;
	}
	d->items = grown;
	memmove(&grown[i + 1], &grown[i], (d->n - i) * sizeof(*grown));
	grown[i] = (struct drop_in){.name = copy, .dir = dir};
	d->n++;
	return 0;
}

static int read_directory(const char *dir, struct drop_ins *d, struct words *complaints)
{
	const struct dirent *e;
	DIR *stream = opendir(dir);
	int r = 0;

	if (!stream)
		return errno == ENOENT ? 0
				       : words_addf(complaints, "%s:0: cannot be read: %s", dir,
						    strerror(errno));
	while (r == 0 && (errno = 0, e = readdir(stream)))
		if (is_drop_in(e->d_name))
			r = insert(d, dir, e->d_name);
	if (r == 0 && errno != 0)
		r = words_addf(complaints, "%s:0: cannot be read: %s", dir, strerror(errno));
	(void)closedir(stream);
	return r;
}

static int load_drop_ins(struct config *c, const struct paths *paths, struct words *complaints)
{
	struct drop_ins d = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths->drop_ins) && paths->drop_ins[i]; i++)
		r = read_directory(paths->drop_ins[i], &d, complaints);
	for (size_t i = 0; r == 0 && i < d.n; i++)
		r = load_file(c, d.items[i].dir, d.items[i].name, complaints);
	drop_ins_done(&d);
	return r;
}

int config_load(const struct paths *paths, struct config **ret, struct words *complaints)
{
	_cleanup_(config_freep) struct config *c = NULL;
	int r;

	r = config_new(&c);
	if (r == 0)
		r = load_file(c, paths->config, "cudaenvd.conf", complaints);
	if (r == 0)
		r = load_drop_ins(c, paths, complaints);
	if (r == 0)
		r = config_finish(c, complaints);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}
