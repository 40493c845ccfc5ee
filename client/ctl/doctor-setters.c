/* SPDX-License-Identifier: MIT */
/*
 * doctor: what else on this machine sets the variables of the profile in use, or others of CUDA and
 * NCCL. The readers of `import` find them; a file that has no such name in it is not parsed.
 */
#include "config.h"

#include "client/ctl/doctor.h"

#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "client/ctl/import-profile.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/slurp.h"
#include "client/ctl/unitfiles.h"
#include "common/util.h"

#define OWN_PTH              "00-cudaenv.pth"
#define UNIT_DIRECTORIES_MAX 32

struct setters {
	struct doctor *d;
	struct snapshot *active; /* NULL: none, or it cannot be read */
	struct facts *facts;
	char *home; /* of the caller; NULL: none that may be looked into */
	char real_root[PATH_MAX];
	struct unit_list seen; /* files, each once */
	bool denied;
};

static void setters_done(struct setters *s)
{
	if (s->active)
		(void)snapshot_free(s->active);
	if (s->facts)
		(void)facts_free(s->facts);
	free(s->home);
	unit_list_done(&s->seen);
}

/* --- what is reported */

static const struct snapshot_entry *active_entry(const struct setters *s, const char *name)
{
	for (size_t i = 0; s->active && i < s->active->n_entries; i++)
		if (streq(s->active->entries[i].name, name))
			return &s->active->entries[i];
	return NULL;
}

static bool concerns(const struct setters *s, const char *name)
{
	/* What belongs to scheduler and rank competes with nobody; search paths are everybody's. */
	if (profile_name_is_reserved(name) || profile_name_is_own(name))
		return false;
	return active_entry(s, name) ||
	       (import_known_family(name, s->facts) && !profile_name_is_search_path(name));
}

static int report_item(struct setters *s, const struct import_item *item)
{
	const struct snapshot_entry *e = active_entry(s, item->name);
	const char *does = item->state == IMPORT_UNSET ? "removes" : "sets";
	_cleanup_(freep) char *fix = NULL;
	bool list = e && (e->rule == SNAPSHOT_PREPEND || e->rule == SNAPSHOT_APPEND ||
			  streq(e->name, "PATH")),
	     same = e && item->state != IMPORT_UNKNOWN && item->state != IMPORT_UNSET &&
		    streq(item->value, e->value);

	fix = doctor_format("take it out there%s",
			    e ? "" : ", or into a profile by cudaenvctl import");
	if (!fix)
		return -ENOMEM;
	if (!e)
		return doctor_add(s->d, FINDING_ADVICE, item->file, item->line, item->name, fix,
				  "%s %s%s", does, item->name,
				  s->active ? ", which the profile in use does not have" : "");
	return doctor_add(s->d, list || same ? FINDING_ADVICE : FINDING_WARNING, item->file,
			  item->line, item->name, fix, "%s %s, which profile %s has%s", does,
			  item->name, s->active->profile,
			  list                          ? " as a list"
			  : item->state == IMPORT_UNSET ? ""
			  : same                        ? " with the same value"
							: " with another value");
}

static bool is_interesting(const struct setters *s, const char *bytes, size_t size)
{
	static const char *const marks[] = {"NCCL_", "CUDA_", "TRITON_"};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (memmem(bytes, size, marks[i], strlen(marks[i])))
			return true;
	for (size_t i = 0; s->active && i < s->active->n_entries; i++) {
		const char *name = s->active->entries[i].name;

		if (memmem(bytes, size, name, strlen(name)))
			return true;
	}
	return false;
}

/* --- one file */

enum { KIND_PTH = IMPORT_KIND_MAX_, KIND_PAM };

/* pam_env.conf(5): NAME DEFAULT=... OVERRIDE=..., where values may be computed. */
static int read_pam(struct import *im, const char *bytes)
{
	unsigned line = 0;
	int r = 0;

	for (const char *at = bytes; r == 0 && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		_cleanup_(freep) char *name = NULL;

		line++;
		at += strspn(at, " \t");
		if (*at == '#' || *at == '\n')
			continue;
		name = strndup(at, strcspn(at, " \t=\n"));
		r = name ? import_leave(im, IMPORT_ASSIGN, line, name, "pam_env computes it")
			 : -ENOMEM;
	}
	return r;
}

