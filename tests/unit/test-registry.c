/* SPDX-License-Identifier: MIT */
/* The broker's memory: table, account, registry. */
#include "daemon/broker/registry.h"

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/unit/test.h"

#define UID 1000

/* --- table --- */

struct item {
	struct table_node node;
	unsigned number;
	bool seen;
};

static bool item_match(const struct table_node *node, const void *key)
{
	return TABLE_CONTAINER(node, const struct item, node)->number == *(const unsigned *)key;
}

static struct item *item_find(const struct table *t, unsigned number)
{
	struct table_node *n =
		table_find(t, table_hash(t, &number, sizeof number), item_match, &number);

	return n ? TABLE_CONTAINER(n, struct item, node) : NULL;
}

TEST(table)
{
	static struct item items[3000];
	struct table_node *next;
	unsigned n_seen = 0;
	struct table t;

	check(table_init(&t) == 0);
	check(!item_find(&t, 1) && !table_next(&t, NULL));
	for (unsigned i = 0; i < ARRAY_SIZE(items); i++) {
		items[i].number = i;
		check(table_reserve(&t) == 0);
		table_add(&t, &items[i].node, table_hash(&t, &i, sizeof i));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(items); i++)
		check(item_find(&t, i) == &items[i]);
	/* Removing while going through leaves out none and shows none twice. */
	for (struct table_node *n = table_next(&t, NULL); n; n = next) {
		struct item *item = TABLE_CONTAINER(n, struct item, node);

		next = table_next(&t, n);
		check(!item->seen);
		item->seen = true;
		n_seen++;
		if (item->number % 2 == 0)
			table_remove(&t, n);
	}
	check(n_seen == ARRAY_SIZE(items) && t.n == ARRAY_SIZE(items) / 2);
	for (unsigned i = 0; i < ARRAY_SIZE(items); i++)
		check(item_find(&t, i) == (i % 2 ? &items[i] : NULL));
	table_done(&t);
}

TEST(table_is_keyed)
{
	struct table a, b;

	check(table_init(&a) == 0 && table_init(&b) == 0);
	check(table_hash(&a, "12345678", 8) != table_hash(&b, "12345678", 8));
	check(table_hash(&a, "12345678", 8) != table_hash(&a, "12345678\0", 9));
	check(table_hash(&a, "", 0) == table_hash(&a, "x", 0));
}

/* --- account --- */

static const struct account_limits small = {
	.user = {[ACCOUNT_CONNECTIONS] = 2,
		 [ACCOUNT_PROCESSES] = 3,
		 [ACCOUNT_JOBS] = 3,
		 [ACCOUNT_BYTES] = 1000},
	.total = {[ACCOUNT_CONNECTIONS] = 3,
		  [ACCOUNT_PROCESSES] = 5,
		  [ACCOUNT_JOBS] = 5,
		  [ACCOUNT_BYTES] = 1500},
};

TEST(account)
{
	struct accounts a;

	check(accounts_init(&a, &small) == 0);
	check(account_charge(&a, 1, ACCOUNT_CONNECTIONS, 1) == 0);
	check(account_charge(&a, 1, ACCOUNT_CONNECTIONS, 1) == 0);
	check(account_charge(&a, 1, ACCOUNT_CONNECTIONS, 1) == -EDQUOT);
	check(account_charge(&a, 2, ACCOUNT_CONNECTIONS, 1) == 0);
	check(account_full(&a, 3, ACCOUNT_CONNECTIONS));
	check(account_charge(&a, 3, ACCOUNT_CONNECTIONS, 1) == -EUSERS);
	check(a.refused[ACCOUNT_CONNECTIONS] == 3);
	account_release(&a, 1, ACCOUNT_CONNECTIONS, 1);
	check(!account_full(&a, 3, ACCOUNT_CONNECTIONS));
	check(account_charge(&a, 3, ACCOUNT_CONNECTIONS, 1) == 0);
	check(account_charge(&a, 3, ACCOUNT_BYTES, SIZE_MAX) == -EDQUOT);
	check(account_charge(&a, 3, ACCOUNT_BYTES, 1000) == 0);
	check(account_charge(&a, 2, ACCOUNT_BYTES, 501) == -EUSERS);
	check(account_used(&a, 3, ACCOUNT_BYTES) == 1000 && a.used[ACCOUNT_BYTES] == 1000);
	/* Who holds nothing takes no memory. */
	account_release(&a, 3, ACCOUNT_BYTES, 1000);
	account_release(&a, 3, ACCOUNT_CONNECTIONS, 1);
	account_release(&a, 2, ACCOUNT_CONNECTIONS, 5);
	account_release(&a, 1, ACCOUNT_CONNECTIONS, 1);
	check(a.users.n == 0 && a.used[ACCOUNT_CONNECTIONS] == 0);
	accounts_done(&a);
}

/* --- registry --- */

struct fixture {
	struct accounts accounts;
	struct registry registry;
};

