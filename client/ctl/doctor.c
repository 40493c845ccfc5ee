/* SPDX-License-Identifier: MIT */
/* doctor: the table of checks, their order, and how what they found is shown. */
#include "config.h"

#include "client/ctl/doctor.h"

#include <stdarg.h>
#include <time.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/slurp.h"
#include "client/ctl/table.h"
#include "common/util.h"

static const char *arg_root;

static const struct {
	const char *id;
	const char *what;
	bool live; /* of a running system: not with --root */
	int (*run)(struct doctor *d);
} checks[] = {
	{"manager", "cudaenvd", true, doctor_manager},
	{"broker", "cudaenv-broker", true, doctor_broker},
	{"runtime", "the runtime directory", true, doctor_runtime},
	{"published", "what is published in it", true, doctor_published},
	{"state", "what survives a reboot", true, doctor_state},
	{"config", "cudaenvd.conf and its drop-ins", true, doctor_config},
	{"profiles", "profiles, and whether they are applied", false, doctor_profiles},
	{"mode", "what new jobs get", true, doctor_mode},
	{"systemd", "units, users, directories", false, doctor_systemd},
	{"versions", "versions of the pieces", true, doctor_versions},
	{"interpreters", "start hooks of the interpreters", false, doctor_interpreters},
	{"new-interpreters", "interpreters that came since the last look", false,
	 doctor_new_interpreters},
	{"setters", "what else sets these variables", false, doctor_setters},
};

enum result { RESULT_GOOD, RESULT_FOUND, RESULT_SKIPPED };

struct report {
	struct doctor d;
	enum result results[ARRAY_SIZE(checks)];
	char *skipped[ARRAY_SIZE(checks)];
	size_t counts[3]; /* by enum finding_severity */
};

static uint64_t now_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void report_done(struct report *r)
{
	struct doctor *d = &r->d;

	for (size_t i = 0; i < d->n_findings; i++) {
		free(d->findings[i].file);
		free(d->findings[i].variable);
		free(d->findings[i].message);
		free(d->findings[i].fix);
	}
	free(d->findings);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		free(r->skipped[i]);
	free(d->covers);
	pyfind_done(&d->found);
	mounts_done(&d->mounts);
	published_done(&d->published);
	d->root_fd = safe_close(d->root_fd);
}

/* --- for the checks */

static int copy(char **ret, const char *s)
{
	*ret = s ? strdup(s) : NULL;
	return s && !*ret ? -ENOMEM : 0;
}

