/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A Python interpreter seen from outside: what it is, and where its start hook belongs. Everything
 * is computed from paths, as the interpreter itself computes them (pyvenv.cfg beside it, links
 * followed, the landmark lib/pythonX.Y/os.py above it); it is never run here, so it may be
 * anybody's.
 */

#include <stdbool.h>
#include <sys/types.h>

#define PYEXE_WHY_SIZE 512

/* The name of a standard library's directory taken apart: python3.11, python3.13t, pypy3.9. */
struct pyexe_version {
	bool pypy;
	unsigned minor; /* of Python 3 */
	bool free_threaded;
};

struct pyexe {
	char *exe;    /* as asked for, absolute */
	char *binary; /* the base interpreter's file, links followed */
	char *plain;  /* the one name that does not depend on how it was asked for */
	char *venv;   /* the venv, links followed; NULL: a base */
	char *stdlib; /* PREFIX/lib/pythonX.Y, links followed */
	char *zip;    /* PREFIX/lib/pythonXY.zip; NULL: PyPy, which has none */
	char *site;   /* where a .pth file is read: the venv's or base's site-packages; NULL: not
			 found */
	struct pyexe_version version;
	uid_t owner;      /* of the venv, or of the base's standard library */
	bool system_site; /* a venv that sees its base's site-packages */
};

#define PYEXE_NULL                                                                                 \
	{                                                                                          \
		.exe = NULL                                                                        \
	}

/* "python3.11" and the like. */
bool pyexe_version_parse(const char *name, struct pyexe_version *ret);
/* Writes "python3.11" and the like. */
#define PYEXE_VERSION_SIZE 32
void pyexe_version_format(const struct pyexe_version *v, char ret[PYEXE_VERSION_SIZE]);

/* EXE is a path, or a name to be found in PATH. 0; -ENOENT no such file; -ENOEXEC no interpreter (a
 * script, a directory, a file whose name does not begin with python or pypy, no standard library
 * above it, Python 2); -ENOTUNIQ which version cannot be told; other
 * errno. WHY then gets a sentence. */
int pyexe_find(const char *exe, struct pyexe *ret, char why[PYEXE_WHY_SIZE]);
/* Where the base of a venv's interpreter is said to be, from its pyvenv.cfg alone; *RET is
 * malloc()ed, NULL for what is no venv. EXE is absolute. 0 or -ENOMEM. */
int pyexe_home(const char *exe, char **ret);
void pyexe_done(struct pyexe *p);
