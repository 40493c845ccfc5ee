/* SPDX-License-Identifier: MIT */
/* doctor: profiles, units, users, versions. */
#include "config.h"

#include "client/ctl/doctor.h"

#include <dlfcn.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/ctl/child.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/slurp.h"
#include "client/ctl/unitfiles.h"
#include "common/profile.h"
#include "common/util.h"

#define PROGRAM_MSEC 3000
#define VERSION_MAX  ((size_t)4096)

/* --- profiles */

static const struct finding *first_error(const struct profile *p)
{
	for (size_t i = 0; i < p->findings.n; i++)
		if (p->findings.items[i].severity == FINDING_ERROR)
			return &p->findings.items[i];
	return NULL;
}

static int look_at_profile(struct doctor *d, const struct profile *p, const char *active)
{
	const struct finding *error = first_error(p);
	bool in_use = active && streq(active, p->name);
	_cleanup_(freep) char *fix = NULL;

	if (!error && (!in_use || p->findings.warnings == 0))
		return 0;
	fix = doctor_format("cudaenvctl%s check %s", doctor_user(d), d->root ? p->path : p->name);
	if (!fix)
		return -ENOMEM;
	if (!error)
		return doctor_add(d, FINDING_ADVICE, p->path, 0, NULL, fix,
				  "the profile in use has %zu warning%s", p->findings.warnings,
				  p->findings.warnings == 1 ? "" : "s");
	return doctor_add(d, in_use ? FINDING_ERROR : FINDING_WARNING, p->path, error->line,
			  error->variable, fix, "%s has errors: %s; the last good version %s",
			  p->name, error->message, in_use ? "stays in force" : "is used, if any");
}

static int look_at_edited(struct doctor *d)
{
	struct json_object *edited = json_array(d->published.status, "edited");
	int r = 0;

	for (size_t i = 0; r == 0 && edited && i < json_object_array_length(edited); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(edited, i));
		_cleanup_(freep) char *fix = NULL;

		fix = doctor_format("cudaenvctl%s diff %s, then cudaenvctl%s use %s",
				    doctor_user(d), name, doctor_user(d), name);
		if (!fix)
			return -ENOMEM;
		r = doctor_add(d, FINDING_WARNING, NULL, 0, NULL, fix,
			       "the file of profile %s does not say what is in force", name);
	}
	return r;
}

static int look_at_profiles(struct doctor *d, const char *const *dirs)
{
	const char *active = json_string(d->published.status, "active");
	_cleanup_(profile_set_done) struct profile_set set = {0};
	int r = profile_set_load(dirs, NULL, &set);

	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return doctor_add(d, FINDING_ERROR, NULL, 0, NULL, NULL,
				  "the directories of profiles cannot be read: %s", strerror(-r));
	for (size_t i = 0; r == 0 && i < set.n_profiles; i++)
		r = look_at_profile(d, set.profiles[i], active);
	if (r == 0 && active && !profile_set_find(&set, active))
		r = doctor_add(d, FINDING_WARNING, NULL, 0, NULL,
			       "write it again, or use another profile",
			       "the file of %s, the profile in use, is gone", active);
	return r < 0 ? r : look_at_edited(d);
}

int doctor_profiles(struct doctor *d)
{
	static const char *const usual[] = {"/etc/cudaenv/profiles.d", "/run/cudaenv/profiles.d",
					    "/usr/lib/cudaenv/profiles.d"};
	char *dirs[ARRAY_SIZE(usual) + 1] = {NULL};
	int r = 0;

	if (!d->root)
		return look_at_profiles(d, (const char *const *)d->paths->profiles);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(usual); i++) {
		dirs[i] = doctor_format("%s%s", d->root, usual[i]);
		r = dirs[i] ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = look_at_profiles(d, (const char *const *)dirs);
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		free(dirs[i]);
	return r;
}

/* --- systemd */

static const struct {
	const char *name;
	const char *wants; /* enabled by a link there; NULL: need not be */
} units[] = {
	{"cudaenvd.service", "multi-user.target.wants"},
	{"cudaenvd.socket", "sockets.target.wants"},
	{"cudaenv-broker.socket", "sockets.target.wants"},
	{"cudaenv-broker.service", NULL},
};

