/* SPDX-License-Identifier: MIT */
/* Requests of real processes to a broker without a socket: answers, files, registry, refusals. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tests/unit/broker-fixture.h"
#include "tests/unit/broker-peer.h"

#define OTHER_UID 54321

/* The job of SELF is that of this test program's ancestors; children below it share its own. */
TEST(fetch)
{
	char key[JOB_KEY_SIZE], again[JOB_KEY_SIZE];
	struct process *p;
	char link[JOB_LINK_SIZE];
	struct wire_answer a;
	struct node n;
	pid_t pid;
	uint64_t start;

	node_init(&n, "on");
	pid = spawn();
	start = start_of(pid);
	a = fetch_of(&n, pid, key);
	check_streq(a.digest, n.digest);
	check(a.reason == DECIDED_DEFAULT && !(a.flags & ANSWER_BELOW));
	check_streq(link_text(&n, "jobs", key), n.digest);
	job_link_format(key, n.digest, link);
	check_streq(link_text(&n, "procs", proc_name(&n, pid, start)), link);
	p = registry_find(&n.broker.registry, pid, start);
	check(p && (p->pidfd >= 0) == has_pidfds() && p->uid == geteuid());
	check_streq(p->job->key, key);
	/* Asked again, as after an exec: it is its own nearest registered process. */
	a = fetch_of(&n, pid, again);
	check_streq(again, key);
	check(a.reason == DECIDED_PIN && (a.flags & ANSWER_BELOW));
	check(n.broker.registry.processes.n == 1);
	end(pid);
	node_done(&n);
}

/* Another profile since: the children of a registered process stay with its job. */
TEST(child_of_registered)
{
	char key[JOB_KEY_SIZE], child[JOB_KEY_SIZE];
	struct wire_answer a;
	struct node n;
	pid_t pid;

	node_init(&n, "on");
	(void)fetch_of(&n, getpid(), key);
	node_write(&n, "assign", "cudaenv-assign 1\ngeneration 2\nmode on\ndefault none\nend\n");
	broker_refresh(&n.broker);
	check(n.broker.assign->generation == 2);
	pid = spawn();
	a = fetch_of(&n, pid, child);
	check_streq(child, key);
	check_streq(a.digest, n.digest);
	check(a.flags & ANSWER_BELOW);
	end(pid);
	node_done(&n);
}

TEST(modes)
{
	char key[JOB_KEY_SIZE];
	struct wire_answer a;
	struct node n;
	pid_t pid = spawn();

	node_init(&n, "off");
	a = fetch_of(&n, pid, key);
	check(!a.digest[0] && !key[0] && a.reason == DECIDED_OFF);
	check(n.broker.registry.processes.n == 0);
	node_assign(&n, "observe", "");
	broker_refresh(&n.broker);
	a = fetch_of(&n, pid, key);
	check(!a.digest[0] && a.reason == DECIDED_OBSERVE);
	check_streq(link_text(&n, "jobs", key), "none");
	check(n.broker.registry.processes.n == 1);
	end(pid);
	node_done(&n);
}

TEST(damaged_rules)
{
	char key[JOB_KEY_SIZE];
	struct node n;
	pid_t pid = spawn();

	node_init(&n, "on");
	node_write(&n, "assign", "cudaenv-assign 1\ngeneration 9\nmode off\ndefault none\n");
	broker_refresh(&n.broker);
	check(n.broker.assign_error == -EBADMSG);
	check_streq(fetch_of(&n, pid, key).digest, n.digest);
	node_assign(&n, "off", "");
	broker_refresh(&n.broker);
	check(n.broker.assign_error == 0);
	check(!fetch_of(&n, pid, key).digest[0]);
	end(pid);
	node_done(&n);
}

static struct wire_error error_of(ssize_t size)
{
	struct wire_header h;
	struct wire_error e;

	check(size > 0 && wire_decode_header(reply, (size_t)size, TO_CLIENT, &h) == 0);
	check(h.type == WIRE_ERROR && wire_decode_error(reply, (size_t)size, &e) == 0);
	check(e.version == WIRE_VERSION && e.text.size > 10);
	return e;
}

