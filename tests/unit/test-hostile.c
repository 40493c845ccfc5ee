/* SPDX-License-Identifier: MIT */
/* What other users may try with the broker: numbers of dead processes, names that cannot be freed,
 * thousands of jobs of one process. */
#include <sys/epoll.h>

#include "tests/unit/broker-fixture.h"
#include "tests/unit/broker-peer.h"

#define OTHER_UID 54321
#define GRACE     BROKER_GRACE_USEC

static void ask_refused(struct node *n, struct peer *peer)
{
	struct wire_fetch m = {.nspid = 1, .pidns = n->broker.own_pidns};
	struct wire_error e;

	check(wire_decode_error(reply, (size_t)ask(n, peer, &m), &e) == 0 && e.code == ESRCH);
}

/* Any REPORT is lost, since it is not about the process that has the number now. */
static void report_lost(struct node *n, struct peer *peer, const char *key)
{
	struct wire_report m = {.nspid = 1, .key = {key, strlen(key)}};
	uint64_t lost = n->broker.counters.reports_lost;
	char request[1024];
	ssize_t size;

	memcpy(m.digest, n->digest, DIGEST_SIZE);
	size = wire_encode_report(request, sizeof request, 8, &m);
	check(size > 0);
	check(request_handle(&n->broker, peer, request, (size_t)size, reply) == 0);
	check(n->broker.counters.reports_lost == lost + 1);
}

/* The connection outlived its process, and another one, of another job, has its number. */
TEST(number_of_another)
{
	char key[JOB_KEY_SIZE], name[JOB_PROC_SIZE], link[JOB_LINK_SIZE];
	struct process *p;
	struct node n;
	pid_t pid;
	uint64_t start;

	node_init(&n, "on");
	pid = spawn();
	start = start_of(pid);
	(void)fetch_of(&n, pid, key);
	strcpy(name, proc_name(&n, pid, start));
	p = registry_find(&n.broker.registry, pid, start);
	check(p);
	for (int known = 0; known < 2; known++) {
		struct peer peer = peer_of(pid, OTHER_UID);

		peer.since = start - 1;
		if (known)
			peer.start = start - 2;
		ask_refused(&n, &peer);
		report_lost(&n, &peer, key);
		check(!p->report);
		check_streq(p->job->key, key);
		job_link_format(key, n.digest, link);
		check_streq(link_text(&n, "procs", name), link);
	}
	end(pid);
	node_done(&n);
}

/* What cannot be removed, since it holds something, gives its name up; and stays what it is then.
 */
TEST(directories_that_are_not_empty)
{
	char names[3][96], path[256], inner[264];
	struct stat st;
	struct node n;
	pid_t pid = spawn();

	node_init(&n, "on");
	broker_done(&n.broker);
	snprintf(names[0], sizeof names[0], "jobs/.node");
	snprintf(names[1], sizeof names[1], "jobs/tree-0-1-2-3");
	snprintf(names[2], sizeof names[2], "procs/%s", proc_name(&n, pid, start_of(pid)));
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%.90s/%.95s", n.path, names[i]);
		snprintf(inner, sizeof inner, "%s/x", path);
		(void)unlink(path);
		check(mkdir(path, 0755) == 0 && mkdir(inner, 0755) == 0);
	}
	node_open(&n, &account_limits_default);
	run_steps(&n, 1);
	run_steps(&n, 2);
	check(link_text(&n, "jobs", ".node")[0]);
	for (int i = 1; i < 3; i++) {
		snprintf(path, sizeof path, "%.90s/%.95s", n.path, names[i]);
		check(lstat(path, &st) < 0 && errno == ENOENT);
	}
	check(n.broker.adopt.n_removed == 2);
	end(pid);
	node_done(&n);
}

/* One process can be the root of as many jobs as there are digests; they end some at a time. */
TEST(many_jobs_of_one_process)
{
	char key[JOB_KEY_SIZE], name[JOB_KEY_SIZE];
	struct node n;
	pid_t pid = spawn();
	size_t before;

	node_init(&n, "on");
	snprintf(key, sizeof key, "tree-%u-%llu-%d-%llu", (unsigned)geteuid(),
		 (unsigned long long)n.broker.own_pidns, (int)pid,
		 (unsigned long long)start_of(pid));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "%.150s.%064x", key, (unsigned)i);
		make_link(&n, "jobs", name, "none", geteuid());
	}
	end(pid);
	run_steps(&n, 1);
	check(n.broker.registry.jobs.n == 100);
	broker_tick(&n.broker, 1 + GRACE);
	check(n.broker.registry.jobs.n < 100 && n.broker.registry.jobs.n > 0);
	while (broker_pending(&n.broker)) {
		before = n.broker.registry.jobs.n;
		broker_step(&n.broker, 1 + GRACE);
		check(n.broker.registry.jobs.n < before);
	}
	check(n.broker.registry.jobs.n == 0 && !link_text(&n, "jobs", name)[0]);
	node_done(&n);
}

TEST_MAIN
