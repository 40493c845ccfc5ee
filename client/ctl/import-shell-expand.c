/* SPDX-License-Identifier: MIT */
/*
 * What stands behind a '$' in a shell file: variables that the file itself set for certain, with
 * their defaults, and sums. All else is skipped, and said so.
 */
#include "config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/ctl/import-number.h"
#include "client/ctl/import-shell-word.h"
#include "common/util.h"

#define EXPAND_DEPTH_MAX 8

void shell_expansion_done(struct shell_expansion *x)
{
	free(x->text);
	free(x->why);
	free(x->own);
	free(x->assigned);
	*x = (struct shell_expansion){0};
}

static int peek(const struct shell_reading *rd, size_t ahead)
{
	return rd->at + ahead < rd->size ? (unsigned char)rd->bytes[rd->at + ahead] : -1;
}

static int _printf_(2, 3) not_known(struct shell_expansion *x, const char *format, ...)
{
	va_list ap;
	int r;

	if (x->why)
		return 0;
	va_start(ap, format);
	r = vasprintf(&x->why, format, ap);
	va_end(ap);
	if (r < 0)
		x->why = NULL;
	return r < 0 ? -ENOMEM : 0;
}

static size_t name_size(const struct shell_reading *rd, size_t ahead)
{
	size_t n = 0;

	while (peek(rd, ahead + n) == '_' ||
	       (peek(rd, ahead + n) >= 0 && isalnum(peek(rd, ahead + n))))
		n++;
	return n > 0 && isdigit(peek(rd, ahead)) ? 0 : n;
}

/* The value of a variable as it is. */
static int take_value(const struct shell_reading *rd, const char *name, size_t size,
		      struct shell_expansion *x)
{
	struct shell_lookup v = {0};
	int shown = size < 64 ? (int)size : 64;

	if (rd->lookup)
		rd->lookup(rd->data, name, size, &v);
	if (v.state == SHELL_SET) {
		x->text = strdup(v.value);
		return x->text ? 0 : -ENOMEM;
	}
	if (v.state == SHELL_UNBOUND)
		return not_known(x, "it takes the value of %.*s, which is not set here before",
				 shown, name);
	return v.line > 0 ? not_known(x, "%.*s: %s (line %u)", shown, name, v.why, v.line)
			  : not_known(x, "%.*s: %s", shown, name, v.why);
}

/* Up to the closing brace: what the default is, where it is plain. 1: it is not. */
static int take_default(struct shell_reading *rd, bool quoted, unsigned depth,
			struct shell_expansion *ret)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	bool inside = false;
	int r = 0;

	if (!out)
		return -ENOMEM;
	while (r == 0 && (peek(rd, 0) != '}' || inside)) {
		struct shell_expansion part = {0};
		int c = peek(rd, 0);

		if (c == '"' && !quoted) {
			inside = !inside;
			rd->at++;
		} else if (c == '$') {
			rd->at++;
			r = shell_expand(rd, quoted || inside, depth + 1, &part);
			if (r == 0 && (!part.text || part.own))
				r = 1;
			if (r == 0)
				fputs(part.text, out);
		} else if (c < 0 || strchr("\"'\\`{}\n", c) ||
			   (!quoted && !inside && strchr(" \t*?[~;&|<>()", c))) {
			r = 1;
		} else {
			fputc(c, out);
			rd->at++;
		}
		shell_expansion_done(&part);
	}
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r != 0) {
		free(text);
		return r;
	}
	rd->at++;
	ret->text = text;
	return 0;
}

/* ${NAME}, ${NAME:-DEFAULT} and the like, RD behind the name. 1: none of these. */
static int take_braced(struct shell_reading *rd, const char *name, size_t size, bool quoted,
		       unsigned depth, struct shell_expansion *ret)
{
	bool colon = peek(rd, 0) == ':';
	int operator= peek(rd, colon), r;
	struct shell_lookup v = {0};

	if (!colon && operator== '}') {
		rd->at++;
		return take_value(rd, name, size, ret);
	}
	if ((operator!= '-' && operator!= '=') || !rd->lookup)
		return 1;
	rd->at += colon + 1U;
	r = take_default(rd, quoted, depth, ret);
	if (r != 0)
		return r;
	rd->lookup(rd->data, name, size, &v);
	if (v.state == SHELL_UNSURE || (v.state == SHELL_SET && (v.value[0] || !colon))) {
		free(ret->text);
		ret->text = NULL;
		return take_value(rd, name, size, ret);
	}
	if (v.state == SHELL_SET)
		return 0; /* an empty value: the default */
	ret->own = strndup(name, size);
	if (operator== '=')
		ret->assigned = strdup(ret->text);
	return ret->own && (operator!= '=' || ret->assigned) ? 0 : -ENOMEM;
}

/* What is not read is skipped whole: RD stands behind the '$'. 1: the '$' is one by itself. */
static int skip(struct shell_reading *rd, struct shell_expansion *ret)
{
	const char *from = rd->bytes + rd->at;
	bool command = peek(rd, 0) == '(', sum = command && peek(rd, 1) == '(';
	int r = shell_skip_dollar(rd);
	size_t size = (size_t)(rd->bytes + rd->at - from);
	long long number;

	if (r != 0)
		return r;
	if (sum && size > 4 && from[size - 2] == ')' &&
	    number_of_shell(from + 2, size - 4, &number))
		return asprintf(&ret->text, "%lld", number) < 0 ? -ENOMEM : 0;
	return not_known(ret, sum       ? "it is a sum that is not of plain numbers"
			      : command ? "it needs a command's output"
					: "it needs expansion ($)");
}

int shell_expand(struct shell_reading *rd, bool quoted, unsigned depth, struct shell_expansion *ret)
{
	const struct shell_reading before = *rd;
	bool braced = peek(rd, 0) == '{';
	size_t n = name_size(rd, braced);
	const char *name = rd->bytes + rd->at + braced;
	int r = 1;

	*ret = (struct shell_expansion){0};
	if (n > 0 && depth < EXPAND_DEPTH_MAX) {
		rd->at += n + braced;
		r = braced ? take_braced(rd, name, n, quoted, depth, ret)
			   : take_value(rd, name, n, ret);
	}
	if (r == 1) {
		rd->at = before.at;
		rd->line = before.line;
		r = skip(rd, ret);
	}
	if (r != 0)
		shell_expansion_done(ret);
	return r;
}
