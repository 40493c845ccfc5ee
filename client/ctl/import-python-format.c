/* SPDX-License-Identifier: MIT */
/* f-strings: text and names, numbers and sums of them in braces; no formats, no quotes in braces. */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

/* What stands in the braces of an f-string: SIZE bytes at S, in which nothing is quoted. */
static int take_braces(struct python *py, const char *s, size_t size, char **ret)
{
	struct python_reading rd = {.bytes = s, .size = size, .line = 1};
	_cleanup_(python_line_done) struct python_line line = {0};
	struct python_view before = {py->t, py->end};
	struct python_value v = {0};
	int r = python_next(&rd, &line);

	if (r == -ENOMEM)
		return r;
	if (r <= 0)
		return python_not_read(py, "it is computed (an f-string)");
	py->t = line.tokens;
	py->end = line.n;
	r = python_eval(py, 0, line.n, &v);
	python_look_back(py, before);
	if (r == 0 && v.type == VALUE_UNKNOWN)
		return PYTHON_NOT_READ;
	if (r == 0 && v.type == VALUE_NUMBER && asprintf(&v.text, "%lld", v.number) < 0) {
		v.text = NULL;
		r = -ENOMEM;
	}
	*ret = v.text;
	return r;
}

/* The next piece of an f-string at *S, before END: text, or braces. */
static int format_piece(struct python *py, const struct python_token *t, const char **s,
			const char *end, char **ret)
{
	static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
				     "0123456789 +-*/()<.";
	const char *from = *s, *why = NULL;
	size_t n;
	int r;

	if (*from == '{' && from + 1 < end && from[1] != '{') {
		for (n = 1; from + n < end && strchr(inside, from[n]); n++)
			;
		if (from + n >= end || from[n] != '}')
			return python_not_read(py, "it is computed (an f-string)");
		*s = from + n + 1;
		return take_braces(py, from + 1, n - 1, ret);
	}
	if (*from == '{' || *from == '}') { /* doubled */
		if (from + 1 >= end || from[1] != *from)
			return python_not_read(py, "it is computed (an f-string)");
		*s = from + 2;
		*ret = strndup(from, 1);
		return *ret ? 0 : -ENOMEM;
	}
	while (*s < end && **s != '{' && **s != '}') {
		if (**s == '\\' && !t->raw && *s + 1 < end && strchr("{}N", (*s)[1]))
			return python_not_read(py, "it is computed (an f-string)");
		*s += **s == '\\' && !t->raw && *s + 1 < end ? 2 : 1;
	}
	r = python_decode(from, (size_t)(*s - from), t->raw, t->not_utf8, ret, &why);
	return r == 0 && !*ret ? python_not_read(py, "%s", why) : r;
}

int python_format(struct python *py, const struct python_token *t, FILE *out)
{
	const char *s = t->start + t->inside, *end = t->start + t->size - t->outside;
	int r = 0;

	while (r == 0 && s < end) {
		_cleanup_(freep) char *piece = NULL;

		r = format_piece(py, t, &s, end, &piece);
		if (r == 0)
			fputs(piece, out);
	}
	return r;
}
