/* SPDX-License-Identifier: MIT */
#include "common/job.h"

#include "tests/unit/node.h"

static struct job_facts facts; /* of the last look */

static int look_as(const struct job_source *source, const struct job_subject *subject)
{
	memset(&facts, 0xff, sizeof facts);
	return job_find(source, subject, &facts);
}

/* Finds the job of PID with TOKEN (NULL: none) and gives its key. */
static const char *look(const struct node *n, pid_t pid, const char *token)
{
	struct job_source source = node_source(n);
	struct job_subject subject = node_subject(pid);

	subject.token = token;
	check(look_as(&source, &subject) == 0);
	return facts.key;
}

static const char *kind_key(enum job_kind kind, uint64_t inode)
{
	static char ret[JOB_KEY_SIZE];

	job_key_format(&(struct job_key){.kind = kind, .uid = geteuid(), .inode = inode}, ret);
	return ret;
}

static void register_as(const struct node *n, pid_t pid, const char *key, uid_t uid)
{
	char name[JOB_PROC_SIZE];

	job_proc_format(NODE_PIDNS, pid, 1000, name);
	node_link(n, "procs", name, key, uid);
}

/* A shell at a terminal, a script typed there, a program of the script and its child; and a second
 * command. */
static void add_prompt(const struct node *n)
{
	node_add(n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "bash", .tty = 34816});
	node_add(n,
		 (struct node_process){
			 .pid = P(2), .ppid = P(1), .session = P(1), .comm = "bash", .tty = 34816});
	node_add(n,
		 (struct node_process){.pid = P(3), .ppid = P(2), .pgrp = P(2), .session = P(1)});
	node_add(n,
		 (struct node_process){.pid = P(4), .ppid = P(3), .pgrp = P(2), .session = P(1)});
	node_add(n, (struct node_process){.pid = P(5), .ppid = P(1), .session = P(1)});
}

/* --- keys --- */

TEST(keys_round_trip)
{
	static const char *const keys[] = {
		"tree-0-4026531836-1-0",
		"tree-4294967295-18446744073709551615-2147483647-18446744073709551615",
		"slurm-1000-5",
		"container-1000-18446744073709551615",
		"unit-0-77",
		("unit-0-77." A64),
		("tree-1000-4026531836-5-6." B64 "~3"),
		"container-1000-5~1",
	};
	char back[JOB_KEY_SIZE];
	struct job_key k;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		check(job_key_parse(keys[i], &k) == 0);
		job_key_format(&k, back);
		check_streq(back, keys[i]);
	}
	check(job_key_parse(keys[6], &k) == 0);
	check(k.kind == JOB_TREE && k.uid == 1000 && k.pidns == 4026531836 && k.pid == 5);
	check(k.start == 6 && k.slot == 3);
	check_streq(k.digest, B64);
	for (unsigned i = 0; i < JOB_KIND_MAX_; i++)
		check(job_kind_name((enum job_kind)i));
	check(!job_kind_name(JOB_KIND_MAX_));
}

TEST(what_is_no_key)
{
	static const char *const bad[] = {
		"",
		"-",
		"tree",
		"tree-",
		"tree-1000",
		"tree-1000-1-2",
		"tree-1000-1-2-3-4",
		"Tree-1-1-1-1",
		"unit-0-77/",
		"unit-0-77 ",
		" unit-0-77",
		"unit-0--77",
		"unit-0-+7",
		"unit-00-7",
		"unit-0-07",
		"unit-0-0x7",
		"unit-4294967296-7",
		"unit-0-18446744073709551616",
		"tree-0-1-2147483648-1",
		"tree-0-1--1-1",
		"unit-0-7.",
		("unit-0-7." A64 "a"),
		"unit-0-7.abc",
		"unit-0-7~0",
		"unit-0-7~4",
		"unit-0-7~",
		"unit-0-7~11",
		("unit-0-7~1." A64),
		"unit-0-7.~1",
		"../unit-0-7",
		"unit-0-7\n",
		"slurm-0-99999999999999999999",
		"pod-0-7",
		"container--1-7",
	};
	struct job_key k = {.pid = 77};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (job_key_parse(bad[i], &k) != -EINVAL)
			fprintf(stderr, "taken: %s\n", bad[i]);
		check(job_key_parse(bad[i], &k) == -EINVAL);
	}
	check(k.pid == 77);
}

