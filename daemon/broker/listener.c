/* SPDX-License-Identifier: MIT */
#include "daemon/broker/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

#include "common/util.h"

static void strv_freep(char ***names)
{
	for (char **n = *names; n && *n; n++)
		free(*n);
	free(*names);
}

int listener_from_systemd(struct listener *ret)
{
	_cleanup_(strv_freep) char **names = NULL;
	int n, fd = -EBADF, flags;

	n = sd_listen_fds_with_names(1, &names);
	if (n <= 0)
		return n < 0 ? n : -ENOENT;
	for (int i = 0; i < n; i++)
		if (n == 1 || streq(names[i], "broker"))
			fd = SD_LISTEN_FDS_START + i;
	if (fd < 0)
		return -ENOENT;
	if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) <= 0)
		return -ENOTSOCK;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	*ret = (struct listener){.fd = fd};
	return 0;
}

/* bind(2) makes the file with what the umask leaves of 0777. The address is by descriptor, for
 * paths of any length. */
static int bind_name(int fd, int dir_fd, const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	mode_t saved;
	int r;

	(void)snprintf(sa.sun_path, sizeof sa.sun_path, "/proc/self/fd/%d/%s", dir_fd, name);
	saved = umask(0111);
	r = bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ? -errno : 0;
	(void)umask(saved);
	return r;
}

int listener_bind(const struct runtime *rt, struct listener *ret)
{
	_cleanup_(closep) int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char name[32];
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	(void)snprintf(name, sizeof name, ".socket-%d", (int)getpid());
	(void)unlinkat(rt->dir_fd, name, 0);
	r = bind_name(fd, rt->dir_fd, name);
	if (r < 0)
		return r;
	if (listen(fd, LISTENER_BACKLOG) < 0 ||
	    fstatat(rt->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    renameat(rt->dir_fd, name, rt->dir_fd, "socket") < 0) {
		r = -errno;
		(void)unlinkat(rt->dir_fd, name, 0);
		return r;
	}
	*ret = (struct listener){.fd = TAKE_FD(fd), .own = true, .inode = st.st_ino};
	return 0;
}

bool listener_replaced(const struct listener *l, const struct runtime *rt)
{
	struct stat st;

	return l->own && fstatat(rt->dir_fd, "socket", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino != l->inode;
}
