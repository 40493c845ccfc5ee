/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/unitfiles.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "client/ctl/slurp.h"
#include "common/util.h"

#define SUFFIX ".service"

void unit_list_done(struct unit_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->paths[i]);
	free(l->paths);
	*l = (struct unit_list){0};
}

static int add_consume(struct unit_list *l, char *path)
{
	char **grown = path ? reallocarray(l->paths, l->n + 1, sizeof *grown) : NULL;

	if (!grown) {
		free(path);
		return -ENOMEM;
	}
	l->paths = grown;
	grown[l->n++] = path;
	return 0;
}

int unit_list_add(struct unit_list *l, const char *path)
{
	return add_consume(l, strdup(path));
}

static int _printf_(2, 3) add_format(struct unit_list *l, const char *format, ...)
{
	char *path;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&path, format, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : add_consume(l, path);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n > m && streq(s + n - m, suffix);
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

int unit_names(int root_fd, const char *directory, const char *suffix, struct unit_list *ret)
{
	_cleanup_(closedirp) DIR *d = NULL;
	int fd = slurp_open(root_fd, directory, O_RDONLY | O_DIRECTORY), r = 0;
	size_t seen = 0;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	for (struct dirent *e; r == 0 && seen < UNIT_NAMES_MAX && (e = readdir(d)); seen++)
		if (e->d_name[0] != '.' && ends_with(e->d_name, suffix))
			r = unit_list_add(ret, e->d_name);
	if (ret->n > 1)
		qsort(ret->paths, ret->n, sizeof *ret->paths, compare);
	return r;
}

/* --- the search path */

static const char *const system_directories[] = {
	"/etc/systemd/system.control", "/run/systemd/system.control",
	"/run/systemd/transient",      "/run/systemd/generator.early",
	"/etc/systemd/system",         "/etc/systemd/system.attached",
	"/run/systemd/system",         "/run/systemd/system.attached",
	"/run/systemd/generator",      "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",     "/lib/systemd/system",
	"/run/systemd/generator.late",
};
static const char *const user_directories[] = {
	"/etc/systemd/user",
	"/run/systemd/user",
	"/usr/local/lib/systemd/user",
	"/usr/lib/systemd/user",
};

/* Those of the calling user, in front of the others. */
static int add_home(struct unit_list *l)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *data = getenv("XDG_DATA_HOME"),
		   *runtime = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
	int r = 0;

	if (config && config[0] == '/')
		r = add_format(l, "%s/systemd/user", config);
	else if (home && home[0] == '/')
		r = add_format(l, "%s/.config/systemd/user", home);
	if (r == 0 && runtime && runtime[0] == '/')
		r = add_format(l, "%s/systemd/user", runtime);
	if (r == 0 && data && data[0] == '/')
		r = add_format(l, "%s/systemd/user", data);
	else if (r == 0 && home && home[0] == '/')
		r = add_format(l, "%s/.local/share/systemd/user", home);
	return r;
}

/* *RET_MORE: an empty last element, the usual ones follow. */
static int add_path(struct unit_list *l, const char *path, bool *ret_more)
{
	int r = 0;

	*ret_more = false;
	for (const char *end; r == 0; path = end + 1) {
		end = strchrnul(path, ':');
		if (end > path)
			r = add_format(l, "%.*s", (int)(end - path), path);
		if (!*end) {
			*ret_more = end == path;
			break;
		}
	}
	return r;
}

int unit_directories(int root_fd, bool user, struct unit_list *ret)
{
	const char *path = root_fd < 0 ? getenv("SYSTEMD_UNIT_PATH") : NULL;
	bool more = true;
	int r = path ? add_path(ret, path, &more) : 0;

	if (!more)
		return r;
	if (r == 0 && user && root_fd < 0)
		r = add_home(ret);
	for (size_t i = 0; r == 0 && user && i < ARRAY_SIZE(user_directories); i++)
		r = unit_list_add(ret, user_directories[i]);
	for (size_t i = 0; r == 0 && !user && i < ARRAY_SIZE(system_directories); i++)
		r = unit_list_add(ret, system_directories[i]);
	return r;
}

/* --- one unit */

/* Is there a file, and is it /dev/null or empty? 0, -ENOENT, -ERFKILL. */
static int look(int root_fd, const char *path)
{
	_cleanup_(closep) int fd = slurp_open(root_fd, path, O_PATH);
	struct stat st;

	if (slurp_masked(root_fd, path))
		return -ERFKILL;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -ENOENT;
	if (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0))
		return -ERFKILL;
	return S_ISREG(st.st_mode) ? 0 : -ENOENT;
}

