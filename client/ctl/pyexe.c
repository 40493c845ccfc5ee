/* SPDX-License-Identifier: MIT */
#include "client/ctl/pyexe.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/stat.h>

#include "client/ctl/slurp.h"
#include "common/util.h"

#define CFG_MAX        65536
#define CANDIDATES_MAX 16

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

static char *join(const char *directory, const char *name)
{
	char *path = NULL;

	return asprintf(&path, "%s/%s", streq(directory, "/") ? "" : directory, name) < 0 ? NULL
											  : path;
}

/* What stands before the last '/', "/" for the root's own entries. */
static char *parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash > path ? strndup(path, (size_t)(slash - path)) : strdup("/");
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_regular(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* --- versions */

bool pyexe_version_parse(const char *name, struct pyexe_version *ret)
{
	struct pyexe_version v = {.pypy = startswith(name, "pypy3.") != NULL};
	const char *digits = startswith(name, v.pypy ? "pypy3." : "python3.");
	char *end;
	unsigned long minor;

	if (!digits || *digits < '0' || *digits > '9')
		return false;
	minor = strtoul(digits, &end, 10);
	if (minor > 999)
		return false;
	if (*end == 't' && !v.pypy) {
		v.free_threaded = true;
		end++;
	}
	if (*end)
		return false;
	v.minor = (unsigned)minor;
	*ret = v;
	return true;
}

void pyexe_version_format(const struct pyexe_version *v, char ret[PYEXE_VERSION_SIZE])
{
	(void)snprintf(ret, PYEXE_VERSION_SIZE, "%s3.%u%s", v->pypy ? "pypy" : "python", v->minor,
		       v->free_threaded ? "t" : "");
}

static bool version_same(const struct pyexe_version *a, const struct pyexe_version *b)
{
	return a->pypy == b->pypy && a->minor == b->minor && a->free_threaded == b->free_threaded;
}

/* --- pyvenv.cfg */

struct venv_cfg {
	char *home;
	bool have_minor, system_site;
	unsigned minor;
};

static void venv_cfg_done(struct venv_cfg *c)
{
	free(c->home);
}

/* "version = 3.11.7" of venv, "version_info = 3.11.7.final.0" of virtualenv and uv. */
static void cfg_line(struct venv_cfg *c, char *line)
{
	char *eq = strchr(line, '='), *end = eq, *value;

	if (!eq)
		return;
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	value = eq + 1 + strspn(eq + 1, " \t");
	value[strcspn(value, "\r\n")] = '\0';
	for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = '\0';
	if (streq(line, "home") && !c->home)
		c->home = strdup(value);
	if (streq(line, "include-system-site-packages"))
		c->system_site = strcasecmp(value, "true") == 0;
	if ((streq(line, "version") || streq(line, "version_info")) &&
	    sscanf(value, "3.%u", &c->minor) == 1)
		c->have_minor = true;
}

/* 1, or 0: there is no pyvenv.cfg with a home in DIRECTORY. */
static int cfg_read(const char *directory, struct venv_cfg *ret)
{
	_cleanup_(freep) char *path = join(directory, "pyvenv.cfg"), *text = NULL;
	_cleanup_(closep) int fd = -EBADF;
	char *save = NULL;
	ssize_t n;

	text = malloc(CFG_MAX + 1);
	if (!path || !text)
		return -ENOMEM;
	fd = slurp_open_file(SLURP_ROOT_HERE, path);
	if (fd < 0)
		return 0;
	n = read(fd, text, CFG_MAX);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		cfg_line(ret, line);
	return ret->home != NULL;
}

/* --- finding the file */

static int find_in_path(const char *name, char **ret)
{
	const char *path = getenv("PATH");
	_cleanup_(freep) char *copy = strdup(path ? path : "/usr/bin:/bin");
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *d = strtok_r(copy, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
		_cleanup_(freep) char *candidate = *d == '/' ? join(d, name) : NULL;

		if (candidate && is_regular(candidate) && access(candidate, X_OK) == 0) {
			*ret = TAKE_PTR(candidate);
			return 0;
		}
	}
	return -ENOENT;
}

static int find_file(const char *exe, char **ret)
{
	_cleanup_(freep) char *cwd = NULL;

	if (!*exe)
		return -ENOENT;
	if (!strchr(exe, '/'))
		return find_in_path(exe, ret);
	if (*exe == '/') {
		*ret = strdup(exe);
		return *ret ? 0 : -ENOMEM;
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return -errno;
	*ret = join(cwd, exe);
	return *ret ? 0 : -ENOMEM;
}

/* A venv's or base's directory given in the interpreter's place: proposes the one in it. */
static int refuse_directory(const char *path, char why[PYEXE_WHY_SIZE])
{
	static const char *const names[] = {"bin/python3", "bin/python", "bin/pypy3", "python3"};
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *proposal = NULL;

		if (asprintf(&proposal, "%.*s/%s", (int)n, path, names[i]) < 0) {
			proposal = NULL;
			return -ENOMEM;
		}
		if (is_regular(proposal))
			return refuse(-ENOEXEC, why, "%s is a directory: give %s", path, proposal);
	}
	return refuse(-ENOEXEC, why, "%s is a directory, not a Python interpreter", path);
}

/* The one word of a program that is not run on whether it is a Python. */
static bool named_python(const char *binary)
{
	const char *name = base_name(binary);

	return startswith(name, "python") || startswith(name, "pypy");
}

/* Follows links; an ELF program with the name of a Python, or -ENOEXEC. */
static int find_binary(const char *exe, char **ret, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *binary = realpath(exe, NULL);
	_cleanup_(closep) int fd = -EBADF;
	char magic[4] = "";

	if (!binary)
		return refuse(-errno, why, "%s: %s", exe, strerror(errno));
	if (is_directory(binary))
		return refuse_directory(exe, why);
	if (!is_regular(binary))
		return refuse(-ENOEXEC, why, "%s is not a file", exe);
	fd = open(binary, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return refuse(-errno, why, "%s: %s", exe, strerror(errno));
	if (read(fd, magic, sizeof magic) == sizeof magic && memcmp(magic, "#!", 2) == 0)
		return refuse(-ENOEXEC, why,
			      "%s is a script, no interpreter (pyenv's shims are such scripts): "
			      "give what "
			      "`%s -c 'import sys; print(sys.executable)'` prints",
			      exe, exe);
	if (memcmp(magic, "\177ELF", 4) != 0)
		return refuse(-ENOEXEC, why, "%s is not a program", exe);
	if (!named_python(binary) && named_python(exe))
		return refuse(-ENOEXEC, why, "%s is not a Python interpreter, but a link to %s",
			      exe, binary);
	if (!named_python(binary))
		return refuse(-ENOEXEC, why, "%s is not a Python interpreter", exe);
	*ret = TAKE_PTR(binary);
	return 0;
}

/* --- the standard library */

struct candidate {
	struct pyexe_version version;
	char *stdlib;
};

struct candidates {
	struct candidate items[CANDIDATES_MAX];
	size_t n;
};

static void candidates_done(struct candidates *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->items[i].stdlib);
}

/* Every PREFIX/LIB/pythonX.Y/os.py. */
static int collect(const char *prefix, const char *lib, struct candidates *c)
{
	_cleanup_(freep) char *path = join(prefix, lib);
	_cleanup_(closedirp) DIR *d = NULL;
	struct stat st;
	struct dirent *e;

	if (!path)
		return -ENOMEM;
	/* lib64 is often a link to lib. */
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || !(d = opendir(path)))
		return 0;
	while (c->n < CANDIDATES_MAX && (e = readdir(d))) {
		_cleanup_(freep) char *stdlib = NULL, *landmark = NULL;
		struct pyexe_version v;

		if (!pyexe_version_parse(e->d_name, &v))
			continue;
		stdlib = join(path, e->d_name);
		landmark = stdlib ? join(stdlib, "os.py") : NULL;
		if (!landmark)
			return -ENOMEM;
		if (!is_regular(landmark))
			continue;
		c->items[c->n].version = v;
		c->items[c->n++].stdlib = TAKE_PTR(stdlib);
	}
	return 0;
}

