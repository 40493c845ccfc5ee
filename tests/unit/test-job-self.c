/* SPDX-License-Identifier: MIT */
/* What a process says of itself, and the kernel's own namespaces: the job found inside and outside
 * is one. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/job.h"
#include "tests/unit/node.h"

static int open_path(const char *path)
{
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static uint64_t inode_of(const char *path)
{
	struct stat st;

	check(stat(path, &st) == 0);
	return st.st_ino;
}

TEST(this_process)
{
	int proc_fd = open_path("/proc"), cgroup_fd = open_path("/sys/fs/cgroup");
	struct job_subject subject;
	struct job_facts facts;
	struct job_source source;
	bool same = false;
	struct node n;

	node_init(&n);
	check(job_subject_self(&n.rt, proc_fd, cgroup_fd, A64, &subject, &same) == 0);
	check(same && subject.pid == getpid() && subject.uid == geteuid());
	check(subject.pidns == inode_of("/proc/self/ns/pid") && streq(subject.token, A64));
	source = node_source(&n);
	source.proc_fd = proc_fd;
	source.cgroup_fd = cgroup_fd;
	check(job_find(&source, &subject, &facts) == 0);
	check(facts.nspid == getpid() && facts.start > 0 && facts.key[0]);
	/* No /proc to be seen, no cgroups to be seen. */
	check(job_subject_self(&n.rt, n.proc_fd, cgroup_fd, NULL, &subject, &same) < 0);
	check(job_subject_self(&n.rt, proc_fd, -EBADF, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == JOB_CGROUP_UNSEEN && !subject.token);
	close(proc_fd);
	if (cgroup_fd >= 0)
		close(cgroup_fd);
	node_done(&n);
}

/* /proc of a fixture, where the namespaces are files. */
static void make_self(const struct node *n)
{
	static const char map[] = "         0     100000      65536\n";

	node_mkdir(n, "proc/7/ns");
	check(symlinkat("7", n->proc_fd, "self") == 0);
	check(symlinkat("pid:[7001]", n->proc_fd, "7/ns/pid") == 0);
	check(symlinkat("cgroup:[7002]", n->proc_fd, "7/ns/cgroup") == 0);
	check(symlinkat("user:[7003]", n->proc_fd, "7/ns/user") == 0);
	node_write(n, "proc/7/uid_map", map, sizeof map - 1);
}

TEST(namespaces_of_the_node_and_others)
{
	struct job_subject subject;
	uint64_t root;
	struct node n;
	bool same;

	if (geteuid() >= 65536)
		skip("an uid that the map does not have");
	node_init(&n);
	make_self(&n);
	root = node_inode(&n, "cgroup");
	/* In namespaces of its own. */
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.pid == 7 && !same && subject.pidns == 7001);
	check(subject.cgroup_claim == root);
	check(subject.has_key_uid && subject.key_uid == 100000 + geteuid());
	/* In those of the daemon. */
	check(job_node_publish(&n.rt, n.proc_fd) == 0);
	check(job_node_publish(&n.rt, n.proc_fd) == 0);
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == 0 && !subject.has_key_uid);
	/* A daemon in others than these; and what does not say. */
	check(unlinkat(n.rt.jobs_fd, ".node", 0) == 0);
	node_link(&n, "jobs", ".node", "cgroupns 5 userns 6", 0);
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == root && subject.has_key_uid);
	check(unlinkat(n.rt.jobs_fd, ".node", 0) == 0);
	node_link(&n, "jobs", ".node", "cgroupns 5", 0);
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == root && subject.has_key_uid);
	node_mkdir(&n, "cgroup/systemd");
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == node_inode(&n, "cgroup/systemd"));
	node_done(&n);
}

TEST(a_strangers_word_on_the_node)
{
	struct job_subject subject;
	struct node n;
	bool same;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	make_self(&n);
	node_link(&n, "jobs", ".node", "cgroupns 7002 userns 7003", 1234);
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim != 0 && subject.has_key_uid);
	check(job_node_publish(&n.rt, n.proc_fd) == 0);
	check(job_subject_self(&n.rt, n.proc_fd, n.cgroup_fd, NULL, &subject, &same) == 0);
	check(subject.cgroup_claim == 0 && !subject.has_key_uid);
	node_done(&n);
}

/* --- real namespaces --- */

struct told {
	struct job_subject subject;
	char key[JOB_KEY_SIZE];
	char cgroup[256];
};

/* In new namespaces: a grandchild of the namespace's pid 1 says what it claims and what it finds.
 */
static void tell(const struct node *n, int to_fd)
{
	int proc_fd = open_path("/proc"), cgroup_fd = open_path("/sys/fs/cgroup");
	struct job_source source = node_source(n);
	struct told told = {.key = ""};
	struct job_facts facts;

	source.proc_fd = proc_fd;
	source.cgroup_fd = cgroup_fd;
	if (job_subject_self(&n->rt, proc_fd, cgroup_fd, NULL, &told.subject, &source.same_pidns) <
		    0 ||
	    !source.same_pidns || job_find(&source, &told.subject, &facts) < 0)
		_exit(3);
	(void)strcpy(told.key, facts.key);
	check(snprintf(told.cgroup, sizeof told.cgroup, "%s", facts.cgroup) <
	      (int)sizeof told.cgroup);
	if (write(to_fd, &told, sizeof told) != sizeof told)
		_exit(4);
	for (;;)
		pause();
}