TEST(nothing_published)
{
	struct peer peer = peer_of(getpid(), geteuid());
	struct wire_fetch m = {.nspid = 1};
	char path[128];
	struct node n;

	node_init(&n, "on");
	broker_done(&n.broker);
	snprintf(path, sizeof path, "%s/assign", n.path);
	check(unlink(path) == 0);
	node_open(&n, &account_limits_default);
	check(error_of(ask(&n, &peer, &m)).code == ENODATA);
	node_done(&n);
}

TEST(gone_peer)
{
	pid_t pid = spawn();
	struct peer peer = peer_of(pid, geteuid());
	struct wire_fetch m = {.nspid = (uint32_t)pid};
	struct node n;

	node_init(&n, "on");
	end(pid);
	check(error_of(ask(&n, &peer, &m)).code == ESRCH);
	check(n.broker.registry.processes.n == 0 && n.broker.counters.undecided == 1);
	node_done(&n);
}

static ssize_t send_report(struct node *n, struct peer *peer, const char *key, const char *digest)
{
	struct wire_report m = {.environ_address = 0x1234, .nspid = 1, .key = {key, strlen(key)}};
	char request[1024];
	ssize_t size;

	memcpy(m.digest, digest, DIGEST_SIZE);
	size = wire_encode_report(request, sizeof request, 8, &m);
	check(size > 0);
	size = wire_report_add(request, sizeof request, (size_t)size, 1, "NCCL_ALGO");
	check(size > 0);
	return request_handle(&n->broker, peer, request, (size_t)size, reply);
}

/* Credentials of a process in a namespace that is not below ours have pid 0; it is not ourselves.
 */
TEST(invisible_peer)
{
	struct peer peer = peer_of(0, geteuid());
	struct wire_fetch m = {.nspid = 1};
	struct node n;

	node_init(&n, "on");
	check(error_of(ask(&n, &peer, &m)).code == ESRCH);
	check(send_report(&n, &peer, "", n.digest) == 0 && n.broker.counters.reports_lost == 1);
	check(n.broker.registry.processes.n == 0);
	node_done(&n);
}

/* An open stat file is of the process that was, not of who has its number now. */
TEST(ancestors)
{
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_facts facts, again;
	struct ancestors a;
	pid_t pid = spawn(), other;
	int r;

	check(proc_fd >= 0);
	ancestors_init(&a, proc_fd);
	check(procfs_facts(proc_fd, pid, &facts) == 0);
	for (int i = 0; i < 3; i++) {
		check(ancestors_facts(&a, pid, &again) == 0);
		check(again.pid == pid && again.ppid == getpid() && again.uid == geteuid());
		check(again.start == facts.start && streq(again.comm, facts.comm));
	}
	check(a.slots[(size_t)pid % ANCESTORS_MAX].pid == pid);
	end(pid);
	check(ancestors_facts(&a, pid, &again) == -ESRCH);
	/* Another one with that number: here the descriptor is put under it by hand. */
	other = spawn();
	a.slots[(size_t)other % ANCESTORS_MAX] = a.slots[(size_t)pid % ANCESTORS_MAX];
	a.slots[(size_t)pid % ANCESTORS_MAX].pid = 0;
	a.slots[(size_t)other % ANCESTORS_MAX].pid = other;
	r = ancestors_facts(&a, other, &again);
	check(r == 0 && again.pid == other && again.ppid == getpid());
	end(other);
	ancestors_done(&a);
	check(close(proc_fd) == 0);
}

TEST(limit_of_processes)
{
	struct account_limits limits = account_limits_default;
	struct wire_fetch m = {.nspid = 1};
	char key[JOB_KEY_SIZE];
	struct peer peer;
	struct node n;
	pid_t a = spawn(), b = spawn();

	limits.user[ACCOUNT_PROCESSES] = 1;
	node_init(&n, "on");
	broker_done(&n.broker);
	node_open(&n, &limits);
	(void)fetch_of(&n, a, key);
	peer = peer_of(b, geteuid());
	check(error_of(ask(&n, &peer, &m)).code == EDQUOT);
	check(n.broker.accounts.refused[ACCOUNT_PROCESSES] == 1);
	end(a);
	run_hub(&n, 1);
	check_streq(fetch_of(&n, b, key).digest, n.digest);
	end(b);
	node_done(&n);
}

