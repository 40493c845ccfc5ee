/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a file or a process says of environment variables, for `import` and `doctor`: each kind of
 * file has a reader (import-KIND.c), a parser that executes nothing and expands nothing. Readers
 * feed one list: which variables the file sets, to which literal values, and what was left out,
 * with its line and the reason. Reasons never hold a value.
 *
 * Whether a variable may stand in a profile is not judged here but in import-profile.
 */

#include <stdbool.h>
#include <stddef.h>

#include "common/profile.h"

#define IMPORT_FILE_MAX    ((size_t)4 * 1024 * 1024)
#define IMPORT_ENVIRON_MAX ((size_t)8 * 1024 * 1024) /* more than an exec-time block can be */
#define IMPORT_ITEMS_MAX   8192                      /* names in one import */
#define IMPORT_NOTES_MAX   1000                      /* kept; the others are counted */

enum import_kind {
	IMPORT_PYTHON,
	IMPORT_NCCL_CONF,
	IMPORT_UNIT,
	IMPORT_SHELL,
	IMPORT_ENV,
	IMPORT_KIND_MAX_
};

/* "python", "nccl-conf", "unit", "shell", "env" */
const char *import_kind_name(enum import_kind kind);
/* 0 or -EINVAL. */
int import_kind_parse(const char *name, enum import_kind *ret);
/* By the name of the file, then by its bytes. 0 or -ENOENT: cannot be told. */
int import_kind_guess(const char *path, const char *bytes, size_t size, enum import_kind *ret);

enum import_state {
	IMPORT_UNKNOWN, /* set, but to what cannot be told: a note says why */
	IMPORT_DEFAULT, /* set unless the process has it */
	IMPORT_FORCE,   /* set whatever the process has */
	IMPORT_UNSET,   /* removed */
};

struct import_item {
	enum import_state state;
	char *name;
	char *value;      /* "" where there is none; may hold any byte but NUL */
	const char *file; /* the list's own */
	unsigned line;    /* 0: the file has no lines */
	unsigned next;    /* in the same bucket, + 1 */
};

struct import_note {
	const char *file;
	unsigned line;
	char *name; /* NULL: none, or not a name that can be shown */
	char *reason;
};

#define IMPORT_BUCKETS    1024
#define IMPORT_REFERS_MAX 32

struct import {
	struct import_item *items; /* in the order of their first appearance */
	size_t n_items;
	struct import_note *notes;
	size_t n_notes;
	size_t more_notes;
	char **files;
	size_t n_files;
	char *refers[IMPORT_REFERS_MAX]; /* files that it names as more of the same */
	size_t n_refers;
	const char *file;                 /* being read */
	bool assignments_force;           /* as in a program that runs in the process itself */
	unsigned buckets[IMPORT_BUCKETS]; /* index + 1 */
};

void import_done(struct import *im);
/* What follows comes from FILE (copied). 0 or -ENOMEM. */
int import_begin_file(struct import *im, const char *file);
struct import_item *import_find(const struct import *im, const char *name);

/* For readers: what a line does. Names that no variable can have become notes. All: 0 or -ENOMEM.
 */

enum import_op { IMPORT_ASSIGN, IMPORT_SETDEFAULT };

/* NAME gets VALUE (SETDEFAULT: unless something before in this list set it). */
int import_set(struct import *im, enum import_op op, unsigned line, const char *name,
	       const char *value);
/* NAME gets a value that cannot be told, because REASON. */
int import_leave(struct import *im, enum import_op op, unsigned line, const char *name,
		 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* NAME gets a value or not: what was there before stays. */
int import_maybe(struct import *im, unsigned line, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int import_unset(struct import *im, unsigned line, const char *name);
/* What was set so far is not (systemd's empty Environment=). */
int import_forget(struct import *im, unsigned line);
/* A note alone; NAME may be NULL. */
int import_note(struct import *im, unsigned line, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Another file (of kind env) belongs to it; not read here. */
int import_refer(struct import *im, const char *path);
/* The same as import_note() at the place of ITEM. */
int import_note_item(struct import *im, const struct import_item *item, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The readers. 0, -ENOMEM, or -EBADMSG: the file is not of this kind from a line on; the last note
 * says where and why, and what stood before it was taken. */

/* A program of Python, such as a sitecustomize.py: os.environ and os.putenv with literals. */
int import_python(struct import *im, const char *bytes, size_t size);
/* A .pth file: its lines that begin with import. */
int import_pth(struct import *im, const char *bytes, size_t size);
/* NCCL's own file: NAME=VALUE, nothing else; the first of two lines counts. */
int import_nccl_conf(struct import *im, const char *bytes, size_t size);
/* One unit file or drop-in of systemd; also system.conf. */
int import_unit(struct import *im, const char *bytes, size_t size);
/* Commands of sh: export, assignments, unset. */
int import_shell(struct import *im, const char *bytes, size_t size);
/* NAME=VALUE: ended by NUL as in /proc/PID/environ, else lines as EnvironmentFile= has them. */
int import_env(struct import *im, const char *bytes, size_t size);

int import_read(struct import *im, enum import_kind kind, const char *bytes, size_t size);
