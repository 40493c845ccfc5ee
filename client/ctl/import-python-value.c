/* SPDX-License-Identifier: MIT */
/*
 * Expressions of constants: texts, numbers with + - * // << **, str(), os.path.join(), f-strings,
 * names that are bound once, entries of dictionaries. Numbers that leave 64 bits are none.
 */
#include "config.h"

#include "client/ctl/import-number.h"
#include "client/ctl/import-python-internal.h"

#include <stdarg.h>

#include "common/util.h"

#define DEPTH_MAX 40

struct eval {
	struct python *py;
	size_t i, until;
	unsigned depth;
};

void python_value_done(struct python_value *v)
{
	free(v->text);
	*v = (struct python_value){0};
}

int python_value_copy(const struct python_value *v, struct python_value *ret)
{
	char *text = v->text ? strdup(v->text) : NULL;

	if (v->text && !text)
		return -ENOMEM;
	*ret = *v;
	ret->text = text;
	return 0;
}

int python_not_read(struct python *py, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(py->why, sizeof py->why, format, ap);
	va_end(ap);
	return PYTHON_NOT_READ;
}

/* Takes TEXT over. */
static int give_text(struct python *py, char *text, struct python_value *ret)
{
	if (!text)
		return -ENOMEM;
	py->work -= (long)strlen(text) + 1;
	*ret = (struct python_value){.type = VALUE_TEXT, .text = text};
	return 0;
}

/* --- names */

struct python_local *python_local_get(struct python *py, size_t i)
{
	if (!python_is_type(py, i, PYTHON_NAME))
		return NULL;
	for (size_t j = py->n_locals; j-- > py->locals_base;)
		if (py->locals[j].size == py->t[i].size &&
		    memcmp(py->locals[j].start, py->t[i].start, py->t[i].size) == 0)
			return &py->locals[j];
	return NULL;
}

/* A name for a reason: shown where it is short and of ASCII. */
static const char *shown(const struct python_token *t, char buffer[32])
{
	bool good = t->size < 32;

	for (size_t i = 0; good && i < t->size; i++)
		good = (unsigned char)t->start[i] < 0x80;
	(void)snprintf(buffer, 32, "%.*s", good ? (int)t->size : 6, good ? t->start : "a name");
	return buffer;
}

static int why_unbound(struct python *py, const struct python_token *t,
		       const struct python_name *name)
{
	char buffer[32];
	const char *s = shown(t, buffer);

	if (!name || name->bound == 0)
		return python_not_read(py, "%s is not bound in this file", s);
	if (py->unsure > 0)
		return python_not_read(py, "line %u may bind %s as well", py->unsure, s);
	if (name->bound > 1)
		return python_not_read(py, "%s is bound more than once (lines %u and %u)", s,
				       name->line, name->again);
	if (name->condition > 0)
		return python_not_read(py, "%s is bound in a block (line %u)", s, name->condition);
	if (name->value.type == VALUE_CONTAINER && name->handed)
		return python_not_read(py, "%s may be changed after line %u", s, name->line);
	return python_not_read(py, "%s is not bound to a constant (line %u)", s, name->line);
}

/* What the name at I stands for, not copied; NULL: py->why says why not. */
static const struct python_value *value_of(struct python *py, size_t i)
{
	const struct python_local *local = python_local_get(py, i);
	const struct python_name *name;

	if (local && local->value.type == VALUE_UNKNOWN)
		(void)python_not_read(py, "%s", local->why);
	if (local)
		return local->value.type == VALUE_UNKNOWN ? NULL : &local->value;
	name = python_name_get(py, py->t[i].start, py->t[i].size);
	if (name && name->bound == 1 && py->unsure == 0 && name->read &&
	    !(name->value.type == VALUE_CONTAINER && name->handed))
		return &name->value;
	(void)why_unbound(py, &py->t[i], name);
	return NULL;
}

static bool is_builtin(const struct python *py, size_t i, const char *name)
{
	const struct python_name *n;

	if (!python_is(py, i, name) || !python_is(py, i + 1, "("))
		return false;
	n = python_name_get(py, py->t[i].start, py->t[i].size);
	return !n || n->bound == 0;
}

