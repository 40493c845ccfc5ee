/* SPDX-License-Identifier: MIT */
#pragma once

/* Processes that wait, to be peers of the broker, and their requests; for tests beside
 * broker-fixture.h. */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/wire.h"
#include "tests/unit/test.h"

static char reply[WIRE_DATAGRAM_MAX];

/* Linux before 5.3 has none, valgrind 3.19 neither: the broker then looks who is still there. */
static inline bool has_pidfds(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	check(fd >= 0 || errno == ENOSYS || errno == EPERM);
	if (fd < 0)
		return false;
	check(close(fd) == 0);
	return true;
}

/* A child that waits to be killed. */
static pid_t spawn(void)
{
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)pause();
		_exit(0);
	}
	return pid;
}

/* A child that becomes UID before it waits. */
static inline pid_t spawn_as(uid_t uid)
{
	int p[2];
	char c;
	pid_t pid;

	check(pipe(p) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
		    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || write(p[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	check(close(p[1]) == 0 && read(p[0], &c, 1) == 1 && close(p[0]) == 0);
	return pid;
}

static void end(pid_t pid)
{
	check(kill(pid, SIGKILL) == 0);
	check(waitpid(pid, NULL, 0) == pid);
}

static uint64_t start_of(pid_t pid)
{
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_facts facts;

	check(procfs_facts(proc_fd, pid, &facts) == 0);
	check(close(proc_fd) == 0);
	return facts.start;
}

static struct peer peer_of(pid_t pid, uid_t uid)
{
	return (struct peer){.fd = -EBADF, .pid = pid, .uid = uid, .gid = uid};
}

static ssize_t ask(struct node *n, struct peer *peer, const struct wire_fetch *m)
{
	char request[WIRE_HEADER_SIZE + 94 + WIRE_EXE_MAX];
	ssize_t size = wire_encode_fetch(request, sizeof request, 7, m);
	struct wire_header h;

	check(size > 0);
	size = request_handle(&n->broker, peer, request, (size_t)size, reply);
	request_settle(&n->broker, peer);
	check(size > 0 && wire_decode_header(reply, (size_t)size, TO_CLIENT, &h) == 0);
	check(h.id == 7);
	return size;
}

/* A FETCH by PEER, and its answer, whose key is copied to KEY. */
static struct wire_answer fetch_as(struct node *n, struct peer *peer, const char *token,
				   char key[JOB_KEY_SIZE])
{
	struct wire_fetch m = {.nspid = (uint32_t)peer->pid, .pidns = n->broker.own_pidns};
	struct wire_answer a;

	if (token) {
		m.flags = FETCH_TOKEN;
		memcpy(m.token, token, DIGEST_SIZE);
	}
	check(wire_decode_answer(reply, (size_t)ask(n, peer, &m), &a) == 0);
	memcpy(key, a.key.ptr, a.key.size);
	key[a.key.size] = '\0';
	return a;
}

static struct wire_answer fetch_of(struct node *n, pid_t pid, char key[JOB_KEY_SIZE])
{
	struct peer peer = peer_of(pid, geteuid());

	return fetch_as(n, &peer, NULL, key);
}

/* Text of a link below the runtime directory; "" if there is none. */
static const char *link_text(const struct node *n, const char *dir, const char *name)
{
	static char text[512];
	char path[512];
	ssize_t size;

	snprintf(path, sizeof path, "%s/%s/%s", n->path, dir, name);
	size = readlink(path, text, sizeof text - 1);
	text[size > 0 ? size : 0] = '\0';
	return text;
}

static const char *proc_name(const struct node *n, pid_t pid, uint64_t start)
{
	static char name[JOB_PROC_SIZE];

	job_proc_format(n->broker.own_pidns, pid, start, name);
	return name;
}

static void make_link(const struct node *n, const char *dir, const char *name, const char *text,
		      uid_t owner)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s/%s", n->path, dir, name);
	check(symlink(text, path) == 0);
	check(lchown(path, owner, (gid_t)-1) == 0);
}

/* Everything that the server would do with what is ready, until nothing is. */
static void run_steps(struct node *n, uint64_t now_usec)
{
	adopt_read(&n->broker.adopt, false);
	broker_settle(&n->broker, now_usec);
	while (adopt_pending(&n->broker.adopt)) {
		adopt_step(&n->broker.adopt, now_usec);
		broker_settle(&n->broker, now_usec);
	}
}

/* The exits that the hub shows, or a sweep finds. */
static inline void run_hub(struct node *n, uint64_t now_usec)
{
	struct epoll_event e[16];
	int ready;

	while ((ready = epoll_wait(n->broker.hub_fd, e, 16, 0)) > 0)
		for (int i = 0; i < ready; i++) {
			void *object = e[i].data.ptr;

			if (*(enum watched *)object == WATCHED_PROCESS)
				broker_on_process_exit(&n->broker, object, now_usec);
			else
				broker_on_root_exit(&n->broker, object, now_usec);
		}
	if (!has_pidfds()) {
		n->broker.sweep_usec = 0;
		broker_tick(&n->broker, now_usec);
	}
	broker_settle(&n->broker, now_usec);
}
