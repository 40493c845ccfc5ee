/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Between the files of the Python reader: the file's logical lines as tokens (import-python-lex),
 * what is bound where (import-python-names), what an expression is (import-python-value), what
 * tokens mean (import-python-expr), what statements do to os.environ (import-python-env), in which
 * order (import-python). Indices are of py->t, a line's tokens; behind py->end nothing is anything.
 *
 * A name stands for a constant where it is bound exactly once in the file. Loops over constants and
 * functions of this file are gone through by their lines; nothing else is run, and all of it
 * together is bounded by py->work.
 */

#include <stdio.h>

#include "client/ctl/import-python-lex.h"
#include "client/ctl/import.h"

#define BLOCKS_MAX        100 /* Python's own limit of indentation levels */
#define ALIASES_MAX       64
#define TARGETS_MAX       8 /* of one assignment */
#define LOCALS_MAX        64
#define CALLS_MAX         8
#define LOOPS_MAX         8    /* in each other */
#define TURNS_MAX         1024 /* of one loop */
#define PYTHON_NAMES_MAX  16384
#define PYTHON_BUCKETS    4096
#define PYTHON_FILE_WORDS ((size_t)512 * 1024)
#define PYTHON_WORK       ((long)16 * 1024 * 1024) /* tokens gone through, bytes of values */
#define PYTHON_TEXT_MAX   ((size_t)256 * 1024)     /* of a text that is put together */

enum alias {
	ALIAS_OS,
	ALIAS_ENVIRON,
	ALIAS_PUTENV,
	ALIAS_UNSETENV,
	ALIAS_SETDEFAULT,
	ALIAS_PATH, /* os.path */
	ALIAS_JOIN,
	ALIAS_GETENV,
	ALIAS_NOTHING, /* not what it was before */
};

enum block_kind { BLOCK_THROUGH, BLOCK_GUARD, BLOCK_CONDITION, BLOCK_FUNCTION };

struct block {
	enum block_kind kind;
	unsigned indent;
	unsigned line;
	char *guard; /* of BLOCK_GUARD: runs where this name is not set */
	char word[16];
};

enum python_value_type { VALUE_UNKNOWN, VALUE_TEXT, VALUE_NUMBER, VALUE_CONTAINER };

struct python_value {
	enum python_value_type type;
	char *text;
	long long number;
	/* Of a container: what stands between its brackets in this line; '{', '[', or 'd' for
	 * dict(A=...). */
	char bracket;
	size_t line, from, until;
};

/* A name anywhere in the file. */
struct python_name {
	const char *start;
	size_t size;
	unsigned next; /* in the same bucket, + 1 */
	unsigned bound;
	unsigned line, again; /* of the first and the second binding */
	bool handed;          /* to what may change what is in it */
	bool called;          /* a statement is a call of it */
	bool read;            /* VALUE is right */
	unsigned condition;   /* bound in a block of this line; 0: none */
	struct python_value value;
	size_t def;     /* the line of its def, + 1 */
	bool def_shown; /* what it does has been told */
};

/* A parameter, or the variable of a loop. */
struct python_local {
	const char *start;
	size_t size;
	unsigned line; /* of what it stands for */
	struct python_value value;
	char why[160]; /* of VALUE_UNKNOWN */
};

struct python {
	struct import *im;
	struct python_token *tokens; /* of all lines */
	size_t n_tokens;
	struct python_span {
		size_t first, n;
		unsigned indent;
	} * lines;
	size_t n_lines;
	size_t at;                    /* the line being read */
	const struct python_token *t; /* its tokens, or those of a place that is looked at */
	size_t end;                   /* of the statement being read */
	struct python_name *names;
	size_t n_names;
	unsigned buckets[PYTHON_BUCKETS]; /* index + 1 */
	unsigned unsure;                  /* this line may bind any name; 0: none does */
	struct {
		char *name;
		enum alias what;
	} aliases[ALIASES_MAX];
	size_t n_aliases;
	struct block blocks[BLOCKS_MAX];
	size_t n_blocks;
	size_t floor; /* blocks below are of who calls */
	struct python_local locals[LOCALS_MAX];
	size_t n_locals;
	size_t locals_base; /* those below are of who calls */
	unsigned calls, loops;
	long work;
	bool tired;    /* a note says that there was too much work */
	char why[160]; /* why the last expression is no constant */
};

/* A place in the file that is looked at and left again. */
struct python_view {
	const struct python_token *t;
	size_t end;
};

/* --- import-python-names: 0, -ENOMEM, -EBADMSG. */

/* Cuts the file into py->lines. The fault of -EBADMSG is in RD; what stood before it is there. */
int python_load(struct python *py, struct python_reading *rd);
/* Fills in py->names. */
int python_names_find(struct python *py);
struct python_name *python_name_get(const struct python *py, const char *start, size_t size);
/* Calls TAKE for the names that the line AT binds; FROM: that its statements from there on do. */
int python_bindings(struct python *py, size_t at, size_t from,
		    int (*take)(struct python *py, const struct python_token *t));