static int read_kind(struct import *im, int kind, const char *bytes, size_t size)
{
	if (kind == KIND_PAM)
		return read_pam(im, bytes);
	return kind == KIND_PTH ? import_pth(im, bytes, size)
				: import_read(im, (enum import_kind)kind, bytes, size);
}

/* 1: not seen before. */
static int first_time(struct setters *s, const char *path)
{
	for (size_t i = 0; i < s->seen.n; i++)
		if (streq(s->seen.paths[i], path))
			return 0;
	return unit_list_add(&s->seen, path) < 0 ? -ENOMEM : 1;
}

static int scan(struct setters *s, int kind, const char *path);

static int scan_referred(struct setters *s, const struct import *im)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < im->n_refers; i++)
		r = scan(s, IMPORT_ENV, im->refers[i]);
	return r;
}

static int report(struct setters *s, int kind, const char *path, const char *bytes, size_t size)
{
	_cleanup_(import_done) struct import im = {0};
	int r = import_begin_file(&im, path), broken;

	broken = r == 0 ? read_kind(&im, kind, bytes, size) : r;
	if (broken == -ENOMEM)
		return broken;
	for (size_t i = 0; r == 0 && i < im.n_items; i++)
		if (im.items[i].file && concerns(s, im.items[i].name))
			r = report_item(s, &im.items[i]);
	if (r == 0 && broken == -EBADMSG && im.n_notes > 0)
		r = doctor_add(s->d, FINDING_ADVICE, path, im.notes[im.n_notes - 1].line, NULL,
			       NULL, "has such names and is not understood from here on: %s",
			       im.notes[im.n_notes - 1].reason);
	return r < 0 ? r : scan_referred(s, &im);
}

static int scan(struct setters *s, int kind, const char *path)
{
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r = first_time(s, path);

	if (r <= 0)
		return r;
	if (doctor_late(s->d))
		return doctor_skip(s->d, "the time was over at %s", path);
	r = doctor_read(s->d, path, &bytes, &size);
	if (r == -EFBIG || r == -EINVAL)
		return doctor_add(s->d, FINDING_ADVICE, path, 0, NULL, NULL, "was not read: %s",
				  r == -EFBIG ? "it is larger than 1 MiB" : slurp_error(r));
	s->denied = s->denied || r == -EACCES || r == -EPERM;
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	/* A unit may name a file that has them. */
	if (!is_interesting(s, bytes, size) &&
	    !(kind == IMPORT_UNIT && strstr(bytes, "EnvironmentFile")))
		return 0;
	return report(s, kind, path, bytes, size);
}

static int _printf_(3, 4) scan_format(struct setters *s, int kind, const char *format, ...)
{
	_cleanup_(freep) char *path = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&path, format, ap);
	va_end(ap);
	if (n < 0)
		path = NULL;
	return path ? scan(s, kind, path) : -ENOMEM;
}

/* Each file of DIRECTORY with that end. */
static int scan_directory(struct setters *s, int kind, const char *directory, const char *suffix)
{
	_cleanup_(unit_list_done) struct unit_list names = {0};
	int r;

	if (!doctor_exists(s->d, directory))
		return 0;
	r = unit_names(s->d->root_fd, directory, suffix, &names);
	s->denied = s->denied || r == -EACCES;
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; r == 0 && i < names.n; i++)
		if (!streq(names.paths[i], OWN_PTH))
			r = scan_format(s, kind, "%s/%s", directory, names.paths[i]);
	return r;
}

/* --- where they may be */

struct place {
	const char *path;
	int kind;
	const char *suffix; /* PATH is a directory */
};

