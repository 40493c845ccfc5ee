/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A shell file cut into words and operators, quotes taken off. Of variables only those are expanded
 * that the file itself has set (lookup), and no command is run: a word that would need more says so.
 * Here-documents are skipped.
 */

#include <stdbool.h>
#include <stddef.h>

enum shell_token { SHELL_WORD, SHELL_OPERATOR, SHELL_NEWLINE, SHELL_END };

struct shell_word {
	char *text;       /* without quotes; not whole where WHY is set */
	size_t size;      /* NUL included in it is counted */
	size_t name_size; /* NAME of an unquoted NAME= at its start; 0: no assignment */
	bool appends;     /* NAME+= */
	bool quoted;      /* some of it: no reserved word */
	bool keeps;       /* NAME=${NAME:-...}: for who has no value before */
	bool splits;      /* a value without quotes that a shell may cut, where it is an argument */
	char *why;        /* why its value cannot be told; NULL: it can */
	char *assigned;   /* of ${ASSIGNED:=VALUE} in it, or NULL */
	char *assigned_value;
	unsigned line;
};

enum shell_state {
	SHELL_UNBOUND, /* the file did not set it */
	SHELL_SET,
	SHELL_UNSURE,
};

struct shell_lookup {
	enum shell_state state;
	const char *value, *why;
	unsigned line; /* of WHY, or 0 */
};

#define SHELL_HERE_MAX 8

struct shell_reading {
	const char *bytes;
	size_t size;
	size_t at;
	unsigned line;
	char op[3]; /* of the last SHELL_OPERATOR */
	struct {
		char *delimiter;
		bool tabs; /* <<- */
	} here[SHELL_HERE_MAX];
	size_t n_here;
	const char *fault; /* of -EBADMSG */
	unsigned fault_line;
	/* What the variable is now; NULL: nothing is known of any. */
	void (*lookup)(void *data, const char *name, size_t size, struct shell_lookup *ret);
	void *data;
};

struct shell_expansion {
	char *text; /* NULL: WHY says why not */
	char *why;
	char *own;      /* TEXT is the default for who has no value of this name */
	char *assigned; /* and the name gets it (:=); equal to TEXT */
};

/* The next token; *RET is filled in for a word and is the caller's. enum shell_token, -ENOMEM, or
 * -EBADMSG: a quote or a substitution is not closed. */
int shell_next(struct shell_reading *rd, struct shell_word *ret);
bool shell_is_name(const char *s, size_t n);
void shell_word_done(struct shell_word *w);
void shell_reading_done(struct shell_reading *rd);

/* Behind a '$'. 0, 1: it stands for itself, -ENOMEM, -EBADMSG. DEPTH: of expansions in defaults. */
int shell_expand(struct shell_reading *rd, bool quoted, unsigned depth,
		 struct shell_expansion *ret);
void shell_expansion_done(struct shell_expansion *x);
/* The same, and all of it is skipped. */
int shell_skip_dollar(struct shell_reading *rd);
