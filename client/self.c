/* SPDX-License-Identifier: MIT */
/* Facts about the calling process, from /proc/self and /sys/fs/cgroup; see client/self.h. */

#include "client/self.h"

#include <grp.h>

#include "common/util.h"

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

int self_init(const struct runtime *rt, struct self *ret)
{
	const char *token = getenv("CUDAENV_SNAPSHOT");
	struct job_subject subject = {.uid = rt->self, .token = digest_valid(token) ? token : NULL};
	ssize_t n;

	ret->proc_fd = open_directory("/proc");
	if (ret->proc_fd < 0 && ret->proc_fd != -EBADF)
		return ret->proc_fd;
	ret->cgroup_fd = open_directory("/sys/fs/cgroup");
	if (ret->cgroup_fd < 0 && ret->cgroup_fd != -EBADF)
		return ret->cgroup_fd;
	ret->exe[0] = '\0';
	ret->subject = subject;
	if (ret->proc_fd < 0 || job_subject_self(rt, ret->proc_fd, ret->cgroup_fd, subject.token,
						 &ret->subject, &ret->same_pidns) < 0) {
		ret->proc_fd = safe_close(ret->proc_fd);
		return 0;
	}
	n = readlinkat(ret->proc_fd, "self/exe", ret->exe, sizeof ret->exe);
	ret->exe[n > 0 && (size_t)n < sizeof ret->exe ? n : 0] = '\0';
	return 0;
}

void self_done(struct self *self)
{
	self->proc_fd = safe_close(self->proc_fd);
	self->cgroup_fd = safe_close(self->cgroup_fd);
}

void self_question(const struct self *self, struct wire_fetch *ret)
{
	const struct job_subject *subject = &self->subject;

	*ret = (struct wire_fetch){
		.flags = (subject->token ? FETCH_TOKEN : 0) |
			 (subject->token_required ? FETCH_REQUIRED : 0),
		.nspid = (uint32_t)getpid(),
		.pidns = subject->pidns,
		.cgroup_claim = subject->cgroup_claim,
		.exe = {self->exe, strlen(self->exe)},
	};
	if (subject->token)
		memcpy(ret->token, subject->token, DIGEST_SIZE);
}

/* Effective and supplementary groups. */
static int read_groups(gid_t *gids, int n_supplementary, size_t *ret)
{
	int n = getgroups(n_supplementary, gids + 1);

	if (n < 0)
		return -errno;
	gids[0] = getegid();
	*ret = (size_t)n + 1;
	return 0;
}

int self_decide(const struct self *self, const struct runtime *rt, const struct assign *assign,
		struct decision *ret)
{
	_cleanup_(freep) gid_t *gids = NULL;
	struct job_source source = {
		.proc_fd = self->proc_fd,
		.cgroup_fd = self->cgroup_fd,
		.rt = rt,
		.assign = assign,
		.same_pidns = self->same_pidns,
	};
	struct assign_subject match = {.uid = self->subject.uid,
				       .exe = *self->exe ? self->exe : NULL};
	int n, r;

	if (self->proc_fd < 0)
		return -ESRCH;
	n = getgroups(0, NULL);
	gids = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *gids);
	if (!gids)
		return -ENOMEM;
	r = read_groups(gids, n, &match.n_gids);
	if (r < 0)
		return r;
	match.gids = gids;
	r = decide(&source, &self->subject, &match, ret);
	if (r < 0)
		return r;
	/* Whether that can be is not this process's concern: its children find their way by token.
	 */
	if (*ret->key && self->subject.pidns != 0)
		(void)decide_register(rt, self->subject.pidns, ret);
	return 0;
}
