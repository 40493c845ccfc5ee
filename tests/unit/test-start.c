/* SPDX-License-Identifier: MIT */
/*
 * cudaenv_start() from end to end in a runtime directory of the test's own, with a broker that
 * answers, is silent, is wrong or is hostile.
 */
#include "tests/unit/start-node.h"

/* --- by the broker */

static void act_look(void)
{
	struct wire_fetch m;
	char exe[PATH_MAX];
	struct stat st;
	/* By way of the directory the kernel answers, also where valgrind has another answer. */
	int proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ssize_t n = readlinkat(proc_fd, "exe", exe, sizeof exe);

	check(close(proc_fd) == 0);
	check(fake_receive() == WIRE_FETCH);
	check(wire_decode_fetch(fake.request, fake.size, &m) == 0);
	check(m.nspid == (uint32_t)getpid());
	check(stat("/proc/self/ns/pid", &st) == 0 && m.pidns == st.st_ino);
	check(n > 0 && m.exe.size == (size_t)n && memcmp(m.exe.ptr, exe, (size_t)n) == 0);
	check_streq(m.token, getenv("CUDAENV_SNAPSHOT") ? getenv("CUDAENV_SNAPSHOT") : "");
	fake_answer(fake_request_id(), one, KEY);
}

static void one_with_report(void)
{
	struct wire_report m;
	struct wire_bytes name;
	size_t cursor = 0;
	uint8_t state;

	check(setenv("CE_B", "mine", 1) == 0);
	one_by_broker();
	check_streq(cudaenv_result_job(result), KEY);
	m = reported();
	check(m.flags == 0 && m.result == 0);
	check(wire_entry_next(&m.entries, &cursor, &state, &name) == 1);
	check(state == CUDAENV_SET && name.size == 4 && memcmp(name.ptr, "CE_A", 4) == 0);
	check(wire_entry_next(&m.entries, &cursor, &state, &name) == 1);
	check(state == CUDAENV_REPLACED && name.size == 4 && memcmp(name.ptr, "CE_B", 4) == 0);
	check(fake_receive() == -1); /* closed */
}

static void one_with_token(void)
{
	check(setenv("CUDAENV_SNAPSHOT", two, 1) == 0);
	one_by_broker();
}

TEST(by_the_broker)
{
	run_node(act_look, one_with_report);
	run_node(act_look, one_with_token);
}

/* More names than one message holds. */
static void cut_report(void)
{
	struct wire_report m;

	check(start() == 0);
	check(cudaenv_result_count(result) == 100);
	while (fake_receive() != WIRE_REPORT)
		check(fake.conn >= 0);
	check(wire_decode_report(fake.request, fake.size, &m) == 0);
	check(m.flags == (REPORT_ALONE | REPORT_CUT));
	check(m.count > 60 && m.count < 70);
}

TEST(report_that_is_cut)
{
	_cleanup_(freep) char *text = calloc(1, 200000);
	char *p;

	check(text);
	set_up_node();
	p = stpcpy(text, HEAD "many\nscope any\n");
	for (int i = 0; i < 100; i++)
		p += sprintf(p, "default CE_%01000d=x\n", i);
	publish(text, one);
	free(TAKE_PTR(text)); /* a child would leave it behind */
	assign("on");
	run(NULL, cut_report);
	tear_down_node();
}

static void none_with_report(void)
{
	struct wire_report m;

	nothing_by_broker();
	m = reported();
	check(m.flags == 0 && m.result == 0 && m.count == 0);
}

TEST(pinned_none)
{
	run_answer("", none_with_report);
}

/* It may choose what is published, and nothing else. */
TEST(hostile_broker)
{
	set_up_node();
	answer_digest = two;
	run(act_answer, two_by_broker);
	answer_digest = evil;
	run(act_answer, one_alone);
	answer_digest = one;
	answer_key = "../../tmp/x";
	run(act_answer, one_alone);
	answer_key = "tree-0-1-2-3\n";
	run(act_answer, one_alone);
	answer_key = "";
	run(act_answer, one_by_broker);
	answer_key = KEY;
	tear_down_node();
}

