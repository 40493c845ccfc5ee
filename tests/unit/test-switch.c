/* SPDX-License-Identifier: MIT */
/* The manager without its loop: what is in force after each operation, after a crash at every step
 * of it, and after others' hands in the runtime tree. */
#include "tests/unit/switch-node.h"

TEST(fresh_install_observes)
{
	struct manager *m;

	switch_begin();
	m = start();
	in_force(m, "", MODE_OBSERVE);
	check(m->profiles.n_profiles == 2 && m->state->n_history == 0);
	manager_free(m);
}

TEST(use_and_restart)
{
	struct manager *m;
	const char *error = NULL;
	uint64_t generation;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0);
	in_force(m, "a", MODE_ON);
	generation = m->state->active.generation;
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0); /* nothing to do, nothing done */
	check(m->state->active.generation == generation && m->state->n_history == 2);
	check(use(m, "nobody", &error) < 0);
	check_streq(error, "org.cudaenv.Error.NoSuchProfile");
	temp_put(temp_path("config/cudaenv/profiles.d/broken.ini"), "[env\n");
	check(use(m, "broken", &error) < 0);
	check_streq(error, "org.cudaenv.Error.Invalid");
	check(set_mode(m, "sometimes") < 0);
	in_force(m, "a", MODE_ON);
	manager_free(m);
	m = start();
	in_force(m, "a", MODE_ON);
	check(m->state->active.generation == generation);
	manager_free(m);
	temp_remove(temp_path("run")); /* a reboot */
	m = start();
	in_force(m, "a", MODE_ON);
	check(m->state->active.generation > generation && m->state->n_history == 2);
	manager_free(m);
}

static bool edited(struct manager *m, const char *name)
{
	_cleanup_(freep) char *json = NULL, *want = NULL;

	check(document_status(m, &json) == 0);
	check(asprintf(&want, "\"edited\":[\"%s\"]", name) > 0);
	return strstr(json, want);
}

TEST(edited_is_not_applied)
{
	char digest[DIGEST_SIZE];
	struct manager *m;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0);
	strcpy(digest, m->state->active.digest);
	check(!edited(m, "a"));
	profile("a", "LL128");
	check(switch_load_profiles(m, NULL) == 0);
	check(edited(m, "a"));
	check(reload(m) == 0); /* a chosen profile stays by a reload, too */
	check_streq(m->state->active.digest, digest);
	manager_free(m);
	m = start(); /* and by a restart */
	check_streq(m->state->active.digest, digest);
	check(edited(m, "a"));
	/* An error in the file, or no file: the version in force stays. */
	temp_put(temp_path("config/cudaenv/profiles.d/a.ini"), "[env]\nNCCL PROTO = x\n");
	check(reload(m) == 0);
	check_streq(m->state->active.digest, digest);
	check(unlink(temp_path("config/cudaenv/profiles.d/a.ini")) == 0);
	manager_free(m);
	temp_remove(temp_path("run"));
	m = start();
	check_streq(m->state->active.digest, digest);
	in_force(m, "a", MODE_OBSERVE);
	profile("a", "LL128");
	check(use(m, "a", NULL) == 0);
	check(!streq(m->state->active.digest, digest));
	check(rollback(m) == 0); /* from the stored snapshot */
	check_streq(m->state->active.digest, digest);
	in_force(m, "a", MODE_OBSERVE);
	manager_free(m);
}

TEST(rollback_walks_back)
{
	struct manager *m;

	fresh();
	m = start();
	check(rollback(m) < 0);
	check(use(m, "a", NULL) == 0 && use(m, "b", NULL) == 0);
	check(unlink(temp_path("config/cudaenv/profiles.d/a.ini")) == 0);
	check(rollback(m) == 0);
	in_force(m, "a", MODE_OBSERVE);
	check(rollback(m) == 0);
	in_force(m, "", MODE_OBSERVE);
	check(rollback(m) < 0);
	manager_free(m);
}

TEST(settings_choose_until_somebody_does)
{
	char digest[DIGEST_SIZE];
	struct manager *m;

	fresh();
	settings("[cudaenvd]\nprofile = late\n");
	m = start();
	in_force(m, "late", MODE_OBSERVE); /* no file yet */
	check(!m->state->active.digest[0]);
	manager_free(m);
	profile("late", "LL");
	m = start();
	in_force(m, "late", MODE_OBSERVE);
	strcpy(digest, m->state->active.digest);
	check(digest[0]);
	profile("late", "Simple");
	manager_free(m);
	m = start();
	check_streq(m->state->active.digest, digest);
	check(reload(m) == 0); /* somebody asked */
	check(!streq(m->state->active.digest, digest));
	check(use(m, "a", NULL) == 0 && reload(m) == 0);
	in_force(m, "a", MODE_OBSERVE);
	manager_free(m);
}

