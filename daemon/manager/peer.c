/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <pwd.h>
#include <sys/socket.h>

#include "common/util.h"
#include "daemon/manager/peer.h"
#include "daemon/userns.h"

#define GROUPS_MAX 65536

static int read_groups(int fd, gid_t admin_gid, bool *ret)
{
	socklen_t size = 64 * sizeof(gid_t);
	_cleanup_(freep) gid_t *groups = malloc(size);

	if (!groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0) {
		if (errno != ERANGE || size > GROUPS_MAX * sizeof(gid_t))
			return -errno;
		free(groups);
		groups = malloc(size);
		if (!groups)
			return -ENOMEM;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
			return -errno;
	}
	*ret = false;
	for (size_t i = 0; i < size / sizeof(gid_t); i++)
		*ret = *ret || groups[i] == admin_gid;
	return 0;
}

int peer_read(int fd, gid_t admin_gid, struct peer *ret)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);
	struct peer p;
	int r = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	p = (struct peer){.pid = cred.pid, .uid = cred.uid};
	if (admin_gid != PEER_NO_GID && cred.gid == admin_gid)
		p.admin = true;
	else if (admin_gid != PEER_NO_GID)
		r = read_groups(fd, admin_gid, &p.admin);
	if (r < 0)
		return r;
	*ret = p;
	return 0;
}

bool peer_may_change(const struct peer *p, bool user, int proc_fd)
{
	if (p->admin || (user && p->uid == geteuid() && p->uid != 0))
		return true;
	return p->uid == 0 && userns_is_ours(p->pid, proc_fd);
}

char *peer_user_name(uid_t uid, const char *passwd)
{
	FILE *f;
	struct passwd *pw;
	char *name = NULL;

	if (uid == 0)
		return strdup("root");
	f = fopen(passwd, "re");
	if (!f)
		return NULL;
	while (!name && (pw = fgetpwent(f)))
		if (pw->pw_uid == uid)
			name = strdup(pw->pw_name);
	(void)fclose(f);
	return name;
}
