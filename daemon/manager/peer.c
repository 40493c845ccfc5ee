/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/util.h"
#include "daemon/manager/peer.h"

#define GROUPS_MAX  65536
#define ID_MAP_SIZE (64 * 1024) /* 340 lines are the kernel's limit */

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

static int read_map(int proc_fd, const char *process, const char *map, char *buf, size_t size)
{
	_cleanup_(closep) int fd = -EBADF;
	char path[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", process, map);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

/* Is PID in our own user namespace? A namespace below, made by root or by nobody special, has
 * another map. Where /proc hides the process (hidepid) its uid, which is real in our namespace, has
 * to be enough. */
static bool same_user_namespace(pid_t pid, int proc_fd)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	_cleanup_(freep) char *theirs = malloc(ID_MAP_SIZE), *ours = malloc(ID_MAP_SIZE);
	char process[24];
	int r;

	if (!theirs || !ours || pid <= 0)
		return false;
	(void)snprintf(process, sizeof(process), "%d", (int)pid);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		if (read_map(proc_fd, "self", maps[i], ours, ID_MAP_SIZE) < 0)
			return false;
		r = read_map(proc_fd, process, maps[i], theirs, ID_MAP_SIZE);
		if (r == -ENOENT)
			return kill(pid, 0) == 0;
		if (r < 0 || !streq(ours, theirs))
			return false;
	}
	return true;
}

bool peer_may_change(const struct peer *p, bool user, int proc_fd)
{
	if (p->admin || (user && p->uid == geteuid() && p->uid != 0))
		return true;
	return p->uid == 0 && same_user_namespace(p->pid, proc_fd);
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