int doctor_add(struct doctor *d, enum finding_severity severity, const char *file, unsigned line,
	       const char *variable, const char *fix, const char *format, ...)
{
	struct doctor_finding *grown, f = {.check = d->check, .severity = severity, .line = line};
	va_list ap;
	int n;

	grown = reallocarray(d->findings, d->n_findings + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	d->findings = grown;
	va_start(ap, format);
	n = vasprintf(&f.message, format, ap);
	va_end(ap);
	if (n < 0)
		f.message = NULL;
	if (copy(&f.file, file) < 0 || copy(&f.variable, variable) < 0 || copy(&f.fix, fix) < 0)
		n = -1;
	grown[d->n_findings++] = f; /* also a half-made one: report_done() frees it */
	return n < 0 ? -ENOMEM : 0;
}

int doctor_skip(struct doctor *d, const char *format, ...)
{
	va_list ap;
	int n;

	free(d->skipped);
	va_start(ap, format);
	n = vasprintf(&d->skipped, format, ap);
	va_end(ap);
	if (n < 0)
		d->skipped = NULL;
	return n < 0 ? -ENOMEM : 0;
}

char *doctor_format(const char *format, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

bool doctor_late(const struct doctor *d)
{
	return now_usec() > d->deadline_usec;
}

int doctor_read(struct doctor *d, const char *path, char **ret, size_t *ret_size)
{
	const struct mount *mount;
	char where[PATH_MAX];
	int r;

	if (d->root)
		return slurp(d->root_fd, path, DOCTOR_FILE_MAX, ret, ret_size);
	r = mounts_resolve(&d->mounts, path, where, &mount);
	return r < 0 ? r : slurp(SLURP_ROOT_HERE, where, DOCTOR_FILE_MAX, ret, ret_size);
}

bool doctor_exists(struct doctor *d, const char *path)
{
	const struct mount *mount;
	char where[PATH_MAX];
	int fd;

	if (!d->root)
		return mounts_resolve(&d->mounts, path, where, &mount) == 0 &&
		       access(where, F_OK) == 0;
	fd = slurp_open(d->root_fd, path, O_PATH);
	(void)safe_close(fd);
	return fd >= 0;
}

const char *doctor_user(const struct doctor *d)
{
	return d->root ? "" : ctl_user_option(d->ctl);
}

/* --- all of them */

static int run_checks(struct report *r)
{
	struct doctor *d = &r->d;

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		size_t before = d->n_findings;
		int s = 0;

		d->check = checks[i].id;
		if (d->root && checks[i].live)
			s = doctor_skip(d, "only of a running system");
		else if (doctor_late(d))
			s = doctor_skip(d, "the time for all checks was over");
		else
			s = checks[i].run(d);
		if (s < 0)
			return s;
		r->skipped[i] = TAKE_PTR(d->skipped);
		r->results[i] = d->n_findings > before ? RESULT_FOUND
				: r->skipped[i]        ? RESULT_SKIPPED
						       : RESULT_GOOD;
	}
	for (size_t i = 0; i < d->n_findings; i++)
		r->counts[d->findings[i].severity]++;
	return 0;
}

static int begin(struct report *r)
{
	struct doctor *d = &r->d;

	d->deadline_usec = now_usec() + (uint64_t)DOCTOR_DEADLINE_MSEC * 1000;
	if (mounts_load(NULL, &d->mounts) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (arg_root) {
		d->root = arg_root;
		d->root_fd = slurp_open(SLURP_ROOT_HERE, arg_root, O_PATH | O_DIRECTORY);
		if (d->root_fd < 0)
			return ctl_error(CTL_FAILED, "cannot look into %s: %s", arg_root,
					 strerror(-d->root_fd));
		return CTL_GOOD;
	}
	d->paths = ctl_paths(d->ctl);
	if (!d->paths)
		return CTL_FAILED;
	d->published_error = published_open(d->paths->runtime, &d->published);
	d->have_published = d->published_error == 0;
	return CTL_GOOD;
}

/* --- the answer */

static const char *result_name(const struct report *r, size_t i)
{
	static const char *const names[] = {
		[RESULT_GOOD] = "good", [RESULT_FOUND] = "found", [RESULT_SKIPPED] = "skipped"};

	return names[r->results[i]];
}

static struct json_object *finding_json(const struct doctor_finding *f)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "check", json_text(f->check));
	json_object_object_add(o, "severity", json_text(finding_severity_name(f->severity)));
	json_object_object_add(o, "file", json_text(f->file));
	json_object_object_add(o, "line", json_number_or_null(f->line > 0 ? (int64_t)f->line : -1));
	json_object_object_add(o, "variable", json_text(f->variable));
	json_object_object_add(o, "message", json_text(f->message));
	json_object_object_add(o, "fix", json_text(f->fix));
	return o;
}

static void print_json(const struct report *r)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array(), *findings = json_object_new_array();

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct json_object *check = json_object_new_object();

		json_object_object_add(check, "id", json_text(checks[i].id));
		json_object_object_add(check, "what", json_text(checks[i].what));
		json_object_object_add(check, "result", json_text(result_name(r, i)));
		json_object_object_add(check, "skipped", json_text(r->skipped[i]));
		json_object_array_add(list, check);
	}
	for (size_t i = 0; i < r->d.n_findings; i++)
		json_object_array_add(findings, finding_json(&r->d.findings[i]));
	json_object_object_add(o, "root", json_text(r->d.root));
	json_object_object_add(o, "errors",
			       json_object_new_int64((int64_t)r->counts[FINDING_ERROR]));
	json_object_object_add(o, "warnings",
			       json_object_new_int64((int64_t)r->counts[FINDING_WARNING]));
	json_object_object_add(o, "advices",
			       json_object_new_int64((int64_t)r->counts[FINDING_ADVICE]));
	json_object_object_add(o, "checks", list);
	json_object_object_add(o, "findings", findings);
	json_print(o);
}

static void print_place(const struct doctor_finding *f)
{
	if (!f->file)
		return;
	print_escaped(f->file);
	if (f->line > 0)
		printf(":%u", f->line);
	printf(": ");
}

static void print_finding(const struct doctor_finding *f)
{
	static const enum colour colours[] = {
		[FINDING_ERROR] = COLOUR_BAD,
		[FINDING_WARNING] = COLOUR_WARN,
		[FINDING_ADVICE] = COLOUR_NONE,
	};

	printf("  ");
	print_place(f);
	printf("%s%s:%s ", colour_begin(colours[f->severity]), finding_severity_name(f->severity),
	       colour_end());
	print_escaped(f->message);
	printf("\n");
	if (f->fix) {
		printf("    fix: ");
		print_escaped(f->fix);
		printf("\n");
	}
}

