/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who is at the other end of a control connection, by what the kernel kept when it connected, and
 * whether it may change anything.
 */

#include <stdbool.h>
#include <sys/types.h>

#define PEER_NO_GID ((gid_t)-1)

struct peer {
	pid_t pid; /* 0: in a pid namespace that we do not see into */
	uid_t uid;
	bool admin; /* of the group that may change */
};

/* ADMIN_GID: PEER_NO_GID where there is no such group. 0 or negative errno. */
int peer_read(int fd, gid_t admin_gid, struct peer *ret);

/* root of our own user namespace; in USER mode also our own uid; else the admin group. PROC_FD: a
 * directory as /proc. */
bool peer_may_change(const struct peer *p, bool user, int proc_fd);

/* The name of UID in the file PASSWD, malloc()ed; NULL: not there. Not by NSS, which may ask the
 * network and block. */
char *peer_user_name(uid_t uid, const char *passwd);
