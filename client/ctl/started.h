/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a Python process was started, from its command line: what multiprocessing of CPython 3.8
 * to 3.13 writes there. A program that renames itself (setproctitle) has erased it, and is then
 * STARTED_OTHER.
 */

#include <stddef.h>

enum started {
	STARTED_OTHER,
	STARTED_SPAWN,
	STARTED_FORKSERVER, /* the server; its children show the same command line */
	STARTED_RESOURCE_TRACKER,
	STARTED_MAIN, /* no registered ancestor in its job: not from the command line */
	STARTED_FORK, /* forked off, no interpreter start: likewise */
};

/* "main", "spawn", ... */
const char *started_name(enum started started);

/* CMDLINE: the bytes of /proc/PID/cmdline, arguments ended by NUL, maybe cut. */
enum started started_classify(const char *cmdline, size_t size);