static void act_evil(void)
{
	int type = fake_receive();

	if (type == WIRE_FETCH)
		fake_answer(fake_request_id(), evil, KEY);
	else if (type == WIRE_GET)
		fake_data(EVIL, WIRE_CHUNK_MAX);
}

TEST(get_does_not_bring_in_what_was_not_published)
{
	set_up_node();
	run(act_evil, one_alone);
	if (geteuid() == 0)
		as_user(act_evil, one_alone);
	tear_down_node();
}

/* --- alone */

static void one_alone_with_report(void)
{
	one_alone();
	check(reported().flags == REPORT_ALONE);
}

static void registered(void)
{
	char text[JOB_LINK_SIZE] = "", name[JOB_PROC_SIZE];
	struct runtime rt = RUNTIME_NULL;
	struct proc_facts facts;
	struct stat st;
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	one_alone();
	check(stat("/proc/self/ns/pid", &st) == 0);
	check(procfs_facts(proc_fd, getpid(), &facts) == 0);
	job_proc_format(st.st_ino, getpid(), facts.start, name);
	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(runtime_readlink(&rt, rt.procs_fd, name, geteuid(), text, sizeof text) == 0);
	check_streq(job_link_cut(text), one);
	check_streq(text, cudaenv_result_job(result));
	check(runtime_readlink(&rt, rt.jobs_fd, text, geteuid(), text, sizeof text) == 0);
	check_streq(text, one);
}

TEST(frozen_broker)
{
	run_node(NULL, one_alone_with_report);
	run_node(NULL, registered);
}

static void one_alone_at_once(void)
{
	one_alone();
	check(fake.waits == 0);
}

TEST(no_broker)
{
	set_up_node();
	fake.act = NULL;
	in_child(geteuid(), one_alone_at_once);
	fake_listen(at("rt/socket"), 5);
	(void)close(fake.listener);
	fake.listener = -1;
	in_child(geteuid(), one_alone_at_once);
	tear_down_node();
}

static void act_error(void)
{
	if (fake_receive() == WIRE_FETCH)
		fake_error(fake_request_id(), EAGAIN);
}

static void act_garbage(void)
{
	if (fake_receive() == WIRE_FETCH)
		(void)send(fake.conn, "CENV garbage garbage", 20, MSG_NOSIGNAL);
}

/* The REPORT that follows meets a closed socket: no SIGPIPE. */
static void act_close(void)
{
	if (fake_accept())
		(void)shutdown(fake.conn, SHUT_RDWR);
}

TEST(useless_broker)
{
	run_node(act_error, one_alone_with_report);
	run_node(act_garbage, one_alone_with_report);
	run_node(act_close, one_alone);
}

/* Whichever of broker and client comes first, the job keeps what it began with. */
static void pinned_two(void)
{
	struct runtime rt = RUNTIME_NULL;
	struct pin pin;

	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(start() == 0);
	check(pin_read(&rt, cudaenv_result_job(result), geteuid(), &pin) == 0);
	check_streq(pin.digest, two);
	check_streq(getenv("CE_A"), "two");
}

static void pin_job_to_two(void)
{
	one_alone();
	check(unlink(at("rt/jobs/%s", cudaenv_result_job(result))) == 0);
	check(symlink(two, at("rt/jobs/%s", cudaenv_result_job(result))) == 0);
}

TEST(the_pin_decides)
{
	set_up_node();
	run(NULL, pin_job_to_two);
	run(NULL, pinned_two);
	tear_down_node();
}

/* --- modes and switches */

static void nothing_without_a_socket(void)
{
	nothing();
	check(!fake_accept() && fake.waits == 0);
	check_streq(cudaenv_result_job(result), "");
}

static void disabled(void)
{
	check(setenv("CUDAENV_DISABLE", "1", 1) == 0);
	check(start() == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_DISABLED);
	check(!fake_accept() && !getenv("CE_A"));
	check(cudaenv_result_count(result) == 0);
}

static void not_disabled(void)
{
	check(setenv("CUDAENV_DISABLE", "0", 1) == 0);
	one_alone();
}

