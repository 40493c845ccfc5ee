/* SPDX-License-Identifier: MIT */
/* Keys, and jobs by ancestors: rules 1 and 4; what is left of a job's root. */
#include "common/job.h"

#include "tests/unit/job-look.h"

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

TEST(texts_of_links)
{
	char text[JOB_LINK_SIZE], key[JOB_KEY_SIZE];

	job_link_format("tree-0-1-2-3", A64, text);
	check_streq(text, "tree-0-1-2-3 " A64);
	check_streq(job_link_cut(text), A64);
	check_streq(text, "tree-0-1-2-3");
	check_streq(job_link_cut(text), ""); /* an older release's */
	job_link_format("unit-0-7", "", text);
	check_streq(text, "unit-0-7 none");
	/* What would take a page is cut. */
	(void)snprintf(key, sizeof key, "tree-1000-4026531836-4194304-99999999.%s", A64);
	job_link_format(key, A64, text);
	check(strlen(text) == strlen(key) + 1 + 12 && strlen(text) <= 127);
	check_streq(job_link_cut(text), "aaaaaaaaaaaa");
	check_streq(text, key);
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
	/* ssh -t node 'sh run.sh', a window of tmux: what a script starts is in its own process group, or
	 * has left its session. */
	node_add(&n, (struct node_process){.pid = P(5), .ppid = P(9), .tty = 5, .comm = "sh"});
	node_add(&n, (struct node_process){
			     .pid = P(6), .ppid = P(5), .pgrp = P(5), .session = P(5), .tty = 5});
	check_streq(look(&n, P(6), NULL), node_tree(P(5), 0));
	node_add(&n, (struct node_process){.pid = P(7), .ppid = P(5)});
	check_streq(look(&n, P(7), NULL), node_tree(P(5), 0));
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
	node_add(&n,
		 (struct node_process){.pid = P(2), .ppid = P(1), .session = P(1), .start = 1001});
	job_proc_format(NODE_PIDNS, P(2), 1001, name);
	node_link(&n, "procs", name, node_tree(P(2), 1001), 0);
	check_streq(look(&n, P(4), NULL), node_tree(P(3), 0));
	check(!facts.below);
	/* Those of one clock tick may be parent and child. */
	node_add(&n,
		 (struct node_process){.pid = P(2), .ppid = P(1), .session = P(1), .start = 1000});
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

TEST_MAIN
