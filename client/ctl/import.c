/* SPDX-License-Identifier: MIT */
/*
 * import: what a process, a sitecustomize.py, an nccl.conf, a unit or a shell file sets, as a
 * commented profile on stdout. Nothing is run, and nothing is installed.
 */
#include "config.h"

#include "client/ctl/import.h"

#include <ctype.h>
#include <limits.h>
#include <sys/stat.h>

#include "client/ctl/ctl.h"
#include "client/ctl/import-profile.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/slurp.h"
#include "client/ctl/table.h"
#include "client/ctl/text.h"
#include "client/ctl/unitfiles.h"
#include "common/util.h"

#define STDIN_NAME     "<stdin>"
#define LEFT_OUT_SHOWN 20

static const char *arg_as, *arg_from, *arg_output;

struct job {
	struct ctl *ctl;
	struct import im;
	struct import_profile_options options;
	struct facts *facts;
	struct import_profile profile;
};

static void job_done(struct job *job)
{
	import_profile_done(&job->profile);
	import_done(&job->im);
	if (job->facts)
		(void)facts_free(job->facts);
}

static bool all_digits(const char *s)
{
	return s[0] && s[strspn(s, "0123456789")] == '\0';
}

static bool ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n > m && streq(s + n - m, suffix);
}

/* --- reading */

static int cannot_read(const char *what, int r)
{
	return ctl_error(CTL_BAD_NEWS, "cannot read %s: %s%s", what, slurp_error(r),
			 r == -EACCES ? "; as root it can be" : "");
}

/* A reader that met what is not of its kind: its last note says where. */
static int not_of_this_kind(const struct job *job)
{
	const struct import_note *n =
		job->im.n_notes > 0 ? &job->im.notes[job->im.n_notes - 1] : NULL;

	if (!n || job->im.more_notes > 0)
		return ctl_error(CTL_BAD_NEWS, "%s is no file of kind %s", job->im.file,
				 import_kind_name(job->options.kind));
	return ctl_error(CTL_BAD_NEWS, "%s:%u: %s: it was read as %s; --from says another kind",
			 n->file, n->line, n->reason, import_kind_name(job->options.kind));
}

static int read_bytes(struct job *job, const char *file, const char *bytes, size_t size)
{
	int r = import_begin_file(&job->im, file);

	if (r == 0 && job->options.kind == IMPORT_PYTHON && ends_with(file, ".pth")) {
		job->im.assignments_force = true;
		r = import_pth(&job->im, bytes, size);
	} else if (r == 0) {
		r = import_read(&job->im, job->options.kind, bytes, size);
	}
	if (r == -EBADMSG)
		return not_of_this_kind(job);
	return r < 0 ? ctl_error(CTL_FAILED, "out of memory") : CTL_GOOD;
}

static int find_kind(struct job *job, const char *file, const char *bytes, size_t size)
{
	if (arg_from)
		return CTL_GOOD;
	if (import_kind_guess(file, bytes, size, &job->options.kind) < 0)
		return ctl_error(CTL_USAGE,
				 "%s: neither its name nor its bytes say what it is: say "
				 "--from=python, nccl-conf, unit, shell or env",
				 file);
	return CTL_GOOD;
}

static int read_file(struct job *job, const char *file)
{
	_cleanup_(freep) char *bytes = NULL;
	bool from_stdin = streq(file, "-");
	size_t size;
	int r;

	r = from_stdin ? slurp_fd(STDIN_FILENO, IMPORT_FILE_MAX, &bytes, &size)
		       : slurp(SLURP_ROOT_HERE, file, IMPORT_FILE_MAX, &bytes, &size);
	file = from_stdin ? STDIN_NAME : file;
	if (r == -EFBIG)
		return ctl_error(CTL_BAD_NEWS, "%s is larger than %zu MiB", file,
				 IMPORT_FILE_MAX / 1024 / 1024);
	if (r < 0)
		return cannot_read(file, r);
	r = find_kind(job, file, bytes, size);
	return r == CTL_GOOD ? read_bytes(job, file, bytes, size) : r;
}

static int cannot_read_process(const char *pid, const char *path, int r)
{
	struct stat st;

	if (r == -ENOENT || r == -ESRCH)
		return ctl_error(CTL_BAD_NEWS,
				 "there is no process %s; a file of that name is ./%s", pid, pid);
	if (r == -EACCES || r == -EPERM)
		return ctl_error(CTL_BAD_NEWS,
				 "process %s is of uid %lld: only root and that user may read its "
				 "environment",
				 pid, stat(path, &st) == 0 ? (long long)st.st_uid : -1LL);
	return cannot_read(path, r);
}