TEST(names_of_processes)
{
	static const char *const bad[] = {"",
					  "1",
					  "1-2",
					  "1-2-3-4",
					  "1-2-3 ",
					  "01-2-3",
					  "1-2147483648-3",
					  "1--2-3",
					  "a-2-3",
					  "18446744073709551616-2-3"};
	char name[JOB_PROC_SIZE];
	uint64_t pidns = 0, start = 0;
	pid_t pid = 0;

	job_proc_format(UINT64_MAX, INT32_MAX, UINT64_MAX, name);
	check_streq(name, "18446744073709551615-2147483647-18446744073709551615");
	check(job_proc_parse(name, &pidns, &pid, &start) == 0);
	check(pidns == UINT64_MAX && pid == INT32_MAX && start == UINT64_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(job_proc_parse(bad[i], &pidns, &pid, &start) == -EINVAL);
	check(pid == INT32_MAX);
}

/* --- rule 4 and the boundaries --- */

TEST(commands_at_a_prompt)
{
	struct node n;

	node_init(&n);
	add_prompt(&n);
	check_streq(look(&n, P(2), NULL), node_tree(P(2), 0));
	check_streq(look(&n, P(3), NULL), node_tree(P(2), 0));
	check_streq(look(&n, P(4), NULL), node_tree(P(2), 0));
	check(!facts.below && !facts.ignore_token && facts.nspid == P(4) && facts.start == 1000);
	check_streq(look(&n, P(5), NULL), node_tree(P(5), 0));
	/* The process itself is no boundary, whatever it is called. */
	check_streq(look(&n, P(1), NULL), node_tree(P(1), 0));
	node_done(&n);
}

TEST(shells_that_are_no_prompt)
{
	struct node n;

	node_init(&n);
	/* ssh node 'sh -c ...': leads its session, without a terminal. */
	node_add(&n, (struct node_process){.pid = P(1), .ppid = P(9), .comm = "sh"});
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1), .session = P(1)});
	check_streq(look(&n, P(2), NULL), node_tree(P(1), 0));
	/* A program that took the place of the shell. */
	node_add(&n, (struct node_process){.pid = P(3), .ppid = P(9), .tty = 5, .comm = "bashful"});
	node_add(&n, (struct node_process){.pid = P(4), .ppid = P(3), .session = P(3), .tty = 5});
	check_streq(look(&n, P(4), NULL), node_tree(P(3), 0));
	node_done(&n);
}

TEST(boundaries_by_name)
{
	struct node n;

	node_init(&n);
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "sshd"});
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1)});
	node_add(&n, (struct node_process){.pid = P(3), .ppid = P(2), .session = P(2)});
	check_streq(look(&n, P(3), NULL), node_tree(P(2), 0));
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "tmux: server"});
	check_streq(look(&n, P(3), NULL), node_tree(P(2), 0));
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "systemd"});
	check_streq(look(&n, P(3), NULL), node_tree(P(2), 0));
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "mpirun"});
	check_streq(look(&n, P(3), NULL), node_tree(P(1), 0));
	n.assign = assign_free(n.assign);
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "sshd"});
	check_streq(look(&n, P(3), NULL), node_tree(P(1), 0));
	node_done(&n);
}

TEST(another_uid_is_a_boundary)
{
	struct node n;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .uid = 1234});
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1)});
	node_add(&n, (struct node_process){.pid = P(3), .ppid = P(2)});
	register_as(&n, P(1), node_tree(P(1), 0), 0);
	check_streq(look(&n, P(3), NULL), node_tree(P(2), 0));
	check(!facts.below);
	node_done(&n);
}

TEST(numbers_given_again)
{
	char name[JOB_PROC_SIZE];
	struct node n;

	node_init(&n);
	add_prompt(&n);
	/* The script ended, and its number went to a process that is younger than its child. */
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1), .start = 1001});
	job_proc_format(NODE_PIDNS, P(2), 1001, name);
	node_link(&n, "procs", name, node_tree(P(2), 1001), 0);
	check_streq(look(&n, P(4), NULL), node_tree(P(3), 0));
	check(!facts.below);
	/* Those of one clock tick may be parent and child. */
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1), .start = 1000});
	check_streq(look(&n, P(4), NULL), node_tree(P(2), 0));
	node_done(&n);
}

TEST(what_has_gone)
{
	struct job_source source;
	struct job_subject subject = node_subject(P(77));
	struct node n;

	node_init(&n);
	add_prompt(&n);
	node_gone(&n, P(2));
	check_streq(look(&n, P(4), NULL), node_tree(P(3), 0));
	source = node_source(&n);
	check(look_as(&source, &subject) == -ESRCH);
	/* Garbage in an ancestor ends the walk as well. */
	node_write(&n, "proc/5000003/stat", "garbage", 7);
	check_streq(look(&n, P(4), NULL), node_tree(P(4), 0));
	subject = node_subject(P(3));
	check(look_as(&source, &subject) == -EBADMSG);
	node_done(&n);
}

