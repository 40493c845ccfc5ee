/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A node for tests of cudaenv_start(): a runtime directory with two published snapshots, mode on,
 * and a fake broker. Each start has a process of its own, for it is once per process: run() forks
 * one, and what is checked is checked there.
 */
#include "client/cudaenv.h"
#include "common/decide.h"
#include "common/pin.h"
#include "tests/unit/fake-broker.h"

extern char **environ;

#define HEAD "cudaenv-snapshot 1\nprofile "
#define ONE  HEAD "one\nscope any\ndefault CE_A=one\nforce CE_B=one\n"
#define TWO  HEAD "two\nscope any\ndefault CE_A=two\n"
#define EVIL HEAD "evil\nscope any\nforce CE_A=evil\n"

static char one[DIGEST_SIZE], two[DIGEST_SIZE], evil[DIGEST_SIZE];

static void publish(const char *text, char digest[DIGEST_SIZE])
{
	digest_bytes(text, strlen(text), digest);
	put(at("rt/snapshots/%s", digest), text, strlen(text), 0444);
}

static void assign(const char *mode)
{
	char *text;
	int n = asprintf(&text, "cudaenv-assign 1\ngeneration 1\nmode %s\ndefault %s\nend\n", mode,
			 one);

	check(n > 0);
	(void)unlink(at("rt/assign"));
	put(at("rt/assign"), text, (size_t)n, 0444);
	free(text);
}

/* Mode on, ONE for new jobs, TWO published as well; a broker that is there and frozen. */
static void set_up_node(void)
{
	set_up_in(geteuid() == 0 ? "/run" : "/tmp");
	publish(ONE, one);
	publish(TWO, two);
	digest_bytes(EVIL, STRLEN(EVIL), evil);
	assign("on");
	fake.act = NULL;
	fake.fake_clock = true;
	fake.clock_nsec = 1000000000;
	unsetenv("CUDAENV_SNAPSHOT");
	unsetenv("CUDAENV_APPLIED");
	unsetenv("CUDAENV_PROFILE");
	unsetenv("CUDAENV_DISABLE");
	check(setenv("CUDAENV_RUNTIME_DIR", tree, 1) == 0);
}

static void tear_down_node(void)
{
	fake.fake_clock = false;
	tear_down();
}

/* --- what a start must show; each runs in a child */

static struct cudaenv_result *result;

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int start(void)
{
	unsigned before = open_descriptors();
	int r;

	errno = ENOTTY;
	r = cudaenv_start(NULL, &result);
	check(errno == ENOTTY);
	if (fake.conn < 0) /* the broker's own end is opened meanwhile */
		check(open_descriptors() == before);
	check((r == 0) == (result != NULL));
	return r;
}

static void shows(const char *a, const char *digest, const char *profile, int by_broker)
{
	check(start() == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_APPLIED);
	check_streq(cudaenv_result_digest(result), digest);
	check_streq(cudaenv_result_profile(result), profile);
	check(cudaenv_result_by_broker(result) == by_broker);
	check_streq(getenv("CE_A"), a);
	check_streq(getenv("CUDAENV_SNAPSHOT"), digest);
	check_streq(getenv("CUDAENV_PROFILE"), profile);
}

static void one_alone(void)
{
	shows("one", one, "one", 0);
	check(job_key_parse(cudaenv_result_job(result), &(struct job_key){0}) == 0);
}

static void one_by_broker(void)
{
	shows("one", one, "one", 1);
}

static void two_by_broker(void)
{
	shows("two", two, "two", 1);
}

static void nothing(void)
{
	check(start() == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_NOTHING);
	check_streq(cudaenv_result_digest(result), "");
	check_streq(cudaenv_result_profile(result), "");
	check(cudaenv_result_count(result) == 0);
	check(!getenv("CE_A") && !getenv("CUDAENV_SNAPSHOT"));
}

static void nothing_by_broker(void)
{
	nothing();
	check(cudaenv_result_by_broker(result) == 1);
}

static void fails(void)
{
	char **before = environ;

	check(start() < 0);
	check(environ == before && !getenv("CE_A"));
}

/* What the client sent after its answer, or while nobody answered. */
static struct wire_report reported(void)
{
	struct wire_report m;
	int type;

	while ((type = fake_receive()) == WIRE_FETCH || type == WIRE_GET)
		;
	check(type == WIRE_REPORT);
	check(wire_decode_report(fake.request, fake.size, &m) == 0);
	check(m.nspid == (uint32_t)getpid());
	check(m.environ_address == (uint64_t)(uintptr_t)&environ);
	check(m.key.size == strlen(cudaenv_result_job(result)));
	check(memcmp(m.key.ptr, cudaenv_result_job(result), m.key.size) == 0);
	check(m.count == cudaenv_result_count(result));
	check_streq(m.digest, cudaenv_result_digest(result));
	return m;
}

/* FN in a child, with a broker that does ACT whenever the child waits. */
static void run(void (*act)(void), void (*fn)(void))
{
	fake.act = act;
	fake_listen(at("rt/socket"), 5); /* nobody's connection from before is left in it */
	in_child(geteuid(), fn);
}

static void as_user(void (*act)(void), void (*fn)(void))
{
	fake.act = act;
	fake_listen(at("rt/socket"), 5);
	in_child(STRANGER, fn);
}

static void run_node(void (*act)(void), void (*fn)(void))
{
	set_up_node();
	run(act, fn);
	tear_down_node();
}

#define KEY "tree-0-4026531836-4242-123456"

static const char *answer_digest, *answer_key = KEY;

static void act_answer(void)
{
	if (fake_receive() == WIRE_FETCH)
		fake_answer(fake_request_id(), answer_digest, answer_key);
}

static void run_answer(const char *digest, void (*fn)(void))
{
	answer_digest = digest;
	run_node(act_answer, fn);
}
