/* SPDX-License-Identifier: MIT */
/*
 * The environment in a unit file or drop-in of systemd (systemd.exec(5)): words of Environment= in
 * systemd's own quoting, on lines that a backslash continues. What takes its value from elsewhere
 * (files, the manager, credentials, specifiers) is left out.
 */
#include "config.h"

#include "client/ctl/import.h"
#include "common/util.h"

#define DIGITS_HEX "0123456789abcdefABCDEF"
#define DIGITS_OCT "01234567"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Writes CODE as UTF-8; the number of bytes. */
static size_t put_utf8(char *out, unsigned long code)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* N digits of a number after a backslash's letter. 0, or -EBADMSG: there are not so many. */
static int take_digits(const char **s, size_t n, bool octal, unsigned long *ret)
{
	char digits[9] = "";

	for (size_t i = 0; i < n; i++) {
		if (!(*s)[i] || !strchr(octal ? DIGITS_OCT : DIGITS_HEX, (*s)[i]))
			return -EBADMSG;
		digits[i] = (*s)[i];
	}
	*s += n;
	*ret = strtoul(digits, NULL, octal ? 8 : 16);
	return *ret == 0 ? -EBADMSG : 0;
}

/* *S stands behind a backslash. 0 or -EBADMSG. */
static int take_escape(const char **s, char *out, size_t *n)
{
	static const char letters[] = "abfnrtv\\\"'s", values[] = "\a\b\f\n\r\t\v\\\"' ";
	char c = **s;
	const char *known = c ? strchr(letters, c) : NULL;
	unsigned long code;

	if (known) {
		(*s)++;
		out[(*n)++] = values[known - letters];
		return 0;
	}
	if (c == 'x' || (c >= '0' && c <= '7')) {
		*s += c == 'x';
		if (take_digits(s, c == 'x' ? 2 : 3, c != 'x', &code) < 0 || code > 0xff)
			return -EBADMSG;
		out[(*n)++] = (char)code;
		return 0;
	}
	if (c != 'u' && c != 'U')
		return -EBADMSG;
	(*s)++;
	if (take_digits(s, c == 'u' ? 4 : 8, false, &code) < 0 || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff))
		return -EBADMSG;
	*n += put_utf8(out + *n, code);
	return 0;
}

/* The next word of *S into WORD (room for all of *S). 1, 0: no more, -EBADMSG. */
static int next_word(const char **s, char *word)
{
	size_t n = 0;
	char quote = 0;

	while (is_blank(**s))
		(*s)++;
	if (!**s)
		return 0;
	for (char c; (c = **s);) {
		(*s)++;
		if (c == '\\') {
			if (take_escape(s, word, &n) < 0)
				return -EBADMSG;
		} else if (quote) {
			if (c == quote)
				quote = 0;
			else
				word[n++] = c;
		} else if (c == '\'' || c == '"') {
			quote = c;
		} else if (is_blank(c)) {
			break;
		} else {
			word[n++] = c;
		}
	}
	word[n] = '\0';
	return quote ? -EBADMSG : 1;
}

/* %% is a percent sign, any other specifier is not known here. In place; false: there is one. */
static bool drop_percents(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (*s == '%' && *++s != '%')
			return false;
		*out++ = *s;
	}
	*out = '\0';
	return true;
}

static int set_word(struct import *im, unsigned line, char *word)
{
	char *equals = strchr(word, '=');
	struct import_item *item;

	if (!equals)
		return import_note(im, line, NULL, "a word of Environment= has no =");
	*equals = '\0';
	item = import_find(im, word);
	if (item && item->state == IMPORT_UNSET)
		return import_note(im, line, word, "UnsetEnvironment= removes it at last");
	if (!drop_percents(equals + 1))
		return import_leave(im, IMPORT_ASSIGN, line, word,
				    "a specifier (%%) stands in it, which systemd replaces");
	return import_set(im, IMPORT_ASSIGN, line, word, equals + 1);
}

static int read_environment(struct import *im, unsigned line, const char *value)
{
	_cleanup_(freep) char *word = malloc(strlen(value) + 1);
	int r;

	if (!word)
		return -ENOMEM;
	if (!*value)
		return import_forget(im, line);
	while ((r = next_word(&value, word)) > 0) {
		r = set_word(im, line, word);
		if (r < 0)
			return r;
	}
	return r == -EBADMSG ? import_note(im, line, NULL,
					   "the rest of Environment= is not quoted as systemd "
					   "understands it, which ignores it")
			     : r;
}