static int read_process(struct job *job, const char *pid)
{
	_cleanup_(freep) char *path = NULL, *bytes = NULL;
	size_t size = 0;
	int r;

	if (asprintf(&path, "/proc/%s/environ", pid) < 0) {
		path = NULL;
		return ctl_error(CTL_FAILED, "out of memory");
	}
	r = slurp(SLURP_ROOT_HERE, path, IMPORT_ENVIRON_MAX, &bytes, &size);
	if (r < 0) {
		path[strlen("/proc/") + strlen(pid)] = '\0';
		return cannot_read_process(pid, path, r);
	}
	job->options.process = true;
	job->options.kind = IMPORT_ENV;
	/* A block without a NUL is a title that the process wrote over it. */
	if (size == 0 || !memchr(bytes, '\0', size))
		return ctl_error(CTL_BAD_NEWS,
				 "the block that process %s was started with is empty or was "
				 "written over: it tells nothing",
				 pid);
	ctl_note("this is what process %s was started with: what it set itself later is not in it",
		 pid);
	return read_bytes(job, path, bytes, size);
}

/* 0: no such unit: it may be a file. */
static int read_unit(struct job *job, const char *name, bool *ret_found)
{
	_cleanup_(unit_list_done) struct unit_list files = {0};
	int r = unit_files(SLURP_ROOT_HERE, job->ctl->user, name, &files);

	*ret_found = r != -ENOENT;
	if (r == -ENOENT)
		return CTL_GOOD;
	if (r == -ERFKILL)
		return ctl_error(CTL_BAD_NEWS, "the unit %s is masked", name);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot look for %s: %s", name, strerror(-r));
	job->options.kind = IMPORT_UNIT;
	for (size_t i = 0; i < files.n; i++) {
		_cleanup_(freep) char *bytes = NULL;
		size_t size;

		r = slurp(SLURP_ROOT_HERE, files.paths[i], IMPORT_FILE_MAX, &bytes, &size);
		if (r < 0)
			return cannot_read(files.paths[i], r);
		r = read_bytes(job, files.paths[i], bytes, size);
		if (r != CTL_GOOD)
			return r;
	}
	return CTL_GOOD;
}

static int read_source(struct job *job, const char *source)
{
	bool found;
	int r;

	if (all_digits(source) && strlen(source) < 10)
		return read_process(job, source);
	if (!strchr(source, '/') && ends_with(source, ".service") &&
	    (!arg_from || streq(arg_from, "unit"))) {
		r = read_unit(job, source, &found);
		if (r != CTL_GOOD || found)
			return r;
		if (access(source, F_OK) < 0)
			return ctl_error(CTL_BAD_NEWS,
					 "there is no unit %s in systemd's directories, and no "
					 "file of that name here%s",
					 source,
					 job->ctl->user ? "" : "; --user looks in those of users");
	}
	return read_file(job, source);
}

/* --- the answer */

static struct json_object *variables_json(const struct import_profile *p)
{
	struct json_object *a = json_object_new_array();

	for (size_t i = 0; i < p->n_chosen; i++) {
		const struct import_chosen *c = &p->chosen[i];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "name", json_text(c->item->name));
		json_object_object_add(o, "rule", json_text(snapshot_rule_name(c->rule)));
		json_object_object_add(o, "group", json_text(c->group));
		json_object_object_add(
			o, "value", c->rule == SNAPSHOT_UNSET ? NULL : json_text(c->item->value));
		json_object_object_add(o, "file", json_text(c->item->file));
		json_object_object_add(
			o, "line",
			json_number_or_null(c->item->line > 0 ? (int64_t)c->item->line : -1));
		json_object_array_add(a, o);
	}
	return a;
}

static struct json_object *notes_json(const struct import *im)
{
	struct json_object *a = json_object_new_array();

	for (size_t i = 0; i < im->n_notes; i++) {
		const struct import_note *n = &im->notes[i];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "file", json_text(n->file));
		json_object_object_add(o, "line",
				       json_number_or_null(n->line > 0 ? (int64_t)n->line : -1));
		json_object_object_add(o, "name", json_text(n->name));
		json_object_object_add(o, "reason", json_text(n->reason));
		json_object_array_add(a, o);
	}
	return a;
}

static void print_json(const struct job *job)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();

	json_object_object_add(o, "source", json_text(job->options.source));
	json_object_object_add(
		o, "kind",
		json_text(job->options.process ? "process" : import_kind_name(job->options.kind)));
	json_object_object_add(o, "profile", json_text(job->options.name));
	json_object_object_add(o, "text", json_text(job->profile.text));
	json_object_object_add(o, "toolkit_root", json_text(job->profile.toolkit_root));
	json_object_object_add(o, "variables", variables_json(&job->profile));
	json_object_object_add(o, "left_out", notes_json(&job->im));
	json_object_object_add(o, "left_out_more",
			       json_object_new_int64((int64_t)job->im.more_notes));
	json_object_object_add(o, "others", json_object_new_int64((int64_t)job->profile.n_others));
	json_object_object_add(o, "output", json_text(arg_output));
	json_print(o);
}