TEST(rings_and_chains)
{
	struct node n;

	node_init(&n);
	node_add(&n, (struct node_process){.pid = P(1), .ppid = P(2)});
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1)});
	node_add(&n, (struct node_process){.pid = P(3), .ppid = P(3)});
	(void)look(&n, P(1), NULL);
	(void)look(&n, P(3), NULL);
	for (pid_t i = 100; i < 100 + JOB_DEPTH_MAX + 10; i++)
		node_add(&n, (struct node_process){.pid = P(i), .ppid = P(i - 1)});
	check_streq(look(&n, P(99 + JOB_DEPTH_MAX), NULL), node_tree(P(100), 0));
	check_streq(look(&n, P(105 + JOB_DEPTH_MAX), NULL), node_tree(P(105), 0));
	node_done(&n);
}

/* --- rule 1 --- */

TEST(nearest_registered_ancestor)
{
	struct node n;

	node_init(&n);
	add_prompt(&n);
	register_as(&n, P(2), "unit-0-5", 0);
	if (geteuid() != 0)
		check(!streq(look(&n, P(4), NULL), "unit-0-5"));
	register_as(&n, P(3), kind_key(JOB_UNIT, 6), 0);
	check_streq(look(&n, P(4), NULL), kind_key(JOB_UNIT, 6));
	check(facts.below && !facts.placed);
	/* The process itself, after an exec. */
	check_streq(look(&n, P(3), NULL), kind_key(JOB_UNIT, 6));
	check(facts.below);
	/* Nothing at the boundary or above it. */
	register_as(&n, P(1), kind_key(JOB_UNIT, 7), 0);
	check_streq(look(&n, P(5), NULL), node_tree(P(5), 0));
	node_done(&n);
}

TEST(registrations_that_are_not_believed)
{
	static const char *const texts[] = {"garbage", "unit-4242-5", "../x", "unit-0-5~1"};
	struct node n;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		node_init(&n);
		add_prompt(&n);
		register_as(&n, P(3), texts[i], 0);
		check_streq(look(&n, P(4), NULL), node_tree(P(2), 0));
		check(!facts.below);
		node_done(&n);
	}
	if (geteuid() != 0)
		skip("the rest needs root");
	node_init(&n);
	add_prompt(&n);
	register_as(&n, P(3), kind_key(JOB_UNIT, 6), 1234);
	check_streq(look(&n, P(4), NULL), node_tree(P(2), 0));
	node_done(&n);
}

static int from_memory(void *userdata, const struct proc_facts *f, char ret_key[JOB_KEY_SIZE])
{
	const char **texts = userdata;

	if (f->pid != P(3))
		return 0;
	(void)strcpy(ret_key, texts[0]);
	return 1;
}

TEST(registered_in_memory)
{
	const char *text = kind_key(JOB_UNIT, 6);
	struct job_subject subject = node_subject(P(4));
	struct job_source source;
	struct node n;

	node_init(&n);
	add_prompt(&n);
	source = node_source(&n);
	source.registered = from_memory;
	source.userdata = &text;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, text);
	check(facts.below);
	/* Files are asked as well. */
	register_as(&n, P(4), kind_key(JOB_UNIT, 7), 0);
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, kind_key(JOB_UNIT, 7));
	text = "unit-4242-6";
	subject = node_subject(P(3));
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, node_tree(P(2), 0));
	node_done(&n);
}

/* A program that is pid 1 of a container is registered; an init is not. */
TEST(pid_1)
{
	struct node n;

	node_init(&n);
	node_add(&n, (struct node_process){.pid = 1, .ppid = 0});
	node_add(&n, (struct node_process){.pid = P(2), .ppid = 1, .session = 1});
	check_streq(look(&n, P(2), NULL), node_tree(P(2), 0));
	check_streq(look(&n, 1, NULL), node_tree(1, 0));
	register_as(&n, 1, node_tree(1, 0), 0);
	check_streq(look(&n, P(2), NULL), node_tree(1, 0));
	check(facts.below);
	node_done(&n);
}

/* --- rule 2 --- */

static const char *in_cgroup(struct node *n, const char *text, const char *token)
{
	node_add(n,
		 (struct node_process){.pid = P(1), .ppid = P(9), .session = P(9), .cgroup = text});
	return look(n, P(1), token);
}

