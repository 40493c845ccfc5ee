/* SPDX-License-Identifier: MIT */
/*
 * The conversation of client/fetch with a broker that is silent, late, garbled or hostile, on a
 * clock of the test's own: what is believed of it, and how long it may take.
 */
#include "client/fetch.h"

#include <sched.h>
#include <signal.h>

#include "tests/unit/fake-broker.h"

#define MSEC 1000000u
#define DIG  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define KEY  "tree-0-4026531836-4242-123456"

static struct runtime rt = RUNTIME_NULL;
static struct fetch_answer answer;

static void open_broker(void)
{
	set_up();
	check(runtime_open(tree, geteuid(), &rt) == 0);
	fake_listen(at("rt/socket"), 5);
	fake.act = NULL;
	fake.interrupt = NULL;
	fake.fake_clock = true;
	fake.clock_nsec = 5000 * (uint64_t)MSEC;
	fake.waits = 0;
	fake.waited_nsec = 0;
}

static void close_broker(void)
{
	runtime_done(&rt);
	fake.fake_clock = false;
	tear_down();
}

static int ask(void)
{
	struct fetch f = FETCH_NULL;
	struct wire_fetch question = {.nspid = 1};
	int r;

	memset(&answer, 0, sizeof answer);
	r = fetch_open(&rt, tree, fetch_deadline(8000), &f);
	if (r < 0)
		return r;
	check(f.fd > 2 && fcntl(f.fd, F_GETFD) == FD_CLOEXEC);
	r = fetch_ask(&f, &question, &answer);
	fetch_done(&f);
	fetch_done(&f);
	return r;
}

static void act_answer(void)
{
	if (fake_receive() == WIRE_FETCH)
		fake_answer(fake_request_id(), DIG, KEY);
}

TEST(answered)
{
	open_broker();
	fake.act = act_answer;
	check(ask() == 0);
	check_streq(answer.digest, DIG);
	check_streq(answer.key, KEY);
	check(fake.waits == 1 && fake.waited_nsec == 0);
	close_broker();
}

TEST(absent_dead_full)
{
	open_broker();
	check(unlink(at("rt/socket")) == 0);
	check(ask() == -ENOENT);
	fake_listen(at("rt/socket"), 5);
	(void)close(fake.listener);
	fake.listener = -1;
	check(ask() == -ECONNREFUSED);
	check(unlink(at("rt/socket")) == 0);
	put(at("rt/socket"), "x", 1, 0644);
	check(ask() == -ECONNREFUSED);
	fake_listen(at("rt/socket"), 0);
	check(ask() == -ETIMEDOUT); /* nobody accepts, but there was room for one */
	check(ask() == -EAGAIN);
	check(fake.waits == 1);
	close_broker();
}

TEST(frozen)
{
	open_broker();
	check(ask() == -ETIMEDOUT);
	check(fake.waited_nsec == 8 * MSEC);
	close_broker();
}

static int storm(void)
{
	fake.clock_nsec += MSEC;
	return EINTR;
}

/* Each interrupt takes its time from what is left. */
TEST(signal_storm)
{
	open_broker();
	fake.interrupt = storm;
	check(ask() == -ETIMEDOUT);
	check(fake.waits == 8 && fake.timeout_nsec == MSEC);
	close_broker();
}

static int fail_poll(void)
{
	return ENOMEM;
}

TEST(no_memory_to_wait)
{
	open_broker();
	fake.interrupt = fail_poll;
	check(ask() == -ENOMEM);
	close_broker();
}

static int oversleep(void)
{
	fake.clock_nsec += 50 * MSEC;
	return EINTR;
}

/* A process that was not scheduled in time finds its answer at the last look. */
TEST(late_but_there)
{
	open_broker();
	fake.act = act_answer;
	fake.interrupt = oversleep;
	check(ask() == 0);
	check_streq(answer.digest, DIG);
	close_broker();
}

static void act_other_id(void)
{
	static const char other[] =
		"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

	if (fake_receive() != WIRE_FETCH)
		return;
	fake_answer(fake_request_id() + 1, other, KEY);
	fake_answer(fake_request_id(), DIG, KEY);
}

