/* SPDX-License-Identifier: MIT */
/*
 * The conversation of client/fetch.h. Every wait is one ppoll() against what is left until the
 * deadline, so interrupts (a process may be stormed by signals) do not lengthen it; after the
 * deadline one more non-blocking look is taken, for a process that was not scheduled in time finds
 * its answer there.
 */

#include "client/fetch.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "common/util.h"

#define NSEC_PER_SEC       1000000000u
#define OTHER_MESSAGES_MAX 16 /* answers to what was not asked that are passed over */

static uint64_t now_nsec(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) < 0)
		return UINT64_MAX; /* no clock, no waiting */
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t fetch_deadline(unsigned usec)
{
	uint64_t now = now_nsec();

	return now == UINT64_MAX ? 0 : now + (uint64_t)usec * 1000;
}

/* PATH/socket, by way of the descriptor where that is too long for an address. */
static void make_address(const struct runtime *rt, const char *path, struct sockaddr_un *ret)
{
	char *p = ret->sun_path, digits[12];
	unsigned fd = (unsigned)rt->dir_fd, n = 0;

	ret->sun_family = AF_UNIX;
	if (strlen(path) + sizeof "/socket" <= sizeof ret->sun_path)
		p = stpcpy(p, path);
	else {
		p = stpcpy(p, "/proc/self/fd/");
		do
			digits[n++] = (char)('0' + fd % 10);
		while ((fd /= 10) > 0);
		while (n > 0)
			*p++ = digits[--n];
	}
	(void)stpcpy(p, "/socket");
}

/* Non-blocking, CLOEXEC, and at least 3 also where the standard descriptors are closed. */
static int make_socket(void)
{
	_cleanup_(closep) int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int high;

	if (fd < 0)
		return -errno;
	if (fd > 2)
		return TAKE_FD(fd);
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return high < 0 ? -errno : high;
}

static bool peer_believed(const struct runtime *rt, int fd)
{
	struct ucred cred;
	socklen_t size = sizeof cred;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 &&
	       (cred.uid == 0 || cred.uid == rt->publisher || cred.uid == rt->broker ||
		cred.uid == rt->self);
}

int fetch_open(const struct runtime *rt, const char *path, uint64_t deadline_nsec,
	       struct fetch *ret)
{
	_cleanup_(closep) int fd = -EBADF;
	struct sockaddr_un sa = {0};
	int r;

	make_address(rt, path, &sa);
	fd = make_socket();
	if (fd < 0)
		return fd;
	/* A local connect either is done or fails at once; interrupted, it has not begun. */
	do
		r = connect(fd, (struct sockaddr *)&sa, sizeof sa);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (!peer_believed(rt, fd))
		return -EPERM;
	*ret = (struct fetch){.fd = TAKE_FD(fd), .deadline_nsec = deadline_nsec};
	return 0;
}

void fetch_done(struct fetch *f)
{
	f->fd = safe_close(f->fd);
}

