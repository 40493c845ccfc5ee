/* SPDX-License-Identifier: MIT */
#include "common/procfs.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/node.h"

#define TAIL                                                                                       \
	" S 7 8 9 34816 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 4242 3133440 18446744073709551615 "  \
	"1\n"

static void check_stat(const char *text, const char *comm)
{
	struct proc_facts f = {.pid = 1, .uid = 5};

	check(procfs_parse_stat(text, &f) == 0);
	check_streq(f.comm, comm);
	check(f.pid == 1 && f.uid == 5 && f.ppid == 7 && f.pgrp == 8 && f.session == 9);
	check(f.tty_nr == 34816 && f.start == 4242);
}

TEST(stat_of_any_comm)
{
	check_stat("5 (python3)" TAIL, "python3");
	check_stat("5 (()))" TAIL, "())");
	check_stat("5 (a b)" TAIL, "a b");
	check_stat("5 (x) S 1 1 1 0 -1)" TAIL, "x) S 1 1 1 0 -1");
	check_stat("5 (\n) R (()" TAIL, "\n) R ((");
	check_stat("5 (()))" TAIL, "())");
	check_stat("5 (kworker/u256:0-events_unbound_and_so_on_and_on)" TAIL,
		   "kworker/u256:0-events_unbound_a");
}

TEST(stat_that_is_none)
{
	static const char *const bad[] = {
		"",
		"5",
		"5 (python3",
		"5 python3)",
		")(",
		"5 (python3)",
		"5 (python3) ",
		"5 (python3) S",
		"5 (python3) S 7 8 9 34816 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0",
		"5 (python3) S 7 8 9 34816 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 ",
		"5 (python3) S -7 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 4242 1\n",
		"5 (python3) S 7  8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 4242 1\n",
		"5 (python3) S 4294967297 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 4242 1\n",
		"5 (p) S 7 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 99999999999999999999 1\n",
		"5 (python3) S 7 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 -1 1\n",
		"5 (python3) S 7 8 9 0 -1 99999999999999999999 102 0 0 0 0 0 0 0 20 0 1 0 4242 1\n",
		"5 (python3) S 7 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 4242x 1\n",
	};
	struct proc_facts f = {.ppid = 77};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(procfs_parse_stat(bad[i], &f) == -EBADMSG);
	check(f.ppid == 77);
}

TEST(stat_with_the_largest_numbers)
{
	struct proc_facts f;

	check(procfs_parse_stat("1 (x) S 0 0 0 -2147483647 -1 18446744073709551615 0 0 0 0 0 0 0 0 "
				"-2 -20 1 0 9223372036854775807 0\n",
				&f) == 0);
	check(f.start == INT64_MAX && f.tty_nr == -2147483647);
}

TEST(facts_of_files)
{
	struct proc_facts f = {.start = 77};
	struct node n;
	char big[4096];

	node_init(&n);
	node_add(&n, (struct node_process){.pid = P(1), .ppid = P(2), .session = P(3), .tty = 1});
	check(procfs_facts(n.proc_fd, P(1), &f) == 0);
	check(f.pid == P(1) && f.ppid == P(2) && f.session == P(3) && f.tty_nr == 1);
	check(f.uid == geteuid() && f.start == 1000);
	f.start = 77;
	check(procfs_facts(n.proc_fd, P(2), &f) == -ESRCH);
	check(procfs_facts(n.proc_fd, -1, &f) == -ESRCH);
	/* A process that goes between open and read leaves an empty file. */
	node_write(&n, "proc/5000001/stat", "", 0);
	check(procfs_facts(n.proc_fd, P(1), &f) == -ESRCH);
	memset(big, '1', sizeof big);
	node_write(&n, "proc/5000001/stat", big, sizeof big);
	check(procfs_facts(n.proc_fd, P(1), &f) == -EBADMSG);
	check(f.start == 77);
	node_done(&n);
}

TEST(facts_of_this_process)
{
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_facts f;
	pid_t nspid;
	unsigned depth;

	check(prctl(PR_SET_NAME, "of my own") == 0);
	check(procfs_facts(proc_fd, getpid(), &f) == 0);
	check(f.pid == getpid() && f.ppid == getppid() && f.session == getsid(0));
	check(f.pgrp == getpgrp() && f.uid == geteuid() && f.start > 0);
	check_streq(f.comm, "of my own");
	check(procfs_nspid(proc_fd, getpid(), &nspid, &depth) == 0 && nspid == getpid());
	check(procfs_facts(proc_fd, 0x7fffffff, &f) == -ESRCH);
	close(proc_fd);
}