/* The worst that was found, or "good", "skipped"; and its colour. */
static const char *worst(const struct report *r, size_t i, enum colour *ret)
{
	enum finding_severity severity = FINDING_ADVICE;

	*ret = r->results[i] == RESULT_GOOD ? COLOUR_GOOD : COLOUR_NONE;
	if (r->results[i] != RESULT_FOUND)
		return result_name(r, i);
	for (size_t j = 0; j < r->d.n_findings; j++)
		if (streq(r->d.findings[j].check, checks[i].id) &&
		    r->d.findings[j].severity < severity)
			severity = r->d.findings[j].severity;
	*ret = severity == FINDING_ERROR     ? COLOUR_BAD
	       : severity == FINDING_WARNING ? COLOUR_WARN
					     : COLOUR_NONE;
	return finding_severity_name(severity);
}

/* For people: each check in a line, its findings below it. */
static void print_checks(const struct report *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		enum colour colour;
		const char *result = worst(r, i, &colour);

		printf("%s%-7s%s  %-16s  %s", colour_begin(colour), result, colour_end(),
		       checks[i].id, checks[i].what);
		if (r->skipped[i]) {
			printf(" (%s", r->results[i] == RESULT_FOUND ? "not all: " : "");
			print_escaped(r->skipped[i]);
			printf(")");
		}
		printf("\n");
		for (size_t j = 0; j < r->d.n_findings; j++)
			if (streq(r->d.findings[j].check, checks[i].id))
				print_finding(&r->d.findings[j]);
	}
	printf("%zu error%s, %zu warning%s, %zu advice%s in %zu checks.\n",
	       r->counts[FINDING_ERROR], r->counts[FINDING_ERROR] == 1 ? "" : "s",
	       r->counts[FINDING_WARNING], r->counts[FINDING_WARNING] == 1 ? "" : "s",
	       r->counts[FINDING_ADVICE], r->counts[FINDING_ADVICE] == 1 ? "" : "s",
	       ARRAY_SIZE(checks));
}

/* For a pipe: a row for each finding, and for each check that found nothing. */
static int print_rows(const struct report *r)
{
	static const char *const headers[] = {"RESULT",   "CHECK",   "FILE", "LINE",
					      "VARIABLE", "MESSAGE", "FIX",  NULL};
	_cleanup_(table_done) struct table t = {0};

	table_init(&t, headers);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		if (r->results[i] != RESULT_FOUND) {
			table_cell(&t, result_name(r, i));
			table_cell(&t, checks[i].id);
			for (int j = 0; j < 3; j++)
				table_cell(&t, NULL);
			table_cell(&t, r->skipped[i]);
			table_cell(&t, NULL);
		}
		for (size_t j = 0; j < r->d.n_findings; j++) {
			const struct doctor_finding *f = &r->d.findings[j];

			if (!streq(f->check, checks[i].id))
				continue;
			table_cell(&t, finding_severity_name(f->severity));
			table_cell(&t, f->check);
			table_cell(&t, f->file);
			if (f->line > 0)
				table_cell_format(&t, "%u", f->line);
			else
				table_cell(&t, NULL);
			table_cell(&t, f->variable);
			table_cell(&t, f->message);
			table_cell(&t, f->fix);
		}
	}
	return table_print(&t, stdout, false);
}

static int run_doctor(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(report_done) struct report r = {
		.d = {.ctl = ctl, .root_fd = SLURP_ROOT_HERE, .published = PUBLISHED_NULL}};
	int s;

	if (arg_root && ctl->user)
		return ctl_error(CTL_USAGE, "--root is for a whole system, --user for your own "
					    "cudaenvd: not both");
	s = begin(&r);
	if (s != CTL_GOOD)
		return s;
	s = run_checks(&r);
	if (s == 0 && ctl->json)
		print_json(&r);
	else if (s == 0 && ctl_terminal())
		print_checks(&r);
	else if (s == 0)
		s = print_rows(&r);
	if (s < 0)
		return ctl_error(CTL_FAILED, "cannot look: %s", strerror(-s));
	return r.counts[FINDING_ERROR] + r.counts[FINDING_WARNING] > 0 ? CTL_BAD_NEWS : CTL_GOOD;
}

static const struct ctl_option options[] = {
	{.name = "root",
	 .argument = "DIR",
	 .help = "look at the system in DIR, such as an image",
	 .value = &arg_root},
	{0},
};

const struct verb verb_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "Is the installation sound, and what else sets these variables?",
	.help = "Daemons, sockets, directories, settings, profiles, units, versions, start hooks,\n"
		"and every file on this machine that sets a variable of the profile in use or one\n"
		"of CUDA's or NCCL's, with its line. Each finding has its way out. Exit status 1\n"
		"with errors or warnings. Nothing is changed, but for the list of interpreters\n"
		"that were seen, in the state directory: a new one is named once. Needs no daemon.",
	.options = options,
	.run = run_doctor,
};
