/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers for people and for pipes: on a terminal a header and aligned columns, in a pipe one line
 * a row with TABs between the cells and nothing else. Cells are escaped, so a row is always one
 * line. Colour only on a terminal that wants it (no NO_COLOR, TERM not dumb).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 12
#define DIGEST_SHOWN      12 /* digits of a digest that people get to see */

struct table {
	const char *headers[TABLE_COLUMNS_MAX];
	size_t n_columns;
	char **cells;
	size_t n_cells;
	bool failed; /* out of memory: table_print() says so */
};

/* HEADERS is a NULL-terminated list of static strings; none is printed where the first is empty. */
void table_init(struct table *t, const char *const *headers);
/* Appends one cell; rows follow from the number of columns. NULL is printed as "-". */
void table_cell(struct table *t, const char *text);
void table_cell_format(struct table *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints to F, aligned and with the header if TERMINAL. 0 or -ENOMEM. */
int table_print(const struct table *t, FILE *f, bool terminal);
void table_done(struct table *t);

/* Is stdout a terminal? */
bool ctl_terminal(void);

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_WARN, COLOUR_BAD, COLOUR_HEAD };
/* Escape sequences to begin and end a colour on stdout; "" where there is none. */
const char *colour_begin(enum colour colour);
const char *colour_end(void);

/* Prints TEXT escaped to stdout. */
void print_escaped(const char *text);