static int read_unset(struct import *im, unsigned line, const char *value)
{
	_cleanup_(freep) char *word = malloc(strlen(value) + 1);
	int r;

	if (!word)
		return -ENOMEM;
	while ((r = next_word(&value, word)) > 0) {
		char *equals = strchr(word, '=');

		if (equals)
			*equals = '\0';
		r = equals ? import_note(im, line, word,
					 "UnsetEnvironment= removes it if it has one value")
			   : import_unset(im, line, word);
		if (r < 0)
			return r;
	}
	return r == -EBADMSG ? 0 : r;
}

/* Each name of PassEnvironment= is left out. */
static int read_pass(struct import *im, unsigned line, const char *value)
{
	_cleanup_(freep) char *word = malloc(strlen(value) + 1);
	int r;

	if (!word)
		return -ENOMEM;
	while ((r = next_word(&value, word)) > 0) {
		r = import_leave(im, IMPORT_SETDEFAULT, line, word,
				 "PassEnvironment= takes it from the service manager");
		if (r < 0)
			return r;
	}
	return r == -EBADMSG ? 0 : r;
}

/* Of one that systemd does not have to expand the name is kept. */
static int read_file_name(struct import *im, unsigned line, const char *value)
{
	const char *path = value[0] == '-' ? value + 1 : value;

	if (path[0] == '/' && !strpbrk(path, "%*?[") && import_refer(im, path) < 0)
		return -ENOMEM;
	return import_note(im, line, NULL,
			   "EnvironmentFile= is not followed, and what it sets goes before "
			   "Environment=: cudaenvctl import --from env %s",
			   path);
}

static int read_key(struct import *im, unsigned line, const char *key, const char *value)
{
	if (streq(key, "Environment") || streq(key, "DefaultEnvironment") ||
	    streq(key, "ManagerEnvironment"))
		return read_environment(im, line, value);
	if (streq(key, "UnsetEnvironment"))
		return read_unset(im, line, value);
	if (streq(key, "PassEnvironment"))
		return read_pass(im, line, value);
	return streq(key, "EnvironmentFile") && *value ? read_file_name(im, line, value) : 0;
}

static bool section_has_environment(const char *name)
{
	static const char *const names[] = {"Service", "Socket", "Mount", "Swap", "Manager"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

static void trim(char **s)
{
	char *end = *s + strlen(*s);

	while (is_blank(**s))
		(*s)++;
	while (end > *s && is_blank(end[-1]))
		*--end = '\0';
}

/* One line, its continuations joined; terminated, may be changed. */
static int read_line(struct import *im, unsigned line, char *text, bool *inside)
{
	char *equals, *close;

	trim(&text);
	if (text[0] == '\0')
		return 0;
	if (text[0] == '[') {
		close = strchr(text, ']');
		if (!close || close[1])
			return import_note(im, line, NULL, "the section line is broken") < 0
				       ? -ENOMEM
				       : -EBADMSG;
		*close = '\0';
		*inside = section_has_environment(text + 1);
		return 0;
	}
	equals = strchr(text, '=');
	if (!*inside || !equals)
		return 0;
	*equals++ = '\0';
	trim(&text);
	trim(&equals);
	return read_key(im, line, text, equals);
}

/* Where the line that begins at AT ends; *CONTINUES: with a backslash, which is not part of it. */
static size_t line_end(const char *bytes, size_t size, size_t at, bool *continues)
{
	const char *lf = memchr(bytes + at, '\n', size - at);
	size_t end = lf ? (size_t)(lf - bytes) : size;
	size_t last = end > at && bytes[end - 1] == '\r' ? end - 1 : end;

	*continues = last > at && bytes[last - 1] == '\\';
	return end;
}

static bool is_comment(const char *bytes, size_t at, size_t end)
{
	while (at < end && is_blank(bytes[at]))
		at++;
	return at < end && (bytes[at] == '#' || bytes[at] == ';');
}

int import_unit(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(freep) char *text = malloc(size + 1);
	unsigned line = 0, first = 1;
	size_t n = 0;
	bool inside = false, continues = false;
	int r = 0;

	if (!text)
		return -ENOMEM;
	for (size_t at = 0; r == 0 && at < size;) {
		size_t end = line_end(bytes, size, at, &continues);

		line++;
		if (n == 0)
			first = line;
		if (memchr(bytes + at, '\0', end - at))
			return import_note(im, line, NULL, "there is a NUL byte") < 0 ? -ENOMEM
										      : -EBADMSG;
		if (!is_comment(bytes, at, end)) { /* also between continued lines */
			n = (size_t)((char *)mempcpy(text + n, bytes + at, end - at) - text);
			if (continues) {
				while (text[--n] != '\\')
					;
				text[n++] = ' ';
			}
		} else {
			continues = n > 0;
		}
		at = end + 1;
		if (continues && at < size)
			continue;
		text[n] = '\0';
		n = 0;
		r = read_line(im, first, text, &inside);
	}
	return r;
}