TEST(units)
{
	struct node n;

	node_init(&n);
	node_mkdir(&n, "cgroup/system.slice/vllm.service/sub");
	node_mkdir(&n, "cgroup/system.slice/cron.service");
	node_mkdir(&n, "cgroup/user.slice/user-1000.slice/session-1.scope");
	check_streq(in_cgroup(&n, "0::/system.slice/vllm.service/sub\n", NULL),
		    kind_key(JOB_UNIT, node_inode(&n, "cgroup/system.slice/vllm.service")));
	check(facts.placed && !facts.below);
	check_streq(facts.unit, "vllm.service");
	check_streq(facts.cgroup, "/system.slice/vllm.service/sub");
	check_streq(facts.cgroup_dir, "./system.slice/vllm.service");
	/* A supervisor's, a user's, one that cannot be seen, none. */
	check_streq(in_cgroup(&n, "0::/system.slice/cron.service\n", NULL), node_tree(P(1), 0));
	check_streq(facts.unit, "cron.service");
	check_streq(in_cgroup(&n, "0::/user.slice/user-1000.slice/session-1.scope\n", NULL),
		    node_tree(P(1), 0));
	check_streq(in_cgroup(&n, "0::/system.slice/gone.service\n", NULL), node_tree(P(1), 0));
	check_streq(in_cgroup(&n, "0::/system.slice/vllm.service (deleted)\n", NULL),
		    node_tree(P(1), 0));
	check_streq(in_cgroup(&n, "0::/\n", NULL), node_tree(P(1), 0));
	check_streq(facts.cgroup, "/");
	check_streq(in_cgroup(&n, "garbage", NULL), node_tree(P(1), 0));
	check_streq(facts.cgroup, "");
	node_done(&n);
}

TEST(hierarchies)
{
	struct node n;

	node_init(&n);
	node_mkdir(&n, "cgroup/unified/system.slice/a.service");
	node_mkdir(&n, "cgroup/systemd/system.slice/a.service");
	node_mkdir(&n, "cgroup/systemd/system.slice/slurmd.service");
	node_mkdir(&n, "cgroup/freezer/slurm/uid_1/job_2/step_3");
	/* Hybrid: both name the unit; systemd's own is taken. */
	check_streq(in_cgroup(&n,
			      "9:name=systemd:/system.slice/a.service\n8:pids:/\n"
			      "0::/system.slice/a.service\n",
			      NULL),
		    kind_key(JOB_UNIT, node_inode(&n, "cgroup/systemd/system.slice/a.service")));
	check_streq(facts.cgroup_dir, "systemd/system.slice/a.service");
	/* The old hierarchy is there and not used. */
	check_streq(in_cgroup(&n, "9:name=systemd:/\n0::/system.slice/a.service\n", NULL),
		    kind_key(JOB_UNIT, node_inode(&n, "cgroup/unified/system.slice/a.service")));
	/* Slurm with v1: the step is in the controllers' hierarchies alone. */
	check_streq(in_cgroup(&n,
			      "9:name=systemd:/system.slice/slurmd.service\n"
			      "4:freezer:/slurm/uid_1/job_2/step_3\n0::/\n",
			      NULL),
		    kind_key(JOB_SLURM, node_inode(&n, "cgroup/freezer/slurm/uid_1/job_2/step_3")));
	check_streq(facts.cgroup_dir, "freezer/slurm/uid_1/job_2/step_3");
	check_streq(in_cgroup(&n, "4:freezer:/\n", NULL), node_tree(P(1), 0));
	node_done(&n);
}

TEST(containers_in_the_hosts_namespace)
{
	struct job_subject subject = node_subject(P(1));
	struct job_source source;
	struct node n;
	int inside;

	node_init(&n);
	node_mkdir(&n, "cgroup/systemd/docker/" A64 "/sub");
	check_streq(in_cgroup(&n, "9:name=systemd:/docker/" A64 "/sub\n0::/\n", NULL),
		    kind_key(JOB_CONTAINER, node_inode(&n, "cgroup/systemd/docker/" A64)));
	check_streq(facts.unit, "");
	/* The container has its own directory mounted as the root of the hierarchy. */
	node_mkdir(&n, "mount");
	inside = node_open(&n, "mount");
	source = node_source(&n);
	source.cgroup_fd = inside;
	check(renameat(n.cgroup_fd, "systemd/docker/" A64, inside, "systemd") == 0);
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, kind_key(JOB_CONTAINER, node_inode(&n, "mount/systemd")));
	close(inside);
	node_done(&n);
}

TEST(cgroups_that_are_not_seen)
{
	struct job_subject subject = node_subject(P(1));
	struct job_source source;
	struct node n;

	node_init(&n);
	node_mkdir(&n, "cgroup/system.slice/a.service");
	(void)in_cgroup(&n, "0::/system.slice/a.service\n", NULL);
	check_streq(facts.key, kind_key(JOB_UNIT, node_inode(&n, "cgroup/system.slice/a.service")));
	source = node_source(&n);
	source.cgroup_fd = -EBADF;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, node_tree(P(1), 0));
	/* The client says that it does not see it: the broker does not look either. */
	source = node_source(&n);
	subject.cgroup_claim = JOB_CGROUP_UNSEEN;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, node_tree(P(1), 0));
	check_streq(facts.cgroup, "");
	check_streq(facts.unit, "");
	node_done(&n);
}

