/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A Python source cut into logical lines of tokens, strings decoded. Knows only what every version
 * of Python 3 agrees on; what is no Python ends the reading with a line and a reason.
 */

#include <stdbool.h>
#include <stddef.h>

enum python_type { PYTHON_NAME, PYTHON_STRING, PYTHON_NUMBER, PYTHON_OP };

struct python_token {
	enum python_type type;
	unsigned line;
	const char *start; /* in the source; of a string its prefix */
	size_t size;
	char *value;     /* of a string that is a literal, without NUL */
	const char *why; /* of another string: why it is none; static */
	size_t match;    /* of an opening bracket: the token that closes it */
	/* Of an f-string, with this many bytes before and behind what is inside of its quotes: */
	bool format, raw, not_utf8;
	unsigned char inside, outside;
};

struct python_line {
	struct python_token *tokens;
	size_t n;
	unsigned indent; /* columns before the first token */
};

#define PYTHON_TOKENS_MAX 65536 /* in one logical line */

struct python_reading {
	const char *bytes;
	size_t size;
	size_t at;
	unsigned line;
	bool not_utf8;     /* the source says that it has another coding */
	const char *fault; /* of -EBADMSG */
	unsigned fault_line;
};

/* The next logical line that has tokens, into RET (which is used again). 1, 0: the end, -ENOMEM,
 * -EBADMSG. */
int python_next(struct python_reading *rd, struct python_line *ret);
/* The text between two quotes. *RET is NULL where *RET_WHY says why it cannot be told. 0 or -ENOMEM.
 */
int python_decode(const char *text, size_t size, bool raw, bool not_utf8, char **ret,
		  const char **ret_why);
void python_line_clear(struct python_line *l);
void python_line_done(struct python_line *l);