/* What the peer says of its namespace does not make it another process: the kernel's pid and start
 * time are its name. */
TEST(false_namespace)
{
	struct peer peer = peer_of(getpid(), geteuid());
	struct wire_fetch m = {.nspid = 4, .pidns = 12345};
	struct node n;

	node_init(&n, "on");
	(void)ask(&n, &peer, &m);
	check(link_text(&n, "procs", proc_name(&n, getpid(), start_of(getpid())))[0]);
	node_done(&n);
}

TEST(report)
{
	struct peer peer = peer_of(getpid(), geteuid());
	char key[JOB_KEY_SIZE];
	struct process *p;
	struct node n;

	node_init(&n, "on");
	check(send_report(&n, &peer, "", n.digest) == 0);
	check(n.broker.counters.reports_lost == 1); /* of nobody that we know */
	(void)fetch_of(&n, getpid(), key);
	check(send_report(&n, &peer, key, n.digest) == 0);
	p = registry_find(&n.broker.registry, getpid(), start_of(getpid()));
	check(p && p->report && p->report->count == 1 && p->environ_address == 0x1234);
	check_streq(p->report->digest, n.digest);
	check(n.broker.counters.reports_differ == 0);
	check(send_report(&n, &peer, "tree-0-1-2-3", n.digest) == 0);
	check(n.broker.counters.reports_differ == 1);
	node_done(&n);
}

/* It decided alone and made its link; the link has not been looked at when the report comes. */
TEST(report_of_one_who_decided_alone)
{
	struct peer peer = peer_of(getpid(), geteuid());
	char key[JOB_KEY_SIZE];
	struct node n;

	node_init(&n, "on");
	snprintf(key, sizeof key, "tree-%u-%llu-%d-%llu", geteuid(),
		 (unsigned long long)n.broker.own_pidns, (int)getpid(),
		 (unsigned long long)start_of(getpid()));
	make_link(&n, "procs", proc_name(&n, getpid(), start_of(getpid())), key, geteuid());
	check(send_report(&n, &peer, key, n.digest) == 0);
	check(n.broker.counters.reports_lost == 0 && n.broker.registry.processes.n == 1);
	node_done(&n);
}

static ssize_t get_as(struct node *n, uid_t uid, const char *digest, uint32_t offset)
{
	struct peer peer = peer_of(getpid(), uid);
	struct wire_get m = {.offset = offset};
	char request[256];
	ssize_t size;

	memcpy(m.digest, digest, DIGEST_SIZE);
	size = wire_encode_get(request, sizeof request, 9, &m);
	check(size > 0);
	return request_handle(&n->broker, &peer, request, (size_t)size, reply);
}

static struct wire_data data_of(ssize_t size)
{
	struct wire_data d;

	check(size > 0 && wire_decode_data(reply, (size_t)size, &d) == 0);
	return d;
}

TEST(get)
{
	static const char none[DIGEST_SIZE] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	const size_t total = sizeof fixture_snapshot - 1;
	struct wire_data d;
	struct node n;

	node_init(&n, "on");
	d = data_of(get_as(&n, OTHER_UID, n.digest, 0));
	check(d.total == total && d.offset == 0 && d.bytes.size == total);
	check(memcmp(d.bytes.ptr, fixture_snapshot, total) == 0);
	d = data_of(get_as(&n, OTHER_UID, n.digest, 10));
	check(d.offset == 10 && d.bytes.size == total - 10);
	check(data_of(get_as(&n, OTHER_UID, n.digest, (uint32_t)total)).bytes.size == 0);
	check(error_of(get_as(&n, OTHER_UID, n.digest, (uint32_t)total + 1)).code == ERANGE);
	check(error_of(get_as(&n, OTHER_UID, none, 0)).code == ENOENT);
	check(error_of(get_as(&n, 0, n.digest, 0)).code == EACCES);
	/* What was read in pieces is not kept for ever. */
	check(broker_next_usec(&n.broker) != UINT64_MAX);
	broker_tick(&n.broker, 1);
	check(!n.broker.published_bytes && broker_next_usec(&n.broker) == UINT64_MAX);
	node_done(&n);
}

