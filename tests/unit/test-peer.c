/* SPDX-License-Identifier: MIT */
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/manager/peer.h"
#include "tests/unit/temp.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int proc_fd(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	check(fd >= 0);
	return fd;
}

/* A child that becomes who PREPARE makes it connects; the child is ended by closing *RET_HOLD. */
static int connect_as(void (*prepare)(void), int *ret_hold)
{
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), hold[2], fd;
	pid_t pid;

	check(listener >= 0 && pipe(hold) == 0);
	(void)unlink(address.sun_path);
	check(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(chmod(address.sun_path, 0666) == 0 && listen(listener, 1) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		char c;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(hold[1]);
		prepare();
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			_exit(1);
		(void)!read(hold[0], &c, 1);
		_exit(0);
	}
	close(hold[0]);
	fd = accept(listener, NULL, NULL);
	check(fd >= 0);
	close(listener);
	*ret_hold = hold[1];
	return fd;
}

static struct peer peer_as(void (*prepare)(void), int *ret_hold)
{
	int fd = connect_as(prepare, ret_hold);
	struct peer p;

	check(peer_read(fd, 54321, &p) == 0);
	close(fd);
	return p;
}

static void as_we_are(void)
{
}

static void in_a_user_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWUSER) < 0)
		_exit(77);
	fd = open("/proc/self/setgroups", O_WRONLY);
	(void)!write(fd, "deny", 4);
	close(fd);
	fd = open("/proc/self/uid_map", O_WRONLY);
	if (write(fd, "0 0 1", 5) != 5)
		_exit(77);
	close(fd);
	fd = open("/proc/self/gid_map", O_WRONLY);
	(void)!write(fd, "0 0 1", 5);
	close(fd);
}

static void as_user(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(1234, 1234, 1234) < 0 ||
	    setresuid(1234, 1234, 1234) < 0)
		_exit(1);
}

static void as_admin_by_group(void)
{
	gid_t groups[200];

	for (gid_t i = 0; i < 200; i++)
		groups[i] = 60000 + i;
	groups[150] = 54321;
	if (setgroups(200, groups) < 0 || setresgid(1234, 1234, 1234) < 0 ||
	    setresuid(1234, 1234, 1234) < 0)
		_exit(1);
}

static void as_admin_by_main_group(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(54321, 54321, 54321) < 0 ||
	    setresuid(1234, 1234, 1234) < 0)
		_exit(1);
}

static bool may_change(void (*prepare)(void), bool user)
{
	int hold, proc = proc_fd("/proc");
	struct peer p = peer_as(prepare, &hold);
	bool may = peer_may_change(&p, user, proc);

	close(hold);
	close(proc);
	while (wait(NULL) > 0)
		;
	return may;
}

TEST(oneself)
{
	int hold;
	struct peer p;

	temp_begin();
	strcpy(address.sun_path, temp_path("socket"));
	p = peer_as(as_we_are, &hold);
	check(p.uid == geteuid() && p.pid > 0 && !p.admin);
	close(hold);
	check(may_change(as_we_are, true));
	check(may_change(as_we_are, false) == (geteuid() == 0));
}

TEST(others)
{
	if (geteuid() != 0)
		skip("needs root");
	check(!may_change(as_user, false));
	check(!may_change(as_user, true));
	check(may_change(as_admin_by_group, false));
	check(may_change(as_admin_by_main_group, false));
}

/* uid 0 of a namespace below is not root: its map tells. */
TEST(root_of_another_user_namespace)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0);
	if (pid == 0) {
		in_a_user_namespace();
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid);
	if (geteuid() != 0 || WEXITSTATUS(status) == 77)
		skip("needs root and user namespaces");
	check(!may_change(in_a_user_namespace, false));
	check(!may_change(in_a_user_namespace, true));
}

/* By a /proc of our own making: another map, none, and a process that is hidden. */
TEST(maps)
{
	struct peer p = {.pid = getpid(), .uid = 0};
	int proc;

	check(mkdir(temp_path("proc"), 0755) == 0 && mkdir(temp_path("proc/self"), 0755) == 0);
	temp_put(temp_path("proc/self/uid_map"), "0 0 4294967295\n");
	temp_put(temp_path("proc/self/gid_map"), "0 0 4294967295\n");
	proc = proc_fd(temp_path("proc"));
	check(peer_may_change(&p, false, proc)); /* hidden, but there */
	check(mkdir(temp_path("proc/%d", (int)getpid()), 0755) == 0);
	temp_put(temp_path("proc/%d/uid_map", (int)getpid()), "0 0 4294967295\n");
	temp_put(temp_path("proc/%d/gid_map", (int)getpid()), "0 0 4294967295\n");
	check(peer_may_change(&p, false, proc));
	temp_put(temp_path("proc/%d/gid_map", (int)getpid()), "0 0 1\n");
	check(!peer_may_change(&p, false, proc));
	temp_put(temp_path("proc/%d/uid_map", (int)getpid()), "0 100000 65536\n");
	check(!peer_may_change(&p, false, proc));
	p.pid = 0; /* in a pid namespace that we do not see into */
	check(!peer_may_change(&p, false, proc));
	p.uid = 1234;
	check(!peer_may_change(&p, false, proc));
	p.admin = true;
	check(peer_may_change(&p, false, proc));
	close(proc);
}

TEST(names)
{
	char *name = peer_user_name(0, temp_path("absent"));

	check_streq(name, "root");
	free(name);
	temp_put(temp_path("passwd"), "a:x:5:5::/:/bin/sh\nbroken line\nb:x:7:7::/:/bin/sh\n");
	name = peer_user_name(7, temp_path("passwd"));
	check_streq(name, "b");
	free(name);
	check(!peer_user_name(6, temp_path("passwd")));
	check(!peer_user_name(7, temp_path("absent")));
}

TEST_MAIN
