/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-python-lex.h"

#include <ctype.h>
#include <stdlib.h>

#include "common/util.h"

void python_line_clear(struct python_line *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->tokens[i].value);
	l->n = 0;
}

void python_line_done(struct python_line *l)
{
	python_line_clear(l);
	free(l->tokens);
	*l = (struct python_line){0};
}

static int peek(const struct python_reading *rd, size_t ahead)
{
	return rd->at + ahead < rd->size ? (unsigned char)rd->bytes[rd->at + ahead] : -1;
}

static int fault(struct python_reading *rd, unsigned line, const char *text)
{
	rd->fault = text;
	rd->fault_line = line;
	return -EBADMSG;
}

/* --- strings */

static bool has_letter(const char *prefix, size_t n, char letter)
{
	for (size_t i = 0; i < n; i++)
		if (tolower((unsigned char)prefix[i]) == letter)
			return true;
	return false;
}

/* A character's UTF-8, or of a lone surrogate U+DC80 to U+DCFF the byte that it stands for. */
static char *put_code(char *out, unsigned long code)
{
	if (code >= 0xdc80 && code <= 0xdcff) {
		*out++ = (char)(code - 0xdc00);
	} else if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xc0 | code >> 6);
		*out++ = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		*out++ = (char)(0xe0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	} else {
		*out++ = (char)(0xf0 | code >> 18);
		*out++ = (char)(0x80 | (code >> 12 & 0x3f));
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	}
	return out;
}

struct decoding {
	const char *s, *end;
	char *out;
	const char *why;
};

/* At most MAX digits of BASE, at least MIN. */
static void take_digits(struct decoding *d, size_t min, size_t max, int base)
{
	char digits[9] = "";
	size_t n = 0;
	unsigned long code;

	while (n < max && d->s < d->end && isxdigit((unsigned char)*d->s) &&
	       (base == 16 || (*d->s >= '0' && *d->s <= '7')))
		digits[n++] = *d->s++;
	code = strtoul(digits, NULL, base);
	if (n < min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff && code < 0xdc80))
		d->why = "an escape in it is not one of Python's";
	else if (code == 0)
		d->why = "there is a NUL in it";
	else
		d->out = put_code(d->out, code);
}

/* Behind a backslash. */
static void take_escape(struct decoding *d)
{
	static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
	char c = *d->s;
	const char *known = c ? strchr(letters, c) : NULL;

	if (c >= '0' && c <= '7') {
		take_digits(d, 1, 3, 8);
		return;
	}
	d->s++;
	if (known)
		*d->out++ = values[known - letters];
	else if (c == 'x')
		take_digits(d, 2, 2, 16);
	else if (c == 'u')
		take_digits(d, 4, 4, 16);
	else if (c == 'U')
		take_digits(d, 8, 8, 16);
	else if (c == 'N')
		d->why = "it has a character by its name (\\N)";
	else if (c == '\r' && d->s < d->end && *d->s == '\n')
		d->s++;
	else if (c != '\n' && c != '\r') {
		*d->out++ = '\\';
		*d->out++ = c;
	}
}

/* An escape is never longer than what it stands for, so SIZE is enough. */
int python_decode(const char *text, size_t size, bool raw, bool not_utf8, char **ret,
		  const char **ret_why)
{
	_cleanup_(freep) char *value = malloc(size + 1);
	struct decoding d = {.s = text, .end = text + size, .out = value};

	*ret = NULL;
	if (!value)
		return -ENOMEM;
	while (d.s < d.end && !d.why) {
		char c = *d.s++;

		if (c == '\\' && !raw && d.s < d.end) {
			take_escape(&d);
			continue;
		}
		if (c == '\r') { /* Python reads every line end as LF */
			if (d.s < d.end && *d.s == '\n')
				d.s++;
			c = '\n';
		}
		if ((unsigned char)c >= 0x80 && not_utf8)
			d.why = "the source's coding is not UTF-8";
		*d.out++ = c;
	}
	if (d.why) {
		*ret_why = d.why;
		return 0;
	}
	*d.out = '\0';
	*ret = TAKE_PTR(value);
	return 0;
}

