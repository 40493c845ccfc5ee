/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/report.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "client/fetch.h"
#include "common/util.h"

static uint64_t now_nsec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int send_question(const struct fetch *f, const struct worker *w)
{
	struct wire_why m = {.pidns = w->pidns, .nspid = (uint32_t)w->nspid, .start = w->start};
	char datagram[WIRE_HEADER_SIZE + 20];
	ssize_t n = wire_encode_why(datagram, sizeof datagram, 1, &m);

	if (n < 0)
		return (int)n;
	return send(f->fd, datagram, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static ssize_t wait_answer(const struct fetch *f, char *buf, size_t size)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN};
	uint64_t now;
	ssize_t n;
	int r = 0;

	while (r <= 0) {
		now = now_nsec();
		if (now >= f->deadline_nsec)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((f->deadline_nsec - now) / 1000000) + 1);
		if (r < 0 && errno != EINTR)
			return -errno;
	}
	n = recv(f->fd, buf, size, MSG_DONTWAIT | MSG_TRUNC);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	return (size_t)n > size ? -EBADMSG : n;
}

/* An error of the broker's is one of those that report_get() names, or nothing is known of it. */
static int error_code(const char *buf, size_t size)
{
	static const int known[] = {ENOENT, ENODATA, EPERM, EOPNOTSUPP, EAGAIN};
	struct wire_error e;

	if (wire_decode_error(buf, size, &e) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (e.code == (uint32_t)known[i])
			return -known[i];
	return -EIO;
}

static int take(struct report *r, size_t size)
{
	struct wire_reported m;

	if (wire_decode_reported(r->buf, size, &m) < 0)
		return error_code(r->buf, size);
	r->alone = m.flags & REPORT_ALONE;
	r->cut = m.flags & REPORT_CUT;
	r->result = (int)m.result;
	memcpy(r->digest, m.digest, sizeof r->digest);
	r->entries = m.entries;
	return 0;
}

int report_get(const struct published *p, const struct worker *w, struct report *ret)
{
	_cleanup_(fetch_done) struct fetch f = FETCH_NULL;
	_cleanup_(report_done) struct report report = {.buf = malloc(WIRE_DATAGRAM_MAX)};
	ssize_t n;
	int r;

	if (!report.buf)
		return -ENOMEM;
	r = fetch_open(&p->runtime, p->path, fetch_deadline(REPORT_DEADLINE_USEC), &f);
	if (r == -ENOENT)
		return -ECONNREFUSED;
	if (r == 0)
		r = send_question(&f, w);
	if (r < 0)
		return r;
	n = wait_answer(&f, report.buf, WIRE_DATAGRAM_MAX);
	r = n < 0 ? (int)n : take(&report, (size_t)n);
	if (r < 0)
		return r;
	*ret = report;
	report.buf = NULL;
	return 0;
}

void report_done(struct report *r)
{
	free(r->buf);
	*r = (struct report){0};
}

unsigned report_state(const struct report *r, const char *name)
{
	struct wire_bytes found;
	size_t cursor = 0;
	uint8_t state;

	while (r->buf && wire_entry_next(&r->entries, &cursor, &state, &found) > 0)
		if (found.size == strlen(name) && memcmp(found.ptr, name, found.size) == 0)
			return state;
	return 0;
}

const char *report_word(unsigned state)
{
	static const char *const words[] = {
		[CUDAENV_SET] = "set",           [CUDAENV_ALREADY] = "already",
		[CUDAENV_KEPT] = "kept",         [CUDAENV_REPLACED] = "replaced",
		[CUDAENV_REMOVED] = "removed",   [CUDAENV_ABSENT_HERE] = "absent-here",
		[CUDAENV_TOO_LATE] = "too-late",
	};

	return state < ARRAY_SIZE(words) ? words[state] : NULL;
}

const char *report_trouble(int r)
{
	switch (r) {
	case -ENOENT:
		return "the broker does not know it";
	case -ENODATA:
		return "it has sent none";
	case -EPERM:
		return "it is told to root and to its own user";
	case -ECONNREFUSED:
		return "the broker is not running";
	case -ETIMEDOUT:
	case -EAGAIN:
		return "the broker does not answer";
	case -EOPNOTSUPP:
		return "the broker is of an older release";
	default:
		return "the broker cannot be asked";
	}
}