/* --- atoms */

static int take_expression(struct eval *e, struct python_value *ret);

/* Another expression of the same line, whole. */
static int whole(const struct eval *e, size_t i, size_t until, struct python_value *ret)
{
	struct eval inner = {e->py, i, until, e->depth + 1};
	int r;

	if (inner.depth > DEPTH_MAX)
		return python_not_read(e->py, "it is nested too deeply");
	r = take_expression(&inner, ret);
	if (r == 0 && inner.i != until) {
		python_value_done(ret);
		return python_not_read(e->py, "it is not a constant");
	}
	return r;
}

static int take_number(struct eval *e, struct python_value *ret)
{
	const struct python_token *t = &e->py->t[e->i++];
	char digits[64];
	size_t n = 0;

	for (size_t i = 0; i < t->size && n < sizeof digits - 1; i++)
		if (t->start[i] != '_')
			digits[n++] = t->start[i];
	digits[n] = '\0';
	if (n == sizeof digits - 1 || !number_parse(digits, &ret->number))
		return python_not_read(e->py, "it is not a whole number of 64 bits");
	ret->type = VALUE_NUMBER;
	return 0;
}

/* Strings side by side. */
static int take_strings(struct eval *e, struct python_value *ret)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int r = 0;

	if (!out)
		return -ENOMEM;
	for (; r == 0 && e->i < e->until && python_is_type(e->py, e->i, PYTHON_STRING); e->i++) {
		const struct python_token *t = &e->py->t[e->i];

		if (t->format)
			r = python_format(e->py, t, out);
		else if (!t->value)
			r = python_not_read(e->py, "%s", t->why);
		else
			fputs(t->value, out);
	}
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	return r == 0 ? give_text(e->py, TAKE_PTR(text), ret) : r;
}

/* os.path.join(A, B, ...) with its bracket at OPEN. */
static int take_join(const struct eval *e, size_t open, struct python_value *ret)
{
	_cleanup_(freep) char *path = NULL;
	size_t close = e->py->t[open].match;

	for (size_t i = open + 1; i < close;) {
		size_t end = python_find(e->py, i, NULL, true);
		struct python_value part = {0};
		_cleanup_(freep) char *before = TAKE_PTR(path);
		bool slash;
		int r = whole(e, i, end, &part);

		if (r == 0 && part.type != VALUE_TEXT)
			r = python_not_read(e->py, "os.path.join() has no text there");
		if (r != 0)
			return r;
		slash = before && before[0] && before[strlen(before) - 1] != '/';
		if (!before || part.text[0] == '/')
			path = TAKE_PTR(part.text);
		else if (strlen(before) + strlen(part.text) > PYTHON_TEXT_MAX)
			r = python_not_read(e->py, "it is too long");
		else if (asprintf(&path, "%s%s%s", before, slash ? "/" : "", part.text) < 0)
			r = -ENOMEM;
		python_value_done(&part);
		if (r != 0) {
			path = NULL;
			return r;
		}
		i = end + 1;
	}
	return path ? give_text(e->py, TAKE_PTR(path), ret)
		    : python_not_read(e->py, "it is not a constant");
}

/* str(...) with its bracket at OPEN. */
static int take_str(const struct eval *e, size_t open, struct python_value *ret)
{
	int r = whole(e, open + 1, e->py->t[open].match, ret);
	char *text;

	if (r != 0 || ret->type == VALUE_TEXT)
		return r;
	if (ret->type != VALUE_NUMBER)
		return python_not_read(e->py, "it is not a constant");
	return asprintf(&text, "%lld", ret->number) < 0 ? -ENOMEM : give_text(e->py, text, ret);
}