/* Where the string ends that begins with its quote at FROM; 0: nowhere. */
static size_t string_end(struct python_reading *rd, size_t from, size_t quotes)
{
	char quote = rd->bytes[from];
	size_t at = from + quotes;

	while (at < rd->size) {
		char c = rd->bytes[at];

		if (c == '\\') {
			at++;
			if (at < rd->size && rd->bytes[at] == '\r' && at + 1 < rd->size &&
			    rd->bytes[at + 1] == '\n')
				at++;
		} else if (c == '\n' && quotes == 1) {
			return 0;
		} else if (c == quote &&
			   (quotes == 1 || (at + 2 < rd->size && rd->bytes[at + 1] == quote &&
					    rd->bytes[at + 2] == quote))) {
			return at + quotes;
		}
		if (at < rd->size && rd->bytes[at] == '\n')
			rd->line++;
		at++;
	}
	return 0;
}

/* A string whose prefix has N letters. */
static int take_string(struct python_reading *rd, size_t n, struct python_token *t)
{
	const char *prefix = rd->bytes + rd->at;
	size_t from = rd->at + n, end, quotes;
	char quote = rd->bytes[from];
	int r = 0;

	quotes = from + 2 < rd->size && rd->bytes[from + 1] == quote && rd->bytes[from + 2] == quote
			 ? 3
			 : 1;
	t->type = PYTHON_STRING;
	end = string_end(rd, from, quotes);
	if (end == 0)
		return fault(rd, t->line, "a string is not closed");
	t->size = end - rd->at;
	rd->at = end;
	if (has_letter(prefix, n, 'b'))
		t->why = "it is a string of bytes";
	else if (memchr(rd->bytes + from, '\0', end - from))
		t->why = "there is a NUL in it";
	else if (has_letter(prefix, n, 't'))
		t->why = "it is a template";
	else if (has_letter(prefix, n, 'f')) {
		t->why = "it is computed (an f-string)";
		t->format = true;
		t->raw = has_letter(prefix, n, 'r');
		t->not_utf8 = rd->not_utf8;
		t->inside = n + quotes;
		t->outside = quotes;
	} else {
		r = python_decode(rd->bytes + from + quotes, end - from - 2 * quotes,
				  has_letter(prefix, n, 'r'), rd->not_utf8, &t->value, &t->why);
	}
	return r;
}

/* --- tokens */

static bool is_name_char(int c)
{
	return c == '_' || c >= 0x80 || (c >= 0 && isalnum(c));
}

/* Length of a string's prefix at the reading's place, if a quote follows; -1: no string is here. */
static int string_prefix(const struct python_reading *rd)
{
	int n = 0;

	while (n < 3 && peek(rd, (size_t)n) > 0 && strchr("rRbBuUfFtT", peek(rd, (size_t)n)))
		n++;
	return peek(rd, (size_t)n) == '\'' || peek(rd, (size_t)n) == '"' ? n : -1;
}

static size_t operator_size(const struct python_reading *rd)
{
	static const char *const operators[] = {
		"**=", "//=", "<<=", ">>=", "...", "==", "!=", "<=", ">=", ":=", "+=", "-=",
		"*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", "->", "**", "//", "<<", ">>"};

	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		size_t n = strlen(operators[i]);

		if (rd->size - rd->at >= n && memcmp(rd->bytes + rd->at, operators[i], n) == 0)
			return n;
	}
	return 1;
}

static int take_token(struct python_reading *rd, struct python_token *t)
{
	int c = peek(rd, 0), prefix = string_prefix(rd);

	*t = (struct python_token){.line = rd->line, .start = rd->bytes + rd->at};
	if (prefix >= 0)
		return take_string(rd, (size_t)prefix, t);
	if (isdigit(c) || (c == '.' && peek(rd, 1) >= 0 && isdigit(peek(rd, 1)))) {
		t->type = PYTHON_NUMBER;
		while (is_name_char(peek(rd, t->size)) || peek(rd, t->size) == '.')
			t->size++;
	} else if (is_name_char(c)) {
		t->type = PYTHON_NAME;
		while (is_name_char(peek(rd, t->size)))
			t->size++;
	} else if (c > 0 && strchr("()[]{}<>=!+-*/%&|^~@:;,.", c)) {
		t->type = PYTHON_OP;
		t->size = operator_size(rd);
	} else {
		return fault(rd, rd->line, "this is no Python");
	}
	rd->at += t->size;
	return 0;
}

