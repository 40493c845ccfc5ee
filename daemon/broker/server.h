/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Connections and the loop. Nothing here blocks: what cannot be sent at once is dropped with its
 * connection. An answer goes out before the book-keeping that it causes. Connections and pidfds
 * stand in the broker's hub, one epoll set, in which sd-event's own set is one descriptor. One
 * timer serves idle connections and everything that the broker has to do later, and is off when
 * there is nothing.
 */

#include "daemon/broker/account.h"
#include "daemon/broker/listener.h"

/* A connection on which nothing is said for so long ends. */
#define SERVER_IDLE_USEC (5 * UINT64_C(1000000))

struct server;

/* PATH: the runtime directory; USER: make what is missing in it, and the socket. Logs. 0 or
 * negative errno. */
int server_new(const char *path, bool user, const struct account_limits *limits,
	       struct server **ret);
/* Until SIGTERM or SIGINT. Tells systemd. Logs. 0 or negative errno. */
int server_run(struct server *s);
struct server *server_free(struct server *s);

static inline void server_freep(struct server **s)
{
	(void)server_free(*s);
}