TEST(rules)
{
	struct assign_subject subject = {.uid = 77};
	_cleanup_(assign_freep) struct assign *a = NULL;
	char digest[DIGEST_SIZE];
	struct manager *m;
	const char *rule;

	fresh();
	settings("[assign x]\nuser = 77\nprofile = b\n[assign y]\nuser = 78\nprofile = gone\n");
	m = start();
	check(use(m, "a", NULL) == 0);
	check(assign_parse(m->assign, m->assign_size, &a, NULL) == 0);
	strcpy(digest, assign_choose(a, &subject, &rule));
	check_streq(digest, active_applied(&m->state->active, "b"));
	subject.uid = 78;
	check_streq(assign_choose(a, &subject, &rule), "");
	subject.uid = 79;
	check_streq(assign_choose(a, &subject, &rule), m->state->active.digest);
	profile("b", "LL128");
	check(use(m, "a", NULL) == 0); /* another profile's matter */
	check_streq(active_applied(&m->state->active, "b"), digest);
	check(edited(m, "b"));
	check(reload(m) == 0);
	check(!streq(active_applied(&m->state->active, "b"), digest));
	consistent(m);
	manager_free(m);
}

/* As cudaenvctl off does it without a manager: generation and mode, by rename. */
static void off_by_hand(void)
{
	char *text = temp_get(temp_path("run/assign")), *mode, *rest;
	unsigned long long generation;
	FILE *f;

	check(text && sscanf(text, "cudaenv-assign 1\ngeneration %llu", &generation) == 1);
	mode = strstr(text, "\nmode ");
	check(mode);
	rest = strchr(mode + 1, '\n');
	f = fopen(temp_path("run/.assign.off"), "we");
	check(f && fprintf(f, "cudaenv-assign 1\ngeneration %llu\nmode off%s", generation + 1,
			   rest) > 0);
	check(fclose(f) == 0 && chmod(temp_path("run/.assign.off"), 0444) == 0);
	check(rename(temp_path("run/.assign.off"), temp_path("run/assign")) == 0);
	free(text);
}

TEST(off_by_another_hand)
{
	struct manager *m;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0);
	off_by_hand(); /* while we are there, frozen perhaps */
	check(switch_heal(m) == 0);
	in_force(m, "a", MODE_OFF);
	check_streq(m->state->history[m->state->n_history - 1].action, "off");
	check(set_mode(m, "on") == 0);
	off_by_hand();
	check(use(m, "b", NULL) == 0); /* does not turn on what was turned off */
	in_force(m, "b", MODE_OFF);
	check(set_mode(m, "on") == 0);
	manager_free(m);
	off_by_hand(); /* while we are not */
	m = start();
	in_force(m, "b", MODE_OFF);
	manager_free(m);
	/* Where the rules were lost: off, and nothing else is said. */
	temp_put(temp_path("run/assign"), "");
	check(chmod(temp_path("run/assign"), 0644) == 0);
	temp_put(temp_path("run/assign"),
		 "cudaenv-assign 1\ngeneration 4294967296\nmode off\ndefault none\nend\n");
	check(chmod(temp_path("run/assign"), 0444) == 0);
	m = start();
	in_force(m, "b", MODE_OFF);
	manager_free(m);
}

TEST(damage_is_put_right)
{
	struct manager *m;
	_cleanup_(freep) char *before = NULL, *after = NULL;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0);
	before = temp_get(temp_path("run/assign"));
	check(chmod(temp_path("run/assign"), 0644) == 0);
	temp_put(temp_path("run/assign"), "cudaenv-assign 1\ngeneration 99\nmode off\n");
	check(unlink(temp_path("run/snapshots/%s", m->state->active.digest)) == 0);
	check(unlink(temp_path("run/status")) == 0 && unlink(temp_path("run/current")) == 0);
	check(switch_heal(m) == 0);
	in_force(m, "a", MODE_ON);
	after = temp_get(temp_path("run/assign"));
	check_streq(after, before);
	/* An older generation is no news. */
	check(chmod(temp_path("run/assign"), 0644) == 0);
	temp_put(temp_path("run/assign"),
		 "cudaenv-assign 1\ngeneration 1\nmode off\ndefault none\nend\n");
	check(chmod(temp_path("run/assign"), 0444) == 0 && switch_heal(m) == 0);
	in_force(m, "a", MODE_ON);
	temp_remove(temp_path("run"));
	check(switch_heal(m) == -ESTALE);
	manager_free(m);
}

TEST(state_is_lost)
{
	struct manager *m;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0);
	manager_free(m);
	temp_remove(temp_path("state/cudaenv")); /* the runtime tree knows */
	m = start();
	in_force(m, "a", MODE_ON);
	manager_free(m);
	temp_put(temp_path("state/cudaenv/active"), "garbage"); /* the history knows */
	temp_remove(temp_path("run"));
	m = start();
	in_force(m, "a", MODE_ON);
	manager_free(m);
	temp_remove(temp_path("state/cudaenv/snapshots")); /* the file knows */
	temp_remove(temp_path("run"));
	m = start();
	in_force(m, "a", MODE_ON);
	check(m->state->active.digest[0]);
	manager_free(m);
}

