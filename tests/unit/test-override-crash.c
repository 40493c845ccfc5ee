/* SPDX-License-Identifier: MIT */
/* Overrides in the manager: a crash at every step of each operation leaves all of the old state or
 * all of the new one, and a history that knows it. */
#include "tests/unit/switch-node.h"

static int use_for(struct manager *m, const char *name, const char *scope, uint64_t seconds)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(freep) char *json = NULL;
	int r = operation_use_for(m, &root, name, scope, seconds, "test", &json, &error);

	check((r < 0) == sd_bus_error_is_set(&error));
	sd_bus_error_free(&error);
	return r;
}

static int set(struct manager *m, const char *assignments, const char *scope)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(freep) char *json = NULL;
	struct words variables = {0};
	int r;

	check(words_merge(&variables, assignments) == 0);
	r = operation_set(m, &root, &variables, scope, 0, "test", &json, &error);
	check((r < 0) == sd_bus_error_is_set(&error));
	sd_bus_error_free(&error);
	words_done(&variables);
	return r;
}

static int reset(struct manager *m, const char *scope)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(freep) char *json = NULL;
	int r = operation_reset(m, &root, scope, "test", &json, &error);

	check((r < 0) == sd_bus_error_is_set(&error));
	sd_bus_error_free(&error);
	return r;
}

enum operation {
	OP_USE,
	OP_USE_AGAIN,
	OP_SET,
	OP_SET_MORE,
	OP_RESET,
	OP_RESET_ALL,
	OP_NODE_FOR_A_TIME,
	OP_NODE_AGAIN,
	OP_END,
	OP_MAX_
};

/* What is in force, without times. */
static void summary(const struct manager *m, char ret[2048])
{
	const struct active *a = &m->state->active;
	size_t n =
		(size_t)snprintf(ret, 2048, "%s %d %s", mode_name(a->mode), a->chosen, a->digest);

	for (size_t i = 0; i < a->overrides.n; i++) {
		const struct override *o = &a->overrides.items[i];
		_cleanup_(freep) char *variables = override_variables_text(o);
		char scope[SCOPE_TEXT_SIZE];

		scope_format(&o->scope, scope);
		n += (size_t)snprintf(ret + n, 2048 - n, ";%s %s %s %s",
				      override_action_name(o->action), scope, o->digest, variables);
	}
}

/* a in force, mode on, something set for user 77 and b for unit v; for the last operation one more
 * that is over. */
static void prepare(enum operation op)
{
	struct manager *m;

	fresh();
	settings("[cudaenvd]\nprofile = b\n[assign x]\nuser = 77\nprofile = b\n");
	m = start();
	check(use(m, "a", NULL) == 0 && set_mode(m, "on") == 0);
	check(set(m, "A=1 B=2", "user 77") == 0);
	check(use_for(m, "b", "unit v", 0) == 0);
	if (op >= OP_NODE_AGAIN)
		check(use_for(m, "b", "node", 3600) == 0);
	if (op == OP_END) {
		m->state->active.overrides.items[2].until = 1000000000;
		check(state_save(m->state, &m->state->active) == 0);
	}
	manager_free(m);
}

static int run(enum operation op, struct manager *m)
{
	switch (op) {
	case OP_USE:
		return use_for(m, "a", "user 78", 0);
	case OP_USE_AGAIN:
		return use_for(m, "a", "unit v", 60);
	case OP_SET:
		return set(m, "A=", "unit v");
	case OP_SET_MORE:
		return set(m, "B=3 C=4", "user 77");
	case OP_RESET:
		return reset(m, "user 77");
	case OP_RESET_ALL:
		return reset(m, "node");
	case OP_NODE_FOR_A_TIME:
		return use_for(m, "b", "node", 60);
	case OP_NODE_AGAIN:
		return use(m, "b", NULL);
	default:
		switch_end_overrides(m);
		return 0;
	}
}

/* Those in force are the history's last words of their kind, and the others are not. */
static void known(const struct manager *m)
{
	const struct state *s = &*m->state;

	for (size_t i = 0; i < s->n_history; i++) {
		const struct history_entry *e = &s->history[i];
		bool last = true, found = false;

		if (history_is_choice(e) || e->until > 2000000000 || streq(e->scope, "rules") ||
		    (streq(e->scope, "node") && e->until == 0))
			continue;
		for (size_t k = i + 1; k < s->n_history; k++)
			last = last && !(streq(s->history[k].scope, e->scope) &&
					 !s->history[k].variables == !e->variables &&
					 !history_is_choice(&s->history[k]));
		for (size_t k = 0; k < s->active.overrides.n; k++) {
			const struct override *o = &s->active.overrides.items[k];
			char scope[SCOPE_TEXT_SIZE];

			scope_format(&o->scope, scope);
			found = found || (streq(scope, e->scope) &&
					  !e->variables == (o->action == OVERRIDE_USE));
		}
		check(!last ||
		      found == !(streq(e->action, "reset") || streq(e->action, "expired")));
	}
}

