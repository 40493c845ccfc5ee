/* SPDX-License-Identifier: MIT */
/*
 * NAME=VALUE without a program around it: an exec-time block (/proc/PID/environ, env -0), or lines
 * as systemd's EnvironmentFile= and /etc/environment have them: the value may be quoted by ' or ",
 * a backslash takes the next character, nothing is expanded, # and ; begin a comment at the start
 * of a line only.
 */
#include "config.h"

#include "client/ctl/import.h"
#include "common/util.h"

static int read_block(struct import *im, const char *bytes, size_t size)
{
	int r = 0;

	/* Of a block that was cut the last string is not whole. */
	for (size_t at = 0; r == 0 && at < size;) {
		const char *end = memchr(bytes + at, '\0', size - at), *equals;
		size_t n = end ? (size_t)(end - bytes) - at : size - at;
		_cleanup_(freep) char *string = strndup(bytes + at, n);

		if (!string)
			return -ENOMEM;
		at += n + 1;
		equals = strchr(string, '=');
		if (equals == string || !equals) {
			if (n > 0)
				r = import_note(im, 0, NULL, "a string without NAME= in the block");
			continue;
		}
		string[equals - string] = '\0';
		/* getenv() finds the first of two. */
		r = import_set(im, IMPORT_SETDEFAULT, 0, string, equals + 1);
	}
	return r;
}

struct reading {
	const char *bytes;
	size_t size;
	size_t at;
	unsigned line;
	char *value; /* room for all of the rest */
	size_t n;
};

static int next(struct reading *rd)
{
	int c = rd->at < rd->size ? (unsigned char)rd->bytes[rd->at] : -1;

	if (c >= 0)
		rd->at++;
	if (c == '\n')
		rd->line++;
	return c;
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* After a backslash: outside and inside of double quotes. */
static void take_escaped(struct reading *rd, bool quoted)
{
	int c = next(rd);

	if (c < 0 || c == '\n')
		return; /* continues the line */
	if (quoted && !strchr("\"\\`$", c))
		rd->value[rd->n++] = '\\';
	rd->value[rd->n++] = (char)c;
}

/* Up to the closing quote. 0, or -EBADMSG: there is none. */
static int take_quoted(struct reading *rd, int quote)
{
	for (int c; (c = next(rd)) != quote;) {
		if (c < 0)
			return -EBADMSG;
		if (c == '\\' && quote == '"')
			take_escaped(rd, true);
		else
			rd->value[rd->n++] = (char)c;
	}
	return 0;
}

/* Up to the end of the line. 0 or -EBADMSG. */
static int take_value(struct reading *rd)
{
	size_t kept = 0; /* blanks at the end of what is not quoted are dropped */
	bool start = true;
	int c;

	rd->n = 0;
	while ((c = next(rd)) >= 0 && c != '\n') {
		if (start && is_blank(c))
			continue;
		if (start && (c == '\'' || c == '"')) {
			if (take_quoted(rd, c) < 0)
				return -EBADMSG;
			kept = rd->n;
			continue;
		}
		start = false;
		if (c == '\\') {
			take_escaped(rd, false);
			kept = rd->n;
			continue;
		}
		rd->value[rd->n++] = (char)c;
		if (!is_blank(c))
			kept = rd->n;
	}
	rd->value[kept] = '\0';
	rd->n = kept;
	return 0;
}

static int skip_line(struct reading *rd)
{
	int c;

	while ((c = next(rd)) >= 0 && c != '\n')
		;
	return 0;
}

static int read_line(struct import *im, struct reading *rd)
{
	unsigned line = rd->line;
	size_t start, equals;
	_cleanup_(freep) char *name = NULL;

	while (rd->at < rd->size && is_blank(rd->bytes[rd->at]))
		rd->at++;
	start = rd->at;
	if (start == rd->size || strchr("#;\n", rd->bytes[start]))
		return skip_line(rd);
	while (rd->at < rd->size && rd->bytes[rd->at] != '=' && rd->bytes[rd->at] != '\n')
		rd->at++;
	equals = rd->at;
	if (equals == rd->size || rd->bytes[equals] == '\n') {
		(void)skip_line(rd);
		return import_note(im, line, NULL, "the line has no =");
	}
	rd->at++;
	while (equals > start && is_blank(rd->bytes[equals - 1]))
		equals--;
	if (equals - start > 7 && memcmp(rd->bytes + start, "export ", 7) == 0)
		start += 7; /* as /etc/environment may have it */
	name = strndup(rd->bytes + start, equals - start);
	if (!name)
		return -ENOMEM;
	if (take_value(rd) < 0)
		return import_note(im, line, name, "the quote is not closed") < 0 ? -ENOMEM
										  : -EBADMSG;
	return import_set(im, IMPORT_ASSIGN, line, name, rd->value);
}

int import_env(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(freep) char *value = NULL;
	struct reading rd = {.bytes = bytes, .size = size, .line = 1};
	int r = 0;

	if (memchr(bytes, '\0', size))
		return read_block(im, bytes, size);
	/* An escape never makes it longer than it was. */
	value = malloc(size + 1);
	if (!value)
		return -ENOMEM;
	rd.value = value;
	while (r == 0 && rd.at < size)
		r = read_line(im, &rd);
	return r;
}