TEST(full_disk)
{
	_cleanup_(freep) char *status = NULL;
	struct manager *m;

	fresh();
	m = start();
	check(use(m, "a", NULL) == 0);
	/* The state directory cannot be written: in force all the same, and told. */
	check(close(m->state->dir_fd) == 0);
	m->state->dir_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(set_mode(m, "off") == 0);
	check(m->state->active.mode == MODE_OFF && m->unsaved);
	status = temp_get(temp_path("run/status"));
	check(status && strstr(status, "\"last_error\":\"in force until reboot only"));
	check(close(m->state->dir_fd) == 0);
	m->state->dir_fd = open(temp_path("state/cudaenv"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	switch_save(m);
	check(!m->unsaved && !m->last_error);
	in_force(m, "a", MODE_OFF);
	/* Nor can the runtime tree: nothing has changed. */
	fail_from(0, ENOSPC);
	check(set_mode(m, "on") < 0 && use(m, "b", NULL) < 0);
	fail_from(0, 0);
	in_force(m, "a", MODE_OFF);
	check(use(m, "b", NULL) == 0);
	manager_free(m);
	m = start();
	in_force(m, "b", MODE_OFF);
	check(m->state->n_history == 3);
	manager_free(m);
}

enum operation {
	OP_USE,
	OP_MODE,
	OP_ROLLBACK,
	OP_RELOAD,
	OP_START_AFTER_REBOOT,
	OP_START_AFTER_OFF,
	OP_MAX_
};

/* b, then a in force, mode observe; the operation then changes that. */
static void prepare(enum operation op)
{
	struct manager *m;

	fresh();
	settings("[assign x]\nuser = 77\nprofile = c\n");
	profile("c", "LL");
	m = start();
	check(use(m, "b", NULL) == 0 && use(m, "a", NULL) == 0);
	manager_free(m);
	if (op == OP_RELOAD)
		profile("c", "LL128");
	if (op == OP_START_AFTER_REBOOT)
		temp_remove(temp_path("run"));
	if (op == OP_START_AFTER_OFF)
		off_by_hand();
}

static int run(enum operation op, struct manager *m)
{
	switch (op) {
	case OP_USE:
		return use(m, "b", NULL);
	case OP_MODE:
		return set_mode(m, "on");
	case OP_ROLLBACK:
		return rollback(m);
	case OP_RELOAD:
		return reload(m);
	default:
		return 0;
	}
}

static bool run_and_crash(enum operation op, int n)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0);
	if (pid == 0) {
		struct manager *m = NULL;

		if (op < OP_START_AFTER_REBOOT)
			m = start();
		crash_at(n);
		if (!m)
			m = start();
		check(run(op, m) == 0);
		manager_free(m);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	check(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CRASH_STATUS);
	return WEXITSTATUS(status) == 0;
}

/* Old or new, never between; new if it was answered. */
static void verify(enum operation op, const struct manager *m, bool answered, const char *c_before)
{
	static const char *const names[OP_MAX_] = {"b", "a", "b", "a", "a", "a"};
	static const enum mode modes[OP_MAX_] = {MODE_OBSERVE, MODE_ON,      MODE_OBSERVE,
						 MODE_OBSERVE, MODE_OBSERVE, MODE_OFF};
	const struct active *a = &m->state->active;
	bool new = streq(a->profile, names[op]) && a->mode == modes[op], old;
	char previous[DIGEST_SIZE];

	consistent(m);
	if (op == OP_RELOAD)
		new = !streq(active_applied(a, "c"), c_before);
	old = streq(a->profile, "a") && a->mode == MODE_OBSERVE && op != OP_START_AFTER_OFF;
	check(new || old);
	check(new || !answered);
	/* The history has it, so that it can be taken back. */
	check(state_previous(m->state, previous) == 1);
	if (answered)
		check(op == OP_ROLLBACK ? !previous[0] : previous[0]);
	if (op == OP_USE && new)
		check(!streq(previous, a->digest));
	check(active_applied(a, "c"));
}

TEST(crash_at_every_step)
{
	for (enum operation op = 0; op < OP_MAX_; op++) {
		bool answered = false;
		int n = 0;

		for (; !answered; n++) {
			char c_before[DIGEST_SIZE];
			struct manager *m;

			prepare(op);
			m = op == OP_RELOAD ? start() : NULL;
			if (m)
				strcpy(c_before, active_applied(&m->state->active, "c"));
			manager_free(m);
			answered = run_and_crash(op, n);
			m = start();
			verify(op, m, answered, c_before);
			check(!m->unsaved && !m->last_error);
			manager_free(m);
			check(access(temp_path("state/cudaenv/active.damaged-0"), F_OK) < 0);
			check(access(temp_path("state/cudaenv/history.damaged-0"), F_OK) < 0);
		}
		printf("operation %d: %d points\n", op, n - 1);
		fflush(stdout);
		check(n >= 8);
	}
}

TEST_MAIN
