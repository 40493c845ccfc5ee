/* SPDX-License-Identifier: MIT */
/*
 * doctor: the interpreters of this machine and their start hooks. Which ones were there at the last
 * look is kept in the state directory, a name a line, so that one that has come since is named.
 */
#include "config.h"

#include "client/ctl/doctor.h"

#include <sys/stat.h>

#include "client/ctl/slurp.h"
#include "common/util.h"

#define SEEN_FILE   "interpreters"
#define SEEN_HEADER "cudaenv-interpreters 1\n"
#define SEEN_MAX    ((size_t)2 * 1024 * 1024)
#define NAMED_MAX   8
#define FIND_MSEC   5000

static int find(struct doctor *d)
{
	struct pyfind_options options = {.root = d->root, .deadline_msec = FIND_MSEC};
	int r;

	if (d->have_found)
		return 0;
	if (!d->root) {
		pyfind_environment(&options);
		options.deadline_msec = FIND_MSEC;
	}
	r = pyfind(&options, &d->found);
	if (r == 0)
		r = pycover_all(&d->found, &d->covers);
	d->have_found = r == 0;
	return r;
}

static bool is_interpreter(const struct pyfind_item *item)
{
	return item->kind == PYFIND_BASE || item->kind == PYFIND_VENV;
}

static bool is_covered(const struct doctor *d, size_t i)
{
	return d->covers[i].by_base || d->covers[i].state == PYCOVER_GOOD ||
	       d->covers[i].state == PYCOVER_OLDER;
}

static char *install_fix(const struct doctor *d, const struct pyfind_item *item)
{
	return doctor_format("cudaenvctl%s python install --python %s", doctor_user(d),
			     item->exe.exe);
}

static int look_at_hook(struct doctor *d, size_t i)
{
	const struct pyfind_item *item = &d->found.items[i];
	_cleanup_(freep) char *fix = NULL;

	if (item->kind == PYFIND_PLACE)
		return doctor_add(d, FINDING_ADVICE, item->exe.exe, 0, NULL, NULL,
				  "was not looked into for interpreters: %s", item->skip);
	if (!is_interpreter(item))
		return 0;
	fix = install_fix(d, item);
	if (!fix)
		return -ENOMEM;
	if (d->covers[i].unknown)
		return doctor_add(d, FINDING_ADVICE, item->exe.exe, 0, NULL, NULL,
				  "whether it has a start hook cannot be seen");
	if (d->covers[i].state == PYCOVER_DAMAGED)
		return doctor_add(d, FINDING_ERROR, item->exe.exe, 0, NULL, fix,
				  "its start hook is damaged%s",
				  d->covers[i].by_base ? ", that of its base works" : "");
	if (d->covers[i].state == PYCOVER_OLDER)
		return doctor_add(d, FINDING_WARNING, item->exe.exe, 0, NULL, fix,
				  "its start hook works, but is of another version");
	return 0;
}

/* Those without a hook, in one finding: they may be left out on purpose. */
static int look_at_uncovered(struct doctor *d)
{
	_cleanup_(freep) char *names = NULL, *fix = NULL;
	size_t n = 0, covered = 0, size = 0;
	FILE *f = open_memstream(&names, &size);
	bool on = d->published.assign && d->published.assign->mode == MODE_ON;

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < d->found.n; i++) {
		if (!is_interpreter(&d->found.items[i]))
			continue;
		covered += is_covered(d, i);
		if (is_covered(d, i) || d->covers[i].unknown)
			continue;
		if (n < NAMED_MAX)
			fprintf(f, "%s%s", n > 0 ? ", " : "", d->found.items[i].exe.exe);
		n++;
	}
	if (n > NAMED_MAX)
		fprintf(f, " and %zu more", n - NAMED_MAX);
	fix = doctor_format("cudaenvctl%s python install --all covers those of the machine%s",
			    doctor_user(d), covered > 0 ? ", if they shall be" : "");
	if (fclose(f) != 0 || !fix)
		return -ENOMEM;
	if (n == 0)
		return 0;
	return doctor_add(d, on && covered == 0 ? FINDING_WARNING : FINDING_ADVICE, NULL, 0, NULL,
			  fix, "%zu of %zu interpreters ha%s no start hook: %s", n, n + covered,
			  n == 1 ? "s" : "ve", names);
}

