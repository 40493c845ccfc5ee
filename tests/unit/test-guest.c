/* SPDX-License-Identifier: MIT */
/*
 * cudaenv_start() as a guest in hard places: no standard descriptors, no free descriptor, a storm
 * of signals, a chroot, a seccomp filter, threads, a user namespace, an AT_SECURE process. Each in
 * a process of its own.
 */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "client/self.h"
#include "tests/unit/start-node.h"

/* --- descriptors */

static bool was_open[256];

/* While the client waits it has most of its descriptors open. */
static void act_look_at_descriptors(void)
{
	unsigned ours = 0;

	for (int fd = 0; fd < (int)ARRAY_SIZE(was_open); fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || was_open[fd])
			continue;
		check(fd > 2 && (flags & FD_CLOEXEC));
		ours++;
	}
	check(ours >= 2);
}

static void closed_stdio(void)
{
	for (int fd = 0; fd <= 2; fd++)
		check(close(fd) == 0);
	for (int fd = 0; fd < (int)ARRAY_SIZE(was_open); fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
	one_alone();
	for (int fd = 0; fd <= 2; fd++)
		check(fcntl(fd, F_GETFD) < 0);
	check(fake.waits > 0);
}

TEST(closed_standard_descriptors)
{
	run_node(act_look_at_descriptors, closed_stdio);
}

/* The hard limit stays: valgrind refuses to change it. */
static void limit_descriptors(void)
{
	struct rlimit limit;

	check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 64;
	check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static unsigned free_descriptors;

static void few_descriptors(void)
{
	char **before = environ;
	int fd, last = -1, r;

	limit_descriptors();
	while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 3)) >= 0)
		last = fd;
	for (unsigned i = 0; i < free_descriptors; i++)
		check(close(last - (int)i) == 0);
	r = start();
	if (r < 0 || cudaenv_result_outcome(result) != CUDAENV_APPLIED) {
		check(environ == before && !getenv("CE_A"));
		_exit(0);
	}
	check_streq(getenv("CE_A"), "one");
}

static unsigned count_jobs(void)
{
	DIR *d = opendir(at("rt/jobs"));
	unsigned n = 0;

	check(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* With too few it does nothing; never something else: one job stays one job. */
TEST(no_free_descriptor)
{
	set_up_node();
	run(NULL, one_alone);
	for (free_descriptors = 0; free_descriptors < 16; free_descriptors++) {
		run(NULL, few_descriptors);
		check(count_jobs() == 1);
	}
	tear_down_node();
}

static void self_with_few(void)
{
	struct runtime rt = RUNTIME_NULL;
	struct self self = SELF_NULL;
	int fd, last = -1;

	check(runtime_open(tree, geteuid(), &rt) == 0);
	limit_descriptors();
	while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 3)) >= 0)
		last = fd;
	check(self_init(&rt, &self) == -EMFILE);
	self_done(&self);
	check(close(last) == 0);
	check(self_init(&rt, &self) == -EMFILE);
	self_done(&self);
	check(close(last - 1) == 0);
	check(self_init(&rt, &self) == 0);
}

/* Without /sys/fs/cgroup for want of descriptors the job could be another one. */
TEST(no_descriptor_for_the_facts)
{
	run_node(NULL, self_with_few);
}

/* --- signals and output */

static void on_alarm(int signal)
{
	(void)signal;
}

static void under_storm(void)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	sigset_t before, after;

	check(sigaction(SIGALRM, &sa, NULL) == 0);
	check(sigprocmask(SIG_SETMASK, NULL, &before) == 0);
	fake.fake_clock = false;
	check(setitimer(ITIMER_REAL, &often, NULL) == 0);
	one_alone();
	check(setitimer(ITIMER_REAL, &never, NULL) == 0);
	check(sigprocmask(SIG_SETMASK, NULL, &after) == 0);
	for (int signal = 1; signal < SIGRTMAX; signal++)
		check(sigismember(&before, signal) == sigismember(&after, signal));
}

TEST(signal_storm)
{
	run_node(NULL, under_storm);
}

static void to_memory(void (*fn)(void))
{
	int fd = memfd_create("output", 0);

	check(fd >= 0);
	check(dup2(fd, 1) == 1 && dup2(fd, 2) == 2);
	fn();
	check(lseek(fd, 0, SEEK_END) == 0);
}

static void silent_alone(void)
{
	to_memory(one_alone);
}

static void silent_failure(void)
{
	to_memory(fails);
}

TEST(no_output)
{
	set_up_node();
	run(NULL, silent_alone);
	check(chmod(at("rt/snapshots/%s", one), 0644) == 0);
	check(truncate(at("rt/snapshots/%s", one), 5) == 0);
	run(NULL, silent_failure);
	tear_down_node();
}

/* --- chroot */

static void chroot_to_base(void)
{
	check(chroot(base) == 0 && chdir("/") == 0);
	check(setenv("CUDAENV_RUNTIME_DIR", "/rt", 1) == 0);
	check(access("/proc", F_OK) < 0);
}

static void chrooted_by_broker(void)
{
	chroot_to_base();
	one_by_broker();
}

static void chrooted_alone(void)
{
	chroot_to_base();
	fails();
}

/* Without /proc the job can only be told by the broker. */
TEST(chroot_without_proc)
{
	if (geteuid() != 0)
		skip("needs root");
	run_answer(one, chrooted_by_broker);
	run_node(NULL, chrooted_alone);
}

/* --- seccomp */

static void filter(uint32_t action, const int *calls, size_t n)
{
	struct sock_filter code[32];
	struct sock_fprog program = {.filter = code};
	unsigned short k = 0;

	code[k++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n; i++)
		code[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)calls[i], (uint8_t)(n - i), 0);
	code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	program.len = k;
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