static int add_token(struct python_reading *rd, struct python_line *l, struct python_token **ret)
{
	if (l->n == PYTHON_TOKENS_MAX)
		return fault(rd, rd->line, "a statement is too long");
	if ((l->n & (l->n - 1)) == 0) {
		struct python_token *grown =
			reallocarray(l->tokens, l->n == 0 ? 1 : l->n * 2, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		l->tokens = grown;
	}
	*ret = &l->tokens[l->n++];
	**ret = (struct python_token){0};
	return 0;
}

/* Blanks, comments, joined lines. Returns true at the end of a physical line, or of the file. */
static bool skip_blanks(struct python_reading *rd, unsigned *indent)
{
	for (int c;; rd->at++) {
		c = peek(rd, 0);
		if (c == ' ' || c == '\f' || c == '\r') {
			*indent = c == '\f' ? 0 : *indent + (c == ' ');
		} else if (c == '\t') {
			*indent = (*indent / 8 + 1) * 8;
		} else if (c == '#') {
			while (peek(rd, 1) >= 0 && peek(rd, 1) != '\n')
				rd->at++;
		} else if (c == '\\' &&
			   (peek(rd, 1) == '\n' || (peek(rd, 1) == '\r' && peek(rd, 2) == '\n'))) {
			rd->at += peek(rd, 1) == '\r' ? 2 : 1;
			rd->line++;
		} else {
			return c < 0 || c == '\n';
		}
	}
}

/* Pairs the last token with its bracket. *OPEN: the innermost open one + 1, whose match is the one
 * around it. */
static int pair_bracket(struct python_reading *rd, struct python_line *l, size_t *open)
{
	struct python_token *t = &l->tokens[l->n - 1];
	size_t outer;

	if (t->type != PYTHON_OP || t->size != 1)
		return 0;
	if (strchr("([{", t->start[0])) {
		t->match = *open;
		*open = l->n;
	}
	if (strchr(")]}", t->start[0])) {
		if (*open == 0)
			return fault(rd, t->line, "a bracket is closed that was not opened");
		outer = l->tokens[*open - 1].match;
		l->tokens[*open - 1].match = l->n - 1;
		*open = outer;
	}
	return 0;
}

/* PEP 263: # -*- coding: NAME -*- in the first two lines. A BOM is skipped. */
static void begin(struct python_reading *rd)
{
	const char *end = memchr(rd->bytes, '\n', rd->size), *coding;

	if (rd->size >= 3 && memcmp(rd->bytes, "\xef\xbb\xbf", 3) == 0)
		rd->at = 3;
	if (end)
		end = memchr(end + 1, '\n', rd->size - (size_t)(end + 1 - rd->bytes));
	if (!end)
		end = rd->bytes + rd->size;
	coding = memmem(rd->bytes, (size_t)(end - rd->bytes), "coding", 6);
	if (!coding || end - coding < 8 || (coding[6] != ':' && coding[6] != '=') ||
	    !memchr(rd->bytes, '#', (size_t)(coding - rd->bytes)))
		return;
	coding += 7;
	while (coding < end && *coding == ' ')
		coding++;
	rd->not_utf8 = strncasecmp(coding, "utf", 3) != 0 && strncasecmp(coding, "ascii", 5) != 0;
}

int python_next(struct python_reading *rd, struct python_line *ret)
{
	unsigned indent = 0;
	size_t open = 0;
	int r = 0;

	python_line_clear(ret);
	if (rd->at == 0)
		begin(rd);
	for (;;) {
		struct python_token *t;

		if (skip_blanks(rd, &indent)) {
			if (peek(rd, 0) < 0)
				break;
			rd->at++;
			rd->line++;
			if (open == 0 && ret->n > 0)
				return 1;
			if (open == 0)
				indent = 0;
			continue;
		}
		if (ret->n == 0)
			ret->indent = indent;
		r = add_token(rd, ret, &t);
		if (r == 0)
			r = take_token(rd, t);
		if (r == 0)
			r = pair_bracket(rd, ret, &open);
		if (r < 0)
			return r;
	}
	if (open > 0)
		return fault(rd, ret->tokens[0].line, "a bracket is not closed");
	return ret->n > 0;
}