static void fixture_init(struct fixture *f, const struct account_limits *limits, int hub_fd)
{
	check(accounts_init(&f->accounts, limits) == 0);
	check(registry_init(&f->registry, &f->accounts, hub_fd) == 0);
}

static void fixture_done(struct fixture *f)
{
	registry_done(&f->registry);
	for (unsigned kind = 0; kind < ACCOUNT_KIND_MAX_; kind++)
		check(f->accounts.used[kind] == 0);
	accounts_done(&f->accounts);
}

static const char *tree(uid_t uid, pid_t pid)
{
	static char key[JOB_KEY_SIZE];
	struct job_key k = {
		.kind = JOB_TREE, .uid = uid, .pidns = 77, .pid = pid, .start = (uint64_t)pid};

	job_key_format(&k, key);
	return key;
}

static int add(struct fixture *f, pid_t pid, const char *key, struct process **ret)
{
	struct process_id id = {
		.pid = pid, .start = (uint64_t)pid, .pidns = 77, .nspid = pid % 1000};
	int pidfd = -EBADF;

	return registry_add(&f->registry, &id, key, &pidfd, ret);
}

TEST(insert_and_lookup)
{
	struct process *p, *q;
	struct fixture f;

	fixture_init(&f, &account_limits_default, -EBADF);
	check(!registry_find(&f.registry, 5001, 5001));
	check(add(&f, 5001, tree(UID, 5000), &p) == 1);
	check(add(&f, 5002, tree(UID, 5000), &q) == 1);
	check(p != q && p->job == q->job && p->job->n_members == 2 && p->uid == UID);
	check(add(&f, 5001, tree(UID, 5000), &q) == 0 && q == p);
	check(registry_find(&f.registry, 5001, 5001) == p);
	check(!registry_find(&f.registry, 5001, 5002)); /* the number, but not the process */
	check(registry_find_named(&f.registry, 77, 1, 5001) == p);
	check(!registry_find_named(&f.registry, 78, 1, 5001));
	check(registry_job(&f.registry, tree(UID, 5000)) == p->job);
	check(add(&f, 5003, "not a key", &q) == -EINVAL);
	check(add(&f, 5003, "tree-1000-77-5000-5000~1", &q) == -EINVAL); /* a pin's name */
	fixture_done(&f);
}

TEST(job_ends_with_root_and_members)
{
	struct process *p, *q;
	struct fixture f;
	struct job *j;

	fixture_init(&f, &account_limits_default, -EBADF);
	check(add(&f, 5001, tree(UID, 5000), &p) == 1 && add(&f, 5002, tree(UID, 5000), &q) == 1);
	j = registry_take_fresh(&f.registry);
	check(j == p->job && !registry_take_fresh(&f.registry));
	j->root = ROOT_PROCESS;
	registry_job_settle(&f.registry, j, 1);
	registry_remove(&f.registry, p, 2);
	registry_remove(&f.registry, q, 3);
	check(j->n_members == 0 && !f.registry.empty.first); /* its root lives */
	j->root = ROOT_GONE;
	registry_job_settle(&f.registry, j, 4);
	check(f.registry.empty.first == j && j->empty_usec == 4);
	/* A member that comes in the grace period takes it off the queue. */
	check(add(&f, 5003, tree(UID, 5000), &p) == 1);
	check(!f.registry.empty.first);
	registry_remove(&f.registry, p, 9);
	check(f.registry.empty.first == j && j->empty_usec == 9);
	registry_forget(&f.registry, j);
	check(!registry_job(&f.registry, tree(UID, 5000)) && !f.registry.empty.first);
	fixture_done(&f);
}

/* A change of uid before an exec begins a new job, while the process is still the old one's root.
 */
TEST(move)
{
	struct process *p, *q;
	struct fixture f;
	struct job *old;

	fixture_init(&f, &account_limits_default, -EBADF);
	check(add(&f, 5001, tree(0, 5001), &p) == 1);
	old = registry_take_fresh(&f.registry);
	old->root = ROOT_MEMBER;
	check(add(&f, 5001, tree(UID, 5001), &q) == 0 && q == p);
	check(p->uid == UID && p->job != old && old->n_members == 0);
	check(account_used(&f.accounts, 0, ACCOUNT_PROCESSES) == 0);
	check(account_used(&f.accounts, UID, ACCOUNT_PROCESSES) == 1);
	check(old->root == ROOT_NEW && old->root_pid == 5001 && !f.registry.empty.first);
	fixture_done(&f);
}

TEST(limits)
{
	struct process *p;
	struct fixture f;

	fixture_init(&f, &small, -EBADF);
	for (pid_t pid = 1; pid <= 3; pid++)
		check(add(&f, pid, tree(UID, 1), &p) == 1);
	check(add(&f, 4, tree(UID, 1), &p) == -EDQUOT);
	check(add(&f, 5, tree(1, 5), &p) == 1 && add(&f, 6, tree(1, 5), &p) == 1);
	check(add(&f, 7, tree(2, 7), &p) == -EUSERS);
	check(f.registry.processes.n == 5);
	registry_remove(&f.registry, registry_find(&f.registry, 2, 2), 0);
	check(add(&f, 4, tree(UID, 1), &p) == 1);
	fixture_done(&f);
}