TEST(place_of_any_process)
{
	struct job_subject subject = node_subject(P(4));
	struct job_source source;
	struct node n;

	node_init(&n);
	add_prompt(&n);
	node_mkdir(&n, "cgroup/system.slice/a.service");
	node_write(&n, "proc/5000004/cgroup", "0::/system.slice/a.service\n", 27);
	register_as(&n, P(3), kind_key(JOB_UNIT, 6), 0);
	source = node_source(&n);
	memset(&facts, 0xff, sizeof facts);
	job_place(&source, &subject, &facts);
	check(facts.placed);
	check_streq(facts.unit, "a.service");
	subject = node_subject(P(77));
	job_place(&source, &subject, &facts);
	check_streq(facts.unit, "");
	node_done(&n);
}

/* --- both views of a container --- */

/* A container: its pid 1 is an init, below it a script with a program, and a command that came in
 * from outside. */
static void add_container(const struct node *n, const char *host, const char *inner)
{
	struct node_process p[] = {
		{.pid = P(10),  .ppid = P(1),  .inner = 1,  .comm = "tini"  },
		{		 .pid = P(11),
		 .ppid = P(10),
		 .inner = 6,
		 .inner_ppid = 1,
		 .session = P(10),
		 .comm = "bash"},
		{								.pid = P(12),  .ppid = P(11), .inner = 7,  .inner_ppid = 6,  .session = P(10)},
		{.pid = P(13),  .ppid = P(2),  .inner = 20, .inner_ppid = 0,  .session = P(2)},
		{								 .pid = P(14),  .ppid = P(13), .inner = 21, .inner_ppid = 20, .session = P(2)},
		{.pid = P(15),  .ppid = P(10), .inner = 30, .inner_ppid = 1,  .session = P(9)},
	};

	node_add(n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "containerd-shim"});
	node_add(n, (struct node_process){.pid = P(2), .ppid = 1, .comm = "nsenter"});
	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		p[i].cgroup = host;
		p[i].inner_cgroup = inner;
		node_add(n, p[i]);
	}
}

/* The same key by the client's view and the broker's, for what the client claims of its cgroup
 * namespace. */
static const char *both(const struct node *n, pid_t pid, pid_t inner, uint64_t claim,
			int inner_cgroup_fd, const char *token)
{
	static char key[JOB_KEY_SIZE];
	static struct job_facts client;
	struct job_subject subject = {.pid = inner,
				      .uid = geteuid(),
				      .pidns = 777,
				      .cgroup_claim = claim,
				      .token = token};
	struct job_source source = node_source(n);

	source.proc_fd = n->inner_fd;
	source.cgroup_fd = inner_cgroup_fd;
	check(look_as(&source, &subject) == 0);
	client = facts;
	subject.pid = pid;
	source = node_source(n);
	source.same_pidns = false;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, client.key);
	check_streq(facts.cgroup, client.cgroup);
	check_streq(facts.unit, client.unit);
	check(facts.nspid == inner && client.nspid == inner && facts.start == client.start);
	check(facts.below == client.below && facts.ignore_token == client.ignore_token);
	(void)strcpy(key, facts.key);
	return key;
}

static const char *inner_tree(pid_t pid)
{
	static char ret[JOB_KEY_SIZE];

	job_key_format(&(struct job_key){.kind = JOB_TREE,
					 .uid = geteuid(),
					 .pidns = 777,
					 .pid = pid,
					 .start = 1000},
		       ret);
	return ret;
}

TEST(a_pid_namespace_from_both_sides)
{
	struct node n;

	node_init(&n);
	add_container(&n, NULL, NULL);
	check_streq(both(&n, P(10), 1, JOB_CGROUP_UNSEEN, -EBADF, NULL), inner_tree(1));
	check_streq(both(&n, P(11), 6, JOB_CGROUP_UNSEEN, -EBADF, NULL), inner_tree(6));
	check_streq(both(&n, P(12), 7, JOB_CGROUP_UNSEEN, -EBADF, NULL), inner_tree(6));
	check_streq(both(&n, P(13), 20, JOB_CGROUP_UNSEEN, -EBADF, NULL), inner_tree(20));
	check_streq(both(&n, P(14), 21, JOB_CGROUP_UNSEEN, -EBADF, NULL), inner_tree(20));
	/* Registered by either. */
	node_link(&n, "procs", "777-6-1000", kind_key(JOB_UNIT, 9), 0);
	check_streq(both(&n, P(12), 7, JOB_CGROUP_UNSEEN, -EBADF, NULL), kind_key(JOB_UNIT, 9));
	check(facts.below);
	/* Reparented to the namespace's pid 1, with a token. */
	node_link(&n, "jobs", inner_tree(6), B64, 0);
	check_streq(both(&n, P(15), 30, JOB_CGROUP_UNSEEN, -EBADF, B64), inner_tree(6));
	check_streq(both(&n, P(15), 30, JOB_CGROUP_UNSEEN, -EBADF, A64), inner_tree(30));
	node_done(&n);
}

