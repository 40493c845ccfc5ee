/* SPDX-License-Identifier: MIT */
/*
 * exec: a command with a profile's variables, those included that act only before a program starts
 * (LD_*, PYTHON*, ...). Reads published files only: no daemon is asked. The command is a job of its
 * own: an inherited token is dropped and the snapshot's put in its place, so whatever hook runs
 * below finds key and token of this snapshot.
 */
#include "config.h"

#include <limits.h>

#include "client/apply.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/pick.h"
#include "client/ctl/place.h"
#include "client/ctl/report.h"
#include "client/ctl/table.h"
#include "common/ranks.h"
#include "common/util.h"

#define EXIT_UNMET     78  /* as the Python hook: EX_CONFIG */
#define EXIT_NOT_RUN   126 /* as env(1): found, but cannot be run */
#define EXIT_NOT_FOUND 127

extern char **environ;

static const char *arg_profile;

static const char *const token_names[] = {"CUDAENV_SNAPSHOT=", "CUDAENV_PROFILE="};

/* A copy of the array without the inherited token; the marks stay: apply() takes back what a former
 * snapshot set. */
static char **environ_without_token(void)
{
	size_t n = 0, kept = 0;
	char **copy;

	while (environ && environ[n])
		n++;
	copy = calloc(n + 1, sizeof *copy);
	for (size_t i = 0; copy && i < n; i++) {
		if (startswith(environ[i], token_names[0]) ||
		    startswith(environ[i], token_names[1]))
			continue;
		copy[kept++] = environ[i];
	}
	return copy;
}

/* The file that execvp() would run, for rules on exe; malloc()ed, NULL: none found. */
static char *find_command(const char *name)
{
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];

	if (strchr(name, '/'))
		return realpath(name, NULL);
	while (path && *path) {
		size_t n = strcspn(path, ":");
		int used = snprintf(candidate, sizeof candidate, "%.*s/%s", n > 0 ? (int)n : 1,
				    n > 0 ? path : ".", name);

		if (used > 0 && (size_t)used < sizeof candidate && access(candidate, X_OK) == 0)
			return realpath(candidate, NULL);
		path += n + (path[n] == ':');
	}
	return NULL;
}

/* What a new job of this user and place would get by the rules, in whatever mode. */
static int digest_by_rules(const struct published *p, const char *command, char ret[DIGEST_SIZE])
{
	_cleanup_(place_done) struct place place = PLACE_NULL;
	_cleanup_(freep) char *exe = find_command(command);

	(void)place_init(p, NULL, &place);
	place_choose(p, &place, exe, p->assign->fallback, ret);
	return ret[0] ? 0 : -ENOENT;
}

/* Pins a job of the command's own to DIGEST and registers this process in it, so that processes
 * below find it also with a cleaned environment or from an interpreter far down. Where that cannot
 * be, the token in the environment still tells most of it. */
static void make_own_job(const struct published *p, const char *digest)
{
	_cleanup_(place_done) struct place place = PLACE_NULL;
	struct decision d = {.uid = geteuid()};
	struct job_facts facts;
	struct job_key key;
	struct pin pin;

	if (place_init(p, digest, &place) < 0)
		return;
	place.subject.token_chosen = true;
	if (job_find(&place.source, &place.subject, &facts) < 0 ||
	    job_key_parse(facts.key, &key) < 0)
		return;
	(void)stpcpy(key.digest, digest);
	(void)stpcpy(d.digest, digest);
	job_key_format(&key, d.key);
	d.nspid = facts.nspid;
	d.start = facts.start;
	if (pin_settle(&p->runtime, d.key, d.uid, digest, &pin) >= 0)
		(void)decide_register(&p->runtime, place.subject.pidns, &d);
}

static int find_digest(struct ctl *ctl, const char *command, struct published *p,
		       char ret[DIGEST_SIZE])
{
	const char *required = getenv("CUDAENV_REQUIRE");
	int r;

	if (!arg_profile) {
		r = ctl_published_assign(ctl, p);
		if (r != CTL_GOOD)
			return r;
		if (required && digest_by_rules(p, command, ret) == 0 &&
		    ranks_met(&p->runtime, required, ret))
			return CTL_GOOD;
		if (required && ranks_resolve(&p->runtime, required, ret) == 0)
			return CTL_GOOD;
		if (digest_by_rules(p, command, ret) < 0)
			return ctl_error(CTL_BAD_NEWS,
					 "no profile is in use; name one: exec -p PROFILE "
					 "-- COMMAND");
		return CTL_GOOD;
	}
	r = ctl_published(ctl, p);
	if (r != CTL_GOOD)
		return r;
	return ctl_pick(ctl, p, arg_profile, ret);
}