static void socket_kills(void)
{
	static const int calls[] = {SYS_socket, SYS_connect, SYS_sendto, SYS_recvfrom, SYS_ppoll};

	filter(SECCOMP_RET_KILL_PROCESS, calls, ARRAY_SIZE(calls));
	one_alone();
}

static void socket_is_denied(void)
{
	static const int calls[] = {SYS_connect};

	filter(SECCOMP_RET_ERRNO | EPERM, calls, ARRAY_SIZE(calls));
	one_alone();
	check(!fake_accept());
}

TEST(seccomp)
{
	run_node(NULL, socket_kills);
	run_node(NULL, socket_is_denied);
}

/* --- threads */

static int stop;

static void *read_environment(void *arg)
{
	unsigned long *reads = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		const char *a = getenv("CE_A"), *path = getenv("PATH");

		check(!a || streq(a, "one"));
		check(path && streq(path, "/usr/bin"));
		__atomic_add_fetch(reads, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void among_threads(void)
{
	pthread_t threads[4];
	unsigned long reads = 0, before;

	check(setenv("PATH", "/usr/bin", 1) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		check(pthread_create(&threads[i], NULL, read_environment, &reads) == 0);
	while (__atomic_load_n(&reads, __ATOMIC_RELAXED) == 0)
		(void)sched_yield();
	one_alone();
	before = __atomic_load_n(&reads, __ATOMIC_RELAXED);
	while (__atomic_load_n(&reads, __ATOMIC_RELAXED) == before)
		(void)sched_yield();
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		check(pthread_join(threads[i], NULL) == 0);
}

TEST(getenv_in_other_threads)
{
	int rounds = getenv("TEST_SLOW") ? 2 : 20;

	for (int i = 0; i < rounds; i++)
		run_node(NULL, among_threads);
}

static int outcomes[4];

static void *start_at_once(void *arg)
{
	struct cudaenv_result *mine = NULL;

	check(cudaenv_start(NULL, &mine) == 0);
	*(int *)arg = (int)cudaenv_result_outcome(mine);
	cudaenv_result_free(mine);
	return NULL;
}

static void several_starts(void)
{
	pthread_t threads[ARRAY_SIZE(outcomes)];
	unsigned applied = 0;

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		check(pthread_create(&threads[i], NULL, start_at_once, &outcomes[i]) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		check(pthread_join(threads[i], NULL) == 0);
		applied += outcomes[i] == CUDAENV_APPLIED;
		check(outcomes[i] == CUDAENV_APPLIED || outcomes[i] == CUDAENV_AGAIN);
	}
	check(applied == 1);
	check_streq(getenv("CE_A"), "one");
}

TEST(several_threads_start)
{
	run_node(NULL, several_starts);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif

#ifndef SANITIZED /* whose frames are larger */
static void on_small_stack(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	check(pthread_attr_init(&attr) == 0);
	check(pthread_attr_setstacksize(&attr, (size_t)64 * 1024) == 0);
	check(pthread_create(&thread, &attr, start_at_once, &outcomes[0]) == 0);
	check(pthread_join(thread, NULL) == 0);
	check(outcomes[0] == CUDAENV_APPLIED);
}

TEST(small_stack)
{
	run_node(NULL, on_small_stack);
	if (geteuid() == 0)
		run_answer(one, on_small_stack);
}
#endif

/* --- user namespace */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	check(fd >= 0);
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Uid 1000 inside is STRANGER outside; nobody else is mapped, root neither. */
static void enter_namespace(void)
{
	char map[64];

	check(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	check(unshare(CLONE_NEWUSER) == 0);
	(void)snprintf(map, sizeof map, "1000 %u 1\n", (unsigned)STRANGER);
	write_file("/proc/self/uid_map", map);
	check(geteuid() == 1000);
}

static void namespace_alone(void)
{
	struct job_key key;

	enter_namespace();
	one_alone();
	/* The number that stands outside. */
	check(job_key_parse(cudaenv_result_job(result), &key) == 0);
	check(key.uid == STRANGER);
}

static void namespace_by_broker(void)
{
	enter_namespace();
	one_by_broker();
}

static bool can_unshare(void)
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		check(setresuid(STRANGER, STRANGER, STRANGER) == 0);
		_exit(unshare(CLONE_NEWUSER) < 0);
	}
	check(waitpid(pid, &status, 0) == pid);
	return status == 0;
}

TEST(user_namespace)
{
	if (geteuid() != 0)
		skip("needs root");
	if (!can_unshare())
		skip("no user namespaces for users");
	set_up_node();
	as_user(NULL, namespace_alone);
	answer_digest = one;
	as_user(act_answer, namespace_by_broker);
	tear_down_node();
}

/* --- AT_SECURE */

#define SECURE "TEST_GUEST_SECURE"

/* The program that was executed with another real uid than its effective one. */
__attribute__((constructor)) static void secure_program(void)
{
	if (!getenv(SECURE))
		return;
	check(getauxval(AT_SECURE) != 0);
	check(cudaenv_start(getenv(SECURE), &result) == 0);
	check(cudaenv_result_outcome(result) == CUDAENV_DISABLED);
	check(!getenv("CE_A") && !getenv("CUDAENV_SNAPSHOT"));
	_exit(77);
}

TEST(at_secure)
{
	char exe[PATH_MAX] = "";
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip("needs root");
	check(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
	set_up_node();
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		check(setenv(SECURE, tree, 1) == 0);
		check(setresuid(STRANGER, (uid_t)-1, (uid_t)-1) == 0);
		execl(exe, "test-guest", (char *)NULL);
		_exit(1);
	}
	check(waitpid(pid, &status, 0) == pid);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 77);
	tear_down_node();
}

TEST_MAIN
