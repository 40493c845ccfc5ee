/* SPDX-License-Identifier: MIT */
#include "client/ctl/pyfind.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>

#include "client/ctl/mounts.h"
#include "client/ctl/pyjudge.h"
#include "common/util.h"

#define DEADLINE_MSEC 10000

/* In front of a place: what the options give. */
enum above { ABOVE_ROOT, ABOVE_HOME, ABOVE_PYENV, ABOVE_UV };

/* A component is a name, several with '|' between them, or "*" for all that do not begin with a
 * dot. */
struct place {
	enum above above;
	const char *directory;
	const char *source;
	bool shared; /* by several versions: python3.X before python3 */
};

#define CONDA                                                                                      \
	"anaconda|anaconda2|anaconda3|conda|mambaforge|micromamba|miniconda|miniconda3|miniforge|" \
	"miniforge3"

static const struct place places[] = {
	{ABOVE_ROOT, "usr/bin", "system", true},
	{ABOVE_ROOT, "usr/local/bin", "local", true},
	{ABOVE_ROOT, "usr/local/pyenv/versions/*/bin", "pyenv", false},
	{ABOVE_ROOT, "usr/local/pyenv/versions/*/envs/*/bin", "pyenv", false},
	{ABOVE_ROOT, "usr/local/" CONDA "/bin", "conda", false},
	{ABOVE_ROOT, "usr/local/" CONDA "/envs/*/bin", "conda", false},
	{ABOVE_ROOT, "usr/local/*/bin", "local", false},
	{ABOVE_ROOT, "opt/pyenv/versions/*/bin", "pyenv", false},
	{ABOVE_ROOT, "opt/pyenv/versions/*/envs/*/bin", "pyenv", false},
	{ABOVE_ROOT, "opt/" CONDA "/bin", "conda", false},
	{ABOVE_ROOT, "opt/" CONDA "/envs/*/bin", "conda", false},
	{ABOVE_ROOT, "opt/*/bin", "opt", false},
	{ABOVE_ROOT, "opt/*/venv|.venv/bin", "opt", false},
	{ABOVE_PYENV, "versions/*/bin", "pyenv", false},
	{ABOVE_PYENV, "versions/*/envs/*/bin", "pyenv", false},
	{ABOVE_HOME, ".pyenv/versions/*/bin", "pyenv", false},
	{ABOVE_HOME, ".pyenv/versions/*/envs/*/bin", "pyenv", false},
	{ABOVE_HOME, CONDA "/bin", "conda", false},
	{ABOVE_HOME, CONDA "/envs/*/bin", "conda", false},
	{ABOVE_UV, "*/bin", "uv", false},
	{ABOVE_HOME, ".local/share/uv/python/*/bin", "uv", false},
};

struct finder {
	const struct pyfind_options *options;
	struct mounts mounts;
	struct pyfind found;
	struct {
		dev_t dev;
		ino_t ino;
	} * ids; /* one for each item of found */
	uint64_t end_msec;
};

