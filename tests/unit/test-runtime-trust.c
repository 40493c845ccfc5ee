/* SPDX-License-Identifier: MIT */
/*
 * Whom a process believes, with real uids: run as root, in children that give their uid up, in a
 * chroot and in user namespaces.
 */
#include <sched.h>
#include <sys/prctl.h>

#include "tests/unit/runtime-tree.h"

TEST(owners)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	/* root's: everybody's */
	check(judged(tree, 0) == 0 && judged(tree, STRANGER) == 0 && judged(tree, NOBODY) == 0);

	/* a user's own: that user's alone, and never root's; the same for nobody, whose uid is also
	 * the overflow uid */
	make_tree(at("own"), STRANGER);
	check(judged(at("own"), STRANGER) == 0);
	check(judged(at("own"), 0) == -EPERM);
	check(judged(at("own"), NOBODY) == -EPERM);
	make_tree(at("nobody"), NOBODY);
	check(judged(at("nobody"), NOBODY) == 0);
	check(judged(at("nobody"), 0) == -EPERM);
	check(judged(at("nobody"), STRANGER) == -EPERM);

	/* root's tree in a user's directory could be swapped by that user */
	make_dir(at("home"), 0755, STRANGER);
	make_tree(at("home/rt"), 0);
	check(judged(at("home/rt"), 0) == -EPERM);
	check(judged(at("home/rt"), NOBODY) == -EPERM);
	check(judged(at("home/rt"), STRANGER) == 0);

	/* the parts */
	check(chown(at("rt/snapshots"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == -EPERM && judged(tree, STRANGER) == -EPERM);
	check(chown(at("rt/snapshots"), 0, (gid_t)-1) == 0);
	check(chown(at("rt/procs"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == -EPERM);
	check(chown(at("rt/jobs"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == 0);
	check(chown(at("rt/procs"), 0, (gid_t)-1) == 0);
	check(judged(tree, 0) == 0);
	tear_down();
}

/* What umask 002 leaves behind in a user's own folders. */
TEST(private_group)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	make_dir(at("home"), 0755, STRANGER);
	make_tree(at("home/rt"), STRANGER);
	check(chown(at("home"), STRANGER, STRANGER) == 0 && chmod(at("home"), 0775) == 0);
	check(judged(at("home/rt"), STRANGER) == 0);
	check(judged(at("home/rt"), NOBODY) == -EPERM);
	check(chmod(at("home"), 0777) == 0);
	check(judged(at("home/rt"), STRANGER) == -EPERM);
	check(chown(at("home"), STRANGER, 100) == 0 && chmod(at("home"), 0775) == 0);
	check(judged(at("home/rt"), STRANGER) == -EPERM);
	/* root's own directory, and the runtime directory itself */
	check(chown(at("home"), 0, STRANGER) == 0);
	check(judged(at("home/rt"), STRANGER) == -EPERM);
	check(chmod(at("home"), 0755) == 0);
	check(judged(at("home/rt"), STRANGER) == 0);
	check(chown(at("home/rt"), STRANGER, STRANGER) == 0 && chmod(at("home/rt"), 0775) == 0);
	check(judged(at("home/rt"), STRANGER) == -EPERM);
	/* root has no private group */
	check(chmod(base, 0775) == 0);
	check(judged(tree, 0) == -EPERM);
	tear_down();
}

TEST(symlinks_of_others)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(chmod(base, 01777) == 0);
	check(symlink("rt", at("roots")) == 0);
	check(symlink("rt", at("strangers")) == 0);
	check(lchown(at("strangers"), STRANGER, (gid_t)-1) == 0);
	check(judged(at("roots"), 0) == 0 && judged(at("roots"), STRANGER) == 0);
	check(judged(at("strangers"), STRANGER) == 0);
	check(judged(at("strangers"), 0) == -EPERM);
	check(judged(at("strangers"), NOBODY) == -EPERM);
	/* in the middle */
	check(symlink(base, at("middle")) == 0);
	check(lchown(at("middle"), STRANGER, (gid_t)-1) == 0);
	check(judged(at("middle/rt"), 0) == -EPERM);
	check(judged(at("middle/rt"), STRANGER) == 0);
	tear_down();
}

TEST(readlink_owners)
{
	const uid_t broker = 998, other = 23456;
	struct runtime rt = RUNTIME_NULL;
	char text[8];

	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(chown(at("rt/jobs"), broker, (gid_t)-1) == 0);
	check(runtime_open(tree, STRANGER, &rt) == 0);
	check(rt.publisher == 0 && rt.broker == broker);
	make_link(at("rt/jobs/root"), "r", 0);
	make_link(at("rt/jobs/broker"), "b", broker);
	make_link(at("rt/jobs/own"), "o", STRANGER);
	make_link(at("rt/jobs/other"), "x", other);
	make_link(at("rt/jobs/nobody"), "n", NOBODY);
	check(runtime_readlink(&rt, rt.jobs_fd, "root", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "broker", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "own", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "other", STRANGER, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "nobody", STRANGER, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "own", 0, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "broker", 0, text, sizeof text) == 0);
	runtime_done(&rt);

	/* root's also in a user's own tree */
	make_tree(at("own"), STRANGER);
	make_link(at("own/jobs/root"), "r", 0);
	make_link(at("own/jobs/other"), "x", other);
	check(runtime_open(at("own"), STRANGER, &rt) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "root", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "other", STRANGER, text, sizeof text) == -EPERM);
	runtime_done(&rt);
	tear_down();
}

/* No /proc there. */
static void in_chroot(void)
{
	check(chroot(base) == 0 && chdir("/") == 0);
	check(judged("/rt", 0) == 0);
	check(judged("/../rt", 0) == 0);
	check(judged("/shared/rt", STRANGER) == 0);
	check(judged("/shared/rt", 0) == -EPERM);
	check(judged("/shared/rt", NOBODY) == -EPERM);
}

TEST(chroot_without_proc)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	make_dir(at("shared"), 01777, 0);
	make_tree(at("shared/rt"), STRANGER);
	in_child(0, in_chroot);
	tear_down();
}

/* --- user namespaces */

/* Writes MAP for process PID once the pipe FD is closed at its other end. */
static void write_map(pid_t pid, const char *map, int fd)
{
	char path[64], c;

	if (read(fd, &c, 1) != 0)
		_exit(1);
	snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	_exit(fd < 0 || write(fd, map, strlen(map)) != (ssize_t)strlen(map));
}

/* The map is written from outside, where root may write any. */
static void enter_user_namespace(const char *map)
{
	int fds[2], status;
	pid_t self = getpid(), pid;

	check(prctl(PR_SET_DUMPABLE, 1) == 0);
	check(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		close(fds[1]);
		write_map(self, map, fds[0]);
	}
	check(unshare(CLONE_NEWUSER) == 0);
	close(fds[0]);
	close(fds[1]);
	check(waitpid(pid, &status, 0) == pid);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int can_unshare(void)
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0);
	check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Root is not mapped: its files are nobody's, and believed where nobody else can have put them. */
static void root_unmapped_self_mapped(void)
{
	struct runtime rt = RUNTIME_NULL;
	char text[16];

	enter_user_namespace("12345 12345 1");
	check(geteuid() == STRANGER);
	check(runtime_open(tree, STRANGER, &rt) == 0);
	check(rt.publisher == NOBODY && rt.broker == NOBODY);
	check(read_name(&rt, "file", 10) == 0);
	check(read_name(&rt, "own", 10) == -EPERM);
	check(read_name(&rt, "writable", 10) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "root", STRANGER, text, sizeof text) == 0);
	runtime_done(&rt);
	check(judged(at("link"), STRANGER) == 0);
	check(judged(at("shared/rt"), STRANGER) == -EPERM);
	check(judged(at("shared/own"), STRANGER) == 0);
	check(judged(at("group/rt"), STRANGER) == -EPERM);
}