TEST(another_answer_is_passed_over)
{
	open_broker();
	fake.act = act_other_id;
	check(ask() == 0);
	check_streq(answer.digest, DIG);
	close_broker();
}

static void act_flood(void)
{
	(void)fake_receive();
	fake_answer(fake_request_id() + 1, DIG, KEY);
}

TEST(flood_of_other_answers)
{
	open_broker();
	fake.act = act_flood;
	check(ask() == -EBADMSG);
	check(fake.waits == 16 && fake.waited_nsec == 0);
	close_broker();
}

static const char *garbage;
static size_t garbage_size;

static void act_raw(void)
{
	if (fake_receive() == WIRE_FETCH)
		(void)send(fake.conn, garbage, garbage_size, MSG_NOSIGNAL);
}

static int ask_raw(const char *bytes, size_t size)
{
	int r;

	open_broker();
	garbage = bytes;
	garbage_size = size;
	fake.act = act_raw;
	r = ask();
	check(!*answer.digest && !*answer.key);
	close_broker();
	return r;
}

TEST(garbage)
{
	static char big[WIRE_DATAGRAM_MAX];
	char reply[512];
	struct wire_answer m = {.digest = DIG, .key = {KEY, STRLEN(KEY)}};
	ssize_t n = wire_encode_answer(reply, sizeof reply, 1, &m);

	check(n > 0);
	check(ask_raw("x", 1) == -EBADMSG);
	check(ask_raw(big, sizeof big) == -EBADMSG);
	check(ask_raw(reply, (size_t)n - 1) == -EBADMSG);
	reply[4] = 2;
	check(ask_raw(reply, (size_t)n) == -EPROTONOSUPPORT);
	reply[4] = 1;
	reply[6] = WIRE_FETCH;
	check(ask_raw(reply, (size_t)n) == -EOPNOTSUPP);
	reply[6] = WIRE_DATA;
	check(ask_raw(reply, (size_t)n) == -EBADMSG);
	reply[6] = WIRE_ANSWER;
	reply[24] = 'X';
	check(ask_raw(reply, (size_t)n) == -EBADMSG);
	/* A datagram without bytes reads as the end. */
	check(ask_raw("", 0) == -ECONNRESET);
}

static void act_error(void)
{
	if (fake_receive() == WIRE_FETCH)
		fake_error(fake_request_id(), EAGAIN);
}

static void act_close(void)
{
	if (fake_accept()) {
		(void)close(fake.conn);
		fake.conn = -1;
	}
}

TEST(refused_or_closed)
{
	open_broker();
	fake.act = act_error;
	check(ask() == -ECONNREFUSED);
	close_broker();
	open_broker();
	fake.act = act_close;
	check(ask() == -ECONNRESET);
	close_broker();
}

/* Sent descriptors do not arrive. */
static void act_descriptor(void)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct wire_answer m = {.digest = DIG, .key = {KEY, STRLEN(KEY)}};
	struct iovec iov = {.iov_base = fake.reply};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (fake_receive() != WIRE_FETCH)
		return;
	iov.iov_len =
		(size_t)wire_encode_answer(fake.reply, sizeof fake.reply, fake_request_id(), &m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fake.listener, sizeof(int));
	check(sendmsg(fake.conn, &msg, MSG_NOSIGNAL) > 0);
}

TEST(descriptors_are_not_taken)
{
	int before, after;

	open_broker();
	fake.act = act_descriptor;
	check(fake_accept() == false);
	before = dup(0);
	close(before);
	check(ask() == 0);
	(void)close(fake.conn);
	fake.conn = -1;
	after = dup(0);
	close(after);
	check(before == after);
	close_broker();
}

static void open_as_stranger(void)
{
	struct runtime mine = RUNTIME_NULL;
	struct fetch f = FETCH_NULL;

	check(runtime_open(tree, geteuid(), &mine) == 0);
	check(fetch_open(&mine, tree, fetch_deadline(8000), &f) == 0);
	runtime_done(&mine);
	fetch_done(&f);
}