/* A file that somebody else can write is not published. */
TEST(get_of_untrusted)
{
	struct node n;
	char path[256];

	node_init(&n, "on");
	snprintf(path, sizeof path, "%s/snapshots/%s", n.path, n.digest);
	check(chmod(path, 0666) == 0);
	check(error_of(get_as(&n, OTHER_UID, n.digest, 0)).code == EPERM);
	node_done(&n);
}

TEST(get_in_pieces)
{
	char text[WIRE_CHUNK_MAX + 200], name[128], digest[DIGEST_SIZE];
	struct wire_data d;
	struct node n;
	size_t size;

	node_init(&n, "on");
	strcpy(text, "cudaenv-snapshot 1\nprofile p\nscope any\ndefault A=");
	size = strlen(text);
	memset(text + size, 'x', sizeof text - size);
	strcpy(text + sizeof text - 2, "\n");
	digest_bytes(text, sizeof text - 1, digest);
	snprintf(name, sizeof name, "snapshots/%s", digest);
	node_write(&n, name, text);
	d = data_of(get_as(&n, OTHER_UID, digest, 0));
	check(d.total == sizeof text - 1 && d.bytes.size == WIRE_CHUNK_MAX);
	check(memcmp(d.bytes.ptr, text, WIRE_CHUNK_MAX) == 0);
	d = data_of(get_as(&n, OTHER_UID, digest, WIRE_CHUNK_MAX));
	check(d.offset == WIRE_CHUNK_MAX && d.bytes.size == sizeof text - 1 - WIRE_CHUNK_MAX);
	check(memcmp(d.bytes.ptr, text + WIRE_CHUNK_MAX, d.bytes.size) == 0);
	node_done(&n);
}

static ssize_t why_as(struct node *n, uid_t uid, pid_t pid, uint64_t start)
{
	struct wire_why m = {n->broker.own_pidns, (uint32_t)pid, start};
	struct peer peer = peer_of(getpid(), uid);
	char request[64];
	ssize_t size = wire_encode_why(request, sizeof request, 10, &m);

	check(size > 0);
	return request_handle(&n->broker, &peer, request, (size_t)size, reply);
}

static void check_reported(ssize_t size, const char *key, const char *digest)
{
	struct wire_reported m;
	struct wire_bytes name;
	size_t cursor = 0;
	uint8_t state;

	check(size > 0 && wire_decode_reported(reply, (size_t)size, &m) == 0);
	check(m.key.size == strlen(key) && memcmp(m.key.ptr, key, m.key.size) == 0);
	check_streq(m.digest, digest);
	check(m.count == 1 && wire_entry_next(&m.entries, &cursor, &state, &name) == 1);
	check(state == 1 && name.size == 9 && memcmp(name.ptr, "NCCL_ALGO", 9) == 0);
}

/* What a process reported is told to root and to its own user. */
TEST(why)
{
	uint64_t start = start_of(getpid());
	char key[JOB_KEY_SIZE];
	struct peer peer;
	struct node n;
	pid_t pid;

	node_init(&n, "on");
	check(error_of(why_as(&n, geteuid(), getpid(), start)).code == ENOENT);
	(void)fetch_of(&n, getpid(), key);
	check(error_of(why_as(&n, geteuid(), getpid(), start)).code == ENODATA);
	peer = peer_of(getpid(), geteuid());
	check(send_report(&n, &peer, key, n.digest) == 0);
	check_reported(why_as(&n, geteuid(), getpid(), start), key, n.digest);
	/* Another process of that number. */
	check(error_of(why_as(&n, geteuid(), getpid(), start + 1)).code == ENOENT);
	check(error_of(why_as(&n, OTHER_UID, getpid(), start)).code == EPERM);
	if (geteuid() == 0) {
		pid = spawn_as(OTHER_UID);
		peer = peer_of(pid, OTHER_UID);
		(void)fetch_as(&n, &peer, NULL, key);
		check(send_report(&n, &peer, key, n.digest) == 0);
		start = start_of(pid);
		check_reported(why_as(&n, 0, pid, start), key, n.digest);
		check_reported(why_as(&n, OTHER_UID, pid, start), key, n.digest);
		check(error_of(why_as(&n, OTHER_UID + 1, pid, start)).code == EPERM);
		end(pid);
	}
	node_done(&n);
}