int doctor_interpreters(struct doctor *d)
{
	int r = find(d);

	for (size_t i = 0; r == 0 && i < d->found.n; i++)
		r = look_at_hook(d, i);
	if (r == 0)
		r = look_at_uncovered(d);
	if (r == 0 && d->found.cut)
		r = doctor_skip(d, "there may be more interpreters: %s", d->found.cut);
	return r;
}

/* --- new ones */

static const char *name_of(const struct pyfind_item *item)
{
	const char *name = item->exe.plain ? item->exe.plain : item->exe.exe;

	return is_interpreter(item) && !strchr(name, '\n') ? name : NULL;
}

/* Is NAME a line of TEXT, which ends in LF? */
static bool has_line(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		if (strncmp(line, name, n) == 0 && line[n] == '\n')
			return true;
	return false;
}

/* 1 and *RET (what follows the header), or 0: there is none that can be used. */
static int load_seen(int dir_fd, char **ret)
{
	_cleanup_(closep) int fd =
		openat(dir_fd, SEEN_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_(freep) char *text = NULL;
	const char *rest;
	struct stat st;
	size_t size;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    slurp_fd(fd, SEEN_MAX, &text, &size) < 0)
		return 0;
	rest = startswith(text, SEEN_HEADER);
	if (!rest || strlen(text) != size || text[size - 1] != '\n')
		return 0;
	*ret = strdup(rest);
	return *ret ? 1 : -ENOMEM;
}

static int make_seen(const struct doctor *d, char **ret)
{
	size_t size = 0;
	FILE *f = open_memstream(ret, &size);

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < d->found.n; i++)
		if (name_of(&d->found.items[i]))
			fprintf(f, "%s\n", name_of(&d->found.items[i]));
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

/* By rename: a look at the same time sees the one or the other. */
static int save_seen(int dir_fd, const char *text)
{
	char temporary[64];
	FILE *f;
	int fd;

	(void)snprintf(temporary, sizeof temporary, ".%s-%d", SEEN_FILE, (int)getpid());
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		(void)close(fd);
		return -ENOMEM;
	}
	fprintf(f, "%s%s", SEEN_HEADER, text);
	if (fclose(f) != 0 || renameat(dir_fd, temporary, dir_fd, SEEN_FILE) < 0) {
		int r = -errno;

		(void)unlinkat(dir_fd, temporary, 0);
		return r;
	}
	return 0;
}

static int look_at_new(struct doctor *d, const char *seen)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->found.n; i++) {
		const struct pyfind_item *item = &d->found.items[i];
		_cleanup_(freep) char *fix = NULL;

		if (!name_of(item) || has_line(seen, name_of(item)) || is_covered(d, i))
			continue;
		fix = install_fix(d, item);
		r = fix ? doctor_add(d, FINDING_WARNING, item->exe.exe, 0, NULL, fix,
				     "this interpreter was not there at the last look and has no "
				     "start hook")
			: -ENOMEM;
	}
	return r;
}

int doctor_new_interpreters(struct doctor *d)
{
	_cleanup_(freep) char *seen = NULL, *now = NULL;
	_cleanup_(closep) int dir_fd = -EBADF;
	int r, known;

	if (d->root)
		return doctor_skip(d, "only of a running system");
	r = find(d);
	if (r < 0)
		return r;
	dir_fd = open(d->paths->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return doctor_skip(d, "the list of the last look is in %s: %s", d->paths->state,
				   strerror(errno));
	known = load_seen(dir_fd, &seen);
	if (known > 0)
		known = look_at_new(d, seen) < 0 ? -ENOMEM : 1;
	if (known < 0)
		return known;
	if (d->found.cut)
		return doctor_skip(d, "not all interpreters were found: %s", d->found.cut);
	if (make_seen(d, &now) < 0)
		return -ENOMEM;
	if (known > 0 && streq(seen, now))
		return 0;
	r = save_seen(dir_fd, now);
	return r == 0 ? 0
		      : doctor_skip(d, "the list cannot be kept in %s: %s", d->paths->state,
				    strerror(-r));
}
