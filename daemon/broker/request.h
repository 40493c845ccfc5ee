/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One request: a datagram and who sent it go in, a datagram or nothing comes out. No socket is read
 * or written here (the peer's descriptor only tells its groups and pidfd), so tests and the fuzzer
 * call it with a made-up peer.
 */

#include "daemon/broker/broker.h"

struct peer {
	int fd; /* borrowed; -EBADF: none */
	pid_t pid;
	uid_t uid;
	gid_t gid;
	uint64_t start; /* 0: not known yet */
	uint64_t since; /* in the clock of start: it is not younger than this; 0: not known */
};

/* REPLY holds at least WIRE_DATAGRAM_MAX bytes. Size of the reply, 0: none, -EBADMSG: nonsense, the
 * connection ends. */
ssize_t request_handle(struct broker *b, struct peer *peer, const void *datagram, size_t size,
		       void *reply);

/* After the reply was sent, and before any other request: takes the process that asked into memory.
 */
void request_settle(struct broker *b, const struct peer *peer);

/* An ERROR message for REPLY; returns its size. CODE positive. */
ssize_t request_error(void *reply, uint32_t id, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
