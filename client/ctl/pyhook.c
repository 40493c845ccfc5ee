/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pyhook.h"

#include <limits.h>
#include <sys/stat.h>

#include "client/ctl/pycompile.h"
#include "client/ctl/pytrust.h"
#include "common/util.h"

#define SOURCE_MAX  ((size_t)1024 * 1024)
#define FILLED_SIZE 12288 /* an entry file's: code in the first half */

static const char readme[] = PYHOOK_README_MARK "\n\n\
It gives every process of this interpreter the CUDA and NCCL variables of its job before\n\
user code runs. `cudaenvctl status` tells what is in force, `cudaenvctl workers` who has what.\n\
\n\
Do not edit or delete single files. To take all of it away again:\n\
\n\
    cudaenvctl python remove --python %s\n\
\n\
To turn it off for one process, put CUDAENV_DISABLE=1 into its environment; for the whole\n\
node: cudaenvctl off.\n\
\n\
%s\
\n\
The file `manifest` says which version installed it, and the SHA-256 of every file.\n";

static const char readme_directory[] = "\
Python looks for modules here first, in the base interpreter and in all its venvs, normally\n\
for a zip archive that is not there. sitecustomize.py is imported at each start. It then finds\n\
and runs the sitecustomize that would have been imported without it, so those of the\n\
distribution, of venvs and of users work as before.\n";

static const char readme_site[] = "\
00-cudaenv.pth (and, from Python 3.15 on, 00-cudaenv.start) beside this directory import it\n\
at each start.\n";

/* What stands beside the file that runs, for interpreters and times without the extension. */
static const char *const readers[] = {"cudaenv_reader.py", "cudaenv_alone.py", "cudaenv_apply.py"};

const char *pyhook_method_name(enum pyhook_method method)
{
	return method == PYHOOK_DIRECTORY ? "directory" : "pth";
}