/* Root's socket is believed by everyone, a stranger's by nobody. */
TEST(whose_socket)
{
	struct fetch f = FETCH_NULL;
	pid_t pid;
	int r;

	if (geteuid() != 0)
		skip("needs root");
	open_broker();
	in_child(STRANGER, open_as_stranger);
	make_dir(at("open"), 0777, 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		check(setresuid(NOBODY, NOBODY, NOBODY) == 0);
		fake_listen(at("open/socket"), 5);
		for (;;)
			pause();
	}
	do {
		r = fetch_open(&rt, at("open"), fetch_deadline(8000), &f);
		(void)sched_yield();
	} while (r == -ENOENT || r == -ECONNREFUSED);
	check(r == -EPERM && f.fd < 0);
	check(kill(pid, SIGKILL) == 0);
	check(waitpid(pid, NULL, 0) == pid);
	close_broker();
}

/* --- GET */

#define SNAPSHOT "cudaenv-snapshot 1\nprofile p\nscope any\ndefault A=a\n"

static size_t chunk = WIRE_CHUNK_MAX;
static const char *served;

static void act_data(void)
{
	if (fake_receive() == WIRE_GET)
		fake_data(served, chunk);
}

static int get(const char *digest, struct snapshot **ret)
{
	struct fetch f = FETCH_NULL;
	int r = fetch_open(&rt, tree, fetch_deadline(8000), &f);

	check(r == 0);
	r = fetch_get(&f, digest, ret);
	fetch_done(&f);
	return r;
}

static int get_served(const char *text, const char *digest, size_t chunk_size)
{
	struct snapshot *s = NULL;
	int r;

	open_broker();
	fake.act = act_data;
	served = text;
	chunk = chunk_size;
	r = get(digest, &s);
	check((r == 0) == (s != NULL));
	if (s)
		check_streq(s->digest, digest);
	(void)snapshot_free(s);
	close_broker();
	return r;
}

TEST(get)
{
	char digest[DIGEST_SIZE], *big = calloc(1, SNAPSHOT_MAX_BYTES + 2);

	digest_bytes(SNAPSHOT, STRLEN(SNAPSHOT), digest);
	check(get_served(SNAPSHOT, digest, WIRE_CHUNK_MAX) == 0);
	check(get_served(SNAPSHOT, digest, 7) == 0);
	check(get_served(SNAPSHOT "#", digest, 7) == -EBADMSG);
	check(get_served(SNAPSHOT "default B=b\n", digest, 7) == -EUCLEAN);
	check(get_served(SNAPSHOT, digest, 0) == -EBADMSG); /* would never end */
	check(get_served(SNAPSHOT, "x", 7) == -EINVAL);
	/* One that needs every piece, and one that is too large. */
	check(big);
	(void)strcpy(big, SNAPSHOT);
	for (size_t n = strlen(big); n < 200000; n += strlen(big + n))
		(void)sprintf(big + n, "default B%06zu=%0400d\n", n, 0);
	digest_bytes(big, strlen(big), digest);
	check(get_served(big, digest, WIRE_CHUNK_MAX) == 0);
	memset(big, 'x', SNAPSHOT_MAX_BYTES + 1);
	check(get_served(big, digest, WIRE_CHUNK_MAX) == -EFBIG);
	free(big);
}

static void act_slow_data(void)
{
	fake.clock_nsec += MSEC;
	act_data();
}

/* However willingly the pieces come: the deadline is one for all. */
TEST(get_in_small_pieces_ends)
{
	char digest[DIGEST_SIZE];
	struct snapshot *s = NULL;

	digest_bytes(SNAPSHOT, STRLEN(SNAPSHOT), digest);
	open_broker();
	fake.act = act_slow_data;
	served = SNAPSHOT;
	chunk = 1;
	check(get(digest, &s) == -ETIMEDOUT);
	check(fake.waits <= 9);
	close_broker();
}