static struct wire_report report_of(const char *entries, size_t size, uint16_t count)
{
	return (struct wire_report){
		.environ_address = 4096, .count = count, .entries = {entries, size}};
}

TEST(reports)
{
	static const char entries[700] = "entries are not looked at here";
	struct wire_report m = report_of(entries, 300, 3), other = report_of(entries, 600, 3);
	struct process *p, *q;
	struct fixture f;

	fixture_init(&f, &small, -EBADF);
	check(add(&f, 1, tree(UID, 1), &p) == 1 && add(&f, 2, tree(UID, 1), &q) == 1);
	check(registry_report(&f.registry, p, &m) == 0);
	check(registry_report(&f.registry, q, &m) == 0);
	check(p->report == q->report && p->report->refs == 2 && p->environ_address == 4096);
	check(p->report->size == 300 && memcmp(p->report->entries, entries, 300) == 0);
	/* A newer one takes the place of the last, and is charged instead of it. */
	other.result = 5;
	check(registry_report(&f.registry, q, &other) == -EDQUOT);
	check(!q->report && p->report->refs == 1);
	check(registry_report(&f.registry, p, &other) == 0);
	check(p->report->result == 5 && f.registry.reports.n == 1);
	check(registry_report(&f.registry, p, &m) == 0);
	check(registry_report(&f.registry, q, &m) == 0);
	registry_remove(&f.registry, p, 0);
	check(q->report->refs == 1);
	fixture_done(&f);
}

TEST(exit_is_seen_by_pidfd)
{
	struct epoll_event e = {0};
	struct process_id id;
	struct process *p;
	struct fixture f;
	int hub = epoll_create1(EPOLL_CLOEXEC), pidfd = -EBADF;
	pid_t pid;

	check(hub >= 0);
	fixture_init(&f, &account_limits_default, hub);
	/* Not by pidfd_open(), which valgrind 3.19 does not know. */
	pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);
	check(pid >= 0);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	check(pidfd >= 0);
	id = (struct process_id){.pid = pid, .start = 1, .pidns = 77, .nspid = pid};
	check(registry_add(&f.registry, &id, tree(UID, pid), &pidfd, &p) == 1 && pidfd < 0);
	check(epoll_wait(hub, &e, 1, 0) == 0);
	check(kill(pid, SIGKILL) == 0);
	check(epoll_wait(hub, &e, 1, 20000) == 1 && e.data.ptr == p);
	check(p->watched == WATCHED_PROCESS);
	check(waitpid(pid, NULL, 0) == pid);
	registry_remove(&f.registry, p, 0);
	fixture_done(&f);
	check(close(hub) == 0);
}

/* Those without a pidfd, who must be looked at; removing one does not lose the next. */
TEST(sweep)
{
	struct process *p, *next;
	struct fixture f;
	unsigned n = 0;

	fixture_init(&f, &account_limits_default, -EBADF);
	check(!registry_sweep(&f.registry, NULL));
	for (pid_t pid = 1; pid <= 100; pid++)
		check(add(&f, pid, tree(UID, 1), &p) == 1);
	for (p = registry_sweep(&f.registry, NULL); p; p = next) {
		next = registry_sweep(&f.registry, p);
		registry_remove(&f.registry, p, 0);
		n++;
	}
	check(n == 100 && f.registry.n_without_pidfd == 0);
	fixture_done(&f);
}

/* 10,000 processes, each the only one of its job, each with the report of a profile of 12
 * variables. */
TEST(memory_of_ten_thousand)
{
	static const char entries[12 * 24];
	struct wire_report m = report_of(entries, sizeof entries, 12);
	struct mallinfo2 before, after;
	struct process *p;
	struct fixture f;

	before = mallinfo2();
	fixture_init(&f, &account_limits_default, -EBADF);
	for (pid_t pid = 1; pid <= 10000; pid++) {
		check(add(&f, pid, tree(UID, pid), &p) == 1);
		check(registry_report(&f.registry, p, &m) == 0);
	}
	after = mallinfo2();
	printf("10000 processes, jobs and reports: %zu bytes\n",
	       after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
	check(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd < 6u << 20);
	for (pid_t pid = 1; pid <= 10000; pid++) {
		p = registry_find(&f.registry, pid, (uint64_t)pid);
		check(p && p->job->parsed.pid == pid);
		p->job->root = ROOT_GONE;
		registry_remove(&f.registry, p, 0);
	}
	check(f.registry.processes.n == 0 && f.registry.reports.n == 0);
	fixture_done(&f);
}

TEST_MAIN