/* Does the program link libpythonX.Y? */
static bool links_version(const char *binary, const struct pyexe_version *v)
{
	_cleanup_(closep) int fd = open(binary, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_(freep) char *head = malloc(65536);
	char name[PYEXE_VERSION_SIZE + 16], version[PYEXE_VERSION_SIZE];
	ssize_t n;

	pyexe_version_format(v, version);
	(void)snprintf(name, sizeof name, "lib%s.so", version);
	if (fd < 0 || !head)
		return false;
	/* The names of needed libraries stand near the beginning. */
	n = read(fd, head, 65536);
	return n > 0 && memmem(head, (size_t)n, name, strlen(name)) != NULL;
}

/* The one that the file's name tells, the only one, or the one whose library the program links. */
static const struct candidate *choose(const struct candidates *c, const char *binary)
{
	const struct candidate *linked = NULL;
	struct pyexe_version v;

	if (pyexe_version_parse(base_name(binary), &v)) {
		for (size_t i = 0; i < c->n; i++)
			if (version_same(&c->items[i].version, &v))
				return &c->items[i];
		return NULL;
	}
	if (c->n == 1)
		return &c->items[0];
	for (size_t i = 0; i < c->n; i++) {
		if (!links_version(binary, &c->items[i].version))
			continue;
		if (linked)
			return NULL;
		linked = &c->items[i];
	}
	return linked;
}

/* Searches the directories above the binary, as the interpreter does. */
static int find_stdlib(struct pyexe *p, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *directory = parent(p->binary);

	while (directory) {
		_cleanup_(candidates_done) struct candidates c = {.n = 0};
		const struct candidate *found;
		char *up;
		int r = collect(directory, "lib", &c);

		if (r == 0)
			r = collect(directory, "lib64", &c);
		if (r < 0)
			return r;
		found = choose(&c, p->binary);
		if (found) {
			p->version = found->version;
			p->stdlib = realpath(found->stdlib, NULL);
			return p->stdlib ? 0 : -errno;
		}
		if (c.n > 1 && !pyexe_version_parse(base_name(p->binary), &p->version))
			return refuse(-ENOTUNIQ, why,
				      "%s/lib has several versions of Python, and the name of %s "
				      "does not tell "
				      "which is its: give the one that ends in the version",
				      directory, p->binary);
		if (streq(directory, "/"))
			break;
		up = parent(directory);
		free(directory);
		directory = up;
	}
	if (!directory)
		return -ENOMEM;
	return refuse(-ENOEXEC, why,
		      "%s: no standard library of Python 3 (lib/python3.*/os.py) in the "
		      "directories above it",
		      p->binary);
}

/* --- places */

static int find_zip(struct pyexe *p)
{
	_cleanup_(freep) char *lib = parent(p->stdlib);

	if (!lib)
		return -ENOMEM;
	if (p->version.pypy)
		return 0;
	if (asprintf(&p->zip, "%s/python3%u%s.zip", lib, p->version.minor,
		     p->version.free_threaded ? "t" : "") < 0) {
		p->zip = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Debian's own interpreters have dist-packages instead, and theirs below /usr/local for what is not
 * packaged. */
static int find_base_site(struct pyexe *p)
{
	char version[PYEXE_VERSION_SIZE];
	_cleanup_(freep) char *site = join(p->stdlib, "site-packages"), *debian = NULL;

	pyexe_version_format(&p->version, version);
	if (!site || asprintf(&debian, "/usr/local/lib/%s/dist-packages", version) < 0)
		return -ENOMEM;
	if (is_directory(site))
		p->site = realpath(site, NULL);
	else if (startswith(p->stdlib, "/usr/lib/") && is_directory(debian))
		p->site = realpath(debian, NULL);
	return 0;
}

static int find_venv_site(struct pyexe *p)
{
	static const char *const libs[] = {"lib", "lib64"};
	char version[PYEXE_VERSION_SIZE];

	pyexe_version_format(&p->version, version);
	for (size_t i = 0; i < ARRAY_SIZE(libs) && !p->site; i++) {
		_cleanup_(freep) char *site = NULL;

		if (asprintf(&site, "%s/%s/%s/site-packages", p->venv, libs[i], version) < 0)
			return -ENOMEM;
		if (is_directory(site))
			p->site = realpath(site, NULL);
	}
	return 0;
}

/* A venv's interpreter is a link to the base's, or a copy: then pyvenv.cfg tells where the base's
 * is. */
static int venv_base(struct pyexe *p, const struct venv_cfg *cfg, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *named = NULL;
	const char *inside = startswith(p->binary, p->venv);
	int r;

	if (!inside || *inside != '/')
		return 0;
	if (cfg->have_minor ? asprintf(&named, "%s/python3.%u", cfg->home, cfg->minor) < 0
			    : asprintf(&named, "%s/python3", cfg->home) < 0)
		return -ENOMEM;
	if (!is_regular(named)) {
		free(named);
		named = join(cfg->home, base_name(p->exe));
		if (!named)
			return -ENOMEM;
	}
	free(p->binary);
	p->binary = NULL;
	r = find_binary(named, &p->binary, why);
	return r == -ENOENT ? refuse(-ENOENT, why, "the interpreter of the venv %s is gone from %s",
				     p->venv, cfg->home)
			    : r;
}

/* pyvenv.cfg stands beside the interpreter as it was named, or one directory above. */
static int find_venv(struct pyexe *p, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *bin = parent(p->exe), *above = NULL;
	const char *root[2];

	above = bin ? join(bin, "..") : NULL;
	if (!above)
		return -ENOMEM;
	root[0] = bin;
	root[1] = above;
	for (size_t i = 0; i < ARRAY_SIZE(root) && !p->venv; i++) {
		_cleanup_(venv_cfg_done) struct venv_cfg cfg = {.home = NULL};
		int r = cfg_read(root[i], &cfg);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		p->system_site = cfg.system_site;
		p->venv = realpath(root[i], NULL);
		r = p->venv ? venv_base(p, &cfg, why) : -errno;
		if (r < 0)
			return r;
	}
	return 0;
}

int pyexe_home(const char *exe, char **ret)
{
	_cleanup_(freep) char *bin = parent(exe), *above = bin ? join(bin, "..") : NULL;
	_cleanup_(venv_cfg_done) struct venv_cfg cfg = {.home = NULL};
	int r = above ? cfg_read(bin, &cfg) : -ENOMEM;

	if (r == 0)
		r = cfg_read(above, &cfg);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(cfg.home);
	return 0;
}

/* A base's own file; a venv's python3. */
static int find_plain(struct pyexe *p)
{
	p->plain = p->venv ? join(p->venv, "bin/python3") : strdup(p->binary);
	if (p->plain && !is_regular(p->plain)) {
		free(p->plain);
		p->plain = strdup(p->exe);
	}
	return p->plain ? 0 : -ENOMEM;
}

static int find(const char *exe, struct pyexe *p, char why[PYEXE_WHY_SIZE])
{
	struct stat st;
	int r = find_file(exe, &p->exe);

	if (r == -ENOENT && *exe && is_directory(exe))
		return refuse_directory(exe, why);
	if (r == -ENOENT)
		return refuse(r, why, "%s: no such interpreter in PATH", exe);
	if (r == 0)
		r = find_binary(p->exe, &p->binary, why);
	if (r == 0)
		r = find_venv(p, why);
	if (r == 0)
		r = find_stdlib(p, why);
	if (r == 0)
		r = find_zip(p);
	if (r == 0)
		r = p->venv ? find_venv_site(p) : find_base_site(p);
	if (r == 0)
		r = find_plain(p);
	if (r < 0)
		return r;
	if (stat(p->venv ? p->venv : p->stdlib, &st) < 0)
		return -errno;
	p->owner = st.st_uid;
	return 0;
}

int pyexe_find(const char *exe, struct pyexe *ret, char why[PYEXE_WHY_SIZE])
{
	struct pyexe p = PYEXE_NULL;
	int r;

	why[0] = '\0';
	r = find(exe, &p, why);
	if (r < 0) {
		pyexe_done(&p);
		return why[0] ? r : refuse(r, why, "%s: %s", exe, strerror(-r));
	}
	*ret = p;
	return 0;
}

void pyexe_done(struct pyexe *p)
{
	free(p->exe);
	free(p->binary);
	free(p->plain);
	free(p->venv);
	free(p->stdlib);
	free(p->zip);
	free(p->site);
	*p = (struct pyexe)PYEXE_NULL;
}