/* 1: it is there, 0: not, -ERFKILL: masked, -ENOMEM. */
static int find_unit(struct doctor *d, const struct unit_list *directories, const char *name)
{
	for (size_t i = 0; i < directories->n; i++) {
		_cleanup_(closep) int fd = -EBADF;
		_cleanup_(freep) char *path = NULL;
		struct stat st;

		path = doctor_format("%s/%s", directories->paths[i], name);
		if (!path)
			return -ENOMEM;
		if (slurp_masked(d->root_fd, path))
			return -ERFKILL;
		fd = slurp_open(d->root_fd, path, O_PATH);
		if (fd < 0 || fstat(fd, &st) < 0)
			continue;
		return S_ISREG(st.st_mode) && st.st_size > 0 ? 1 : -ERFKILL;
	}
	return 0;
}

static int look_at_unit(struct doctor *d, const struct unit_list *directories, size_t i)
{
	_cleanup_(freep) char *link = NULL, *fix = NULL;
	int r = find_unit(d, directories, units[i].name), fd;

	if (r == -ENOMEM)
		return r;
	if (r == 0)
		return doctor_add(d, FINDING_ERROR, units[i].name, 0, NULL,
				  "make install, with systemd's unit directory, and systemctl "
				  "daemon-reload",
				  "the unit is not installed");
	fix = doctor_format("systemctl %s %s", r < 0 ? "unmask" : "enable --now", units[i].name);
	link = doctor_format("/etc/systemd/system/%s/%s", units[i].wants ? units[i].wants : "",
			     units[i].name);
	if (!fix || !link)
		return -ENOMEM;
	if (r < 0)
		return doctor_add(d, FINDING_ERROR, units[i].name, 0, NULL, fix,
				  "the unit is masked");
	if (!units[i].wants)
		return 0;
	/* Of the link alone: it is absolute, and its end is the unit that was found. */
	fd = slurp_open(d->root_fd, link, O_PATH | O_NOFOLLOW);
	(void)safe_close(fd);
	return fd >= 0 ? 0
		       : doctor_add(d, FINDING_WARNING, units[i].name, 0, NULL, fix,
				    "the unit is not enabled: it does not start at boot");
}

static int look_at_file(struct doctor *d, const char *kind, const char *fix)
{
	static const char *const bases[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib"};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		(void)snprintf(path, sizeof path, "%s/%s/cudaenv.conf", bases[i], kind);
		if (doctor_exists(d, path))
			return 0;
	}
	return doctor_add(d, FINDING_ERROR, path, 0, NULL, fix, "it is not installed");
}

/* An account by its line in /etc/passwd or /etc/group. */
static int look_at_account(struct doctor *d, const char *file, const char *name)
{
	_cleanup_(freep) char *text = NULL, *line = NULL;
	size_t size;
	int r = doctor_read(d, file, &text, &size);

	if (r == -ENOMEM)
		return r;
	line = doctor_format("\n%s:", name);
	if (!line)
		return -ENOMEM;
	if (r == 0 && (strncmp(text, line + 1, strlen(line) - 1) == 0 || strstr(text, line)))
		return 0;
	return doctor_add(d, FINDING_ERROR, file, 0, NULL, "systemd-sysusers", "%s is not in it",
			  name);
}

int doctor_systemd(struct doctor *d)
{
	_cleanup_(unit_list_done) struct unit_list directories = {0};
	int r;

	if (!d->root && d->paths->user)
		return doctor_skip(d, "a cudaenvd of one's own needs no units");
	if (!d->root && !doctor_exists(d, "/run/systemd/system"))
		return doctor_skip(d, "systemd does not run here");
	if (d->root && !doctor_exists(d, "/usr/lib/systemd/systemd") &&
	    !doctor_exists(d, "/lib/systemd/systemd"))
		return doctor_skip(d, "there is no systemd in it");
	r = unit_directories(d->root_fd, false, &directories);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(units); i++)
		r = look_at_unit(d, &directories, i);
	if (r == 0)
		r = look_at_file(d, "tmpfiles.d", "make install, then systemd-tmpfiles --create");
	if (r == 0)
		r = look_at_file(d, "sysusers.d", "make install, then systemd-sysusers");
	if (r == 0)
		r = look_at_account(d, "/etc/passwd", "cudaenv");
	if (r == 0)
		r = look_at_account(d, "/etc/group", "cudaenv-admin");
	return r;
}

