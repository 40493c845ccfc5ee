/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/started.h"

#include "common/util.h"

const char *started_name(enum started started)
{
	static const char *const names[] = {
		[STARTED_OTHER] = "other",
		[STARTED_SPAWN] = "spawn",
		[STARTED_FORKSERVER] = "forkserver",
		[STARTED_RESOURCE_TRACKER] = "resource_tracker",
		[STARTED_MAIN] = "main",
		[STARTED_FORK] = "fork",
	};

	return names[started];
}

/* The argument of -c, as multiprocessing's modules write it for their children. */
static enum started classify_code(const char *code, size_t size)
{
	static const struct {
		const char *begin;
		enum started started;
	} known[] = {
		{"from multiprocessing.spawn import spawn_main", STARTED_SPAWN},
		{"from multiprocessing.forkserver import main", STARTED_FORKSERVER},
		{"from multiprocessing.resource_tracker import main", STARTED_RESOURCE_TRACKER},
		{"from multiprocessing.semaphore_tracker import main", STARTED_RESOURCE_TRACKER},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t n = strlen(known[i].begin);

		/* A module of its own whose name only begins like that is another one. */
		if (size >= n && memcmp(code, known[i].begin, n) == 0 &&
		    (size == n || code[n] == ';' || code[n] == ' '))
			return known[i].started;
	}
	return STARTED_OTHER;
}

enum started started_classify(const char *cmdline, size_t size)
{
	bool program = true, code = false, value = false;

	for (size_t i = 0; i < size;) {
		const char *argument = cmdline + i;
		size_t n = strnlen(argument, size - i);

		i += n + 1;
		if (program) {
			program = false;
			continue;
		}
		if (code)
			return classify_code(argument, n);
		/* A frozen executable is started with this alone, without -c. */
		if (n == STRLEN("--multiprocessing-fork") &&
		    memcmp(argument, "--multiprocessing-fork", n) == 0)
			return STARTED_SPAWN;
		code = n == 2 && memcmp(argument, "-c", 2) == 0;
		/* The interpreter's own options come first; the value of -X is an argument of its
		 * own. */
		if (!code && !value && (n == 0 || argument[0] != '-'))
			return STARTED_OTHER;
		value = !value && n == 2 &&
			(memcmp(argument, "-X", 2) == 0 || memcmp(argument, "-W", 2) == 0);
	}
	return STARTED_OTHER;
}