static ssize_t release_as(struct node *n, struct peer *peer, const char *key, const char *digest)
{
	struct wire_release m = {"", {key, strlen(key)}};
	char request[512];
	ssize_t size;

	(void)strcpy(m.digest, digest);
	size = wire_encode_release(request, sizeof request, 11, &m);
	check(size > 0);
	return request_handle(&n->broker, peer, request, (size_t)size, reply);
}

static const char *released_of(ssize_t size)
{
	static struct wire_released m;

	check(size > 0 && wire_decode_released(reply, (size_t)size, &m) == 0);
	return m.from;
}

static void put_snapshot(struct node *n, const char *text, char ret[DIGEST_SIZE])
{
	char name[128];

	digest_bytes(text, strlen(text), ret);
	snprintf(name, sizeof name, "snapshots/%s", ret);
	node_write(n, name, text);
}

/* The job's next process gets the new one, and its token, the former one, still means this job. */
TEST(release)
{
	struct peer self = peer_of(getpid(), geteuid());
	char key[JOB_KEY_SIZE], child[JOB_KEY_SIZE], second[DIGEST_SIZE], text[256];
	struct wire_answer a;
	struct node n;
	pid_t pid;

	node_init(&n, "on");
	put_snapshot(&n, "cudaenv-snapshot 1\nprofile q\nscope any\n", second);
	(void)fetch_of(&n, getpid(), key);
	check_streq(released_of(release_as(&n, &self, key, second)), n.digest);
	snprintf(text, sizeof text, "%s %s", second, n.digest);
	check_streq(link_text(&n, "jobs", key), text);
	pid = spawn();
	a = fetch_of(&n, pid, child);
	check_streq(child, key);
	check_streq(a.digest, second);
	end(pid);
	pid = spawn();
	self = peer_of(pid, geteuid());
	a = fetch_as(&n, &self, n.digest, child);
	check_streq(child, key);
	check_streq(a.digest, second);
	end(pid);
	/* Again: nothing. Back: without itself among the former ones. To none. */
	self = peer_of(getpid(), geteuid());
	check_streq(released_of(release_as(&n, &self, key, second)), second);
	check_streq(link_text(&n, "jobs", key), text);
	check_streq(released_of(release_as(&n, &self, key, n.digest)), second);
	snprintf(text, sizeof text, "%s %s", n.digest, second);
	check_streq(link_text(&n, "jobs", key), text);
	check_streq(released_of(release_as(&n, &self, key, "")), n.digest);
	snprintf(text, sizeof text, "none %s %s", n.digest, second);
	check_streq(link_text(&n, "jobs", key), text);
	check_streq(released_of(release_as(&n, &self, key, second)), "");
	/* The broker's own link is no news to it. */
	run_steps(&n, 1);
	snprintf(text, sizeof text, "%s %s", second, n.digest);
	check_streq(link_text(&n, "jobs", key), text);
	node_done(&n);
}

