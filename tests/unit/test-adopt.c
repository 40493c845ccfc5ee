/* SPDX-License-Identifier: MIT */
/*
 * What keeps the broker's memory true: files that others made, restarts, the roots of jobs, the end
 * of pins. Time is an argument, so nothing here waits.
 */
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "tests/unit/broker-fixture.h"
#include "tests/unit/broker-peer.h"

#define OTHER_UID 54321
#define GRACE     BROKER_GRACE_USEC

static const char *key_of(const struct node *n, uid_t uid, pid_t pid, uint64_t start)
{
	static char key[JOB_KEY_SIZE];
	struct job_key k = {.kind = JOB_TREE,
			    .uid = uid,
			    .pidns = n->broker.own_pidns,
			    .pid = pid,
			    .start = start};

	job_key_format(&k, key);
	return key;
}

/* As after kill -9: nothing is said to the broker that was, everything is read by the next. */
static void restart(struct node *n)
{
	broker_done(&n->broker);
	node_open(n, &account_limits_default);
	run_steps(n, 1);
}

static bool has_pin(const struct node *n, const char *key)
{
	return link_text(n, "jobs", key)[0];
}

TEST(exit_of_single_process)
{
	char key[JOB_KEY_SIZE], name[JOB_PROC_SIZE];
	struct node n;
	pid_t pid = spawn();

	node_init(&n, "on");
	strcpy(name, proc_name(&n, pid, start_of(pid)));
	strcpy(key, key_of(&n, geteuid(), pid, start_of(pid)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", name, key, geteuid());
	run_steps(&n, 1);
	check(n.broker.registry.processes.n == 1 && n.broker.registry.jobs.n == 1);
	/* nothing to wake up for */
	check((broker_next_usec(&n.broker) == UINT64_MAX) == has_pidfds());
	end(pid);
	run_hub(&n, 1000);
	check_streq(link_text(&n, "procs", name), "");
	check(has_pin(&n, key) && broker_next_usec(&n.broker) == 1000 + GRACE);
	broker_tick(&n.broker, 1000 + GRACE - 1);
	check(has_pin(&n, key));
	broker_tick(&n.broker, 1000 + GRACE);
	check(!has_pin(&n, key) && n.broker.registry.jobs.n == 0);
	check(broker_next_usec(&n.broker) == UINT64_MAX);
	node_done(&n);
}

/* Who has exited is gone, also while its parent does not ask for it. */
TEST(exit_without_wait)
{
	char key[JOB_KEY_SIZE];
	struct epoll_event e;
	struct node n;
	pid_t pid;

	if (!has_pidfds())
		skip("no pidfd_open()");
	pid = spawn();
	node_init(&n, "on");
	strcpy(key, key_of(&n, geteuid(), pid, start_of(pid)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", proc_name(&n, pid, start_of(pid)), key, geteuid());
	run_steps(&n, 1);
	check(kill(pid, SIGKILL) == 0);
	check(epoll_wait(n.broker.hub_fd, &e, 1, 20000) == 1);
	run_hub(&n, 1);
	broker_tick(&n.broker, 1 + GRACE);
	check(!has_pin(&n, key) && broker_next_usec(&n.broker) == UINT64_MAX);
	check(waitpid(pid, NULL, 0) == pid);
	node_done(&n);
}

/* A root that is no member keeps the pin; so does a member when the root has gone. */
TEST(pin_stays_for_root_and_members)
{
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t root = spawn(), a = spawn(), b = spawn();
	struct job *j;

	node_init(&n, "on");
	strcpy(key, key_of(&n, geteuid(), root, start_of(root)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", proc_name(&n, a, start_of(a)), key, geteuid());
	run_steps(&n, 1);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_PROCESS && j->n_members == 1);
	end(a);
	run_hub(&n, 2);
	broker_tick(&n.broker, 2 + 2 * GRACE);
	check(has_pin(&n, key) && j->n_members == 0);
	make_link(&n, "procs", proc_name(&n, b, start_of(b)), key, geteuid());
	run_steps(&n, 3 * GRACE);
	end(root);
	run_hub(&n, 3 * GRACE);
	check(j->root == ROOT_GONE && j->n_members == 1);
	broker_tick(&n.broker, 9 * GRACE);
	check(has_pin(&n, key));
	end(b);
	run_hub(&n, 9 * GRACE);
	broker_tick(&n.broker, 10 * GRACE);
	check(!has_pin(&n, key));
	node_done(&n);
}

/* It had read the pin, and made its link only after the last member was gone. */
TEST(late_member)
{
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t first = spawn(), late = spawn();

	node_init(&n, "on");
	strcpy(key, key_of(&n, geteuid(), first, start_of(first)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", proc_name(&n, first, start_of(first)), key, geteuid());
	run_steps(&n, 1);
	end(first);
	run_hub(&n, 2);
	make_link(&n, "procs", proc_name(&n, late, start_of(late)), key, geteuid());
	broker_tick(&n.broker, 2 + GRACE); /* reads the link before it would remove the pin */
	check(has_pin(&n, key));
	check(registry_job(&n.broker.registry, key)->n_members == 1);
	end(late);
	node_done(&n);
}

TEST(restart_knows_all)
{
	char key[JOB_KEY_SIZE], child_key[JOB_KEY_SIZE], again[JOB_KEY_SIZE];
	struct node n;
	pid_t pid = spawn(), dead = spawn();
	uint64_t dead_start = start_of(dead);

	node_init(&n, "on");
	(void)fetch_of(&n, getpid(), key);
	(void)fetch_of(&n, pid, child_key);
	(void)fetch_of(&n, dead, again);
	check_streq(child_key, key);
	end(dead); /* while the broker is away */
	restart(&n);
	check(n.broker.registry.processes.n == 2 && n.broker.registry.jobs.n == 1);
	check(registry_find(&n.broker.registry, pid, start_of(pid)));
	check(registry_job(&n.broker.registry, key)->n_members == 2);
	check_streq(link_text(&n, "procs", proc_name(&n, dead, dead_start)), "");
	check_streq(link_text(&n, "jobs", key), n.digest);
	/* A profile that came meanwhile is not for this job. */
	node_write(&n, "assign", "cudaenv-assign 1\ngeneration 2\nmode on\ndefault none\nend\n");
	broker_refresh(&n.broker);
	check_streq(fetch_of(&n, pid, again).digest, n.digest);
	check_streq(again, key);
	end(pid);
	node_done(&n);
}

/* Before all is read, no pin is removed; questions are answered from the files. */
TEST(nothing_is_removed_while_reading)
{
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t root = spawn(), member = spawn();

	node_init(&n, "on");
	strcpy(key, key_of(&n, geteuid(), root, start_of(root)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", proc_name(&n, member, start_of(member)), key, geteuid());
	broker_done(&n.broker);
	end(root);
	node_open(&n, &account_limits_default);
	check(adopt_reading(&n.broker.adopt));
	broker_tick(&n.broker, 100 * GRACE);
	check(has_pin(&n, key));
	run_steps(&n, 1);
	broker_tick(&n.broker, 200 * GRACE);
	check(has_pin(&n, key));
	end(member);
	run_hub(&n, 300 * GRACE);
	broker_tick(&n.broker, 301 * GRACE);
	check(!has_pin(&n, key));
	node_done(&n);
}

TEST(pins_of_nobody)
{
	char dead[JOB_KEY_SIZE], alive[JOB_KEY_SIZE], slot[JOB_KEY_SIZE + 2];
	struct node n;
	pid_t pid = spawn(), root = spawn();

	node_init(&n, "on");
	strcpy(dead, key_of(&n, geteuid(), pid, start_of(pid)));
	strcpy(alive, key_of(&n, geteuid(), root, start_of(root)));
	snprintf(slot, sizeof slot, "%s~1", dead);
	make_link(&n, "jobs", dead, n.digest, geteuid());
	make_link(&n, "jobs", slot, n.digest, geteuid());
	make_link(&n, "jobs", alive, n.digest, geteuid());
	make_link(&n, "jobs", "unit-0-18446744073709551615", "none", geteuid());
	end(pid);
	restart(&n);
	check(n.broker.registry.jobs.n == 3);
	broker_tick(&n.broker, 2 * GRACE + BROKER_SWEEP_USEC); /* looks for the cgroup */
	broker_tick(&n.broker, 9 * GRACE + BROKER_SWEEP_USEC);
	check(!has_pin(&n, dead) && !has_pin(&n, slot) && has_pin(&n, alive));
	if (n.broker.cgroup_fd >= 0 && !n.broker.roots.cannot_walk)
		check(!has_pin(&n, "unit-0-18446744073709551615"));
	end(root);
	node_done(&n);
}

TEST(rubbish)
{
	char path[256];
	struct node n;
	pid_t pid = spawn();

	node_init(&n, "on");
	make_link(&n, "procs", "not-a-name", "x", geteuid());
	make_link(&n, "procs", proc_name(&n, pid, start_of(pid)), "not a key", geteuid());
	make_link(&n, "procs", proc_name(&n, pid, start_of(pid) + 1), "tree-0-1-2-3", geteuid());
	make_link(&n, "jobs", "not-a-key", n.digest, geteuid());
	make_link(&n, "jobs", key_of(&n, geteuid(), pid, start_of(pid)), "not a pin", geteuid());
	snprintf(path, sizeof path, "%s/jobs/directory", n.path);
	check(mkdir(path, 0755) == 0);
	snprintf(path, sizeof path, "%s/procs/1-2-3", n.path);
	check(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
	run_steps(&n, 1);
	check(n.broker.registry.processes.n == 0 && n.broker.registry.jobs.n == 0);
	check(n.broker.adopt.n_removed == 7);
	snprintf(path, sizeof path, "%s/procs", n.path);
	check(rmdir(path) == 0 && mkdir(path, 0755) == 0); /* it was empty */
	end(pid);
	node_done(&n);
}

/* More than inotify holds: everything is read again. */
TEST(overflow)
{
	struct node n;
	char name[64];
	unsigned long queue = 0;
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");

	if (!f || fscanf(f, "%lu", &queue) != 1 || queue > 50000) {
		if (f)
			(void)fclose(f);
		skip("inotify's queue is long here");
	}
	check(fclose(f) == 0);
	node_init(&n, "on");
	run_steps(&n, 1);
	check(!adopt_reading(&n.broker.adopt));
	for (unsigned long i = 0; i < queue + 100; i++) {
		snprintf(name, sizeof name, "rubbish-%lu", i);
		make_link(&n, "procs", name, "x", geteuid());
	}
	check(adopt_read(&n.broker.adopt, false) && adopt_reading(&n.broker.adopt));
	run_steps(&n, 2);
	check(n.broker.adopt.n_removed == queue + 100);
	node_done(&n);
}

/* What does not fit stays in the files, is looked up there, and is taken when there is room. */
TEST(limit)
{
	struct account_limits limits = account_limits_default;
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t a = spawn(), b = spawn();
	uint64_t later = 100 * UINT64_C(1000000);

	node_init(&n, "on");
	strcpy(key, key_of(&n, geteuid(), a, start_of(a)));
	make_link(&n, "procs", proc_name(&n, a, start_of(a)), key, geteuid());
	limits.user[ACCOUNT_PROCESSES] = 1;
	broker_done(&n.broker);
	node_open(&n, &limits);
	run_steps(&n, 1);
	make_link(&n, "procs", proc_name(&n, b, start_of(b)), key, geteuid());
	run_steps(&n, 1);
	check(n.broker.registry.processes.n == 1 && n.broker.adopt.again);
	check(!adopt_complete(&n.broker.adopt) && broker_next_usec(&n.broker) != UINT64_MAX);
	end(a);
	run_hub(&n, 2);
	broker_tick(&n.broker, later);
	run_steps(&n, later);
	check(registry_find(&n.broker.registry, b, start_of(b)));
	check(adopt_complete(&n.broker.adopt));
	end(b);
	node_done(&n);
}

/* A user's pins beyond their share are not kept: with one process there are names without end. The
 * broker's own and root's are. */
TEST(limit_of_pins)
{
	struct account_limits limits = account_limits_default;
	char key[JOB_KEY_SIZE], own[JOB_KEY_SIZE];
	pid_t pid = spawn();
	unsigned left = 0;
	struct job_key k;
	struct node n;

	if (geteuid() != 0)
		skip("gives files away");
	node_init(&n, "on");
	limits.user[ACCOUNT_JOBS] = 3;
	broker_done(&n.broker);
	node_open(&n, &limits);
	strcpy(own, key_of(&n, geteuid(), pid, start_of(pid)));
	make_link(&n, "jobs", own, n.digest, geteuid());
	check(job_key_parse(key_of(&n, OTHER_UID, pid, start_of(pid)), &k) == 0);
	for (int i = 0; i < 8; i++) {
		(void)snprintf(k.digest, sizeof k.digest, "%064x", i + 1);
		job_key_format(&k, key);
		make_link(&n, "jobs", key, n.digest, OTHER_UID);
	}
	run_steps(&n, 1);
	for (int i = 0; i < 8; i++) {
		(void)snprintf(k.digest, sizeof k.digest, "%064x", i + 1);
		job_key_format(&k, key);
		left += has_pin(&n, key);
	}
	check(left == 3 && has_pin(&n, own) && adopt_complete(&n.broker.adopt));
	end(pid);
	node_done(&n);
}

/* Roots that cannot be watched are looked at. */
TEST(root_without_watch)
{
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t root = spawn();
	struct job *j;

	node_init(&n, "on");
	n.broker.roots.hub_fd = -EBADF;
	strcpy(key, key_of(&n, geteuid(), root, start_of(root)));
	make_link(&n, "jobs", key, n.digest, geteuid());
	run_steps(&n, 1);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_PROCESS && j->root_fd < 0);
	broker_tick(&n.broker, BROKER_SWEEP_USEC);
	check(j->root == ROOT_PROCESS && broker_next_usec(&n.broker) == 2 * BROKER_SWEEP_USEC);
	end(root);
	broker_tick(&n.broker, 2 * BROKER_SWEEP_USEC);
	check(j->root == ROOT_GONE);
	broker_tick(&n.broker, 3 * BROKER_SWEEP_USEC);
	check(!has_pin(&n, key) && broker_next_usec(&n.broker) == UINT64_MAX);
	node_done(&n);
}

/* Links of strangers: at the name of somebody's process, naming somebody's job, at somebody's pin.
 */
TEST(strangers)
{
	char key[JOB_KEY_SIZE], name[JOB_PROC_SIZE], theirs[JOB_KEY_SIZE];
	struct node n;
	pid_t pid, other;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n, "on");
	pid = spawn_as(1234);
	other = spawn_as(OTHER_UID);
	strcpy(name, proc_name(&n, pid, start_of(pid)));
	strcpy(key, key_of(&n, 1234, pid, start_of(pid)));
	make_link(&n, "procs", name, key, OTHER_UID);
	make_link(&n, "jobs", key, n.digest, OTHER_UID);
	strcpy(theirs, proc_name(&n, other, start_of(other)));
	make_link(&n, "procs", theirs, key, OTHER_UID); /* its own name, but another's job */
	run_steps(&n, 1);
	check(n.broker.registry.processes.n == 0 && n.broker.registry.jobs.n == 0);
	check_streq(link_text(&n, "procs", name), "");
	check_streq(link_text(&n, "procs", theirs), "");
	check(!has_pin(&n, key));
	/* The same by their owners is believed. */
	make_link(&n, "procs", name, key, 1234);
	make_link(&n, "jobs", key, n.digest, 1234);
	run_steps(&n, 1);
	check(n.broker.registry.processes.n == 1);
	check(registry_find(&n.broker.registry, pid, start_of(pid))->uid == 1234);
	end(pid);
	end(other);
	node_done(&n);
}

/* --- another pid namespace --- */

struct inner {
	pid_t init, worker; /* as we number them */
	uint64_t init_start, worker_start;
};

/* A pid namespace with its pid 1 and a child of that, which is 2 there. */
static bool enter_inner(struct inner *ret)
{
	int p[2];

	check(pipe(p) == 0);
	ret->init = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
	if (ret->init < 0)
		return false;
	if (ret->init == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			(void)pause();
			_exit(0);
		}
		if (pid < 0 || write(p[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	check(read(p[0], &(char){0}, 1) == 1);
	check(close(p[0]) == 0 && close(p[1]) == 0);
	return true;
}

static void find_worker(struct inner *inner)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", inner->init, inner->init);
	f = fopen(path, "re");
	check(f && fscanf(f, "%d", &inner->worker) == 1 && fclose(f) == 0);
	inner->init_start = start_of(inner->init);
	inner->worker_start = start_of(inner->worker);
}

/* A link that was made inside names a process by its number there. */
TEST(other_namespace)
{
	char key[JOB_KEY_SIZE], name[JOB_PROC_SIZE], dead[JOB_PROC_SIZE];
	struct inner inner;
	struct node n;
	struct job *j;

	if (!enter_inner(&inner))
		skip("no pid namespaces here");
	find_worker(&inner);
	node_init(&n, "on");
	snprintf(key, sizeof key, "tree-%u-4242-1-%llu", geteuid(),
		 (unsigned long long)inner.init_start);
	job_proc_format(4242, 2, inner.worker_start, name);
	job_proc_format(4242, 3, inner.worker_start, dead);
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", name, key, geteuid());
	make_link(&n, "procs", dead, key, geteuid());
	restart(&n);
	/* The first pass over /proc found the worker; it is the way to the root. */
	check(n.broker.registry.processes.n == 1);
	check(registry_find(&n.broker.registry, inner.worker, inner.worker_start));
	check_streq(link_text(&n, "procs", dead), "");
	j = registry_job(&n.broker.registry, key);
	check(j && j->n_members == 1);
	run_steps(&n, 2);
	broker_tick(&n.broker, BROKER_SWEEP_USEC);
	run_steps(&n, BROKER_SWEEP_USEC);
	check(j->root == ROOT_PROCESS && j->root_pid == inner.init);
	check(kill(inner.init, SIGKILL) == 0 && waitpid(inner.init, NULL, 0) == inner.init);
	run_hub(&n, 3);
	check(j->root == ROOT_GONE && j->n_members == 0);
	check_streq(link_text(&n, "procs", name), "");
	broker_tick(&n.broker, BROKER_SWEEP_USEC + 2 * GRACE);
	check(!has_pin(&n, key));
	node_done(&n);
}

/* The broker asks for one in the namespace: the root is found among its ancestors. */
TEST(fetch_from_other_namespace)
{
	char key[JOB_KEY_SIZE];
	struct inner inner;
	struct process *p;
	struct node n;
	struct peer peer;
	struct wire_fetch m = {.nspid = 2, .pidns = 4242};
	struct wire_answer a;

	if (!enter_inner(&inner))
		skip("no pid namespaces here");
	find_worker(&inner);
	node_init(&n, "on");
	peer = peer_of(inner.worker, geteuid());
	check(wire_decode_answer(reply, (size_t)ask(&n, &peer, &m), &a) == 0);
	memcpy(key, a.key.ptr, a.key.size);
	key[a.key.size] = '\0';
	p = registry_find(&n.broker.registry, inner.worker, inner.worker_start);
	check(p && p->nspid == 2 && p->pidns != n.broker.own_pidns);
	run_steps(&n, 1);
	check(p->job->root == ROOT_MEMBER || p->job->root == ROOT_PROCESS ||
	      p->job->parsed.kind != JOB_TREE);
	check(kill(inner.init, SIGKILL) == 0 && waitpid(inner.init, NULL, 0) == inner.init);
	run_hub(&n, 3);
	check(n.broker.registry.processes.n == 0);
	node_done(&n);
}

/* --- cgroups --- */

/* A unit's cgroup with a child in it; CGROUP is "" where none can be made. */
static pid_t make_unit(char cgroup[128], uint64_t *ret_inode)
{
	static const char *const bases[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	char path[160];
	struct stat st;
	pid_t pid;
	FILE *f = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bases) && !f; i++) {
		snprintf(cgroup, 128, "%s/cudaenv-test-%d.service", bases[i], (int)getpid());
		snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
		if (mkdir(cgroup, 0755) == 0 && !(f = fopen(path, "we")))
			(void)rmdir(cgroup);
	}
	if (!f) {
		cgroup[0] = '\0';
		return 0;
	}
	pid = spawn();
	fprintf(f, "%d\n", (int)pid);
	check(fclose(f) == 0 && stat(cgroup, &st) == 0);
	*ret_inode = st.st_ino;
	return pid;
}

TEST(cgroup_root)
{
	char cgroup[128], key[JOB_KEY_SIZE];
	uint64_t inode;
	struct node n;
	struct job *j;
	pid_t pid;

	pid = make_unit(cgroup, &inode);
	if (!cgroup[0])
		skip("no cgroup can be made here");
	node_init(&n, "on");
	snprintf(key, sizeof key, "unit-%u-%llu", geteuid(), (unsigned long long)inode);
	make_link(&n, "jobs", key, n.digest, geteuid());
	make_link(&n, "procs", proc_name(&n, pid, start_of(pid)), key, geteuid());
	run_steps(&n, 1);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_CGROUP && j->n_members == 1);
	end(pid);
	run_hub(&n, 2);
	broker_tick(&n.broker, 2 + GRACE);
	check(has_pin(&n, key)); /* the unit is still there */
	/* Known by its pin alone after a restart. */
	restart(&n);
	broker_tick(&n.broker, BROKER_SWEEP_USEC);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_CGROUP && j->cgroup_wd >= 0);
	check(rmdir(cgroup) == 0);
	roots_read(&n.broker.roots, BROKER_SWEEP_USEC);
	check(j->root == ROOT_GONE);
	broker_tick(&n.broker, BROKER_SWEEP_USEC + GRACE);
	check(!has_pin(&n, key));
	node_done(&n);
}

/* Two jobs of one unit share one watch; without a watch the unit is looked at. */
TEST(cgroup_of_two_jobs)
{
	char cgroup[128], key[JOB_KEY_SIZE], other[JOB_KEY_SIZE];
	struct job *j, *k;
	uint64_t inode;
	struct node n;
	pid_t pid;

	pid = make_unit(cgroup, &inode);
	if (!cgroup[0])
		skip("no cgroup can be made here");
	node_init(&n, "on");
	(void)fetch_of(&n, pid, key);
	if (strncmp(key, "unit-", 5) != 0) {
		end(pid);
		check(rmdir(cgroup) == 0);
		node_done(&n);
		skip("another hierarchy names the units");
	}
	broker_settle(&n.broker, 1);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_CGROUP && j->cgroup_wd >= 0);
	check((size_t)snprintf(other, sizeof other, "%.100s.%s", key, n.digest) < sizeof other);
	make_link(&n, "jobs", other, n.digest, geteuid());
	run_steps(&n, 1);
	broker_tick(&n.broker, BROKER_SWEEP_USEC);
	k = registry_job(&n.broker.registry, other);
	check(k && k->root == ROOT_CGROUP && k->cgroup_wd == j->cgroup_wd);
	roots_set_gone(&n.broker.roots, k, 1);
	end(pid);
	run_hub(&n, 2);
	check(rmdir(cgroup) == 0);
	roots_read(&n.broker.roots, 3);
	check(j->root == ROOT_GONE);
	node_done(&n);
}

TEST(cgroup_without_watch)
{
	char cgroup[128], key[JOB_KEY_SIZE];
	uint64_t inode;
	struct node n;
	struct job *j;
	pid_t pid;
	int saved;

	pid = make_unit(cgroup, &inode);
	if (!cgroup[0])
		skip("no cgroup can be made here");
	node_init(&n, "on");
	saved = n.broker.roots.inotify_fd;
	n.broker.roots.inotify_fd = -EBADF;
	snprintf(key, sizeof key, "unit-%u-%llu", geteuid(), (unsigned long long)inode);
	make_link(&n, "procs", proc_name(&n, pid, start_of(pid)), key, geteuid());
	run_steps(&n, 1);
	j = registry_job(&n.broker.registry, key);
	check(j && j->root == ROOT_CGROUP && j->cgroup_wd < 0);
	end(pid);
	run_hub(&n, 1);
	broker_tick(&n.broker, BROKER_SWEEP_USEC);
	check(j->root == ROOT_CGROUP);
	check(rmdir(cgroup) == 0);
	broker_tick(&n.broker, 2 * BROKER_SWEEP_USEC);
	check(j->root == ROOT_GONE);
	n.broker.roots.inotify_fd = saved;
	node_done(&n);
}

TEST_MAIN
