/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks need in C. Every figure is a ratio against a baseline of the same run,
 * interleaved.
 *
 *   bench-client fetch N    round trips of N forked children (their parent is registered) to the
 *                           broker and, in turn, to a minimal server that receives and sends the
 *                           same numbers of bytes
 *   bench-client storm N    N processes call cudaenv_start() at once; who answered, how long, which
 *                           digest
 *
 *   bench-client hold N     N processes in jobs of eight that have started; prints a line "held N"
 *                           when all have, and ends them when standard input ends
 *
 * The runtime directory is CUDAENV_RUNTIME_DIR. Results are lines "name value" on standard output,
 * times in microseconds.
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "client/cudaenv.h"
#include "common/util.h"
#include "common/wire.h"

struct sample {
	uint64_t broker_nsec, bare_nsec, start_nsec;
	int by_broker, failed;
	char digest[DIGEST_SIZE];
};

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int connect_to(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof sa.sun_path)
		return -1;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return -1;
	return fd;
}

/* One connect, send, receive, close. Returns the time, 0 on failure; *ret_size: bytes received. */
static uint64_t round_trip(const char *path, const void *request, size_t size, ssize_t *ret_size)
{
	char answer[WIRE_DATAGRAM_MAX];
	uint64_t begin = now_nsec();
	int fd = connect_to(path);

	if (fd < 0 || send(fd, request, size, MSG_NOSIGNAL) < 0)
		return 0;
	*ret_size = recv(fd, answer, sizeof answer, 0);
	close(fd);
	return *ret_size > 0 ? now_nsec() - begin : 0;
}

static size_t make_fetch(char *buf, size_t size)
{
	struct stat st;
	struct wire_fetch m = {.nspid = (uint32_t)getpid()};

	if (stat("/proc/self/ns/pid", &st) == 0)
		m.pidns = st.st_ino;
	return (size_t)wire_encode_fetch(buf, size, 1, &m);
}