static void self_is_root_inside(void)
{
	enter_user_namespace("0 12345 1");
	check(geteuid() == 0);
	check(judged(tree, 0) == 0);
	check(judged(at("shared/rt"), 0) == -EPERM);
	check(judged(at("shared/own"), 0) == 0);
}

static void nobody_mapped(void)
{
	check(unshare(CLONE_NEWUSER) == 0);
	check(geteuid() == NOBODY);
	check(judged(tree, NOBODY) == 0);
	check(judged(at("shared/rt"), NOBODY) == -EPERM);
	check(judged(at("shared/own"), NOBODY) == -EPERM);
	check(judged(at("strangers-group/rt"), NOBODY) == -EPERM);
}

/* Root is mapped: whoever seems to be nobody is not root. */
static void root_mapped(void)
{
	enter_user_namespace("0 0 1");
	check(judged(tree, 0) == 0);
	check(judged(at("strangers"), 0) == -EPERM);
}

/* Not even where root is not the first of the map. */
static void root_mapped_late(void)
{
	enter_user_namespace("0 1000 10\n2000 0 1\n");
	check(judged(at("strangers"), 2000) == -EPERM);
	check(judged(at("strangers"), 0) == -EPERM);
}

TEST(user_namespaces)
{
	if (geteuid() != 0)
		skip("needs root");
	if (!can_unshare())
		skip("user namespaces are not permitted");
	set_up_in("/run");
	put(at("rt/file"), "x", 1, 0444);
	put(at("rt/own"), "x", 1, 0444);
	check(chown(at("rt/own"), STRANGER, (gid_t)-1) == 0);
	put(at("rt/writable"), "x", 1, 0664);
	make_link(at("rt/jobs/root"), "none", 0);
	check(symlink("rt", at("link")) == 0);
	make_dir(at("shared"), 01777, 0);
	make_tree(at("shared/rt"), 0);
	make_tree(at("shared/own"), STRANGER);
	make_dir(at("group"), 0775, 0);
	make_tree(at("group/rt"), 0);
	make_tree(at("strangers"), STRANGER);
	make_dir(at("strangers-group"), 0755, STRANGER);
	make_tree(at("strangers-group/rt"), STRANGER);
	check(chown(at("strangers-group"), STRANGER, STRANGER) == 0);
	check(chmod(at("strangers-group"), 0775) == 0);

	in_child(STRANGER, root_unmapped_self_mapped);
	in_child(STRANGER, self_is_root_inside);
	in_child(STRANGER, nobody_mapped);
	in_child(0, root_mapped);
	in_child(0, root_mapped_late);
	tear_down();
}

TEST_MAIN
