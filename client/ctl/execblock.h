/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The environment that a process was executed with, from /proc/PID/environ: what it was handed,
 * before any start hook ran. What the process has set since does not show there, and programs that
 * rename themselves write over it. At most EXEC_BLOCK_MAX bytes are read; only values of names that
 * are asked for leave this module, and the bytes are wiped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define EXEC_BLOCK_MAX ((size_t)4 * 1024 * 1024)

enum exec_block_state {
	EXEC_BLOCK_READ,
	EXEC_BLOCK_CUT,       /* longer: what is not found may stand behind */
	EXEC_BLOCK_REWRITTEN, /* not an environment any more */
	EXEC_BLOCK_DENIED,    /* no right to read it, or it is gone */
};

struct exec_block {
	enum exec_block_state state;
	char *bytes; /* NUL-terminated strings */
	size_t size;
};

void exec_block_read(int proc_fd, pid_t pid, struct exec_block *ret);
/* The same from bytes, which are copied; for tests. */
void exec_block_parse(const char *bytes, size_t size, bool cut, struct exec_block *ret);
void exec_block_done(struct exec_block *b);
/* Value of the first NAME=; NULL: it has none, or nothing is known. */
const char *exec_block_find(const struct exec_block *b, const char *name);
/* Is what exec_block_find() says the whole truth? */
bool exec_block_known(const struct exec_block *b);
/* "read", "cut", "rewritten", "denied" */
const char *exec_block_word(const struct exec_block *b);
