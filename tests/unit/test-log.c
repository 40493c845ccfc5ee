/* SPDX-License-Identifier: MIT */
/* daemon/log: lines on stderr, %m, errno, hostile text, a full pipe, the rate limit. */
#include "daemon/log.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/test.h"

/* Puts a pipe under stderr; the returned descriptor reads what is written. *RET_SAVED: the real
 * one. */
static int capture(int *ret_saved)
{
	int p[2];

	*ret_saved = dup(STDERR_FILENO);
	check(*ret_saved >= 0);
	check(pipe(p) == 0);
	check(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
	check(dup2(p[1], STDERR_FILENO) == STDERR_FILENO);
	check(close(p[1]) == 0);
	return p[0];
}

static void release(int fd, int saved)
{
	check(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
	check(close(saved) == 0);
	check(close(fd) == 0);
}

static const char *line_of(int fd)
{
	static char buf[8192];
	ssize_t n = read(fd, buf, sizeof buf - 1);

	buf[n < 0 ? 0 : n] = '\0';
	return buf;
}

TEST(line)
{
	int saved, fd = capture(&saved), r, e;

	log_open("cudaenv-test", LOG_INFO);
	errno = EXDEV;
	r = log_error_errno(-ENOENT, "Failed to open %s: %m", "x");
	e = errno;
	check_streq(line_of(fd), "cudaenv-test: Failed to open x: No such file or directory\n");
	check(r == -ENOENT && e == EXDEV);
	r = log_struct(LOG_NOTICE, 0, LOG_FIELDS({"CUDAENV_PROFILE", "p"}, {"CUDAENV_X", NULL}),
		       "Now on %s", "p");
	check_streq(line_of(fd), "cudaenv-test: Now on p\n");
	check(r == 0);
	release(fd, saved);
}

TEST(levels)
{
	int saved, fd = capture(&saved), r;

	log_open("t", LOG_NOTICE);
	r = log_info_errno(EPERM, "not shown");
	check_streq(line_of(fd), "");
	check(r == -EPERM);
	log_notice("shown");
	check_streq(line_of(fd), "t: shown\n");
	release(fd, saved);
}

TEST(hostile_text)
{
	int saved, fd = capture(&saved);
	char big[3 * LOG_LINE_MAX];
	const char *line;

	log_open("t", LOG_INFO);
	log_warning("%s", "a\nfake: line\x1b[2J\r\x7f");
	check_streq(line_of(fd), "t: a?fake: line?[2J??\n");
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	log_warning("%s", big);
	line = line_of(fd);
	check(strlen(line) == LOG_LINE_MAX - 1 + strlen("t: \n"));
	check(line[strlen(line) - 1] == '\n');
	release(fd, saved);
}

/* The test ends (alarm) if a full pipe blocks. */
TEST(full_pipe)
{
	int saved, fd = capture(&saved), flags = fcntl(STDERR_FILENO, F_GETFL);
	static char fill[4096];

	check(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK) == 0);
	while (write(STDERR_FILENO, fill, sizeof fill) > 0)
		;
	check(fcntl(STDERR_FILENO, F_SETFL, flags) == 0);
	(void)alarm(20);
	log_open("t", LOG_INFO);
	log_error("lost");
	(void)alarm(0);
	release(fd, saved);
}

/* JOURNAL_STREAM that names another stream is not believed. */
TEST(journal_stream)
{
	int saved, fd = capture(&saved);

	check(setenv("JOURNAL_STREAM", "1:1", 1) == 0);
	log_open("t", LOG_INFO);
	log_error("here");
	check_streq(line_of(fd), "t: here\n");
	check(unsetenv("JOURNAL_STREAM") == 0);
	release(fd, saved);
}

TEST(limit)
{
	struct log_limit l = LOG_LIMIT(1000, 2);
	unsigned n = 99;

	check(log_limit_pass(&l, 5000, &n) && n == 0);
	check(log_limit_pass(&l, 5001, &n) && n == 0);
	n = 99;
	check(!log_limit_pass(&l, 5002, &n) && n == 99);
	check(!log_limit_pass(&l, 5999, &n));
	check(log_limit_pass(&l, 6000, &n) && n == 2);
	check(log_limit_pass(&l, 6001, &n) && n == 0);
	check(!log_limit_pass(&l, 6002, &n));
}

TEST_MAIN