TEST(modes)
{
	set_up_node();
	run(NULL, disabled);
	run(NULL, not_disabled);
	assign("off");
	run(act_answer, nothing_without_a_socket);
	tear_down_node();
	set_up_node();
	assign("observe");
	run(NULL, nothing);
	answer_digest = "";
	run(act_answer, nothing_by_broker);
	assign("on"); /* the job began without */
	run(NULL, nothing);
	tear_down_node();
}

static void twice(void)
{
	char **after;

	one_alone();
	after = environ;
	cudaenv_result_free(result);
	result = NULL;
	check(start() == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_AGAIN);
	check_streq(cudaenv_result_digest(result), "");
	check(environ == after && streq(getenv("CE_A"), "one"));
}

TEST(once_per_process)
{
	run_node(NULL, twice);
}

static void no_result_wanted(void)
{
	check(cudaenv_start(NULL, NULL) == 0);
	check_streq(getenv("CE_A"), "one");
	cudaenv_result_free(NULL);
}

static void recorded_directory(void)
{
	check(unsetenv("CUDAENV_RUNTIME_DIR") == 0);
	check(cudaenv_start(tree, &result) == 0);
	check_streq(getenv("CE_A"), "one");
}

static void unset_environment(void)
{
	environ = NULL;
	check(cudaenv_start(tree, &result) == 0);
	check_streq(getenv("CE_A"), "one");
}

TEST(arguments)
{
	run_node(NULL, no_result_wanted);
	run_node(NULL, recorded_directory);
	run_node(NULL, unset_environment);
}

/* --- results */

static void read_result(void)
{
	const char *name = NULL, *value = NULL;
	enum cudaenv_state state;
	size_t cursor = 0;
	static const char *const names[] = {"CE_B", "CUDAENV_SNAPSHOT", "CUDAENV_PROFILE",
					    "CUDAENV_APPLIED"};

	check(setenv("CE_A", "mine", 1) == 0);
	check(start() == 0);
	check(cudaenv_result_count(result) == 2);
	check(cudaenv_result_variable(result, 0, &name, &value, &state) == 0);
	check(streq(name, "CE_A") && streq(value, "mine") && state == CUDAENV_KEPT);
	check(cudaenv_result_variable(result, 1, &name, &value, &state) == 0);
	check(streq(name, "CE_B") && streq(value, "one") && state == CUDAENV_SET);
	check(cudaenv_result_variable(result, 1, NULL, NULL, NULL) == 0);
	check(cudaenv_result_variable(result, 2, &name, &value, &state) == -ERANGE);
	check(cudaenv_result_variable(result, SIZE_MAX, &name, &value, &state) == -ERANGE);
	check_streq(name, "CE_B");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		check(cudaenv_result_change(result, &cursor, &name, &value) == 1);
		check_streq(name, names[i]);
		check_streq(value, getenv(name));
	}
	check(cudaenv_result_change(result, &cursor, &name, &value) == 0);
	check(cudaenv_result_change(result, &cursor, &name, &value) == 0);
	/* The environment outlives the result. */
	cudaenv_result_free(result);
	check_streq(getenv("CE_B"), "one");
	check(setenv("CE_B", "later", 1) == 0 && unsetenv("CE_A") == 0);
	check_streq(getenv("CE_B"), "later");
}

TEST(results)
{
	run_node(NULL, read_result);
	check(strchr(cudaenv_version(), '.'));
}

static void kept(void)
{
	size_t cursor = 0;
	const char *name, *value;

	/* As its parent left it: with the token, one variable changed, one deleted. */
	check(setenv("CUDAENV_SNAPSHOT", one, 1) == 0);
	check(setenv("CUDAENV_APPLIED", "CE_A:0000,CE_B:0000", 1) == 0);
	check(setenv("CE_B", "changed", 1) == 0);
	check(start() == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_APPLIED);
	check(cudaenv_result_change(result, &cursor, &name, &value) == 0);
	check(cudaenv_result_variable(result, 0, &name, &value, NULL) == 0);
	check_streq(name, "CE_A");
	check(value == NULL && !getenv("CE_A") && streq(getenv("CE_B"), "changed"));
	cudaenv_result_free(result);
}

TEST(below)
{
	run_node(NULL, kept);
}

TEST_MAIN