static void run_inside(const struct node *n, bool own_cgroup, int to_fd)
{
	pid_t pid;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0 ||
	    (own_cgroup && (mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, NULL) < 0 ||
			    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0)))
		_exit(2);
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			tell(n, to_fd);
		close(to_fd);
		(void)waitpid(pid, NULL, 0);
		_exit(0);
	}
	close(to_fd);
	(void)waitpid(pid, NULL, 0);
	_exit(0);
}

/* The host's number of a process that is two generations below INIT. */
static pid_t grandchild(pid_t init)
{
	char path[64], text[32];
	pid_t pid = init;

	for (unsigned i = 0; i < 2; i++) {
		FILE *f;

		(void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
		f = fopen(path, "re");
		if (!f || !fgets(text, sizeof text, f)) {
			if (f)
				fclose(f);
			return -1;
		}
		fclose(f);
		pid = (pid_t)strtol(text, NULL, 10);
	}
	return pid;
}

/* Starts the inside in CGROUP (NULL: where we are), and checks what is found outside against it.
 * False: cannot be done. */
static bool inside_and_outside(const struct node *n, const char *cgroup, struct told *told)
{
	int proc_fd = open_path("/proc"), cgroup_fd = open_path("/sys/fs/cgroup"), pipe_fds[2];
	struct job_source source = node_source(n);
	struct job_subject subject;
	struct job_facts facts;
	bool done;
	pid_t pid;

	check(pipe2(pipe_fds, O_CLOEXEC) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		FILE *f = cgroup ? fopen(cgroup, "we") : NULL;
		pid_t init;

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
			_exit(2);
		if (cgroup && (!f || fprintf(f, "%d\n", getpid()) < 0 || fclose(f) != 0))
			_exit(2);
		if (unshare(CLONE_NEWPID | CLONE_NEWNS | (cgroup ? CLONE_NEWCGROUP : 0)) < 0)
			_exit(2);
		init = fork();
		if (init == 0)
			run_inside(n, cgroup, pipe_fds[1]);
		close(pipe_fds[1]);
		(void)waitpid(init, NULL, 0);
		_exit(0);
	}
	close(pipe_fds[1]);
	done = read(pipe_fds[0], told, sizeof *told) == sizeof *told;
	if (done) {
		char path[64], text[32];
		pid_t init;
		FILE *f;

		(void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
		f = fopen(path, "re");
		check(f && fgets(text, sizeof text, f) && fclose(f) == 0);
		init = (pid_t)strtol(text, NULL, 10);
		subject = told->subject;
		subject.pid = grandchild(init);
		check(subject.pid > 0);
		source.proc_fd = proc_fd;
		source.cgroup_fd = cgroup_fd;
		source.same_pidns = false;
		check(job_find(&source, &subject, &facts) == 0);
		check_streq(facts.key, told->key);
		check_streq(facts.cgroup, told->cgroup);
		check(kill(init, SIGKILL) == 0);
	}
	check(waitpid(pid, NULL, 0) == pid);
	close(pipe_fds[0]);
	close(proc_fd);
	close(cgroup_fd);
	return done;
}

TEST(a_real_pid_namespace)
{
	struct job_key k;
	struct told told;
	struct node n;
	bool done;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	done = inside_and_outside(&n, NULL, &told);
	node_done(&n);
	if (!done)
		skip("no new namespaces here");
	check(job_key_parse(told.key, &k) == 0);
	if (k.kind == JOB_TREE)
		check(k.pid == 2 && k.pidns == told.subject.pidns);
}

TEST(a_real_cgroup_namespace)
{
	static const char *const places[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	char dir[128], procs[256];
	struct job_key k;
	struct told told;
	struct node n;
	uint64_t inode = 0;
	bool done = false;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	for (size_t i = 0; i < ARRAY_SIZE(places) && !done; i++) {
		(void)snprintf(procs, sizeof procs, "%s/cgroup.procs", places[i]);
		(void)snprintf(dir, sizeof dir, "%s/cudaenv-test-%d", places[i], (int)getpid());
		if (access(procs, W_OK) < 0 || mkdir(dir, 0755) < 0)
			continue;
		inode = inode_of(dir);
		(void)snprintf(procs, sizeof procs, "%s/cgroup.procs", dir);
		done = inside_and_outside(&n, procs, &told);
		while (rmdir(dir) < 0 && errno == EBUSY)
			(void)sched_yield();
	}
	node_done(&n);
	if (!done)
		skip("no cgroup namespaces here");
	check(told.subject.cgroup_claim == inode);
	check_streq(told.cgroup, "/");
	check(job_key_parse(told.key, &k) == 0 && k.kind == JOB_CONTAINER && k.inode == inode);
}

TEST_MAIN
