/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-shell-word.h"

#include <ctype.h>

#include "common/util.h"

#define NESTING_MAX 64

void shell_word_done(struct shell_word *w)
{
	free(w->text);
	free(w->why);
	free(w->assigned);
	free(w->assigned_value);
	*w = (struct shell_word){0};
}

void shell_reading_done(struct shell_reading *rd)
{
	for (size_t i = 0; i < rd->n_here; i++)
		free(rd->here[i].delimiter);
	rd->n_here = 0;
}

static int peek(const struct shell_reading *rd, size_t ahead)
{
	return rd->at + ahead < rd->size ? (unsigned char)rd->bytes[rd->at + ahead] : -1;
}

static int next(struct shell_reading *rd)
{
	int c = peek(rd, 0);

	if (c >= 0)
		rd->at++;
	if (c == '\n')
		rd->line++;
	return c;
}

static int fault(struct shell_reading *rd, unsigned line, const char *text)
{
	rd->fault = text;
	rd->fault_line = line;
	return -EBADMSG;
}

static int skip_single(struct shell_reading *rd)
{
	unsigned line = rd->line;

	for (int c; (c = next(rd)) != '\'';)
		if (c < 0)
			return fault(rd, line, "a ' is not closed");
	return 0;
}

static int skip_backquote(struct shell_reading *rd)
{
	unsigned line = rd->line;

	for (int c; (c = next(rd)) != '`';) {
		if (c < 0)
			return fault(rd, line, "a ` is not closed");
		if (c == '\\')
			(void)next(rd);
	}
	return 0;
}

/* Behind "$(" or "${": to the bracket that closes it, quotes respected. An own stack, as a hostile
 * file may nest as it likes. */
static int skip_substitution(struct shell_reading *rd, char close)
{
	char stack[NESTING_MAX] = {close};
	unsigned line = rd->line;
	size_t depth = 1;
	int r = 0;

	while (r == 0 && depth > 0) {
		char top = stack[depth - 1];
		char opens = 0;
		int c = next(rd);

		if (c < 0)
			return fault(rd, line, "a substitution is not closed");
		if (c == '\\')
			(void)next(rd);
		else if (c == top)
			depth--;
		else if (c == '`')
			r = skip_backquote(rd);
		else if (c == '\'' && top != '"')
			r = skip_single(rd);
		else if (c == '"')
			opens = '"';
		else if (c == '$' && (peek(rd, 0) == '(' || peek(rd, 0) == '{'))
			opens = next(rd) == '(' ? ')' : '}';
		else if (c == '(' && top == ')')
			opens = ')';
		if (opens && depth == NESTING_MAX)
			return fault(rd, line, "substitutions are nested too deeply");
		if (opens)
			stack[depth++] = opens;
	}
	return r;
}

/* Behind a '$': anything that is expanded is skipped. 1: it was none. */
int shell_skip_dollar(struct shell_reading *rd)
{
	int c = peek(rd, 0);

	if (c == '(' || c == '{') {
		(void)next(rd);
		return skip_substitution(rd, c == '(' ? ')' : '}');
	}
	if (c == '_' || (c >= 0 && (isalnum(c) || strchr("@*#?-$!", c)))) {
		(void)next(rd);
		while ((c = peek(rd, 0)) == '_' || (c >= 0 && isalnum(c)))
			(void)next(rd);
		return 0;
	}
	return 1;
}

struct building {
	struct shell_word *word;
	size_t capacity;
	size_t kept; /* where a default for the word's own name ends */
	bool failed;
};

/* The first reason counts. */
static void set_why(struct building *b, const char *why)
{
	if (b->word->why)
		return;
	b->word->why = strdup(why);
	b->failed = b->failed || !b->word->why;
}

static void put(struct building *b, int c)
{
	struct shell_word *w = b->word;

	if (w->size + 1 >= b->capacity) {
		size_t capacity = b->capacity == 0 ? 64 : b->capacity * 2;
		char *grown = realloc(w->text, capacity);

		if (!grown) {
			b->failed = true;
			return;
		}
		w->text = grown;
		b->capacity = capacity;
	}
	w->text[w->size++] = (char)c;
	w->text[w->size] = '\0';
}

