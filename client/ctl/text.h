/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Bytes of unknown origin made fit to print. Values, names, command lines and paths may hold any
 * byte; a terminal must get no control sequence, one line must stay one line, and JSON must be
 * UTF-8. Escapes: \t \n \r, \xNN for other controls and for bytes that are no UTF-8, \u{NNNN} for
 * C1 controls and for characters that reorder a line. A backslash stays itself.
 */

#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 character at S (SIZE bytes), 0: none. *ret_code (may be NULL) is
 * its code point. */
size_t text_utf8(const char *s, size_t size, unsigned *ret_code);

/* malloc()ed, NUL-terminated; NULL: out of memory. */
char *text_escape(const char *s, size_t size);

/* Bytes that are no UTF-8 become \xNN, nothing else changes: for JSON, whose writer escapes
 * controls itself. */
char *text_to_utf8(const char *s, size_t size);

/* Columns that S takes on a terminal; S is escaped text. */
size_t text_width(const char *s);