/* NAME[KEY] of a dictionary. */
static int take_entry(struct eval *e, struct python_value *ret)
{
	const struct python_value *container = value_of(e->py, e->i);
	_cleanup_(python_elements_done) struct python_elements elements = {0};
	struct python_value key = {0};
	size_t open = e->i + 1, close = e->py->t[open].match, found = 0;
	int r;

	if (!container)
		return PYTHON_NOT_READ;
	r = whole(e, open + 1, close, &key);
	if (r == 0)
		r = python_elements(e->py, container, &elements);
	for (size_t i = 0; r == 0 && key.type == VALUE_TEXT && i < elements.n; i++)
		if (elements.items[i].key && streq(elements.items[i].key, key.text))
			found = i + 1;
	python_value_done(&key);
	if (r == 0 && (found == 0 || elements.odd > 0))
		return python_not_read(e->py, "it is an entry that cannot be told");
	if (r == 0) {
		const struct python_element *el = &elements.items[found - 1];
		struct python_view before = python_look(e->py, el->line);

		r = whole(e, el->from, el->until, ret);
		python_look_back(e->py, before);
	}
	e->i = close + 1;
	return r;
}

static int take_name(struct eval *e, struct python_value *ret)
{
	static const char *const words[] = {"None",   "True",  "False", "not",
					    "lambda", "await", NULL};
	const struct python_value *v;
	char buffer[32];

	if (python_past(e->py, e->i, ALIAS_ENVIRON) > 0 ||
	    python_past(e->py, e->i, ALIAS_GETENV) > 0)
		return python_not_read(e->py, "it depends on what the environment has");
	if (python_is_one_of(e->py, e->i, words))
		return python_not_read(e->py, "it is not a constant text");
	if (python_is(e->py, e->i + 1, "["))
		return take_entry(e, ret);
	if (python_is(e->py, e->i + 1, "(") || python_is(e->py, e->i + 1, "."))
		return python_not_read(e->py, "it is computed (%s)",
				       shown(&e->py->t[e->i], buffer));
	v = value_of(e->py, e->i);
	if (!v)
		return PYTHON_NOT_READ;
	e->i++;
	if (v->type == VALUE_TEXT)
		e->py->work -= (long)strlen(v->text) + 1;
	return python_value_copy(v, ret);
}

static int take_atom(struct eval *e, struct python_value *ret)
{
	struct python *py = e->py;
	size_t join = python_past(py, e->i, ALIAS_JOIN);
	int r;

	if (e->i >= e->until)
		return python_not_read(py, "it is not a constant");
	if (py->work < 0)
		return python_not_read(py, "the file makes too much of itself");
	if (python_is_type(py, e->i, PYTHON_STRING))
		return take_strings(e, ret);
	if (python_is_type(py, e->i, PYTHON_NUMBER))
		return take_number(e, ret);
	if (python_is(py, e->i, "(")) {
		size_t close = py->t[e->i].match;

		r = whole(e, e->i + 1, close, ret);
		e->i = close + 1;
		return r;
	}
	if (join > 0 && python_is(py, join, "(")) {
		r = take_join(e, join, ret);
		e->i = py->t[join].match + 1;
		return r;
	}
	if (is_builtin(py, e->i, "str")) {
		r = take_str(e, e->i + 1, ret);
		e->i = py->t[e->i + 1].match + 1;
		return r;
	}
	if (python_is_type(py, e->i, PYTHON_NAME))
		return take_name(e, ret);
	return python_not_read(py, "it is not a constant");
}

/* --- operators */

/* A OP= B. B is used up. */
static int apply(struct python *py, const char *op, struct python_value *a, struct python_value *b)
{
	char *text;
	int r;

	if (a->type == VALUE_NUMBER && b->type == VALUE_NUMBER)
		return number_calculate(op, a->number, b->number, &a->number)
			       ? 0
			       : python_not_read(py,
						 "a number in it is too large, or not a whole one");
	if (a->type != VALUE_TEXT || b->type != VALUE_TEXT || !streq(op, "+")) {
		python_value_done(b);
		return python_not_read(py, "it is not a constant");
	}
	if (strlen(a->text) + strlen(b->text) > PYTHON_TEXT_MAX) {
		python_value_done(b);
		return python_not_read(py, "it is too long");
	}
	r = asprintf(&text, "%s%s", a->text, b->text);
	python_value_done(a);
	python_value_done(b);
	return r < 0 ? -ENOMEM : give_text(py, text, a);
}