static const struct place machine_places[] = {
	{"/etc/nccl.conf", IMPORT_NCCL_CONF, NULL},
	{"/etc/environment", IMPORT_ENV, NULL},
	{"/etc/security/pam_env.conf", KIND_PAM, NULL},
	{"/etc/profile", IMPORT_SHELL, NULL},
	{"/etc/profile.d", IMPORT_SHELL, ".sh"},
	{"/etc/bash.bashrc", IMPORT_SHELL, NULL},
	{"/etc/bashrc", IMPORT_SHELL, NULL},
	{"/etc/zshenv", IMPORT_SHELL, NULL},
	{"/etc/zsh/zshenv", IMPORT_SHELL, NULL},
	{"/etc/zsh/zprofile", IMPORT_SHELL, NULL},
	{"/etc/zsh/zshrc", IMPORT_SHELL, NULL},
	{"/etc/environment.d", IMPORT_ENV, ".conf"},
	{"/usr/lib/environment.d", IMPORT_ENV, ".conf"},
	{"/etc/systemd/system.conf", IMPORT_UNIT, NULL},
	{"/etc/systemd/system.conf.d", IMPORT_UNIT, ".conf"},
	{"/usr/lib/systemd/system.conf.d", IMPORT_UNIT, ".conf"},
	{"/etc/systemd/user.conf", IMPORT_UNIT, NULL},
	{"/etc/systemd/user.conf.d", IMPORT_UNIT, ".conf"},
	{"/usr/lib/systemd/user.conf.d", IMPORT_UNIT, ".conf"},
};

static const struct place home_places[] = {
	{".nccl.conf", IMPORT_NCCL_CONF, NULL}, {".profile", IMPORT_SHELL, NULL},
	{".bash_profile", IMPORT_SHELL, NULL},  {".bash_login", IMPORT_SHELL, NULL},
	{".bashrc", IMPORT_SHELL, NULL},        {".zshenv", IMPORT_SHELL, NULL},
	{".zprofile", IMPORT_SHELL, NULL},      {".zshrc", IMPORT_SHELL, NULL},
	{".pam_environment", IMPORT_ENV, NULL}, {".config/environment.d", IMPORT_ENV, ".conf"},
};

static int scan_places(struct setters *s, const char *base, const struct place *places, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		_cleanup_(freep) char *path = doctor_format("%s%s", base, places[i].path);

		if (!path)
			return -ENOMEM;
		r = places[i].suffix ? scan_directory(s, places[i].kind, path, places[i].suffix)
				     : scan(s, places[i].kind, path);
	}
	return r;
}

/* Is the directory there, and none of the N that were looked into by another name (/lib, /usr/lib)?
 * It becomes number N of them. */