static void finder_done(struct finder *x)
{
	mounts_done(&x->mounts);
	pyfind_done(&x->found);
	free(x->ids);
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static uint64_t now_msec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Nothing more is looked at. */
static bool over(struct finder *x)
{
	if (!x->found.cut && now_msec() >= x->end_msec)
		x->found.cut = "it took too long";
	if (!x->found.cut && x->found.n == PYFIND_MAX)
		x->found.cut = "there are too many";
	return x->found.cut != NULL;
}

/* --- items */

static int push(struct finder *x, struct pyfind_item *item_take, dev_t dev, ino_t ino)
{
	struct pyfind_item *items =
		realloc(x->found.items, (x->found.n + 1) * sizeof *x->found.items);
	__typeof__(x->ids) ids;

	if (items)
		x->found.items = items;
	ids = items ? realloc(x->ids, (x->found.n + 1) * sizeof *ids) : NULL;
	if (!ids) {
		pyexe_done(&item_take->exe);
		free(item_take->skip);
		return -ENOMEM;
	}
	x->ids = ids;
	ids[x->found.n].dev = dev;
	ids[x->found.n].ino = ino;
	items[x->found.n++] = *item_take;
	return 0;
}

/* What is no interpreter to be looked at: PATH and the reason. */
_printf_(5, 6) static int push_other(struct finder *x, enum pyfind_kind kind, const char *source,
				     const char *path, const char *format, ...)
{
	struct pyfind_item item = {.kind = kind, .source = source, .base = SIZE_MAX};
	va_list ap;
	int n;

	for (size_t i = 0; i < x->found.n; i++)
		if (x->found.items[i].kind == kind && streq(x->found.items[i].exe.exe, path))
			return 0;
	va_start(ap, format);
	n = vasprintf(&item.skip, format, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	item.exe.exe = strdup(path);
	if (!item.exe.exe) {
		free(item.skip);
		return -ENOMEM;
	}
	return push(x, &item, 0, 0);
}

static int push_mount(struct finder *x, const char *source, const struct mount *m)
{
	if (streq(m->type, "autofs"))
		return push_other(x, PYFIND_PLACE, source, m->path,
				  "not looked into: the automounter's");
	return push_other(x, PYFIND_PLACE, source, m->path,
			  "not looked into: a network file system (%s)", m->type);
}

/* The index of the interpreter whose venv or standard library is that directory, or SIZE_MAX. */
static size_t known(const struct finder *x, const struct stat *st)
{
	for (size_t i = 0; i < x->found.n; i++)
		if (x->ids[i].ino == st->st_ino && x->ids[i].dev == st->st_dev &&
		    x->found.items[i].kind <= PYFIND_VENV)
			return i;
	return SIZE_MAX;
}

/* 1: an interpreter, new or known, at *RET_INDEX; 0: none. WHY is "" or says what it is instead. */
static int add(struct finder *x, const char *source, const char *path, size_t *ret_index,
	       char why[PYEXE_WHY_SIZE])
{
	struct pyfind_item item = {.source = source, .base = SIZE_MAX};
	_cleanup_(freep) char *home = NULL;
	const struct mount *m = NULL;
	char real[PATH_MAX];
	struct stat st;
	int r = mounts_resolve(&x->mounts, path, real, &m);

	if (r == 0)
		r = pyexe_home(path, &home);
	if (r == 0 && home && *home == '/')
		(void)mounts_resolve(&x->mounts, home, real, &m);
	if (m)
		return push_mount(x, source, m);
	if (r < 0) {
		(void)snprintf(why, PYEXE_WHY_SIZE, "%s: %s", path, strerror(-r));
		return r == -ENOMEM ? r : 0;
	}
	r = pyexe_find(path, &item.exe, why);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	item.kind = item.exe.venv ? PYFIND_VENV : PYFIND_BASE;
	if (stat(item.exe.venv ? item.exe.venv : item.exe.stdlib, &st) < 0) {
		pyexe_done(&item.exe);
		return 0;
	}
	*ret_index = known(x, &st);
	if (*ret_index < SIZE_MAX) {
		pyexe_done(&item.exe);
		return 1;
	}
	*ret_index = x->found.n;
	r = push(x, &item, st.st_dev, st.st_ino);
	return r < 0 ? r : 1;
}

/* --- names */

struct names {
	char **items;
	size_t n;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static bool any_name(const char *name)
{
	return name[0] != '.';
}

static bool versioned(const char *name)
{
	struct pyexe_version v;

	return pyexe_version_parse(name, &v);
}

/* The entries of a directory that WANTED takes, sorted; none where there is no such directory. */
static int list(struct finder *x, const struct place *p, const char *directory,
		bool (*wanted)(const char *), struct names *ret)
{
	_cleanup_(closedirp) DIR *d = NULL;
	const struct mount *m;
	char real[PATH_MAX];
	struct dirent *e;
	int r = mounts_resolve(&x->mounts, directory, real, &m);

	if (r == -EREMOTE)
		return push_mount(x, p->source, m);
	if (r < 0 || !(d = opendir(real)))
		return 0;
	ret->items = calloc(PYFIND_NAMES_MAX, sizeof *ret->items);
	if (!ret->items)
		return -ENOMEM;
	while (!over(x) && (e = readdir(d))) {
		if (!wanted(e->d_name))
			continue;
		if (ret->n == PYFIND_NAMES_MAX) {
			x->found.cut = "a directory has too many entries";
			break;
		}
		ret->items[ret->n] = strdup(e->d_name);
		if (!ret->items[ret->n++])
			return -ENOMEM;
	}
	qsort(ret->items, ret->n, sizeof *ret->items, compare_names);
	return 0;
}

/* --- places */

static int try_name(struct finder *x, const struct place *p, const char *bin, const char *name,
		    bool *ret_found, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *path = NULL;
	struct stat st;
	size_t index;
	int r;

	if (asprintf(&path, "%s/%s", bin, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (lstat(path, &st) < 0)
		return 0;
	r = add(x, p->source, path, &index, why);
	if (r == 1)
		*ret_found = true;
	return r < 0 ? r : 0;
}

/* All the interpreters in a bin directory; where names are there and none is one, the first
 * reason. */
static int look_in_bin(struct finder *x, const struct place *p, const char *bin)
{
	static const char *const plain[] = {"python3", "pypy3", "python"};
	_cleanup_(names_done) struct names names = {.n = 0};
	char why[PYEXE_WHY_SIZE] = "", first[PYEXE_WHY_SIZE] = "";
	bool found = false;
	size_t places_before;
	int r = list(x, p, bin, versioned, &names);

	if (!names.items)
		return r;
	places_before = x->found.n;
	for (int turn = 0; turn < 2 && r == 0; turn++) {
		bool numbers = p->shared ? turn == 0 : turn == 1;
		size_t n = numbers ? names.n : ARRAY_SIZE(plain);

		for (size_t i = 0; i < n && r == 0 && !over(x); i++) {
			why[0] = '\0';
			r = try_name(x, p, bin, numbers ? names.items[i] : plain[i], &found, why);
			if (!first[0])
				memcpy(first, why, sizeof first);
		}
	}
	if (r == 0 && !found && first[0] && x->found.n == places_before)
		r = push_other(x, PYFIND_BROKEN, p->source, bin, "%s", first);
	return r;
}

static int walk(struct finder *x, const struct place *p, const char *directory, const char *rest);

static int walk_into(struct finder *x, const struct place *p, const char *directory,
		     const char *name, size_t size, const char *rest)
{
	_cleanup_(freep) char *inner = NULL;

	if (asprintf(&inner, "%s/%.*s", directory, (int)size, name) < 0) {
		inner = NULL;
		return -ENOMEM;
	}
	return walk(x, p, inner, rest);
}

/* REST: components that are still to come. */
static int walk(struct finder *x, const struct place *p, const char *directory, const char *rest)
{
	_cleanup_(names_done) struct names names = {.n = 0};
	size_t size = strcspn(rest, "/");
	const char *next = rest + size + strspn(rest + size, "/");
	int r = 0;

	if (over(x))
		return 0;
	if (!*rest)
		return look_in_bin(x, p, directory);
	if (*rest == '*') {
		r = list(x, p, directory, any_name, &names);
		for (size_t i = 0; i < names.n && r == 0; i++)
			r = walk_into(x, p, directory, names.items[i], strlen(names.items[i]),
				      next);
		return r;
	}
	for (const char *s = rest; s < rest + size && r == 0; s += strspn(s, "|")) {
		size_t n = strcspn(s, "|/");

		r = walk_into(x, p, directory, s, n, next);
		s += n;
		if (*s == '/')
			break;
	}
	return r;
}

static const char *above(const struct pyfind_options *o, enum above a)
{
	const char *path = a == ABOVE_ROOT    ? (o->root ? o->root : "")
			   : a == ABOVE_HOME  ? o->home
			   : a == ABOVE_PYENV ? o->pyenv_root
					      : o->uv_root;

	return path && (*path == '/' || a == ABOVE_ROOT) ? path : NULL;
}

static int find_places(struct finder *x)
{
	static const struct place active = {.directory = "bin", .source = "active"};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0; i++) {
		const char *in = above(x->options, places[i].above);

		if (in)
			r = walk(x, &places[i], in, places[i].directory);
	}
	for (size_t i = 0; i < ARRAY_SIZE(x->options->active) && r == 0; i++) {
		const char *in = x->options->active[i];

		if (in && *in == '/')
			r = walk(x, &active, in, active.directory);
	}
	return r;
}

/* Each venv's base, added where it stands elsewhere. */
static int find_bases(struct finder *x)
{
	int r = 0;

	for (size_t i = 0; i < x->found.n && r >= 0; i++) {
		char why[PYEXE_WHY_SIZE];
		size_t base = i;

		if (x->found.items[i].kind > PYFIND_VENV)
			continue;
		if (x->found.items[i].kind == PYFIND_VENV) {
			base = SIZE_MAX;
			r = add(x, "venv", x->found.items[i].exe.binary, &base, why);
		}
		x->found.items[i].base = base;
	}
	return r < 0 ? r : 0;
}

static int judge_all(struct pyfind *f)
{
	char why[PYEXE_WHY_SIZE];

	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].kind > PYFIND_VENV || pyjudge(&f->items[i].exe, NULL, why))
			continue;
		f->items[i].skip = strdup(why);
		if (!f->items[i].skip)
			return -ENOMEM;
	}
	return 0;
}

int pyfind(const struct pyfind_options *options, struct pyfind *ret)
{
	_cleanup_(finder_done) struct finder x = {.options = options};
	int r = mounts_load(options->mountinfo, &x.mounts);

	x.end_msec = now_msec() + (options->deadline_msec ? options->deadline_msec : DEADLINE_MSEC);
	if (r == 0)
		r = find_places(&x);
	if (r == 0)
		r = find_bases(&x);
	if (r == 0)
		r = judge_all(&x.found);
	if (r < 0)
		return r;
	*ret = x.found;
	x.found = (struct pyfind){.n = 0};
	return 0;
}

void pyfind_environment(struct pyfind_options *ret)
{
	*ret = (struct pyfind_options){
		.home = getenv("HOME"),
		.pyenv_root = getenv("PYENV_ROOT"),
		.uv_root = getenv("UV_PYTHON_INSTALL_DIR"),
		.active = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX")},
	};
}

void pyfind_done(struct pyfind *f)
{
	for (size_t i = 0; i < f->n; i++) {
		pyexe_done(&f->items[i].exe);
		free(f->items[i].skip);
	}
	free(f->items);
	*f = (struct pyfind){.n = 0};
}

const char *pyfind_kind_name(enum pyfind_kind kind)
{
	static const char *const names[] = {"base", "venv", "unknown", "place"};

	return names[kind];
}