/* A default is certain where it is all that stands behind its own NAME=. */
static void take_own(struct building *b, struct shell_expansion *x, bool starts)
{
	struct shell_word *w = b->word;

	if (starts && strlen(x->own) == w->name_size &&
	    memcmp(x->own, w->text, w->name_size) == 0) {
		w->keeps = true;
		b->kept = w->size;
	} else if (w->name_size == 0) {
		w->keeps = true; /* should it become an assignment, it is not certain */
	} else {
		char why[128];

		(void)snprintf(why, sizeof why,
			       "it takes the value of %.64s, which a process may have", x->own);
		set_why(b, why);
	}
	if (x->assigned && !w->assigned) {
		w->assigned = TAKE_PTR(x->own);
		w->assigned_value = TAKE_PTR(x->assigned);
	}
}

static int take_dollar(struct shell_reading *rd, struct building *b, bool quoted)
{
	struct shell_word *w = b->word;
	bool starts = w->name_size > 0 && !w->appends && w->size == w->name_size + 1;
	struct shell_expansion x;
	int r = shell_expand(rd, quoted, 0, &x);

	if (r == 1)
		put(b, '$');
	if (r != 0)
		return r < 0 ? r : 0;
	for (const char *s = x.text; s && *s; s++)
		put(b, *s);
	if (!quoted && x.text && strpbrk(x.text, " \t\n*?["))
		w->splits = true;
	if (x.why)
		set_why(b, x.why);
	if (x.own)
		take_own(b, &x, starts);
	shell_expansion_done(&x);
	return 0;
}

static int take_backquote(struct shell_reading *rd, struct building *b)
{
	set_why(b, "it needs a command's output (`)");
	return skip_backquote(rd);
}

static int take_single(struct shell_reading *rd, struct building *b)
{
	unsigned line = rd->line;

	for (int c; (c = next(rd)) != '\'';) {
		if (c < 0)
			return fault(rd, line, "a ' is not closed");
		put(b, c);
	}
	return 0;
}

static int take_double(struct shell_reading *rd, struct building *b)
{
	unsigned line = rd->line;
	int r = 0;

	for (int c; r == 0 && (c = next(rd)) != '"';) {
		if (c < 0)
			return fault(rd, line, "a \" is not closed");
		if (c == '$') {
			r = take_dollar(rd, b, true);
		} else if (c == '`') {
			r = take_backquote(rd, b);
		} else if (c == '\\' && peek(rd, 0) >= 0 && strchr("\"\\$`\n", peek(rd, 0))) {
			c = next(rd);
			if (c != '\n')
				put(b, c);
		} else {
			put(b, c);
		}
	}
	return r;
}

