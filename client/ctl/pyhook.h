/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A start hook as files in memory, for one interpreter: which directory, which files, which bytes.
 * Made of the sources in PKGLIBDIR/python (client/python/ in the source tree); client/ctl/pyplace.h
 * brings it to a disk.
 *
 * Method directory: PREFIX/lib/pythonXY.zip/ with sitecustomize.py, cudaenv_*.py, __pycache__/,
 * README and manifest. Method pth: site-packages/cudaenv_start/ with __init__.py and the same
 * others; beside it 00-cudaenv.pth and 00-cudaenv.start.
 *
 * The manifest, from which all is proven to be ours before it is removed:
 *
 *   cudaenv-hook 1
 *   version 0.1.0
 *   method directory
 *   extension SIZE MTIME CRC PATH     what the hook was made for
 *   runtime PATH                      only where one is recorded
 *   file SHA256 python311.zip/README  each file but the manifest, from the parent on
 *   end
 */

#include <stdint.h>

#include "client/ctl/pyexe.h"
#include "common/digest.h"

#define PYHOOK_MANIFEST    "manifest"
#define PYHOOK_MARK        "cudaenv-hook 1\n" /* the manifest's first line */
#define PYHOOK_README_MARK "This directory belongs to cudaenv."
#define PYHOOK_PTH         "00-cudaenv.pth"
#define PYHOOK_START       "00-cudaenv.start"
#define PYHOOK_PACKAGE     "cudaenv_start"
#define PYHOOK_EXTENSION   "_cudaenv.abi3.so"
#define PYHOOK_FILES_MAX   32
#define PYHOOK_LINE_MAX    4400

enum pyhook_method { PYHOOK_DIRECTORY, PYHOOK_IN_SITE };

/* "directory", "pth" */
const char *pyhook_method_name(enum pyhook_method method);

struct pyhook_options {
	const char *source_dir;  /* PKGLIBDIR "/python" */
	const char *runtime_dir; /* recorded in the hook; NULL: none */
	enum pyhook_method method;
};

struct pyhook_file {
	char *path; /* relative to PARENT */
	char *bytes;
	size_t size;
};

struct pyhook {
	enum pyhook_method method;
	char *parent;                               /* PREFIX/lib or site-packages */
	char *name;                                 /* of our directory in it */
	uid_t owner;                                /* of the interpreter */
	struct pyhook_file files[PYHOOK_FILES_MAX]; /* the manifest last */
	size_t n_files;
	bool compiled;
	char note[PYEXE_WHY_SIZE]; /* "" or why it is not as good as it could be */
};

#define PYHOOK_NULL                                                                                \
	{                                                                                          \
		.parent = NULL                                                                     \
	}

/* Fills in parent and name alone: 0, -EOPNOTSUPP with WHY (no such place for that interpreter),
 * -ENOMEM. */
int pyhook_locate(const struct pyexe *exe, enum pyhook_method method, struct pyhook *ret,
		  char why[PYEXE_WHY_SIZE]);
/* All of it. 0, or negative errno with WHY; -EOPNOTSUPP also if the interpreter says that it looks
 * elsewhere. */
int pyhook_make(const struct pyexe *exe, const struct pyhook_options *options, struct pyhook *ret,
		char why[PYEXE_WHY_SIZE]);
void pyhook_done(struct pyhook *h);

/* The manifest's lines "version", "method" and "extension" as a hook made now would have them: what
 * tells an older one. */
int pyhook_header(const struct pyhook_options *options, char ret[PYHOOK_LINE_MAX]);

/* A string of Python that is these bytes as a file name; *ret is malloc()ed. */
int pyhook_literal(const char *bytes, char **ret);
/* CRC-32 as zlib and Python's binascii have it. */
uint32_t pyhook_crc(const void *data, size_t size);
