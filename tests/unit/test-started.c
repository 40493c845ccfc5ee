/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/started.h"

#include "common/util.h"
#include "tests/unit/test.h"

/* The array's own NUL ends the last argument, as in /proc. */
#define IS(cmdline, want) check(started_classify(cmdline, sizeof(cmdline)) == (want))

TEST(spawn_children_of_cpython)
{
	IS("/usr/bin/python3\0-c\0from multiprocessing.spawn import spawn_main; "
	   "spawn_main(tracker_fd=5, pipe_handle=7)\0--multiprocessing-fork",
	   STARTED_SPAWN);
	IS("python\0-s\0-E\0-c\0from multiprocessing.spawn import spawn_main; "
	   "spawn_main(tracker_fd=5, pipe_handle=7)\0--multiprocessing-fork",
	   STARTED_SPAWN);
	IS("python\0-Wdefault\0-X\0dev\0-X\0utf8=1\0-c\0from multiprocessing.spawn import "
	   "spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)\0--multiprocessing-fork",
	   STARTED_SPAWN);
	IS("/opt/frozen/app\0--multiprocessing-fork\0tracker_fd=5\0pipe_handle=7", STARTED_SPAWN);
}

TEST(servers_of_cpython)
{
	IS("python\0-c\0from multiprocessing.forkserver import main; main(5, 6, ['__main__'], "
	   "**{'sys_path': ['']})",
	   STARTED_FORKSERVER);
	IS("python\0-OO\0-c\0from multiprocessing.resource_tracker import main;main(4)",
	   STARTED_RESOURCE_TRACKER);
}

TEST(others)
{
	IS("", STARTED_OTHER);
	IS("python\0train.py\0-c\0from multiprocessing.spawn import spawn_main; x", STARTED_OTHER);
	IS("python\0-c\0print(1)", STARTED_OTHER);
	IS("python\0-c\0from multiprocessing.spawn import spawn_main_of_mine; f()", STARTED_OTHER);
	IS("python\0-m\0torch.distributed.run\0--multiprocessing-fork", STARTED_OTHER);
	IS("python\0-c", STARTED_OTHER);
	IS("python\0-X", STARTED_OTHER);
	/* Renamed by setproctitle: one string, no arguments. */
	IS("VLLM::Worker_TP0 from multiprocessing.spawn import spawn_main; x", STARTED_OTHER);
}

TEST(a_cut_command_line)
{
	const char cmdline[] =
		"python\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(tr";

	for (size_t n = 0; n <= sizeof cmdline; n++) {
		_cleanup_(freep) char *copy = malloc(n ? n : 1);

		memcpy(copy, cmdline, n < sizeof cmdline ? n : sizeof cmdline);
		(void)started_classify(copy, n < sizeof cmdline ? n : sizeof cmdline);
	}
	check(started_classify(cmdline, sizeof cmdline - 1) == STARTED_SPAWN);
}

TEST(names)
{
	check_streq(started_name(STARTED_MAIN), "main");
	check_streq(started_name(STARTED_SPAWN), "spawn");
	check_streq(started_name(STARTED_FORKSERVER), "forkserver");
	check_streq(started_name(STARTED_RESOURCE_TRACKER), "resource_tracker");
	check_streq(started_name(STARTED_FORK), "fork");
	check_streq(started_name(STARTED_OTHER), "other");
}

TEST_MAIN