/* From those that bind least: <<, then + and -, then * and //, then a sign, then **. */
static int take_level(struct eval *e, unsigned level, struct python_value *ret)
{
	static const char *const levels[][3] = {{"<<", NULL}, {"+", "-", NULL}, {"*", "//", NULL}};
	char op[3] = "";
	int r;

	if (level == ARRAY_SIZE(levels)) {
		bool minus = python_is(e->py, e->i, "-");

		e->i += minus;
		r = take_atom(e, ret);
		if (r == 0 && e->i < e->until && python_is(e->py, e->i, "**")) {
			struct python_value b = {0};

			e->i++;
			r = take_atom(e, &b);
			r = r == 0 ? apply(e->py, "**", ret, &b) : r;
		}
		if (r == 0 && minus)
			r = ret->type == VALUE_NUMBER &&
					    !__builtin_sub_overflow(0LL, ret->number, &ret->number)
				    ? 0
				    : python_not_read(e->py, "it is not a constant");
		return r;
	}
	r = take_level(e, level + 1, ret);
	while (r == 0 && e->i < e->until && python_is_one_of(e->py, e->i, levels[level])) {
		struct python_value b = {0};

		(void)snprintf(op, sizeof op, "%.*s", (int)e->py->t[e->i].size,
			       e->py->t[e->i].start);
		e->i++;
		r = take_level(e, level + 1, &b);
		r = r == 0 ? apply(e->py, op, ret, &b) : r;
	}
	return r;
}

static int take_expression(struct eval *e, struct python_value *ret)
{
	int r = take_level(e, 0, ret);

	if (r != 0)
		python_value_done(ret);
	return r;
}

int python_eval(struct python *py, size_t i, size_t until, struct python_value *ret)
{
	struct eval e = {.py = py};
	int r;

	*ret = (struct python_value){0};
	r = whole(&e, i, until, ret);
	return r < 0 ? r : 0;
}

int python_text(struct python *py, size_t i, size_t until, char **ret)
{
	struct python_value v;
	int r = python_eval(py, i, until, &v);

	*ret = NULL;
	if (r < 0)
		return r;
	if (v.type == VALUE_TEXT)
		*ret = TAKE_PTR(v.text);
	else if (v.type == VALUE_NUMBER)
		(void)python_not_read(py, "it is a number, which os.environ refuses without str()");
	else if (v.type == VALUE_CONTAINER)
		(void)python_not_read(py, "it is not a text");
	python_value_done(&v);
	return 0;
}

/* Which line is being looked at. */
static size_t line_of(const struct python *py)
{
	size_t first = (size_t)(py->t - py->tokens), low = 0, high = py->n_lines;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (py->lines[middle].first <= first)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* A container that is written here, its brackets from I to UNTIL. */
static bool container_here(const struct python *py, size_t i, size_t until,
			   struct python_value *ret)
{
	bool call = is_builtin(py, i, "dict");
	size_t open = i + call, comma = python_find(py, i, NULL, true);

	if (comma < until && python_is(py, comma, ",")) { /* a tuple without brackets */
		*ret = (struct python_value){.type = VALUE_CONTAINER,
					     .bracket = '[',
					     .line = line_of(py),
					     .from = i,
					     .until = until};
		return true;
	}
	if (i >= until || !python_opens(py, open) || py->t[open].match + 1 != until)
		return false;
	if (python_is(py, open, "(") && !call &&
	    !python_is(py, python_find(py, open + 1, NULL, true), ","))
		return false; /* an expression in brackets */
	*ret = (struct python_value){.type = VALUE_CONTAINER,
				     .bracket = python_is(py, open, "{") ? '{'
						: call                   ? 'd'
									 : '[',
				     .from = open + 1,
				     .until = until - 1};
	ret->line = line_of(py);
	return true;
}

int python_eval_any(struct python *py, size_t i, size_t until, struct python_value *ret)
{
	const struct python_value *v;

	*ret = (struct python_value){0};
	if (container_here(py, i, until, ret))
		return 0;
	if (i + 1 != until || !python_is_type(py, i, PYTHON_NAME))
		return python_eval(py, i, until, ret);
	v = value_of(py, i);
	return v ? python_value_copy(v, ret) : 0;
}
