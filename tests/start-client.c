/* SPDX-License-Identifier: MIT */
/*
 * A program that uses libcudaenv, for tests: `start-client` starts, prints one line "digest outcome
 * job by-broker" and exits 0, or 1 when cudaenv_start() fails or a variable of the snapshot is not
 * in the environment. `start-client N` is the root of a job: it starts itself, then N children one
 * after the other, every second one with an empty environment.
 */
#include <sys/wait.h>

#include "client/cudaenv.h"
#include "common/util.h"

extern char **environ;

/* The snapshot's values must be what getenv says now. */
static int verify(const struct cudaenv_result *result)
{
	for (size_t i = 0; i < cudaenv_result_count(result); i++) {
		const char *name, *value, *now;
		enum cudaenv_state state;

		if (cudaenv_result_variable(result, i, &name, &value, &state) < 0)
			return -1;
		now = getenv(name);
		if (state == CUDAENV_TOO_LATE || state == CUDAENV_ABSENT_HERE)
			continue;
		if (value ? !now || !streq(now, value) : now != NULL)
			return -1;
	}
	return 0;
}

static int start(void)
{
	struct cudaenv_result *result = NULL;
	const char *digest, *job;
	int r = cudaenv_start(NULL, &result);

	if (r < 0) {
		printf("none %d - 0\n", r);
		return 0;
	}
	if (verify(result) < 0)
		return 1;
	digest = cudaenv_result_digest(result);
	job = cudaenv_result_job(result);
	printf("%s %d %s %d\n", *digest ? digest : "none", (int)cudaenv_result_outcome(result),
	       *job ? job : "-", cudaenv_result_by_broker(result));
	fflush(stdout);
	cudaenv_result_free(result);
	return 0;
}

int main(int argc, char *argv[])
{
	int children = argc > 1 ? atoi(argv[1]) : 0;
	char *runtime = getenv("CUDAENV_RUNTIME_DIR"), variable[4096];
	char *child[] = {argv[0], NULL}, *bare[] = {variable, NULL};

	if (start() != 0)
		return 1;
	/* The runtime directory stands in the way of a truly empty environment here. */
	snprintf(variable, sizeof variable, "CUDAENV_RUNTIME_DIR=%s", runtime ? runtime : "");
	for (int i = 0; i < children; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			execve("/proc/self/exe", child, i % 2 ? bare : environ);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
	}
	return 0;
}