/* Every digest that the rules give is there. */
static void published(const struct manager *m)
{
	struct runtime rt = RUNTIME_NULL;

	check(runtime_open(temp_path("run"), geteuid(), &rt) == 0);
	for (size_t i = 0; i < m->rules.n; i++) {
		_cleanup_(snapshot_freep) struct snapshot *s = NULL;

		check(m->rules.items[i].digest[0]);
		check(snapshot_load(&rt, m->rules.items[i].digest, &s) == 0);
	}
	runtime_done(&rt);
}

static bool run_and_crash(enum operation op, int n)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0);
	if (pid == 0) {
		struct manager *m = start();

		crash_at(n);
		check(run(op, m) == 0);
		manager_free(m);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	check(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CRASH_STATUS);
	return WEXITSTATUS(status) == 0;
}

/* Of an undisturbed one. */
static void before_and_after(enum operation op, char before[2048], char after[2048])
{
	struct manager *m;

	prepare(op);
	m = start();
	summary(m, before);
	check(run(op, m) == 0);
	summary(m, after);
	consistent(m);
	published(m);
	known(m);
	manager_free(m);
	check(!streq(before, after));
}

TEST(crash_at_every_step)
{
	switch_begin();
	for (enum operation op = 0; op < OP_MAX_; op++) {
		char before[2048], after[2048], now[2048];
		bool answered = false;
		unsigned old = 0;
		int n = 0;

		before_and_after(op, before, after);
		for (; !answered; n++) {
			struct manager *m;

			prepare(op);
			answered = run_and_crash(op, n);
			m = start();
			summary(m, now);
			if (!streq(now, before) && !streq(now, after))
				fprintf(stderr, "%d, %d: %s\n", op, n, now);
			check(streq(now, before) || streq(now, after));
			check(streq(now, after) || !answered);
			old += streq(now, before);
			consistent(m);
			published(m);
			known(m);
			check(!m->unsaved && !m->last_error);
			manager_free(m);
		}
		printf("operation %d: %d points, %u before\n", op, n - 1, old);
		fflush(stdout);
		check(n >= 8 && old > 0 && old < (unsigned)n - 1);
	}
}

/* Without the state directory all is known as long as the runtime tree is there. */
TEST(state_is_lost)
{
	char before[2048], now[2048];
	struct manager *m;

	prepare(OP_USE);
	m = start();
	summary(m, before);
	manager_free(m);
	temp_remove(temp_path("state/cudaenv"));
	m = start();
	summary(m, now);
	check_streq(now, before);
	consistent(m);
	known(m);
	manager_free(m);
	/* The file alone is damaged: the history does not tell all. */
	temp_put(temp_path("state/cudaenv/active"), "nonsense\n");
	m = start();
	summary(m, now);
	check_streq(now, before);
	consistent(m);
	manager_free(m);
}

/* What lies beside `assign` is believed only as the manager wrote it. */
TEST(strange_basis)
{
	static const char text[] = "cudaenv-active 1\ngeneration 1000\nmode off\nchosen no\n"
				   "profile -\ndigest none\nend\n";
	char before[2048], now[2048];

	for (unsigned i = 0; i < 4; i++) {
		struct manager *m;

		prepare(OP_USE);
		m = start();
		summary(m, before);
		manager_free(m);
		check(unlink(temp_path("run/active")) == 0);
		if (i == 0) {
			/* of no `assign` that is there */
			temp_put(temp_path("run/active"), text);
			check(chmod(temp_path("run/active"), 0600) == 0);
		} else if (i == 1) {
			temp_put(temp_path("run/active"), "nonsense");
			check(chmod(temp_path("run/active"), 0600) == 0);
		} else if (i == 2) {
			check(symlink("assign", temp_path("run/active")) == 0);
		} else {
			check(mkfifo(temp_path("run/active"), 0600) == 0);
		}
		m = start();
		summary(m, now);
		check_streq(now, before);
		check(set_mode(m, "off") == 0);
		consistent(m);
		manager_free(m);
	}
}

/* There is no room in the runtime tree: nothing has changed. */
TEST(full_runtime_tree)
{
	char before[2048], now[2048];
	struct manager *m;

	prepare(OP_USE);
	m = start();
	summary(m, before);
	fail_from(0, ENOSPC);
	check(set(m, "C=1", "user 77") < 0 && use_for(m, "a", "user 78", 0) < 0);
	check(reset(m, "node") < 0 && reset(m, "all") < 0);
	fail_from(0, 0);
	summary(m, now);
	check_streq(now, before);
	consistent(m);
	check(m->state->active.chosen);
	check(reset(m, "all") == 0 && m->state->active.overrides.n == 0 && m->state->active.chosen);
	check(reset(m, "node") == 0 && !m->state->active.chosen);
	check_streq(m->state->active.profile, "b");
	manager_free(m);
}

TEST_MAIN
