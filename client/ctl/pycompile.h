/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has an interpreter compile the hook's sources: only it knows its magic number and its code. It is
 * run isolated (-I -S), with an empty environment, a deadline and a bound on what it may write, and
 * only where nobody but root and oneself could have changed it or its standard library.
 */

#include "client/ctl/pyexe.h"

#define PYCOMPILE_LEVELS 3 /* plain, -O, -OO: each looks for a file of its own */

struct pycompile_source {
	const char *path; /* where the source will lie */
	const char *text;
	size_t size;
};

struct pycompile_code {
	void *bytes; /* a whole .pyc, of the unchecked-hash kind */
	size_t size;
};

struct pycompile {
	char *cache_tag;             /* "cpython-311" */
	bool reads_zip;              /* its sys.path holds the zip that pyexe_find() computed */
	struct pycompile_code *code; /* PYCOMPILE_LEVELS for each source */
	size_t n_code;
};

/* 0, or -EPERM with a sentence in WHY. */
int pycompile_allowed(const struct pyexe *exe, char why[PYEXE_WHY_SIZE]);

/* Whether pycompile_allowed() is the caller's to ask first. 0; -ENOTSUP: this Python has no such
 * files (before 3.7); -ETIMEDOUT; other errno. WHY gets a sentence. */
int pycompile_run(const struct pyexe *exe, const struct pycompile_source *sources, size_t n_sources,
		  struct pycompile *ret, char why[PYEXE_WHY_SIZE]);
void pycompile_done(struct pycompile *c);
