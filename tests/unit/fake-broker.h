/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A fake broker inside the test's own process, without a thread: it acts whenever the client under
 * test waits, because ppoll() is ours here. The clock is ours as well once fake_clock is set: it
 * stands still but for what a wait takes, so that a test can say what was waited for, exactly.
 */
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "common/wire.h"
#include "tests/unit/runtime-tree.h"

static struct fake {
	int listener;
	int conn;
	void (*act)(void);      /* at each wait; NULL: frozen */
	int (*interrupt)(void); /* after it: an errno that ends the wait, 0: none */
	unsigned waits;
	uint64_t waited_nsec;
	uint64_t timeout_nsec; /* of the last wait */
	uint64_t clock_nsec;
	uint64_t step_nsec; /* what each look at the clock takes */
	bool fake_clock;
	size_t size; /* of the last request */
	char request[WIRE_DATAGRAM_MAX], reply[WIRE_DATAGRAM_MAX + 1];
} fake = {.listener = -1, .conn = -1};

int clock_gettime(clockid_t id, struct timespec *ret)
{
	if (!fake.fake_clock)
		return (int)syscall(SYS_clock_gettime, id, ret);
	fake.clock_nsec += fake.step_nsec;
	ret->tv_sec = (time_t)(fake.clock_nsec / 1000000000);
	ret->tv_nsec = (long)(fake.clock_nsec % 1000000000);
	return 0;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec now = {0, 0};
	uint64_t nsec = (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_nsec;
	long r;

	check(!mask);
	fake.waits++;
	fake.timeout_nsec = nsec;
	if (fake.act)
		fake.act();
	r = fake.interrupt ? fake.interrupt() : 0;
	if (r > 0) {
		errno = (int)r;
		return -1;
	}
	r = syscall(SYS_ppoll, fds, n, fake.fake_clock ? &now : timeout, NULL, 8);
	if (r == 0) {
		fake.waited_nsec += nsec;
		fake.clock_nsec += nsec;
	}
	return (int)r;
}

/* Listens at PATH with room for BACKLOG + 1 clients. */
static void fake_listen(const char *path, int backlog)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)close(fake.listener);
	(void)close(fake.conn);
	fake.conn = -1;
	fake.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(fake.listener >= 0);
	check(strlen(path) < sizeof sa.sun_path);
	(void)strcpy(sa.sun_path, path);
	(void)unlink(path);
	check(bind(fake.listener, (struct sockaddr *)&sa, sizeof sa) == 0);
	check(chmod(path, 0666) == 0);
	check(listen(fake.listener, backlog) == 0);
}

/* Takes the client that connected; false: nobody did. */
static bool fake_accept(void)
{
	if (fake.conn < 0)
		fake.conn = accept4(fake.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fake.conn >= 0;
}

/* The next request: its type, 0 if none is there, -1 at the end. */
static int fake_receive(void)
{
	struct wire_header h;
	ssize_t n;

	if (!fake_accept())
		return 0;
	n = recv(fake.conn, fake.request, sizeof fake.request, 0);
	/* A client that leaves without having read a late answer. */
	if (n < 0 && errno == ECONNRESET)
		n = recv(fake.conn, fake.request, sizeof fake.request, 0);
	if (n == 0)
		return -1;
	if (n < 0)
		return 0;
	fake.size = (size_t)n;
	check(wire_decode_header(fake.request, fake.size, TO_BROKER, &h) == 0);
	return h.type;
}

static uint32_t fake_request_id(void)
{
	struct wire_header h;

	check(wire_decode_header(fake.request, fake.size, TO_BROKER, &h) == 0);
	return h.id;
}

static void fake_send(ssize_t size)
{
	check(size > 0);
	(void)send(fake.conn, fake.reply, (size_t)size, MSG_NOSIGNAL);
}

static void fake_answer(uint32_t id, const char *digest, const char *key)
{
	struct wire_answer m = {.reason = 1, .key = {key, strlen(key)}};

	(void)strcpy(m.digest, digest);
	fake_send(wire_encode_answer(fake.reply, sizeof fake.reply, id, &m));
}

static void fake_error(uint32_t id, uint32_t code)
{
	struct wire_error m = {.code = code, .version = WIRE_VERSION, .text = {"no", 2}};

	fake_send(wire_encode_error(fake.reply, sizeof fake.reply, id, &m));
}

/* Serves CHUNK bytes at most of TEXT for the GET that was received. */
static void fake_data(const char *text, size_t chunk)
{
	struct wire_data m = {.total = (uint32_t)strlen(text)};
	struct wire_get get;

	check(wire_decode_get(fake.request, fake.size, &get) == 0);
	check(get.offset < m.total);
	m.offset = get.offset;
	m.bytes.ptr = text + get.offset;
	m.bytes.size = m.total - get.offset < chunk ? m.total - get.offset : chunk;
	fake_send(wire_encode_data(fake.reply, sizeof fake.reply, fake_request_id(), &m));
}