/* --- versions */

/* What PROGRAM --version says is another version than this tool's. */
static int look_at_program(struct doctor *d, const char *program)
{
	char *argv[] = {(char *)program, (char *)"--version", NULL};
	_cleanup_(child_answer_done) struct child_answer answer = {0};
	const char *space;
	int r = child_ask(argv, PROGRAM_MSEC, VERSION_MAX, &answer);

	if (r == -ENOMEM)
		return r;
	if (r < 0 || !WIFEXITED(answer.status) || WEXITSTATUS(answer.status) != 0)
		return doctor_add(d, FINDING_ERROR, program, 0, NULL, "install it again",
				  "it cannot be run%s%s", r < 0 ? ": " : "",
				  r < 0 ? strerror(-r) : "");
	answer.out[strcspn(answer.out, "\n")] = '\0';
	space = strrchr(answer.out, ' ');
	if (space && streq(space + 1, PACKAGE_VERSION))
		return 0;
	return doctor_add(d, FINDING_ERROR, program, 0, NULL, "install all pieces of one version",
			  "it is %s, this tool %s", answer.out, PACKAGE_VERSION);
}

/* In a process of its own: a damaged library ends that. */
static int print_library_version(void *userdata)
{
	void *library = dlopen(userdata, RTLD_NOW | RTLD_LOCAL);
	const char *(*version)(void) = NULL;

	if (library)
		*(void **)&version = dlsym(library, "cudaenv_version");
	if (!version)
		return 1;
	puts(version());
	return fflush(stdout) == 0 ? 0 : 1;
}

static int look_at_library(struct doctor *d)
{
	static char path[] = LIBDIR "/libcudaenv.so.0";
	_cleanup_(child_answer_done) struct child_answer answer = {0};
	int r = child_call(print_library_version, path, PROGRAM_MSEC, VERSION_MAX, &answer);

	if (r == -ENOMEM)
		return r;
	if (r < 0 || !WIFEXITED(answer.status) || WEXITSTATUS(answer.status) != 0)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, "install it again",
				  "it cannot be loaded");
	answer.out[strcspn(answer.out, "\n")] = '\0';
	if (streq(answer.out, PACKAGE_VERSION))
		return 0;
	return doctor_add(d, FINDING_ERROR, path, 0, NULL, "install all pieces of one version",
			  "it is %s, this tool %s", answer.out, PACKAGE_VERSION);
}

/* The program that runs was replaced on the disk since. */
static int look_at_running(struct doctor *d)
{
	pid_t pid = (pid_t)json_number(d->published.status, "manager_pid", 0);
	char path[64], exe[PATH_MAX];
	ssize_t n;

	(void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	n = pid > 0 ? readlink(path, exe, sizeof exe - 1) : -1;
	if (n < 0)
		return 0;
	exe[n] = '\0';
	if (!strstr(exe, "/cudaenvd") || !strstr(exe, " (deleted)"))
		return 0;
	return doctor_add(d, FINDING_WARNING, exe, 0, NULL,
			  d->paths->user ? "end it and start cudaenvd --user again"
					 : "systemctl restart cudaenvd cudaenv-broker",
			  "the cudaenvd that runs (pid %d) is not the one that is installed",
			  (int)pid);
}

int doctor_versions(struct doctor *d)
{
	int r = look_at_program(d, SBINDIR "/cudaenvd");

	if (r == 0)
		r = look_at_program(d, LIBEXECDIR "/cudaenv-broker");
	if (r == 0)
		r = look_at_library(d);
	return r < 0 ? r : look_at_running(d);
}