/* To a new file: nobody's is replaced. */
static int write_output(const char *text)
{
	FILE *f = fopen(arg_output, "wxe");
	bool written;
	int error;

	if (!f && errno == EEXIST)
		return ctl_error(CTL_BAD_NEWS, "%s exists and was left as it is", arg_output);
	if (!f)
		return ctl_error(CTL_FAILED, "cannot write %s: %s", arg_output, strerror(errno));
	written = fputs(text, f) != EOF && fflush(f) != EOF;
	error = errno;
	written = fclose(f) == 0 && written;
	if (written)
		return CTL_GOOD;
	(void)unlink(arg_output);
	return ctl_error(CTL_FAILED, "cannot write %s: %s", arg_output, strerror(error));
}

/* With -o the comments are in a file that nobody has opened yet. REST: a file that has them all, or
 * NULL. */
static void print_left_out(const struct job *job, const char *rest)
{
	const struct import *im = &job->im;
	size_t n = im->n_notes < LEFT_OUT_SHOWN ? im->n_notes : LEFT_OUT_SHOWN,
	       more = im->n_notes - n + im->more_notes;

	for (size_t i = 0; i < n; i++) {
		const struct import_note *note = &im->notes[i];
		_cleanup_(freep) char *file = text_escape(note->file, strlen(note->file)),
				      *reason = text_escape(note->reason, strlen(note->reason));

		fputs(file ? file : "?", stderr);
		if (note->line > 0)
			fprintf(stderr, ":%u", note->line);
		fprintf(stderr, ": %s%s%s\n", note->name ? note->name : "", note->name ? ": " : "",
			reason ? reason : "?");
	}
	if (more > 0)
		ctl_note("%zu more %s left out%s%s", more, more == 1 ? "was" : "were",
			 rest ? ": see the comments at the end of " : "", rest ? rest : "");
}

static int answer(struct job *job)
{
	size_t n = job->profile.n_chosen, left = job->im.n_notes + job->im.more_notes;
	int r = arg_output && n > 0 ? write_output(job->profile.text) : CTL_GOOD;

	if (r != CTL_GOOD)
		return r;
	if (job->ctl->json)
		print_json(job);
	else if (!arg_output)
		fputs(job->profile.text, stdout);
	if (n == 0 && arg_output && !job->ctl->json)
		print_left_out(job, NULL);
	if (n == 0)
		return ctl_error(
			CTL_BAD_NEWS, "nothing in %s can be imported%s", job->options.source,
			left > 0 && !job->ctl->json && !arg_output ? ": the comments say why" : "");
	if (arg_output && !job->ctl->json) {
		printf("%zu variable%s written to ", n, n == 1 ? "" : "s");
		print_escaped(arg_output);
		printf(", %zu remark%s in its comments.\n", left, left == 1 ? "" : "s");
		fflush(stdout);
		print_left_out(job, arg_output);
	}
	return CTL_GOOD;
}

static int run_import(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(job_done) struct job job = {.ctl = ctl};
	const char *source = argv[0];
	int r;

	if (arg_as && !snapshot_label_valid(arg_as, strlen(arg_as)))
		return ctl_error(CTL_USAGE,
				 "--as=%s: the name of a profile has letters, digits, _ . @ and -",
				 arg_as);
	if (arg_from && import_kind_parse(arg_from, &job.options.kind) < 0)
		return ctl_error(CTL_USAGE,
				 "--from=%s: known are python, nccl-conf, unit, shell and env",
				 arg_from);
	job.options.name = arg_as ? arg_as : "imported";
	r = read_source(&job, source);
	if (r != CTL_GOOD)
		return r;
	r = facts_load(FACTSDIR "/must-match", &job.facts);
	if (r < 0)
		ctl_note("cannot read %s: %s; there is no [together nccl]", FACTSDIR "/must-match",
			 strerror(-r));
	job.options.facts = job.facts;
	job.options.source = streq(source, "-")    ? STDIN_NAME
			     : job.options.process ? job.im.file
						   : source;
	r = import_profile_make(&job.im, &job.options, &job.profile);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot make a profile of it: %s", strerror(-r));
	return answer(&job);
}

static const struct ctl_option options[] = {
	{.name = "as",
	 .argument = "NAME",
	 .help = "what the profile will be called",
	 .value = &arg_as},
	{.name = "from",
	 .argument = "KIND",
	 .help = "python, nccl-conf, unit, shell or env",
	 .value = &arg_from},
	{.name = "output",
	 .letter = 'o',
	 .argument = "FILE",
	 .help = "write it to this new file",
	 .value = &arg_output},
	{0},
};

const struct verb verb_import = {
	.name = "import",
	.arguments = "PID|FILE|-",
	.summary = "A profile from what a process or another file sets.",
	.help = "PID: what a process was started with, its CUDA and NCCL variables.\n"
		"FILE: a sitecustomize.py (setdefault, assignments, update of constants), an\n"
		"nccl.conf, a unit or drop-in, a shell file, an environment file; NAME.service:\n"
		"that unit with its drop-ins; - standard input. Its kind is told by its name and\n"
		"content, or by --from. Nothing is run or expanded, and nothing is installed:\n"
		"the profile comes on standard output, with where each variable stood and what\n"
		"was left out and why. It passes check. Needs no daemon.",
	.min_arguments = 1,
	.max_arguments = 1,
	.options = options,
	.run = run_import,
};
