/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A shell file cut into words and operators, quotes taken off. Nothing is expanded: a word that
 * would need it says so. Here-documents are skipped.
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
	const char *why;  /* why its value cannot be told; static; NULL: it can */
	unsigned line;
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
};

/* The next token; *RET is filled in for a word and is the caller's. enum shell_token, -ENOMEM, or
 * -EBADMSG: a quote or a substitution is not closed. */
int shell_next(struct shell_reading *rd, struct shell_word *ret);
void shell_word_done(struct shell_word *w);
void shell_reading_done(struct shell_reading *rd);
