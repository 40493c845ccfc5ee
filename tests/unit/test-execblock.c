/* SPDX-License-Identifier: MIT */
/* The environment a process was executed with, from bytes that it may have written over. */
#include "config.h"

#include "client/ctl/execblock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/util.h"
#include "tests/unit/test.h"

#define PARSE(b, literal, cut) exec_block_parse(literal, sizeof(literal) - 1, cut, b)

TEST(values)
{
	_cleanup_(exec_block_done) struct exec_block b;

	PARSE(&b, "A=1\0AB=2\0B=\0A=3\0C=x=y\0", false);
	check(b.state == EXEC_BLOCK_READ && exec_block_known(&b));
	check_streq(exec_block_find(&b, "A"), "1");
	check_streq(exec_block_find(&b, "AB"), "2");
	check_streq(exec_block_find(&b, "B"), "");
	check_streq(exec_block_find(&b, "C"), "x=y");
	check(!exec_block_find(&b, "D") && !exec_block_find(&b, "x") && !exec_block_find(&b, ""));
	check_streq(exec_block_word(&b), "read");
}

TEST(ends_of_all_kinds)
{
	struct exec_block b;

	PARSE(&b, "A=1\0B=2", false); /* no NUL at the end */
	check_streq(exec_block_find(&b, "B"), "2");
	exec_block_done(&b);
	check(b.state == EXEC_BLOCK_DENIED && !b.bytes && !exec_block_find(&b, "B"));
	PARSE(&b, "", false); /* env -i */
	check(b.state == EXEC_BLOCK_READ && !exec_block_find(&b, "A"));
	exec_block_done(&b);
	PARSE(&b, "A=1\0B=2\0C", true);
	check(b.state == EXEC_BLOCK_CUT && !exec_block_known(&b));
	check_streq(exec_block_find(&b, "B"), "2");
	exec_block_done(&b);
}

/* Programs that set their title write over it. */
TEST(written_over)
{
	static const struct {
		const char *bytes;
		size_t size;
	} blocks[] = {
		{"sglang::scheduler_TP0\0A=1\0", 26},
		{"ray::f(x=1)\0\0\0\0", 15},
		{"\0\0\0\0", 4},
		{"=x\0A=1\0", 7},
	};

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		_cleanup_(exec_block_done) struct exec_block b;

		exec_block_parse(blocks[i].bytes, blocks[i].size, false, &b);
		check(b.state == EXEC_BLOCK_REWRITTEN && !exec_block_find(&b, "A"));
		check_streq(exec_block_word(&b), "rewritten");
	}
}

TEST(of_a_process)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(exec_block_done) struct exec_block b;
	char *const argv[] = {"sh", "-c", "kill -STOP $$", NULL}, *const env[] = {"CUDA_HOME=/x",
										  "EMPTY=", NULL};
	pid_t pid = fork();
	int status;

	check(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		execve("/bin/sh", argv, env);
		_exit(1);
	}
	check(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	exec_block_read(proc_fd, pid, &b);
	check(b.state == EXEC_BLOCK_READ);
	check_streq(exec_block_find(&b, "CUDA_HOME"), "/x");
	check_streq(exec_block_find(&b, "EMPTY"), "");
	check(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	exec_block_done(&b);
	exec_block_read(proc_fd, pid, &b);
	check(b.state == EXEC_BLOCK_DENIED);
}

TEST_MAIN