TEST(a_cgroup_namespace_from_both_sides)
{
	uint64_t claim;
	struct node n;
	int inside;

	node_init(&n);
	node_mkdir(&n, "cgroup/docker/" A64 "/system.slice/a.service");
	node_mkdir(&n, "cgroup/docker/" A64 "/user.slice");
	inside = node_open(&n, "cgroup/docker/" A64);
	claim = node_inode(&n, "cgroup/docker/" A64);
	add_container(&n, "0::/docker/" A64 "\n", "0::/\n");
	check_streq(both(&n, P(12), 7, claim, inside, NULL), kind_key(JOB_CONTAINER, claim));
	check_streq(facts.cgroup, "/");
	check_streq(facts.cgroup_dir, "./docker/" A64);
	add_container(&n, "0::/docker/" A64 "/sub\n", "0::/sub\n");
	check_streq(both(&n, P(12), 7, claim, inside, NULL), kind_key(JOB_CONTAINER, claim));
	check_streq(facts.cgroup, "/sub");
	/* With a systemd in it, its units are the jobs. */
	add_container(&n, "0::/docker/" A64 "/system.slice/a.service\n",
		      "0::/system.slice/a.service\n");
	check_streq(
		both(&n, P(12), 7, claim, inside, NULL),
		kind_key(JOB_UNIT, node_inode(&n, "cgroup/docker/" A64 "/system.slice/a.service")));
	check_streq(facts.unit, "a.service");
	add_container(&n, "0::/docker/" A64 "/user.slice\n", "0::/user.slice\n");
	check_streq(both(&n, P(12), 7, claim, inside, NULL), inner_tree(6));
	close(inside);
	node_done(&n);
}

/* Old Docker on a hybrid node: the container is in systemd's hierarchy, and not in the unified one.
 */
TEST(a_hybrid_node_from_both_sides)
{
	uint64_t claim;
	struct node n;
	int inside;

	node_init(&n);
	node_mkdir(&n, "cgroup/unified/system.slice/containerd.service");
	node_mkdir(&n, "cgroup/systemd/docker/" A64);
	node_mkdir(&n, "inside");
	inside = node_open(&n, "inside");
	add_container(&n, "9:name=systemd:/docker/" A64 "\n0::/system.slice/containerd.service\n",
		      "9:name=systemd:/\n0::/\n");
	/* Not a bind mount, which needs rights: the view of the broker first, then the same
	 * directory for the client. */
	claim = node_inode(&n, "cgroup/systemd/docker/" A64);
	{
		struct job_subject subject = {
			.pid = P(12), .uid = geteuid(), .pidns = 777, .cgroup_claim = claim};
		struct job_source source = node_source(&n);

		source.same_pidns = false;
		check(look_as(&source, &subject) == 0);
		check_streq(facts.key, kind_key(JOB_CONTAINER, claim));
		check(renameat(n.cgroup_fd, "systemd/docker/" A64, inside, "systemd") == 0);
		subject.pid = 7;
		source = node_source(&n);
		source.proc_fd = n.inner_fd;
		source.cgroup_fd = inside;
		check(look_as(&source, &subject) == 0);
		check_streq(facts.key, kind_key(JOB_CONTAINER, claim));
	}
	close(inside);
	node_done(&n);
}

/* A claim serves to choose among what is above the process; any other is as none. */
TEST(claims_that_are_lies)
{
	struct job_subject subject = node_subject(P(1));
	struct job_source source;
	struct node n;

	node_init(&n);
	node_mkdir(&n, "cgroup/system.slice/a.service");
	node_mkdir(&n, "cgroup/system.slice/b.service");
	(void)in_cgroup(&n, "0::/system.slice/a.service\n", NULL);
	source = node_source(&n);
	subject.cgroup_claim = node_inode(&n, "cgroup/system.slice/b.service");
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, kind_key(JOB_UNIT, node_inode(&n, "cgroup/system.slice/a.service")));
	subject.cgroup_claim = 1;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, kind_key(JOB_UNIT, node_inode(&n, "cgroup/system.slice/a.service")));
	subject.cgroup_claim = node_inode(&n, "cgroup/system.slice");
	check(look_as(&source, &subject) == 0);
	check_streq(facts.unit, "a.service");
	node_done(&n);
}