bool shell_is_name(const char *s, size_t n)
{
	if (n == 0 || isdigit((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/* An unquoted '=' that may make the word an assignment. */
static void take_equals(struct shell_reading *rd, struct building *b)
{
	struct shell_word *w = b->word;
	size_t n = w->size;

	if (w->name_size == 0 && !w->quoted && !w->why && n > 0) {
		w->appends = w->text[n - 1] == '+';
		n -= w->appends;
		if (shell_is_name(w->text, n))
			w->name_size = n;
		if (w->name_size > 0 && peek(rd, 0) == '(')
			set_why(b, "it is an array");
	}
	put(b, '=');
}

/* Unquoted characters that a shell does not take as they are. */
static void judge_plain(struct building *b, int c)
{
	const struct shell_word *w = b->word;
	bool value_starts = w->name_size > 0 && w->size == w->name_size + 1 + w->appends;

	if (c == '~' && (value_starts || (w->size > 0 && w->text[w->size - 1] == ':')))
		set_why(b, "it needs expansion (~)");
	if (c == '{' && w->name_size > 0)
		set_why(b, "it may need expansion ({)");
	if ((c == '*' || c == '?' || c == '[') && w->name_size > 0)
		set_why(b, "it may need expansion (*, ? or [)");
}

static bool ends_word(int c)
{
	return c < 0 || strchr(" \t\r\n;&|<>()", c);
}

/* C was read. 0 or negative. */
static int take_part(struct shell_reading *rd, struct building *b, int c)
{
	switch (c) {
	case '\'':
		b->word->quoted = true;
		return take_single(rd, b);
	case '"':
		b->word->quoted = true;
		return take_double(rd, b);
	case '`':
		return take_backquote(rd, b);
	case '$':
		if (peek(rd, 0) == '\'' || peek(rd, 0) == '"')
			set_why(b, "it has a $ before a quote");
		return take_dollar(rd, b, false);
	case '\\':
		b->word->quoted = true;
		c = next(rd);
		if (c >= 0 && c != '\n')
			put(b, c);
		return 0;
	case '=':
		take_equals(rd, b);
		return 0;
	default:
		judge_plain(b, c);
		put(b, c);
		return 0;
	}
}

static int take_word(struct shell_reading *rd, struct shell_word *ret)
{
	struct building b = {.word = ret};
	int r = 0;

	*ret = (struct shell_word){.line = rd->line};
	while (r == 0 && !ends_word(peek(rd, 0)))
		r = take_part(rd, &b, next(rd));
	if (r == 0 && !ret->text && !b.failed) {
		ret->text = strdup("");
		b.failed = !ret->text;
	}
	if (r == 0 && !b.failed && ret->keeps && ret->size != b.kept)
		set_why(&b, "it extends a value that a process may have");
	if (r == 0 && !b.failed && memchr(ret->text, '\0', ret->size))
		set_why(&b, "there is a NUL byte");
	if (r == 0 && b.failed)
		r = -ENOMEM;
	if (r < 0)
		shell_word_done(ret);
	return r < 0 ? r : SHELL_WORD;
}

static void take_operator(struct shell_reading *rd)
{
	static const char *const doubles[] = {"&&", "||", ";;", "<<", ">>", "<&", ">&"};

	rd->op[0] = (char)next(rd);
	rd->op[1] = rd->op[2] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(doubles); i++)
		if (rd->op[0] == doubles[i][0] && peek(rd, 0) == doubles[i][1])
			rd->op[1] = doubles[i][1];
	if (rd->op[1])
		(void)next(rd);
}

/* Behind "<<": the word that ends the document. */
static int take_here(struct shell_reading *rd)
{
	struct shell_word w;
	bool tabs = peek(rd, 0) == '-';
	int r;

	if (tabs)
		(void)next(rd);
	if (peek(rd, 0) == '<') {
		(void)next(rd);
		return 0; /* a string, the next word */
	}
	while (peek(rd, 0) == ' ' || peek(rd, 0) == '\t')
		(void)next(rd);
	if (rd->n_here == SHELL_HERE_MAX)
		return fault(rd, rd->line, "there are too many here-documents in one line");
	r = take_word(rd, &w);
	if (r < 0)
		return r;
	rd->here[rd->n_here].tabs = tabs;
	rd->here[rd->n_here++].delimiter = TAKE_PTR(w.text);
	shell_word_done(&w);
	return 0;
}

/* After the end of a line: the documents that it announced. */
static void skip_here(struct shell_reading *rd)
{
	for (size_t i = 0; i < rd->n_here; i++) {
		const char *delimiter = rd->here[i].delimiter;

		while (rd->at < rd->size) {
			const char *start = rd->bytes + rd->at,
				   *lf = memchr(start, '\n', rd->size - rd->at);
			size_t n = lf ? (size_t)(lf - start) : rd->size - rd->at;

			rd->at += n + (lf != NULL);
			rd->line += lf != NULL;
			while (rd->here[i].tabs && n > 0 && start[0] == '\t') {
				start++;
				n--;
			}
			if (n == strlen(delimiter) && memcmp(start, delimiter, n) == 0)
				break;
		}
	}
	shell_reading_done(rd);
}

int shell_next(struct shell_reading *rd, struct shell_word *ret)
{
	int c, r;

	for (;;) {
		c = peek(rd, 0);
		if (c == '\\' && peek(rd, 1) == '\n') {
			(void)next(rd);
			(void)next(rd);
		} else if (c == ' ' || c == '\t' || c == '\r') {
			(void)next(rd);
		} else if (c == '#') {
			while (peek(rd, 0) >= 0 && peek(rd, 0) != '\n')
				(void)next(rd);
		} else {
			break;
		}
	}
	if (c < 0)
		return SHELL_END;
	if (c == '\n') {
		(void)next(rd);
		skip_here(rd);
		return SHELL_NEWLINE;
	}
	if (!ends_word(c))
		return take_word(rd, ret);
	take_operator(rd);
	if (streq(rd->op, "<<")) {
		r = take_here(rd);
		if (r < 0)
			return r;
	}
	return SHELL_OPERATOR;
}
