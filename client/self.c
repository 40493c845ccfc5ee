/* SPDX-License-Identifier: MIT */
/* Facts about the calling process, from /proc/self and /sys/fs/cgroup, by a few stats; see
 * client/self.h. */

#include "client/self.h"

#include <grp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "common/procfs.h"
#include "common/util.h"

#define HOST_CGROUP_NAMESPACE 0xEFFFFFFBu /* the kernel's PROC_CGROUP_INIT_INO */

static uint64_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* The hierarchy that names units and containers, as common/procfs picks it. */
static uint64_t cgroup_root_inode(void)
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified",
					    "/sys/fs/cgroup/systemd"};
	struct statfs fs;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		if (statfs(roots[i], &fs) == 0 &&
		    (fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC))
			return inode_of(roots[i]);
	return 0;
}

void self_init(struct self *ret)
{
	const char *token = getenv("CUDAENV_SNAPSHOT");
	uint64_t cgroup_namespace = inode_of("/proc/self/ns/cgroup");
	ssize_t n = readlink("/proc/self/exe", ret->exe, sizeof ret->exe);

	ret->exe[n > 0 && (size_t)n < sizeof ret->exe ? n : 0] = '\0';
	ret->uid = geteuid();
	ret->token = digest_valid(token) ? token : NULL;
	ret->pidns = inode_of("/proc/self/ns/pid");
	ret->cgroup_claim = cgroup_namespace == 0 || cgroup_namespace == HOST_CGROUP_NAMESPACE
				    ? 0
				    : cgroup_root_inode();
}

void self_question(const struct self *self, struct wire_fetch *ret)
{
	*ret = (struct wire_fetch){
		.flags = self->token ? FETCH_TOKEN : 0,
		.nspid = (uint32_t)getpid(),
		.pidns = self->pidns,
		.cgroup_claim = self->cgroup_claim,
		.exe = {self->exe, strlen(self->exe)},
	};
	if (self->token)
		memcpy(ret->token, self->token, DIGEST_SIZE);
}

/* Effective and supplementary groups, malloc()ed. */
static int read_groups(gid_t **ret, size_t *ret_n)
{
	_cleanup_(freep) gid_t *gids = NULL;
	int n = getgroups(0, NULL);

	if (n < 0)
		return -errno;
	gids = calloc((size_t)n + 1, sizeof *gids);
	if (!gids)
		return -ENOMEM;
	n = getgroups(n, gids + 1);
	if (n < 0)
		return -errno;
	gids[0] = getegid();
	*ret_n = (size_t)n + 1;
	*ret = TAKE_PTR(gids);
	return 0;
}

/* A descriptor of at least 3, -EBADF where PATH is not to be seen. Other errors are passed on: with
 * a directory left out for want of descriptors, the decision would be another one. */
static int open_directory(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), high;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -EBADF;
	if (fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (high < 0)
		high = errno == EINVAL ? -EMFILE : -errno;
	(void)safe_close(fd);
	return high;
}

/* Our number in the namespace of that /proc, and whether that is our own namespace. */
static int find_pid(int proc_fd, pid_t *ret_pid, bool *ret_same)
{
	char text[16];
	ssize_t n = readlinkat(proc_fd, "self", text, sizeof text - 1);
	unsigned depth;
	pid_t nspid;
	int r;

	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	text[n] = '\0';
	*ret_pid = (pid_t)strtol(text, NULL, 10);
	if (*ret_pid <= 0)
		return -ESRCH;
	r = procfs_nspid(proc_fd, *ret_pid, &nspid, &depth);
	if (r < 0)
		return r;
	*ret_same = depth == 1;
	return 0;
}

int self_decide(const struct self *self, const struct runtime *rt, const struct assign *assign,
		struct decision *ret)
{
	_cleanup_(closep) int proc_fd = open_directory("/proc");
	_cleanup_(closep) int cgroup_fd = open_directory("/sys/fs/cgroup");
	_cleanup_(freep) gid_t *gids = NULL;
	struct job_source source = {
		.proc_fd = proc_fd, .cgroup_fd = cgroup_fd, .rt = rt, .assign = assign};
	struct job_subject subject = {.uid = self->uid,
				      .pidns = self->pidns,
				      .cgroup_claim = self->cgroup_claim,
				      .token = self->token};
	struct assign_subject match = {.uid = self->uid, .exe = *self->exe ? self->exe : NULL};
	int r;

	if (proc_fd < 0)
		return proc_fd == -EBADF ? -ENOENT : proc_fd;
	if (cgroup_fd < 0 && cgroup_fd != -EBADF)
		return cgroup_fd;
	r = find_pid(proc_fd, &subject.pid, &source.same_pidns);
	if (r < 0)
		return r;
	r = read_groups(&gids, &match.n_gids);
	if (r < 0)
		return r;
	match.gids = gids;
	r = decide(&source, &subject, &match, ret);
	if (r < 0)
		return r;
	if (*ret->key && self->pidns != 0)
		(void)decide_register(rt, self->pidns, ret);
	return 0;
}