/* In a user namespace the key has the number of the one around it, as the broker sees it. */
TEST(uid_of_the_key)
{
	struct job_subject subject = node_subject(P(4));
	struct job_source source;
	struct job_key k;
	struct node n;

	node_init(&n);
	add_prompt(&n);
	source = node_source(&n);
	subject.has_key_uid = true;
	subject.key_uid = 100123;
	check(look_as(&source, &subject) == 0);
	check(job_key_parse(facts.key, &k) == 0 && k.uid == 100123);
	register_as(&n, P(3), "unit-100123-6", 0);
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, "unit-100123-6");
	node_done(&n);
}

/* --- rule 3, and units --- */

static void add_orphan(const struct node *n, struct node_process p)
{
	p.pid = P(50);
	if (!p.start)
		p.start = 2000;
	node_add(n, p);
}

TEST(orphans_with_a_token)
{
	struct node n;

	node_init(&n);
	node_link(&n, "jobs", node_tree(P(20), 1500), A64, 0);
	node_link(&n, "jobs", node_tree(P(21), 1500), B64, 0);
	node_link(&n, "jobs", "tree-4242-4026531836-22-100", B64, 0);
	node_link(&n, "jobs", "garbage", B64, 0);
	node_link(&n, "jobs", node_tree(P(23), 3000), B64, 0); /* began after it */
	node_link(&n, "jobs", node_tree(P(24), 1500), B64 " ", 0);
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(9)});
	check_streq(look(&n, P(50), B64), node_tree(P(21), 1500));
	check_streq(look(&n, P(50), A64), node_tree(P(20), 1500));
	check_streq(look(&n, P(50), C64), node_tree(P(50), 2000));
	check_streq(look(&n, P(50), NULL), node_tree(P(50), 2000));
	/* Leading its session too: setsid, and then its parent ended. */
	add_orphan(&n, (struct node_process){.ppid = 1});
	check_streq(look(&n, P(50), B64), node_tree(P(21), 1500));
	/* A child that still has its parent is none. */
	node_add(&n, (struct node_process){.pid = P(9), .ppid = 1, .comm = "bash", .tty = 1});
	add_orphan(&n, (struct node_process){.ppid = P(9), .session = P(9)});
	check_streq(look(&n, P(50), B64), node_tree(P(50), 2000));
	/* Come to a user's systemd, or to another subreaper that leads its own session. */
	node_add(&n, (struct node_process){.pid = P(9), .ppid = 1, .comm = "systemd"});
	add_orphan(&n, (struct node_process){.ppid = P(9), .session = P(8)});
	check_streq(look(&n, P(50), B64), node_tree(P(21), 1500));
	node_add(&n, (struct node_process){.pid = P(9), .ppid = 1, .comm = "reaper"});
	check_streq(look(&n, P(50), B64), node_tree(P(21), 1500));
	check_streq(look(&n, P(50), C64), node_tree(P(9), 0));
	node_done(&n);
}

TEST(which_of_several_jobs)
{
	struct node n;

	node_init(&n);
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(9), .pgrp = P(33)});
	/* The least name; the token as the present pin before a former one; the process's own group
	 * before all. */
	node_link(&n, "jobs", node_tree(P(32), 1500), C64 " " B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(32), 1500));
	node_link(&n, "jobs", node_tree(P(36), 1500), B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(36), 1500));
	node_link(&n, "jobs", node_tree(P(35), 1500), B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(35), 1500));
	node_link(&n, "jobs", kind_key(JOB_CONTAINER, 7), B64, 0);
	check_streq(look(&n, P(50), B64), kind_key(JOB_CONTAINER, 7));
	node_link(&n, "jobs", node_tree(P(33), 1500), C64 " " B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(33), 1500));
	node_done(&n);
}

TEST(pins_of_strangers_name_no_job)
{
	char name[JOB_KEY_SIZE + 2];
	struct node n;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(9)});
	node_link(&n, "jobs", node_tree(P(20), 1500), B64, 1234);
	check_streq(look(&n, P(50), B64), node_tree(P(50), 2000));
	/* The job's own is beside it. */
	(void)snprintf(name, sizeof name, "%s~1", node_tree(P(20), 1500));
	node_link(&n, "jobs", name, B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(20), 1500));
	node_done(&n);
}

TEST(too_many_names_to_look_at)
{
	char name[JOB_KEY_SIZE];
	struct node n;

	node_init(&n);
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(9)});
	for (unsigned i = 0; i < JOB_SCAN_MAX; i++) {
		(void)snprintf(name, sizeof name, "x%u", i);
		check(symlinkat("x", n.rt.jobs_fd, name) == 0);
	}
	node_link(&n, "jobs", node_tree(P(20), 1500), B64, 0);
	check_streq(look(&n, P(50), B64), node_tree(P(50), 2000));
	node_done(&n);
}

