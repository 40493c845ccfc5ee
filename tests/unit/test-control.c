/* SPDX-License-Identifier: MIT */
/*
 * The deadline of a call against managers that do not behave: nobody there, a listener that never
 * accepts, one whose backlog is full, one that accepts and says nothing, one that talks nonsense,
 * one that hangs up.
 */
#include "config.h"

#include "client/ctl/control.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "client/ctl/off.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define SHORT_USEC ((uint64_t)150 * 1000)
/* Ends only a broken test; that the call ends at all is what is tested. */
#define PLENTY_USEC ((uint64_t)60 * 1000 * 1000)

static char directory[] = "/tmp/cudaenv-control-XXXXXX";
static char path[128];

static int listener(int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)unlink(path);
	strcpy(address.sun_path, path);
	check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
	check(listen(fd, backlog) == 0);
	return fd;
}

static int call(uint64_t usec)
{
	static const char *const arguments[] = {"pcie8", "why", NULL};
	struct control_result result;
	int r = control_call(path, "Use", arguments, usec, &result);

	control_result_done(&result);
	return r;
}

TEST(make_directory)
{
	check(mkdtemp(directory));
	(void)snprintf(path, sizeof path, "%s/control", directory);
}

TEST(nobody_listens)
{
	int fd;

	check(call(PLENTY_USEC) == -ENOENT);
	fd = listener(5);
	(void)close(fd);
	check(call(PLENTY_USEC) == -ECONNREFUSED);
}

TEST(a_path_too_long_for_an_address)
{
	char longer[512];
	struct control_result result;

	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	check(control_call(longer, "List", NULL, PLENTY_USEC, &result) == -ENAMETOOLONG);
}

TEST(frozen_before_accept)
{
	struct control_result result;
	int fd = listener(5);

	check(call(SHORT_USEC) == -ETIMEDOUT);
	check(control_ping(path, SHORT_USEC, &result) == -ETIMEDOUT);
	check(result.peer == getpid());
	control_result_done(&result);
	(void)close(fd);
}

TEST(full_backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = listener(0), more[8];

	strcpy(address.sun_path, path);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		more[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(more[i], (struct sockaddr *)&address, sizeof address);
	}
	check(call(SHORT_USEC) == -ETIMEDOUT);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		(void)close(more[i]);
	(void)close(fd);
}

struct server {
	int fd;
	const char *say; /* NULL: nothing */
	bool hang_up;
	int peer;
};

static void *serve(void *userdata)
{
	struct server *s = userdata;
	char buf[4096];

	s->peer = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
	if (s->peer < 0)
		return NULL;
	if (s->say) {
		(void)!read(s->peer, buf, sizeof buf);
		(void)!write(s->peer, s->say, strlen(s->say));
	}
	if (s->hang_up)
		s->peer = safe_close(s->peer);
	return NULL;
}

static int call_served(const char *say, bool hang_up, uint64_t usec)
{
	struct server s = {.fd = listener(5), .say = say, .hang_up = hang_up};
	pthread_t thread;
	int r;

	check(pthread_create(&thread, NULL, serve, &s) == 0);
	r = call(usec);
	check(pthread_join(thread, NULL) == 0);
	(void)safe_close(s.peer);
	(void)close(s.fd);
	return r;
}

TEST(accepts_and_says_nothing)
{
	check(call_served(NULL, false, SHORT_USEC) == -ETIMEDOUT);
}

TEST(authenticates_and_says_nothing)
{
	check(call_served("OK 0123456789abcdef0123456789abcdef\r\n", false, SHORT_USEC) ==
	      -ETIMEDOUT);
}

TEST(nonsense_and_hanging_up_end_the_call)
{
	check(call_served("HTTP/1.0 400 no\r\n\r\n", false, SHORT_USEC) < 0);
	check(call_served("HTTP/1.0 400 no\r\n\r\n", true, PLENTY_USEC) < 0);
	check(call_served(NULL, true, PLENTY_USEC) < 0);
	check(call_served("OK 0123456789abcdef0123456789abcdef\r\n", true, PLENTY_USEC) < 0);
}

TEST(rewriting_for_off)
{
	_cleanup_(freep) char *assign = off_rewrite(
		"cudaenv-assign 1\ngeneration 12\nmode on\ndefault none\nrule mode none\nend\n",
		13);
	_cleanup_(freep) char *active = off_rewrite("generation 12\nmode observe\nend\n", 0);

	check_streq(
		assign,
		"cudaenv-assign 1\ngeneration 13\nmode off\ndefault none\nrule mode none\nend\n");
	check_streq(active, "generation 12\nmode off\nend\n");
	check(!off_rewrite("no such lines\n", 1));
	check(!off_rewrite("mode on\n", 1));
	check(!off_rewrite("", 0));
}

TEST(remove_directory)
{
	(void)unlink(path);
	check(rmdir(directory) == 0);
}

TEST_MAIN