/* Its files belong to root; the effective uid is told nevertheless. */
TEST(facts_of_one_that_is_not_dumpable)
{
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), ready[2];
	struct proc_facts f;
	char c;
	pid_t pid;

	if (geteuid() != 0)
		skip("needs root");
	check(pipe(ready) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		if (setresuid(1234, 1234, 1234) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
		    prctl(PR_SET_NAME, "a) (b\n") < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	check(read(ready[0], &c, 1) == 1);
	check(procfs_facts(proc_fd, pid, &f) == 0);
	check(f.uid == 1234 && f.ppid == getpid());
	check_streq(f.comm, "a) (b\n");
	check(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	check(procfs_facts(proc_fd, pid, &f) == -ESRCH);
	close(ready[0]);
	close(ready[1]);
	close(proc_fd);
}

TEST(ns_lines)
{
	struct proc_ns ns = {.pid = 77};

	check(procfs_parse_ns("x\nNSpid:\t10\t5\t1\nNSpgid:\t10\t5\t0\nNSsid:\t9\t0\t0\n", &ns) ==
	      0);
	check(ns.pid == 1 && ns.pgrp == 0 && ns.session == 0 && ns.depth == 3);
	ns.pid = 77;
	check(procfs_parse_ns("", &ns) == -ENODATA);
	check(procfs_parse_ns("Name:\tNSpid:\t1\n", &ns) == -ENODATA);
	check(procfs_parse_ns("\nNSpid:\t1\nNSpgid:\t1\nNSsid:\t1", &ns) == -ENODATA);
	check(procfs_parse_ns("\nNSpid:\t1\t", &ns) == -ENODATA);
	check(procfs_parse_ns("\nNSpid:\n\nNSpgid:\t1\nNSsid:\t1\n", &ns) == -EBADMSG);
	check(procfs_parse_ns("\nNSpid:\t1x\nNSpgid:\t1\nNSsid:\t1\n", &ns) == -EBADMSG);
	check(procfs_parse_ns("\nNSpid:\t99999999999\nNSpgid:\t1\nNSsid:\t1\n", &ns) == -EBADMSG);
	check(ns.pid == 77);
}

/* The Groups line stands before them and may be far longer than any buffer. */
TEST(ns_lines_far_down)
{
	static const char *const end = "\nNSpid:\t5000001\t7\nNSpgid:\t3\t2\nNSsid:\t4\t1\n";
	struct proc_ns ns;
	struct node n;
	char *text = malloc(1024 * 1024);

	check(text);
	node_init(&n);
	node_mkdir(&n, "proc/%d", P(1));
	/* Each position relative to the ends of the reader's buffer. */
	for (size_t before = 4080; before < 4110; before++) {
		memset(text, '1', before);
		memcpy(text, "Groups:\t", 8);
		(void)strcpy(text + before, end);
		node_write(&n, "proc/5000001/status", text, strlen(text));
		check(procfs_ns(n.proc_fd, P(1), &ns) == 0);
		check(ns.pid == 7 && ns.pgrp == 2 && ns.session == 1 && ns.depth == 2);
	}
	memset(text, '\t', 900000);
	(void)strcpy(text + 900000, end);
	node_write(&n, "proc/5000001/status", text, strlen(text));
	check(procfs_ns(n.proc_fd, P(1), &ns) == 0 && ns.pid == 7);
	/* Without end, and without what is looked for. */
	memset(text, '1', 900000);
	memcpy(text, "\nNSpid:\t", 8);
	node_write(&n, "proc/5000001/status", text, 900000);
	check(procfs_ns(n.proc_fd, P(1), &ns) < 0);
	memset(text, '1', 900000);
	node_write(&n, "proc/5000001/status", text, 900000);
	check(procfs_ns(n.proc_fd, P(1), &ns) == -ENODATA);
	node_write(&n, "proc/5000001/status", "", 0);
	check(procfs_ns(n.proc_fd, P(1), &ns) == -ESRCH);
	check(procfs_ns(n.proc_fd, P(2), &ns) == -ESRCH);
	node_done(&n);
	free(text);
}

static int parse_cgroups(struct proc_cgroups *c, const char *text)
{
	(void)stpncpy(c->text, text, sizeof c->text - 1);
	c->text[sizeof c->text - 1] = '\0';
	return procfs_parse_cgroups(c);
}

TEST(cgroup_lines)
{
	static struct proc_cgroups c;

	check(parse_cgroups(&c, "9:name=systemd:/a\n3:cpu,cpuacct:/\n0::/b:c d\n") == 0);
	check(c.n == 3);
	check_streq(c.lines[0].controllers, "name=systemd");
	check_streq(c.lines[0].path, "/a");
	check_streq(c.lines[1].controllers, "cpu,cpuacct");
	check_streq(c.lines[2].controllers, "");
	check_streq(c.lines[2].path, "/b:c d");
	check(parse_cgroups(&c, "") == 0 && c.n == 0);
	check(parse_cgroups(&c, "0::/a") == -EBADMSG);
	check(parse_cgroups(&c, "0:/a\n") == -EBADMSG);
	check(parse_cgroups(&c, "0::a\n") == -EBADMSG);
	check(parse_cgroups(&c, "\n") == -EBADMSG);
}

TEST(cgroup_of_hostile_length)
{
	static struct proc_cgroups c;
	static char text[3 * PROC_CGROUP_MAX];
	struct node n;

	node_init(&n);
	node_mkdir(&n, "proc/%d", P(1));
	check(procfs_cgroups(n.proc_fd, P(1), &c) == -ESRCH);
	for (size_t i = 0; i < 500; i++)
		memcpy(text + 6 * i, "1:x:/\n", 6);
	node_write(&n, "proc/5000001/cgroup", text, 6 * 500);
	check(procfs_cgroups(n.proc_fd, P(1), &c) == 0 && c.n == PROC_CGROUP_LINES);
	memset(text, 'a', sizeof text);
	memcpy(text, "0::/", 4);
	node_write(&n, "proc/5000001/cgroup", text, sizeof text);
	check(procfs_cgroups(n.proc_fd, P(1), &c) == -ENAMETOOLONG && c.n == 0);
	node_write(&n, "proc/5000001/cgroup", "0::/\nx\n", 7);
	check(procfs_cgroups(n.proc_fd, P(1), &c) == -EBADMSG && c.n == 0);
	node_done(&n);
}

TEST(uid_map)
{
	static const char two[] =
		"         0     100000      65536\n     70000       1000          1\n";
	uid_t uid = 7;

	check(procfs_parse_uid_map("         0          0 4294967295\n", 4000000000u, &uid) == 0);
	check(uid == 4000000000u);
	check(procfs_parse_uid_map(two, 0, &uid) == 0 && uid == 100000);
	check(procfs_parse_uid_map(two, 65535, &uid) == 0 && uid == 165535);
	check(procfs_parse_uid_map(two, 70000, &uid) == 0 && uid == 1000);
	uid = 7;
	check(procfs_parse_uid_map(two, 65536, &uid) == -ENOENT);
	check(procfs_parse_uid_map("", 0, &uid) == -ENOENT);
	check(procfs_parse_uid_map("0 0\n", 0, &uid) == -EBADMSG);
	check(procfs_parse_uid_map("0 0 1", 0, &uid) == -EBADMSG);
	check(procfs_parse_uid_map("0 0 99999999999\n", 0, &uid) == -EBADMSG);
	check(uid == 7);
}

TEST(numbers)
{
	static const char *const bad[] = {"",   "x",  " 1",  "-1",
					  "+1", "01", "256", "99999999999999999999"};
	const char *s = "255x";
	uint64_t v = 7;

	check(procfs_number(&s, 255, &v) == 0 && v == 255 && *s == 'x');
	s = "0";
	check(procfs_number(&s, 0, &v) == 0 && v == 0 && *s == '\0');
	s = "18446744073709551615";
	check(procfs_number(&s, UINT64_MAX, &v) == 0 && v == UINT64_MAX);
	s = "18446744073709551616";
	check(procfs_number(&s, UINT64_MAX, &v) == -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		s = bad[i];
		check(procfs_number(&s, 255, &v) == -EBADMSG && s == bad[i]);
	}
}

TEST_MAIN