TEST(first_process_of_a_unit)
{
	static const char *const vllm = "0::/system.slice/vllm.service\n";
	uint64_t inode;
	struct node n;

	node_init(&n);
	node_mkdir(&n, "cgroup/system.slice/vllm.service");
	node_mkdir(&n, "cgroup/system.slice/cron.service");
	inode = node_inode(&n, "cgroup/system.slice/vllm.service");
	node_link(&n, "jobs", node_tree(P(20), 1500), B64, 0);
	add_orphan(&n, (struct node_process){.ppid = 1, .cgroup = vllm});
	check_streq(look(&n, P(50), B64), kind_key(JOB_UNIT, inode));
	check(facts.ignore_token);
	/* Its later ones, and orphans of it, are not. */
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(8), .cgroup = vllm});
	check_streq(look(&n, P(50), B64), kind_key(JOB_UNIT, inode));
	check(!facts.ignore_token);
	node_add(&n, (struct node_process){.pid = P(9), .ppid = 1, .cgroup = vllm});
	add_orphan(&n, (struct node_process){.ppid = P(9), .cgroup = vllm});
	check_streq(look(&n, P(50), B64), kind_key(JOB_UNIT, inode));
	check(!facts.ignore_token);
	/* A supervisor's unit is no job, and its first process is one all the same; also that of a
	 * user's service. */
	add_orphan(&n,
		   (struct node_process){.ppid = 1, .cgroup = "0::/system.slice/cron.service\n"});
	check_streq(look(&n, P(50), B64), node_tree(P(50), 2000));
	check(facts.ignore_token);
	node_add(&n, (struct node_process){.pid = P(9), .ppid = 1, .comm = "systemd"});
	add_orphan(&n, (struct node_process){.ppid = P(9),
					     .cgroup = "0::/user.slice/user-1.slice/user@1.service/"
						       "app.slice/x.service\n"});
	check_streq(look(&n, P(50), B64), node_tree(P(50), 2000));
	check(facts.ignore_token);
	/* In a scope it is an orphan. */
	add_orphan(&n,
		   (struct node_process){
			   .ppid = 1, .cgroup = "0::/user.slice/user-1.slice/session-1.scope\n"});
	check_streq(look(&n, P(50), B64), node_tree(P(20), 1500));
	check(!facts.ignore_token);
	node_done(&n);
}

TEST(a_token_of_ones_own_choice)
{
	struct job_subject subject = node_subject(P(50));
	struct job_source source;
	struct node n;

	node_init(&n);
	node_link(&n, "jobs", node_tree(P(20), 1500), B64, 0);
	add_orphan(&n, (struct node_process){.ppid = 1, .session = P(9)});
	source = node_source(&n);
	subject.token = B64;
	subject.token_chosen = true;
	check(look_as(&source, &subject) == 0);
	check_streq(facts.key, node_tree(P(50), 2000));
	node_done(&n);
}

/* --- roots --- */

TEST(roots)
{
	struct job_key tree = {.kind = JOB_TREE, .pidns = NODE_PIDNS, .pid = P(4), .start = 1000};
	struct job_key unit = {.kind = JOB_UNIT};
	struct job_source source;
	struct node n;

	node_init(&n);
	add_prompt(&n);
	node_mkdir(&n, "cgroup/unified/system.slice/a.service");
	source = node_source(&n);
	check(job_root_alive(&source, &tree, NODE_PIDNS, NULL) == 1);
	check(job_root_alive(&source, &tree, 777, NULL) == -EXDEV);
	tree.start = 1001;
	check(job_root_alive(&source, &tree, NODE_PIDNS, NULL) == 0);
	tree.pid = P(77);
	check(job_root_alive(&source, &tree, NODE_PIDNS, NULL) == 0);
	/* Not in this /proc, and yet there: hidden. */
	tree.pid = getpid();
	check(job_root_alive(&source, &tree, NODE_PIDNS, NULL) == -EACCES);
	tree.pid = 0;
	check(job_root_alive(&source, &tree, NODE_PIDNS, NULL) <= 0);

	unit.inode = node_inode(&n, "cgroup/unified/system.slice/a.service");
	check(job_root_alive(&source, &unit, NODE_PIDNS, "unified/system.slice/a.service") == 1);
	check(job_root_alive(&source, &unit, NODE_PIDNS, "unified/system.slice/b.service") == 0);
	check(job_root_alive(&source, &unit, NODE_PIDNS, "unified/system.slice") == 0);
	check(job_root_alive(&source, &unit, NODE_PIDNS, NULL) == 1);
	unit.inode++;
	check(job_root_alive(&source, &unit, NODE_PIDNS, "unified/system.slice/a.service") == 0);
	unit.inode = 4242424242;
	check(job_root_alive(&source, &unit, NODE_PIDNS, "") == 0);
	source.cgroup_fd = -EBADF;
	check(job_root_alive(&source, &unit, NODE_PIDNS, NULL) < 0);
	node_done(&n);
}

TEST_MAIN
