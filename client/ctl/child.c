/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util.h"

static int64_t now_msec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void child_answer_done(struct child_answer *a)
{
	free(a->out);
	*a = (struct child_answer){0};
}

/* Reads until the end, the deadline or MAX. */
static int collect(int fd, int64_t end, size_t max, struct child_answer *ret)
{
	ret->out = malloc(max + 1);
	if (!ret->out)
		return -ENOMEM;
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - now_msec();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)left);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		n = read(fd, ret->out + ret->size, max - ret->size);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return ret->size < max ? 0 : -EFBIG;
		if (n > 0)
			ret->size += (size_t)n;
	}
}

/* In the child: no input, output to FD, no other descriptors of ours. */
static void settle(int fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null >= 0)
		(void)dup2(null, STDIN_FILENO);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
}

/* Its end, in what is left of the time: who closed its output may live on. */
static int await(pid_t pid, int64_t end, int *ret_status)
{
	for (;;) {
		pid_t r = waitpid(pid, ret_status, WNOHANG);

		if (r == pid)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (now_msec() >= end)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, 2);
	}
}

static int run(char *const argv[], int (*function)(void *), void *userdata, unsigned msec,
	       size_t max, struct child_answer *ret)
{
	_cleanup_(child_answer_done) struct child_answer answer = {0};
	_cleanup_(closep) int here = -EBADF, there = -EBADF;
	int64_t end = now_msec() + msec;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	here = fds[0];
	there = fds[1];
	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		settle(there);
		if (argv)
			(void)execv(argv[0], argv);
		_exit(argv ? 127 : function(userdata));
	}
	there = safe_close(there);
	r = collect(here, end, max, &answer);
	if (r == 0)
		r = await(pid, end, &answer.status);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		/* One that hangs in the kernel is not waited for. */
		(void)await(pid, now_msec() + 200, &answer.status);
		return r;
	}
	answer.out[answer.size] = '\0';
	*ret = answer;
	answer = (struct child_answer){0};
	return 0;
}

int child_ask(char *const argv[], unsigned msec, size_t max, struct child_answer *ret)
{
	return run(argv, NULL, NULL, msec, max, ret);
}

int child_call(int (*function)(void *), void *userdata, unsigned msec, size_t max,
	       struct child_answer *ret)
{
	return run(NULL, function, userdata, msec, max, ret);
}