/* The name without its instance: vllm@a.service, vllm@.service; false: it has none. */
static bool template_of(const char *name, char ret[NAME_MAX + 1])
{
	const char *at = strchr(name, '@');

	if (!at || streq(at + 1, SUFFIX) || strlen(name) > NAME_MAX)
		return false;
	(void)snprintf(ret, NAME_MAX + 1, "%.*s" SUFFIX, (int)(at + 1 - name), name);
	return true;
}

static int find_fragment(int root_fd, const struct unit_list *directories, const char *name,
			 struct unit_list *ret)
{
	char template[NAME_MAX + 1];

	for (size_t i = 0; i < directories->n; i++) {
		_cleanup_(freep) char *path = NULL;
		int r;

		if (asprintf(&path, "%s/%s", directories->paths[i], name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		r = look(root_fd, path);
		if (r == 0)
			return unit_list_add(ret, path);
		if (r != -ENOENT)
			return r;
	}
	return template_of(name, template) ? find_fragment(root_fd, directories, template, ret)
					   : -ENOENT;
}

/* The directories of drop-ins for NAME in one directory: NAME.d, then those of its template and of
 * shorter names that end in a dash. */
static int add_dropin_directories(struct unit_list *l, const char *directory, const char *name)
{
	char shorter[NAME_MAX + 1], template[NAME_MAX + 1];
	int r = add_format(l, "%s/%s.d", directory, name);
	size_t n;

	if (r == 0 && template_of(name, template))
		r = add_dropin_directories(l, directory, template);
	(void)snprintf(shorter, sizeof shorter, "%s", name);
	n = strlen(shorter) - STRLEN(SUFFIX);
	while (r == 0 && n-- > 1) {
		if (name[n] != '-' || name[n + 1] == '.')
			continue;
		strcpy(shorter + n + 1, SUFFIX);
		r = add_format(l, "%s/%s.d", directory, shorter);
	}
	return r;
}

struct dropin {
	char *path;
	const char *base;
};

static int compare_dropin(const void *a, const void *b)
{
	return strcmp(((const struct dropin *)a)->base, ((const struct dropin *)b)->base);
}

/* All *.conf of the directories by their names; of one name that of the first directory. */
static int add_dropins(int root_fd, const struct unit_list *directories, struct unit_list *ret)
{
	struct dropin *found = NULL;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < directories->n; i++) {
		_cleanup_(unit_list_done) struct unit_list names = {0};

		if (unit_names(root_fd, directories->paths[i], ".conf", &names) == -ENOMEM)
			r = -ENOMEM;
		for (size_t j = 0; r == 0 && j < names.n; j++) {
			struct dropin *grown;
			bool known = false;

			for (size_t k = 0; k < n; k++)
				known = known || streq(found[k].base, names.paths[j]);
			if (known)
				continue;
			grown = reallocarray(found, n + 1, sizeof *found);
			found = grown ? grown : found;
			if (!grown || asprintf(&found[n].path, "%s/%s", directories->paths[i],
					       names.paths[j]) < 0) {
				r = -ENOMEM;
				break;
			}
			found[n].base = strrchr(found[n].path, '/') + 1;
			n++;
		}
	}
	if (n > 1)
		qsort(found, n, sizeof *found, compare_dropin);
	for (size_t i = 0; i < n; i++) {
		if (r == 0 && look(root_fd, found[i].path) == 0)
			r = unit_list_add(ret, found[i].path);
		free(found[i].path);
	}
	free(found);
	return r;
}

int unit_files(int root_fd, bool user, const char *name, struct unit_list *ret)
{
	_cleanup_(unit_list_done) struct unit_list directories = {0}, dropins = {0};
	int r;

	if (strlen(name) > NAME_MAX || strchr(name, '/') || !ends_with(name, SUFFIX))
		return -ENOENT;
	r = unit_directories(root_fd, user, &directories);
	if (r == 0)
		r = find_fragment(root_fd, &directories, name, ret);
	for (size_t i = 0; r == 0 && i < directories.n; i++)
		r = add_dropin_directories(&dropins, directories.paths[i], name);
	for (size_t i = 0; r == 0 && i < directories.n; i++)
		r = add_format(&dropins, "%s/service.d", directories.paths[i]);
	return r < 0 ? r : add_dropins(root_fd, &dropins, ret);
}
