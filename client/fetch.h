/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One conversation with the broker inside one deadline: connect, FETCH, perhaps GET, REPORT, close.
 * Nothing here waits beyond the deadline, and connect and send never wait. What comes back is
 * checked as bytes from a stranger; whether it may be acted on is judged by the caller against the
 * published files.
 */

#include "common/runtime.h"
#include "common/snapshot.h"
#include "common/wire.h"

struct fetch {
	int fd;                 /* CLOEXEC, non-blocking, at least 3 */
	uint64_t deadline_nsec; /* CLOCK_MONOTONIC */
	uint32_t id;            /* of the last request */
};

#define FETCH_NULL                                                                                 \
	{                                                                                          \
		.fd = -EBADF                                                                       \
	}

/* A broker's answer, for keeping. */
struct fetch_answer {
	char digest[DIGEST_SIZE]; /* "": nothing is applied */
	char key[JOB_KEY_SIZE];
	bool below;
};

/* Now plus USEC. */
uint64_t fetch_deadline(unsigned usec);

/* Connects to PATH/socket. 0; -ENOENT, -ECONNREFUSED (absent, dead), -EAGAIN (its queue is full),
 * -EPERM (the socket's owner is none of root, publisher, broker and oneself), other negative errno.
 */
int fetch_open(const struct runtime *rt, const char *path, uint64_t deadline_nsec,
	       struct fetch *ret);
/* 0; -ETIMEDOUT, -ECONNRESET (closed), -EBADMSG (not understood), -ECONNREFUSED (it answered
 * ERROR), other. */
int fetch_ask(struct fetch *f, struct wire_fetch *question, struct fetch_answer *ret);
/* The snapshot's bytes over the socket, proved against DIGEST. As fetch_ask(), and -EUCLEAN, and
 * snapshot_parse()'s. */
int fetch_get(struct fetch *f, const char *digest, struct snapshot **ret);
/* Sends a datagram made by wire_encode_report(), not waiting; whether it arrives is nobody's
 * concern. */
void fetch_report(struct fetch *f, const void *datagram, size_t size);
void fetch_done(struct fetch *f);