TEST(release_is_refused)
{
	static const char none[DIGEST_SIZE] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	struct peer self = peer_of(getpid(), geteuid()), other = peer_of(getpid(), OTHER_UID);
	char key[JOB_KEY_SIZE];
	struct node n;
	int s[2];

	node_init(&n, "on");
	(void)fetch_of(&n, getpid(), key);
	check(error_of(release_as(&n, &other, key, "")).code == EPERM);
	check(error_of(release_as(&n, &self, key, none)).code == ENOENT);
	check(error_of(release_as(&n, &self, "tree-0-1-2-3", "")).code == ENOENT);
	check(error_of(release_as(&n, &self, "../../etc", "")).code == EINVAL);
	check(error_of(release_as(&n, &self, "tree-0-1-2-3~1", "")).code == EINVAL);
	/* Who asked has given up: it was told that nothing came of it. */
	check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0);
	self.fd = s[0];
	check(close(s[1]) == 0);
	check(error_of(release_as(&n, &self, key, "")).code == ECANCELED);
	check(close(s[0]) == 0);
	check_streq(link_text(&n, "jobs", key), n.digest);
	node_done(&n);
}

TEST(strange_messages)
{
	struct peer peer = peer_of(getpid(), geteuid());
	struct wire_fetch m = {.nspid = 1};
	char request[256];
	struct wire_error e;
	struct node n;
	size_t size;
	ssize_t r;

	node_init(&n, "on");
	size = (size_t)wire_encode_fetch(request, sizeof request, 3, &m);
	request[4] = 9; /* version */
	e = error_of(request_handle(&n.broker, &peer, request, size, reply));
	check(e.code == EPROTONOSUPPORT && memmem(e.text.ptr, e.text.size, "version 1", 9));
	request[4] = 1;
	for (int type = 0; type < 256; type++) {
		if (type == WIRE_FETCH || type == WIRE_REPORT || type == WIRE_GET ||
		    type == WIRE_WHY || type == WIRE_RELEASE)
			continue;
		request[6] = (char)type;
		r = request_handle(&n.broker, &peer, request, size, reply);
		check(error_of(r).code == EOPNOTSUPP);
	}
	request[6] = WIRE_FETCH;
	for (size_t cut = 0; cut < size; cut++)
		check(request_handle(&n.broker, &peer, request, cut, reply) == -EBADMSG);
	check(request_handle(&n.broker, &peer, request, size + 1, reply) == -EBADMSG);
	request[0] = 'X';
	check(request_handle(&n.broker, &peer, request, size, reply) == -EBADMSG);
	check(n.broker.counters.malformed == size + 2 && n.broker.registry.processes.n == 0);
	node_done(&n);
}

/* The process has changed its uid since it was registered: a new job, and its old link is replaced.
 */
TEST(change_of_uid)
{
	char key[JOB_KEY_SIZE], other[JOB_KEY_SIZE];
	struct node n;
	struct peer peer;
	struct job *old;
	char link[JOB_LINK_SIZE];
	uint64_t start;
	pid_t pid;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n, "on");
	pid = spawn_as(OTHER_UID);
	start = start_of(pid);
	snprintf(key, sizeof key, "tree-0-%llu-%d-%llu", (unsigned long long)n.broker.own_pidns,
		 (int)pid, (unsigned long long)start);
	make_link(&n, "jobs", key, n.digest, 0);
	make_link(&n, "procs", proc_name(&n, pid, start), key, 0);
	run_steps(&n, 1);
	old = registry_job(&n.broker.registry, key);
	check(old && old->n_members == 1 && old->root == ROOT_MEMBER);
	peer = peer_of(pid, OTHER_UID);
	/* What it does now is no business of who it was, as long as it has no job of its own. */
	check(send_report(&n, &peer, "", n.digest) == 0 && n.broker.counters.reports_lost == 1);
	check(error_of(why_as(&n, 0, pid, start)).code == ENODATA);
	check_streq(fetch_as(&n, &peer, NULL, other).digest, n.digest);
	check(strncmp(other, "tree-54321-", 11) == 0);
	job_link_format(other, n.digest, link);
	check_streq(link_text(&n, "procs", proc_name(&n, pid, start)), link);
	run_steps(&n, 2);
	check(old->n_members == 0 &&
	      old->root == ROOT_PROCESS); /* it is still the old one's root */
	end(pid);
	run_hub(&n, 3);
	check(old->root == ROOT_GONE && n.broker.registry.processes.n == 0);
	node_done(&n);
}

TEST_MAIN