/* All pieces were sent before they were asked for: nothing has to be waited for. */
static void act_data_ahead(void)
{
	struct wire_data m = {.total = STRLEN(SNAPSHOT)};

	if (fake_receive() != WIRE_GET)
		return;
	for (uint32_t i = 0; m.offset < m.total; i++, m.offset += 8) {
		m.bytes.ptr = &SNAPSHOT[m.offset];
		m.bytes.size = m.total - m.offset < 8 ? m.total - m.offset : 8;
		fake_send(
			wire_encode_data(fake.reply, sizeof fake.reply, fake_request_id() + i, &m));
	}
}

TEST(get_that_waits_for_nothing_ends)
{
	char digest[DIGEST_SIZE];
	struct snapshot *s = NULL;

	digest_bytes(SNAPSHOT, STRLEN(SNAPSHOT), digest);
	open_broker();
	fake.act = act_data_ahead;
	check(get(digest, &s) == 0);
	(void)snapshot_free(s);
	close_broker();
	s = NULL;
	open_broker();
	fake.act = act_data_ahead;
	fake.step_nsec = 2 * MSEC;
	check(get(digest, &s) == -ETIMEDOUT && !s);
	check(fake.waits == 1);
	fake.step_nsec = 0;
	close_broker();
}

/* The right bytes, under labels that are wrong by TOTAL_OFF and OFFSET_OFF after the first piece.
 */
static uint32_t total_off, offset_off;

static void act_wrong_label(void)
{
	struct wire_data m = {.total = STRLEN(SNAPSHOT)};
	struct wire_get request;

	if (fake_receive() != WIRE_GET)
		return;
	check(wire_decode_get(fake.request, fake.size, &request) == 0);
	m.bytes.ptr = &SNAPSHOT[request.offset];
	m.bytes.size = m.total - request.offset < 7 ? m.total - request.offset : 7;
	m.offset = request.offset;
	if (request.offset > 0) {
		m.total += total_off;
		m.offset -= offset_off;
	}
	fake_send(wire_encode_data(fake.reply, sizeof fake.reply, fake_request_id(), &m));
}

static int get_mislabelled(uint32_t total, uint32_t offset)
{
	char digest[DIGEST_SIZE];
	struct snapshot *s = NULL;
	int r;

	digest_bytes(SNAPSHOT, STRLEN(SNAPSHOT), digest);
	open_broker();
	total_off = total;
	offset_off = offset;
	fake.act = act_wrong_label;
	r = get(digest, &s);
	(void)snapshot_free(s);
	close_broker();
	return r;
}

static void act_huge(void)
{
	struct wire_data m = {.total = UINT32_MAX, .bytes = {"x", 1}};

	if (fake_receive() == WIRE_GET)
		fake_send(wire_encode_data(fake.reply, sizeof fake.reply, fake_request_id(), &m));
}

TEST(get_that_lies)
{
	struct snapshot *s = NULL;

	check(get_mislabelled(0, 0) == 0);
	check(get_mislabelled(1, 0) == -EBADMSG);
	check(get_mislabelled(100000, 0) == -EBADMSG);
	check(get_mislabelled(0, 1) == -EBADMSG);
	open_broker();
	fake.act = act_huge;
	check(get(DIG, &s) == -EFBIG && !s);
	check(fake.waits == 1); /* not one byte of it is kept */
	close_broker();
}

/* A path that no socket address holds. */
TEST(long_path)
{
	char deep[200];
	int old = open(".", O_PATH | O_CLOEXEC);

	open_broker();
	memset(deep, 'd', sizeof deep - 1);
	deep[sizeof deep - 1] = '\0';
	make_dir(at("%s", deep), 0755, geteuid());
	runtime_done(&rt);
	check(rename(tree, at("%s/rt", deep)) == 0);
	(void)snprintf(tree, sizeof tree, "%s", at("%s/rt", deep));
	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(chdir(tree) == 0);
	fake_listen("socket", 5);
	check(fchdir(old) == 0);
	fake.act = act_answer;
	check(ask() == 0);
	check_streq(answer.digest, DIG);
	close(old);
	close_broker();
}

TEST_MAIN
