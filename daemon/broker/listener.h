/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The broker's socket: handed over by systemd, or made here. Made here it appears under its name in
 * one step, listening and with mode 0666, also in place of one that a killed broker left behind.
 */

#include "common/runtime.h"

#define LISTENER_BACKLOG 4096

struct listener {
	int fd;
	bool own;    /* made here */
	ino_t inode; /* of an own one: is the name still ours? */
};

/* Takes the descriptor that systemd passed, named "broker" or the only one. 0, -ENOENT (none was
 * passed), -ENOTSOCK (not a listening SOCK_SEQPACKET one). */
int listener_from_systemd(struct listener *ret);
/* Makes RT's "socket". */
int listener_bind(const struct runtime *rt, struct listener *ret);
/* Does the name "socket" lead to another one now? */
bool listener_replaced(const struct listener *l, const struct runtime *rt);