static int send_datagram(const struct fetch *f, const void *datagram, size_t size)
{
	ssize_t n;

	do
		n = send(f->fd, datagram, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

void fetch_report(struct fetch *f, const void *datagram, size_t size)
{
	(void)send_datagram(f, datagram, size);
}

/* Waits until something can be read. 0, or -ETIMEDOUT. */
static int wait_readable(const struct fetch *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN};

	for (;;) {
		uint64_t now = now_nsec(), left;
		struct timespec ts;
		int r;

		if (now >= f->deadline_nsec)
			return -ETIMEDOUT;
		left = f->deadline_nsec - now;
		ts = (struct timespec){.tv_sec = (time_t)(left / NSEC_PER_SEC),
				       .tv_nsec = (long)(left % NSEC_PER_SEC)};
		r = ppoll(&p, 1, &ts, NULL);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* One datagram, without waiting. Its size; -EAGAIN: none is there; -ECONNRESET: closed. */
static ssize_t receive(const struct fetch *f, void *buf, size_t size)
{
	ssize_t n;

	do
		n = recv(f->fd, buf, size, MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ECONNRESET;
	return (size_t)n > size ? -EBADMSG : n;
}

/* Waits for the answer of TYPE to the last request, and leaves it in BUF. */
static ssize_t wait_answer(const struct fetch *f, enum wire_type type, void *buf, size_t size)
{
	for (unsigned others = 0; others < OTHER_MESSAGES_MAX; others++) {
		struct wire_header h;
		ssize_t n = receive(f, buf, size);
		int r = 0;

		if (n == -EAGAIN) {
			r = wait_readable(f);
			n = receive(f, buf, size);
			if (n == -EAGAIN && r == 0)
				continue;
		}
		if (n < 0)
			return n == -EAGAIN ? r : n;
		r = wire_decode_header(buf, (size_t)n, TO_CLIENT, &h);
		if (r < 0)
			return r;
		if (h.id != f->id)
			continue;
		return h.type == type ? n : h.type == WIRE_ERROR ? -ECONNREFUSED : -EBADMSG;
	}
	return -EBADMSG;
}

int fetch_ask(struct fetch *f, struct wire_fetch *question, struct fetch_answer *ret)
{
	char buf[WIRE_HEADER_SIZE + 94 + WIRE_EXE_MAX];
	struct wire_answer m;
	ssize_t n;
	int r;

	n = wire_encode_fetch(buf, sizeof buf, ++f->id, question);
	if (n < 0)
		return (int)n;
	r = send_datagram(f, buf, (size_t)n);
	if (r < 0)
		return r;
	n = wait_answer(f, WIRE_ANSWER, buf, sizeof buf);
	if (n < 0)
		return (int)n;
	r = wire_decode_answer(buf, (size_t)n, &m);
	if (r < 0)
		return r;
	memcpy(ret->digest, m.digest, sizeof ret->digest);
	memcpy(ret->key, m.key.ptr, m.key.size);
	ret->key[m.key.size] = '\0';
	ret->below = m.flags & ANSWER_BELOW;
	return 0;
}

/* One chunk at OFFSET of the text in *TEXT, which is made with the first. Returns how many bytes it
 * had. */
static ssize_t get_chunk(struct fetch *f, char *buf, const char *digest, uint32_t offset,
			 char **text, uint32_t *total)
{
	struct wire_get question = {.offset = offset};
	struct wire_data m;
	ssize_t n;
	int r;

	memcpy(question.digest, digest, DIGEST_SIZE);
	n = wire_encode_get(buf, WIRE_DATAGRAM_MAX, ++f->id, &question);
	if (n < 0)
		return n;
	r = send_datagram(f, buf, (size_t)n);
	if (r < 0)
		return r;
	n = wait_answer(f, WIRE_DATA, buf, WIRE_DATAGRAM_MAX);
	if (n < 0)
		return n;
	r = wire_decode_data(buf, (size_t)n, &m);
	if (r < 0)
		return r;
	if (!*text) {
		if (m.total == 0 || m.total > SNAPSHOT_MAX_BYTES)
			return -EFBIG;
		*text = malloc(m.total);
		if (!*text)
			return -ENOMEM;
		*total = m.total;
	}
	if (m.total != *total || m.offset != offset || m.bytes.size == 0)
		return -EBADMSG;
	memcpy(*text + offset, m.bytes.ptr, m.bytes.size);
	return (ssize_t)m.bytes.size;
}

int fetch_get(struct fetch *f, const char *digest, struct snapshot **ret)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *buf = NULL, *text = NULL;
	uint32_t total = 1, offset = 0;
	int r;

	if (!digest_valid(digest))
		return -EINVAL;
	buf = malloc(WIRE_DATAGRAM_MAX);
	if (!buf)
		return -ENOMEM;
	while (offset < total) {
		ssize_t n;

		/* However small the pieces and quick the answers. */
		if (now_nsec() >= f->deadline_nsec)
			return -ETIMEDOUT;
		n = get_chunk(f, buf, digest, offset, &text, &total);
		if (n < 0)
			return (int)n;
		offset += (uint32_t)n;
	}
	r = snapshot_parse(text, total, &s);
	if (r < 0)
		return r;
	if (!streq(s->digest, digest))
		return -EUCLEAN;
	*ret = TAKE_PTR(s);
	return 0;
}
