/* SPDX-License-Identifier: MIT */
/* Jobs of orphans by their token: rule 3; and whose token does not count. */
#include "common/job.h"

#include "tests/unit/job-look.h"

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

TEST_MAIN