static bool is_new_directory(const struct setters *s, const char *path, struct stat *seen, size_t n)
{
	_cleanup_(closep) int fd = slurp_open(s->d->root_fd, path, O_PATH | O_DIRECTORY);

	if (fd < 0 || fstat(fd, &seen[n]) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (seen[i].st_dev == seen[n].st_dev && seen[i].st_ino == seen[n].st_ino)
			return false;
	return true;
}

/* Units that count: of one name that of the first directory; and all drop-ins. */
static int scan_units(struct setters *s, bool user)
{
	_cleanup_(unit_list_done) struct unit_list directories = {0}, names = {0};
	struct stat seen[UNIT_DIRECTORIES_MAX];
	size_t n_seen = 0;
	int r = unit_directories(s->d->root_fd, user, &directories);

	for (size_t i = 0; r == 0 && i < directories.n && n_seen < UNIT_DIRECTORIES_MAX; i++) {
		_cleanup_(unit_list_done) struct unit_list found = {0}, dropins = {0};
		const char *directory = directories.paths[i];

		if (!is_new_directory(s, directory, seen, n_seen))
			continue;
		n_seen++;
		if (unit_names(s->d->root_fd, directory, ".service", &found) == -ENOMEM ||
		    unit_names(s->d->root_fd, directory, ".d", &dropins) == -ENOMEM)
			return -ENOMEM;
		for (size_t j = 0; r == 0 && j < found.n; j++) {
			bool hidden = false;

			for (size_t k = 0; k < names.n && !hidden; k++)
				hidden = streq(names.paths[k], found.paths[j]);
			if (hidden)
				continue;
			r = unit_list_add(&names, found.paths[j]);
			if (r == 0)
				r = scan_format(s, IMPORT_UNIT, "%s/%s", directory, found.paths[j]);
		}
		for (size_t j = 0; r == 0 && j < dropins.n; j++) {
			_cleanup_(freep) char *path =
				doctor_format("%s/%s", directory, dropins.paths[j]);

			r = path ? scan_directory(s, IMPORT_UNIT, path, ".conf") : -ENOMEM;
		}
	}
	return r;
}

/* A path that pyfind gave, as doctor_read() takes it. */
static const char *inside(const struct setters *s, const char *path)
{
	const char *rest = s->d->root ? startswith(path, s->real_root) : path;

	return rest && rest[0] == '/' ? rest : NULL;
}

static int scan_site(struct setters *s, const char *directory)
{
	int r;

	if (!directory)
		return 0;
	r = scan_format(s, IMPORT_PYTHON, "%s/sitecustomize.py", directory);
	if (r == 0)
		r = scan_format(s, IMPORT_PYTHON, "%s/usercustomize.py", directory);
	return r < 0 ? r : scan_directory(s, KIND_PTH, directory, ".pth");
}

static int scan_interpreter(struct setters *s, const struct pyexe *exe)
{
	const char *stdlib = inside(s, exe->stdlib);
	char site[PATH_MAX], version[PYEXE_VERSION_SIZE];
	int r = scan_site(s, stdlib);

	pyexe_version_format(&exe->version, version);
	if (r == 0 && exe->site)
		r = scan_site(s, inside(s, exe->site));
	/* Debian's own places. */
	if (r == 0 && stdlib && startswith(stdlib, "/usr/lib/python3")) {
		r = scan_site(s, "/usr/lib/python3/dist-packages");
		(void)snprintf(site, sizeof site, "/usr/local/lib/%s/dist-packages", version);
		if (r == 0)
			r = scan_site(s, site);
	}
	if (r == 0 && s->home &&
	    (size_t)snprintf(site, sizeof site, "%s/.local/lib/%s/site-packages", s->home,
			     version) < sizeof site)
		r = scan_site(s, site);
	return r;
}

static int scan_interpreters(struct setters *s)
{
	int r = 0;

	for (size_t i = 0; r == 0 && s->d->have_found && i < s->d->found.n; i++)
		if (s->d->found.items[i].kind == PYFIND_BASE ||
		    s->d->found.items[i].kind == PYFIND_VENV)
			r = scan_interpreter(s, &s->d->found.items[i].exe);
	return r;
}

/* --- */

/* What new jobs get where no rule says otherwise. */
static void load_active(struct setters *s)
{
	const struct published *p = &s->d->published;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;

	if (p->assign && p->assign->fallback[0] &&
	    runtime_read(&p->runtime, p->runtime.snapshots_fd, p->assign->fallback,
			 SNAPSHOT_MAX_BYTES, &bytes, &size) == 0)
		(void)snapshot_parse(bytes, size, &s->active);
}

static int find_home(struct setters *s)
{
	const char *home = s->d->root ? "/root" : getenv("HOME");
	const struct mount *mount;
	char where[PATH_MAX];
	int r;

	if (s->d->root && !realpath(s->d->root, s->real_root))
		s->real_root[0] = '\0';
	if (streq(s->real_root, "/"))
		s->real_root[0] = '\0';
	if (!home || home[0] != '/')
		return 0;
	r = s->d->root ? 0 : mounts_resolve(&s->d->mounts, home, where, &mount);
	if (r == -EREMOTE)
		return doctor_skip(s->d, "%s lies on a file system of the network (%s)", home,
				   mount->type);
	if (r < 0)
		return 0;
	s->home = strdup(home);
	return s->home ? 0 : -ENOMEM;
}

static int scan_home(struct setters *s)
{
	_cleanup_(freep) char *base = s->home ? doctor_format("%s/", s->home) : NULL;
	int r;

	if (!s->home)
		return 0;
	if (!base)
		return -ENOMEM;
	r = scan_places(s, base, home_places, ARRAY_SIZE(home_places));
	return r < 0 ? r : scan_units(s, true);
}

int doctor_setters(struct doctor *d)
{
	_cleanup_(setters_done) struct setters s = {.d = d};
	const char *conf = d->root ? NULL : getenv("NCCL_CONF_FILE");
	int r = find_home(&s);

	load_active(&s);
	(void)facts_load(FACTSDIR "/must-match", &s.facts);
	if (r == 0)
		r = scan_places(&s, "", machine_places, ARRAY_SIZE(machine_places));
	if (r == 0 && conf && conf[0] == '/')
		r = scan(&s, IMPORT_NCCL_CONF, conf);
	if (r == 0)
		r = scan_units(&s, false);
	if (r == 0)
		r = scan_home(&s);
	if (r == 0)
		r = scan_interpreters(&s);
	if (r == 0 && s.denied && !d->skipped)
		r = doctor_skip(d, "some files may not be read by you");
	return r;
}