uint32_t pyhook_crc(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < size; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* ASCII as it is; every other byte as the surrogate that Python's file names have for it. */
int pyhook_literal(const char *bytes, char **ret)
{
	size_t n = strlen(bytes);
	char *s = malloc(6 * n + 3), *p = s;

	if (!s)
		return -ENOMEM;
	*p++ = '"';
	for (const unsigned char *b = (const unsigned char *)bytes; *b; b++) {
		if (*b >= 128)
			p += sprintf(p, "\\udc%02x", *b);
		else if (*b < 32 || *b == 127 || *b == '"' || *b == '\\')
			p += sprintf(p, "\\x%02x", *b);
		else
			*p++ = (char)*b;
	}
	*p++ = '"';
	*p = '\0';
	*ret = s;
	return 0;
}

/* --- files in memory */

static int add_file(struct pyhook *h, const char *directory, const char *name, char *bytes_take,
		    size_t size)
{
	struct pyhook_file *f = &h->files[h->n_files];

	if (h->n_files == PYHOOK_FILES_MAX ||
	    (directory ? asprintf(&f->path, "%s/%s", directory, name) < 0
		       : !(f->path = strdup(name)))) {
		free(bytes_take);
		return -ENOMEM;
	}
	f->bytes = bytes_take;
	f->size = size;
	h->n_files++;
	return 0;
}

static int read_file(const char *directory, const char *name, char **ret, size_t *ret_size,
		     char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *path = NULL, *bytes = NULL;
	_cleanup_(closep) int fd = -EBADF;
	struct stat st;
	size_t n = 0;
	ssize_t r = 1;

	if (asprintf(&path, "%s/%s", directory, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (size_t)st.st_size > SOURCE_MAX) {
		int e = fd < 0 ? -errno : -EINVAL;

		(void)snprintf(why, PYEXE_WHY_SIZE, "cannot read %s: %s", path, strerror(-e));
		return e;
	}
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	while (n < (size_t)st.st_size && r > 0) {
		r = read(fd, bytes + n, (size_t)st.st_size - n);
		if (r < 0)
			return -errno;
		n += (size_t)r;
	}
	bytes[n] = '\0';
	*ret = TAKE_PTR(bytes);
	*ret_size = n;
	return 0;
}

/* --- what the hook is made for */

struct extension {
	char *path; /* "" none: built without Python's headers */
	uint64_t size, mtime_ns;
	uint32_t crc;
};

static void extension_done(struct extension *e)
{
	free(e->path);
}

static int extension_read(const char *source_dir, struct extension *ret)
{
	_cleanup_(extension_done) struct extension e = {.path = NULL};
	_cleanup_(freep) char *path = NULL, *bytes = NULL;
	char why[PYEXE_WHY_SIZE];
	struct stat st;
	size_t size;

	if (asprintf(&path, "%s/" PYHOOK_EXTENSION, source_dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	e.path = realpath(path, NULL);
	if (!e.path || stat(e.path, &st) < 0 ||
	    read_file(source_dir, PYHOOK_EXTENSION, &bytes, &size, why) < 0) {
		free(e.path);
		e.path = strdup("");
		if (!e.path)
			return -ENOMEM;
	} else {
		e.size = size;
		e.mtime_ns =
			(uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
		e.crc = pyhook_crc(bytes, size);
	}
	*ret = e;
	e.path = NULL;
	return 0;
}

static int header(const struct extension *e, enum pyhook_method method, char ret[PYHOOK_LINE_MAX])
{
	int n = snprintf(ret, PYHOOK_LINE_MAX, "version %s\nmethod %s\nextension %ju %ju %ju %s\n",
			 PACKAGE_VERSION, pyhook_method_name(method), (uintmax_t)e->size,
			 (uintmax_t)e->mtime_ns, (uintmax_t)e->crc, e->path);

	return n < 0 || n >= PYHOOK_LINE_MAX || strchr(e->path, '\n') ? -ENAMETOOLONG : 0;
}

int pyhook_header(const struct pyhook_options *options, char ret[PYHOOK_LINE_MAX])
{
	_cleanup_(extension_done) struct extension e = {.path = NULL};
	int r = extension_read(options->source_dir, &e);

	return r < 0 ? r : header(&e, options->method, ret);
}

/* --- sources */

/* Replaces every WHAT in *TEXT. */
static int replace(char **text, const char *what, const char *with)
{
	_cleanup_(freep) char *out = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);
	const char *s = *text, *hit;

	if (!f)
		return -ENOMEM;
	for (; (hit = strstr(s, what)); s = hit + strlen(what)) {
		(void)fwrite(s, 1, (size_t)(hit - s), f);
		(void)fputs(with, f);
	}
	(void)fputs(s, f);
	if (fclose(f) == EOF)
		return -ENOMEM;
	free(*text);
	*text = TAKE_PTR(out);
	return 0;
}

static int fill_in(char **text, const struct extension *e, const char *runtime_dir)
{
	_cleanup_(freep) char *path = NULL, *runtime = NULL;
	char number[3][24];
	int r = pyhook_literal(e->path, &path);

	if (r == 0)
		r = runtime_dir                  ? pyhook_literal(runtime_dir, &runtime)
		    : (runtime = strdup("None")) ? 0
						 : -ENOMEM;
	(void)snprintf(number[0], sizeof number[0], "%ju", (uintmax_t)e->size);
	(void)snprintf(number[1], sizeof number[1], "%ju", (uintmax_t)e->mtime_ns);
	(void)snprintf(number[2], sizeof number[2], "%ju", (uintmax_t)e->crc);
	if (r == 0)
		r = replace(text, "\"@EXTENSION@\"", path);
	if (r == 0)
		r = replace(text, "\"@SIZE@\"", number[0]);
	if (r == 0)
		r = replace(text, "\"@MTIME@\"", number[1]);
	if (r == 0)
		r = replace(text, "\"@CRC@\"", number[2]);
	return r < 0 ? r : replace(text, "\"@RUNTIME@\"", runtime);
}

/* A source file cut by a full disk or a crash still holds all of its code. */
static int fill_up(char **text)
{
	static const char line[] =
		"# The rest of this file is filling: what is cut off at the end is no loss.\n";
	size_t n = strlen(*text);
	char *bigger = realloc(*text, n + FILLED_SIZE + sizeof line);

	if (!bigger)
		return -ENOMEM;
	*text = bigger;
	while (n < FILLED_SIZE) {
		memcpy(bigger + n, line, sizeof line);
		n += sizeof line - 1;
	}
	return 0;
}

/* The file that runs: in a base the start, then the search for the other sitecustomize. */
static int make_entry(const struct pyhook_options *o, const struct extension *e, char **ret,
		      char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *start = NULL, *rest = NULL, *text = NULL;
	size_t size;
	int r = read_file(o->source_dir, "cudaenv_start.py", &start, &size, why);

	if (r == 0 && o->method == PYHOOK_DIRECTORY)
		r = read_file(o->source_dir, "sitecustomize.py", &rest, &size, why);
	if (r < 0)
		return r;
	if (asprintf(&text, "%s%s", start, rest ? rest : "") < 0) {
		text = NULL;
		return -ENOMEM;
	}
	r = fill_in(&text, e, o->runtime_dir);
	if (r == 0)
		r = fill_up(&text);
	if (r == 0)
		*ret = TAKE_PTR(text);
	return r;
}

/* --- compiled files */

static const char *const level_names[PYCOMPILE_LEVELS] = {"", ".opt-1", ".opt-2"};

/* Takes the N sources that stand last in H, in that order; the first is the entry. */
static int add_compiled(const struct pyexe *exe, struct pyhook *h, size_t n,
			char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pycompile_done) struct pycompile c = {.cache_tag = NULL};
	struct pycompile_source sources[1 + ARRAY_SIZE(readers)];
	char paths[ARRAY_SIZE(sources)][PATH_MAX];
	size_t first = h->n_files - n;
	int r;

	for (size_t i = 0; i < n; i++) {
		const struct pyhook_file *f = &h->files[first + i];

		if (snprintf(paths[i], sizeof paths[i], "%s/%s", h->parent, f->path) >=
		    (int)sizeof paths[i])
			return -ENAMETOOLONG;
		sources[i] = (struct pycompile_source){paths[i], f->bytes, f->size};
	}
	r = pycompile_run(exe, sources, n, &c, why);
	if (r < 0)
		return r;
	if (h->method == PYHOOK_DIRECTORY && !c.reads_zip) {
		(void)snprintf(why, PYEXE_WHY_SIZE, "%s does not look into %s: try --method pth",
			       exe->binary, exe->zip);
		return -EXDEV;
	}
	for (size_t i = 0; i < c.n_code && r == 0; i++) {
		const char *path = h->files[first + i / PYCOMPILE_LEVELS].path;
		const char *base = strrchr(path, '/') + 1;
		struct pycompile_code *code = &c.code[i];
		size_t size = i < PYCOMPILE_LEVELS ? FILLED_SIZE : 0;
		char name[NAME_MAX + 1];
		char *bytes;

		(void)snprintf(name, sizeof name, "__pycache__/%.*s.%.64s%s.pyc",
			       (int)strcspn(base, "."), base, c.cache_tag,
			       level_names[i % PYCOMPILE_LEVELS]);
		if (size < code->size)
			size = code->size;
		bytes = calloc(1, size);
		if (!bytes)
			return -ENOMEM;
		memcpy(bytes, code->bytes, code->size);
		r = add_file(h, h->name, name, bytes, size);
	}
	h->compiled = r == 0;
	return r;
}

/* --- all of it */

int pyhook_locate(const struct pyexe *exe, enum pyhook_method method, struct pyhook *ret,
		  char why[PYEXE_WHY_SIZE])
{
	struct pyhook h = {.method = method};
	const char *slash;

	if (method == PYHOOK_DIRECTORY) {
		if (exe->venv || !exe->zip) {
			(void)snprintf(why, PYEXE_WHY_SIZE,
				       "%s has no such directory: --method pth",
				       exe->venv ? "a venv" : "PyPy");
			return -EOPNOTSUPP;
		}
		slash = strrchr(exe->zip, '/');
		h.parent = strndup(exe->zip, (size_t)(slash - exe->zip));
		h.name = strdup(slash + 1);
	} else {
		if (!exe->site) {
			(void)snprintf(
				why, PYEXE_WHY_SIZE,
				"%s has no site-packages directory, where a .pth file is read",
				exe->exe);
			return -EOPNOTSUPP;
		}
		h.parent = strdup(exe->site);
		h.name = strdup(PYHOOK_PACKAGE);
	}
	h.owner = exe->owner;
	if (!h.parent || !h.name) {
		pyhook_done(&h);
		return -ENOMEM;
	}
	*ret = h;
	return 0;
}

/* For a shell's command line. */
static int quote(const char *s, char **ret)
{
	char *out = malloc(4 * strlen(s) + 3), *p = out;

	if (!out)
		return -ENOMEM;
	if (s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+@-")]) {
		*p++ = '\'';
		for (; *s; s++)
			p = *s == '\'' ? stpcpy(p, "'\\''") : stpncpy(p, s, 1);
		p = stpcpy(p, "'");
	} else
		p = stpcpy(p, s);
	*p = '\0';
	*ret = out;
	return 0;
}

static int add_readme(const struct pyexe *exe, struct pyhook *h)
{
	_cleanup_(freep) char *name = NULL;
	char *text = NULL;

	if (quote(exe->plain, &name) < 0)
		return -ENOMEM;
	if (asprintf(&text, readme, name,
		     h->method == PYHOOK_DIRECTORY ? readme_directory : readme_site) < 0)
		return -ENOMEM;
	return add_file(h, h->name, "README", text, strlen(text));
}

static int add_manifest(struct pyhook *h, const struct pyhook_options *o, const struct extension *e)
{
	char head[PYHOOK_LINE_MAX], digest[DIGEST_SIZE];
	char *text = NULL;
	size_t size = 0;
	FILE *f;
	int r = header(e, h->method, head);

	if (r < 0)
		return r;
	f = open_memstream(&text, &size);
	if (!f)
		return -ENOMEM;
	fprintf(f, PYHOOK_MARK "%s", head);
	if (o->runtime_dir)
		fprintf(f, "runtime %s\n", o->runtime_dir);
	for (size_t i = 0; i < h->n_files; i++) {
		digest_bytes(h->files[i].bytes, h->files[i].size, digest);
		fprintf(f, "file %s %s\n", digest, h->files[i].path);
	}
	fputs("end\n", f);
	if (fclose(f) == EOF) {
		free(text);
		return -ENOMEM;
	}
	return add_file(h, h->name, PYHOOK_MANIFEST, text, size);
}

static int add_source(struct pyhook *h, const struct pyhook_options *o, const char *directory,
		      const char *name, char why[PYEXE_WHY_SIZE])
{
	char *bytes = NULL;
	size_t size;
	int r = read_file(o->source_dir, name, &bytes, &size, why);

	return r < 0 ? r : add_file(h, directory, name, bytes, size);
}

static int make(const struct pyexe *exe, const struct pyhook_options *o, struct pyhook *h,
		char why[PYEXE_WHY_SIZE])
{
	_cleanup_(extension_done) struct extension e = {.path = NULL};
	char *entry = NULL;
	int r = extension_read(o->source_dir, &e);

	if (r == 0)
		r = make_entry(o, &e, &entry, why);
	if (r == 0)
		r = add_file(h, h->name,
			     h->method == PYHOOK_DIRECTORY ? "sitecustomize.py" : "__init__.py",
			     entry, strlen(entry));
	for (size_t i = 0; i < ARRAY_SIZE(readers) && r == 0; i++)
		r = add_source(h, o, h->name, readers[i], why);
	if (r < 0)
		return r;
	r = pycompile_allowed(exe, h->note);
	if (r == 0)
		r = add_compiled(exe, h, 1 + ARRAY_SIZE(readers), h->note);
	if (r == -EXDEV) {
		(void)snprintf(why, PYEXE_WHY_SIZE, "%s", h->note);
		return -EOPNOTSUPP;
	}
	r = add_readme(exe, h);
	if (r == 0 && h->method == PYHOOK_IN_SITE)
		r = add_source(h, o, NULL, PYHOOK_START, why);
	if (r == 0 && h->method == PYHOOK_IN_SITE)
		r = add_source(h, o, NULL, PYHOOK_PTH, why);
	return r < 0 ? r : add_manifest(h, o, &e);
}

int pyhook_make(const struct pyexe *exe, const struct pyhook_options *options, struct pyhook *ret,
		char why[PYEXE_WHY_SIZE])
{
	struct pyhook h = PYHOOK_NULL;
	int r;

	why[0] = '\0';
	r = pyhook_locate(exe, options->method, &h, why);
	if (r == 0)
		r = make(exe, options, &h, why);
	if (r < 0) {
		pyhook_done(&h);
		if (!why[0])
			(void)snprintf(why, PYEXE_WHY_SIZE, "%s", strerror(-r));
		return r;
	}
	*ret = h;
	return 0;
}

void pyhook_done(struct pyhook *h)
{
	for (size_t i = 0; i < h->n_files; i++) {
		free(h->files[i].path);
		free(h->files[i].bytes);
	}
	free(h->parent);
	free(h->name);
	*h = (struct pyhook)PYHOOK_NULL;
}