/* The caller may have inherited CUDAENV_REQUIRE, which binds this job as it does others. */
static int check_required(const struct published *p, const char *digest)
{
	_cleanup_(assign_freep) struct assign *assign = NULL;
	const char *required = getenv("CUDAENV_REQUIRE");

	if (!required || ranks_met(&p->runtime, required, digest))
		return CTL_GOOD;
	if (assign_load(&p->runtime, &assign) == 0 && assign->mode == MODE_ON &&
	    assign->mismatch_fails)
		return ctl_error(EXIT_UNMET,
				 "CUDAENV_REQUIRE=%.64s is not to be had here, and on_mismatch = "
				 "fail: cudaenvctl list shows what there is",
				 required);
	ctl_note("CUDAENV_REQUIRE=%.64s is not to be had here: the command gets %.*s", required,
		 DIGEST_SHOWN, digest);
	return CTL_GOOD;
}

/* What the command would get: each variable of the snapshot, and each that a former one had set. */
static int dry_run(struct ctl *ctl, const struct snapshot *snapshot, const struct applied *applied)
{
	static const char *const headers[] = {"VARIABLE", "STATE", "VALUE", NULL};
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();
	_cleanup_(table_done) struct table t = {0};

	table_init(&t, headers);
	json_object_object_add(o, "profile", json_text(snapshot->profile));
	json_object_object_add(o, "digest", json_text(snapshot->digest));
	json_object_object_add(o, "variables", list);
	for (size_t i = 0; i < applied->n_variables; i++) {
		const struct apply_change *c = &applied->changes[i];
		struct json_object *v = json_object_new_object();

		json_object_object_add(v, "name", json_text(c->name));
		json_object_object_add(v, "state", json_text(report_word(c->state)));
		json_object_object_add(v, "value", json_text(c->value));
		json_object_array_add(list, v);
		table_cell(&t, c->name);
		table_cell(&t, report_word(c->state));
		table_cell(&t, c->value);
	}
	if (ctl->json)
		json_print(o);
	else if (table_print(&t, stdout, ctl_terminal()) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	return CTL_GOOD;
}

static int run_exec(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
	_cleanup_(freep) char **env = environ_without_token();
	_cleanup_(applied_done) struct applied applied = APPLIED_NULL;
	char digest[DIGEST_SIZE], **before = environ;
	int r;

	if (!env)
		return ctl_error(CTL_FAILED, "out of memory");
	if (ctl->json && !ctl->dry_run)
		return ctl_error(CTL_USAGE, "exec --json: the output is the command's; --dry-run "
					    "--json says what it would get");
	r = find_digest(ctl, argv[0], &p, digest);
	if (r != CTL_GOOD)
		return r;
	r = ctl_pick_load(&p, digest, &snapshot);
	if (r != CTL_GOOD)
		return r;
	r = check_required(&p, digest);
	if (r != CTL_GOOD)
		return r;
	r = apply(env, snapshot, geteuid(), APPLY_EXEC, &applied);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot make the environment: %s", strerror(-r));
	if (ctl->dry_run)
		return dry_run(ctl, snapshot, &applied);
	make_own_job(&p, digest);
	/* The PATH that is searched is the one that the command gets. */
	environ = applied.env ? applied.env : env;
	(void)execvp(argv[0], argv);
	r = errno;
	environ = before;
	return ctl_error(r == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN, "cannot run %s: %s", argv[0],
			 strerror(r));
}

static const struct ctl_option options[] = {
	{"profile", 'p', "PROFILE", "a profile's name, or a snapshot's digest",
	 .value = &arg_profile},
	{0},
};

const struct verb verb_exec = {
	.name = "exec",
	.arguments = "[--] COMMAND [ARGUMENT...]",
	.summary = "Runs a command with a profile's variables, as a job of its own.",
	.help = "Without -p: the profile that a new job would get. LD_*, PYTHON* and others\n"
		"that act only before a program starts are set too, which the start hook\n"
		"cannot do. Applies in every mode, off included: it is asked for by name.\n"
		"Needs no daemon. Exit status: the command's; 126 it cannot be run, 127 it is\n"
		"not found, 78 CUDAENV_REQUIRE is not met and on_mismatch = fail. --dry-run\n"
		"shows each variable with what it would be: set, already so, kept, replaced,\n"
		"removed, absent-here; --json needs it.",
	.flags = VERB_COMMAND | VERB_DRY_RUN,
	.min_arguments = 1,
	.max_arguments = -1,
	.options = options,
	.run = run_exec,
};
