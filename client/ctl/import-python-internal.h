/* SPDX-License-Identifier: MIT */
#pragma once

/* Between the files of the Python reader: one logical line's tokens (import-python-lex), what they
 * mean (import-python-expr), what its statements do (import-python). Indices are of py->t; behind
 * py->end nothing is anything. */

#include "client/ctl/import-python-lex.h"
#include "client/ctl/import.h"

#define BLOCKS_MAX  100 /* Python's own limit of indentation levels */
#define ALIASES_MAX 64
#define TARGETS_MAX 8 /* of one assignment */

enum alias { ALIAS_OS, ALIAS_ENVIRON, ALIAS_PUTENV, ALIAS_UNSETENV, ALIAS_SETDEFAULT };

enum block_kind { BLOCK_THROUGH, BLOCK_GUARD, BLOCK_CONDITION, BLOCK_FUNCTION };

struct block {
	enum block_kind kind;
	unsigned indent;
	unsigned line;
	char *guard; /* of BLOCK_GUARD: runs where this name is not set */
	char word[16];
};

struct python {
	struct import *im;
	struct python_line line;
	const struct python_token *t; /* = line.tokens */
	size_t end;                   /* of the statement being read */
	struct {
		char *name;
		enum alias what;
	} aliases[ALIASES_MAX];
	size_t n_aliases;
	struct block blocks[BLOCKS_MAX];
	size_t n_blocks;
};

/* Is token I, no string, TEXT? */
bool python_is(const struct python *py, size_t i, const char *text);
bool python_is_type(const struct python *py, size_t i, enum python_type type);
bool python_opens(const struct python *py, size_t i);
/* The first token from I on, outside of brackets opened there, that is TEXT (NULL: none), a comma
 * (with COMMA) or a closing bracket; else the end. */
size_t python_find(const struct python *py, size_t i, const char *text, bool comma);

/* The name at I means WHAT from here on. 0 or -ENOMEM. */
int python_alias_add(struct python *py, size_t i, enum alias what);
bool python_alias_is(const struct python *py, size_t i, enum alias what);
/* os.environ (or putenv, ...) at I: the token behind it; 0: not. */
size_t python_past(const struct python *py, size_t i, enum alias what);

/* The literal from I to UNTIL, which is the whole expression: *RET is malloc()ed, NULL: none, and
 * *RET_WHY says why. 0 or -ENOMEM. */
int python_literal(const struct python *py, size_t i, size_t until, char **ret,
		   const char **ret_why);