/* The minimal server: accept, receive, send SIZE bytes, close. */
static void serve_bare(const char *path, size_t size, int ready)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char request[4096], answer[4096] = {0};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, path);
	unlink(path);
	if (bind(listener, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(listener, 4096) < 0)
		_exit(1);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		if (recv(fd, request, sizeof request, 0) > 0)
			(void)send(fd, answer, size, MSG_NOSIGNAL);
		(void)recv(fd, request, sizeof request,
			   0); /* the client's close, as the broker waits for it */
		close(fd);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_percentiles(const char *name, uint64_t *nsec, size_t n)
{
	qsort(nsec, n, sizeof *nsec, compare);
	printf("%s_p50 %.1f\n%s_p99 %.1f\n", name, (double)nsec[n / 2] / 1000, name,
	       (double)nsec[n * 99 / 100] / 1000);
}

static struct sample *shared_samples(size_t n)
{
	void *p = mmap(NULL, n * sizeof(struct sample), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int bench_fetch(const char *runtime, size_t n)
{
	char broker[108], bare[108], request[8192];
	struct sample *samples = shared_samples(n);
	uint64_t *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
	int ready[2];
	size_t size = make_fetch(request, sizeof request);
	ssize_t answered = 0;
	pid_t server;
	char c;

	snprintf(broker, sizeof broker, "%s/socket", runtime);
	snprintf(bare, sizeof bare, "%s/bench-socket", runtime);
	/* Registers this process: the parent of all that follow. */
	if (!samples || !a || !b || pipe(ready) < 0 ||
	    !round_trip(broker, request, size, &answered))
		return 1;
	server = fork();
	if (server == 0)
		serve_bare(bare, (size_t)answered, ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return 1;
	for (size_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			ssize_t got;

			size = make_fetch(request, sizeof request);
			if (i % 2)
				samples[i].bare_nsec = round_trip(bare, request, size, &got);
			samples[i].broker_nsec = round_trip(broker, request, size, &got);
			if (!(i % 2))
				samples[i].bare_nsec = round_trip(bare, request, size, &got);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	kill(server, 9);
	waitpid(server, NULL, 0);
	unlink(bare);
	for (size_t i = 0; i < n; i++) {
		if (!samples[i].broker_nsec || !samples[i].bare_nsec)
			return 1;
		a[i] = samples[i].broker_nsec;
		b[i] = samples[i].bare_nsec;
	}
	printf("answer_bytes %zd\n", answered);
	print_percentiles("broker", a, n);
	print_percentiles("bare", b, n);
	free(a);
	free(b);
	return 0;
}

static int bench_storm(size_t n)
{
	struct sample *samples = shared_samples(n);
	uint64_t *nsec = calloc(n, sizeof *nsec);
	size_t by_broker = 0, alone = 0, failed = 0, wrong = 0;
	int gate[2];

	if (!samples || !nsec || pipe(gate) < 0)
		return 1;
	for (size_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			struct cudaenv_result *result = NULL;
			uint64_t begin;
			char c;

			close(gate[1]);
			(void)!read(gate[0], &c, 1); /* ends for all at once */
			begin = now_nsec();
			samples[i].failed = cudaenv_start(NULL, &result) < 0 ||
					    cudaenv_result_outcome(result) != CUDAENV_APPLIED;
			samples[i].start_nsec = now_nsec() - begin;
			if (!samples[i].failed) {
				samples[i].by_broker = cudaenv_result_by_broker(result);
				strcpy(samples[i].digest, cudaenv_result_digest(result));
			}
			_exit(0);
		}
	}
	close(gate[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	for (size_t i = 0; i < n; i++) {
		nsec[i] = samples[i].start_nsec;
		failed += (size_t)samples[i].failed;
		by_broker += (size_t)samples[i].by_broker;
		alone += !samples[i].failed && !samples[i].by_broker;
		wrong += !streq(samples[i].digest, samples[0].digest);
	}
	printf("starts %zu\nby_broker %zu\nalone %zu\nfailed %zu\nother_digest %zu\ndigest %s\n", n,
	       by_broker, alone, failed, wrong, samples[0].digest);
	print_percentiles("start", nsec, n);
	free(nsec);
	return 0;
}

#define JOB_MEMBERS 8

/* One process of a job: starts when its number comes up, and stays. */
static void hold_one(atomic_uint *turn, unsigned number)
{
	while (atomic_load(turn) != number)
		(void)sched_yield();
	(void)cudaenv_start(NULL, NULL);
	atomic_fetch_add(turn, 1);
	for (;;)
		(void)pause();
}

static int bench_hold(unsigned n)
{
	atomic_uint *turn =
		mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char c;

	/* A boundary: what is started here is not one job. */
	if (turn == MAP_FAILED || setpgid(0, 0) < 0 || prctl(PR_SET_NAME, "cron") < 0)
		return 1;
	for (unsigned i = 0; i < n; i += JOB_MEMBERS) {
		if (fork() == 0) {
			for (unsigned k = 1; k < JOB_MEMBERS && i + k < n; k++)
				if (fork() == 0)
					hold_one(turn, i + k);
			hold_one(turn, i);
		}
		while (atomic_load(turn) < (i + JOB_MEMBERS < n ? i + JOB_MEMBERS : n))
			(void)usleep(100);
	}
	printf("held %u\n", atomic_load(turn));
	fflush(stdout);
	(void)!read(STDIN_FILENO, &c, 1);
	(void)signal(SIGTERM, SIG_IGN);
	(void)kill(0, SIGTERM);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

int main(int argc, char *argv[])
{
	const char *runtime = getenv("CUDAENV_RUNTIME_DIR");
	size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	if (!runtime || n == 0)
		return 2;
	if (streq(argv[1], "fetch"))
		return bench_fetch(runtime, n);
	if (streq(argv[1], "storm"))
		return bench_storm(n);
	if (streq(argv[1], "hold"))
		return bench_hold((unsigned)n);
	return 2;
}
