/* SPDX-License-Identifier: MIT */
/* Jobs by cgroup: rule 2; and containers, seen from inside and outside. */
#include "common/job.h"

#include "tests/unit/job-look.h"

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
		{.pid = P(10), .ppid = P(1), .inner = 1, .comm = "tini"},
		{.pid = P(11),
		 .ppid = P(10),
		 .inner = 6,
		 .inner_ppid = 1,
		 .session = P(10),
		 .comm = "bash"},
		{.pid = P(12), .ppid = P(11), .inner = 7, .inner_ppid = 6, .session = P(10)},
		{.pid = P(13), .ppid = P(2), .inner = 20, .inner_ppid = 0, .session = P(2)},
		{.pid = P(14), .ppid = P(13), .inner = 21, .inner_ppid = 20, .session = P(2)},
		{.pid = P(15), .ppid = P(10), .inner = 30, .inner_ppid = 1, .session = P(9)},
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

TEST_MAIN