/* The first line behind AT that is not in its block. */
size_t python_block_end(const struct python *py, size_t at);
struct python_view python_look(struct python *py, size_t line);
void python_look_back(struct python *py, struct python_view view);

/* --- import-python-expr */

/* Is token I, no string, TEXT? */
bool python_is(const struct python *py, size_t i, const char *text);
bool python_is_one_of(const struct python *py, size_t i, const char *const texts[]);
bool python_is_type(const struct python *py, size_t i, enum python_type type);
bool python_opens(const struct python *py, size_t i);
bool python_is_assignment(const struct python *py, size_t i);
/* The first token from I on, outside of brackets opened there, that is TEXT (NULL: none), a comma
 * (with COMMA) or a closing bracket; else the end. */
size_t python_find(const struct python *py, size_t i, const char *text, bool comma);
/* The last = from I on, outside of brackets; 0: there is none. */
size_t python_last_equals(const struct python *py, size_t i);
/* Where the head of a compound statement at I has its colon; 0: it is no such head. */
size_t python_head_end(const struct python *py, size_t i, enum block_kind *ret);

/* The name at I means WHAT from here on. 0 or -ENOMEM. */
int python_alias_add(struct python *py, size_t i, enum alias what);
bool python_alias_is(const struct python *py, size_t i, enum alias what);
/* os.environ (or putenv, ...) at I: the token behind it; 0: not. */
size_t python_past(const struct python *py, size_t i, enum alias what);
void python_aliases_cut(struct python *py, size_t n);

/* --- import-python-value */

#define PYTHON_NOT_READ 1 /* py->why says why; as a return value */

int python_not_read(struct python *py, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void python_value_done(struct python_value *v);
int python_value_copy(const struct python_value *v, struct python_value *ret);
/* The whole expression from I to UNTIL. VALUE_UNKNOWN: py->why says why. 0 or -ENOMEM. */
int python_eval(struct python *py, size_t i, size_t until, struct python_value *ret);
/* The same for a text: *RET is malloc()ed, NULL: it is none. */
int python_text(struct python *py, size_t i, size_t until, char **ret);
/* The same, a container too. */
int python_eval_any(struct python *py, size_t i, size_t until, struct python_value *ret);
struct python_local *python_local_get(struct python *py, size_t i);

/* The f-string T into OUT. 0, PYTHON_NOT_READ, -ENOMEM. */
int python_format(struct python *py, const struct python_token *t, FILE *out);

/* --- import-python-elements */

struct python_element {
	char *key; /* of a dictionary; NULL: not known */
	char *why; /* then: why */
	size_t line;
	size_t from, until;         /* what it is, or its value */
	size_t key_from, key_until; /* of a dictionary or a pair; both 0: none */
};

struct python_elements {
	struct python_element *items;
	size_t n;
	unsigned odd; /* the line of one that could not be read; 0: there is none */
	bool dictionary;
};

/* What is in V. 0, PYTHON_NOT_READ, -ENOMEM. */
int python_elements(struct python *py, const struct python_value *v, struct python_elements *ret);
void python_elements_done(struct python_elements *e);
/* Makes a pair of each that is one of two. */
void python_elements_pair(struct python *py, struct python_elements *e);

/* --- import-python-env: what statements do. 0 or negative. */

int python_env_statement(struct python *py, size_t i, bool *ret_taken);
/* Whatever else changes the environment from I to py->end is named. */
int python_env_scan(struct python *py, size_t i);
/* if "NAME" not in os.environ: and if os.environ.get("NAME") is None: at I, with COLON their end.
 * *RET is the name, malloc()ed, or NULL. 0 or -ENOMEM. */
int python_env_guard(struct python *py, size_t i, size_t colon, char **ret);
/* Does a statement here run for certain? NULL, or the block that says no. */
const struct block *python_place(const struct python *py, const char *name, const char **ret_why);
/* Do the tokens name os.environ or what changes it? */
bool python_env_named(const struct python *py, size_t i);

/* --- import-python: 0 or negative. */

/* What a body leads to returns to where it was. */
int python_run_lines(struct python *py, size_t from, size_t to);
/* Those of the line py->at from I on. */
int python_run_statements(struct python *py, size_t i);

/* --- import-python-run */

/* A block whose word is the token at I. 0, -ENOMEM, -EBADMSG. */
int python_push_block(struct python *py, enum block_kind kind, size_t i);
void python_block_pop(struct python *py);
void python_blocks_cut(struct python *py, size_t n);
void python_locals_cut(struct python *py, size_t n);
/* The loop, or def, whose head with its colon begins the line py->at. 1: its body was gone through
 * or will be; 0: it is to be looked at where it stands; negative. */
int python_take_loop(struct python *py, size_t i, size_t colon);
int python_take_def(struct python *py, size_t i);
/* A statement that is a call of a function of this file. *RET_TAKEN: its body was gone through. */
int python_take_call(struct python *py, size_t i, bool *ret_taken);
