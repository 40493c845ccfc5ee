/* SPDX-License-Identifier: MIT */
/*
 * What a Python program does to os.environ, as far as it can be told without running it: calls and
 * assignments with literals, at the top of the file or below try: and `if "X" not in os.environ:`.
 * All else that changes the environment is left out, with its line and the reason.
 */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

static void python_done(struct python *py)
{
	for (size_t i = 0; i < py->n_aliases; i++)
		free(py->aliases[i].name);
	for (size_t i = 0; i < py->n_blocks; i++)
		free(py->blocks[i].guard);
	python_line_done(&py->line);
}

/* --- what a statement does, where it stands */

struct place {
	bool runs; /* for certain */
	const char *reason;
	const struct block *block;
};

static struct place place_of(const struct python *py, const char *name)
{
	for (size_t i = py->n_blocks; i-- > 0;) {
		const struct block *b = &py->blocks[i];

		if (b->kind == BLOCK_FUNCTION)
			return (struct place){false, "it stands in a function or class", b};
		if (b->kind == BLOCK_CONDITION)
			return (struct place){false, "it depends on a condition", b};
		if (b->kind == BLOCK_GUARD && !(name && streq(b->guard, name)))
			return (struct place){false, "it depends on another variable's absence", b};
	}
	return (struct place){.runs = true};
}

static bool is_guarded(const struct python *py)
{
	for (size_t i = 0; i < py->n_blocks; i++)
		if (py->blocks[i].kind == BLOCK_GUARD)
			return true;
	return false;
}

/* VALUE is NULL: WHY says why it cannot be told. */
static int give(struct python *py, enum import_op op, unsigned line, const char *name,
		const char *value, const char *why)
{
	struct place place = place_of(py, name);

	if (!place.runs)
		return import_maybe(py->im, line, name, "%s (%s, line %u)", place.reason,
				    place.block->word, place.block->line);
	if (is_guarded(py))
		op = IMPORT_SETDEFAULT;
	return value ? import_set(py->im, op, line, name, value)
		     : import_leave(py->im, op, line, name, "%s", why);
}

static int remove_name(struct python *py, unsigned line, const char *name)
{
	struct place place = place_of(py, name);

	if (place.runs)
		return import_unset(py->im, line, name);
	return import_maybe(py->im, line, name, "%s (%s, line %u)", place.reason, place.block->word,
			    place.block->line);
}

/* The name is the expression from I to UNTIL. *RET NULL: a note was made. */
static int name_of(struct python *py, size_t i, size_t until, char **ret)
{
	const char *why;
	int r = python_literal(py, i, until, ret, &why);

	if (r < 0 || *ret)
		return r;
	return import_note(py->im, py->t[i < py->end ? i : py->end - 1].line, NULL,
			   "the name of a variable: %s", why);
}

/* NAME expression, VALUE expression. */
static int give_pair(struct python *py, enum import_op op, size_t name, size_t name_end,
		     size_t value, size_t value_end)
{
	_cleanup_(freep) char *n = NULL, *v = NULL;
	const char *why = NULL;
	unsigned line = py->t[name].line;
	int r = name_of(py, name, name_end, &n);

	if (r < 0 || !n)
		return r;
	r = python_literal(py, value, value_end, &v, &why);
	return r < 0 ? r : give(py, op, line, n, v, why);
}

/* (NAME, VALUE) with the bracket at I. The whole statement must be this call. */
static int call_pair(struct python *py, enum import_op op, size_t i)
{
	size_t comma = python_find(py, i + 1, NULL, true),
	       close = python_find(py, comma + 1, NULL, true), end = close;
	unsigned line = py->t[i].line;

	if (python_is(py, close, ",")) /* a trailing one */
		end = close + 1;
	if (!python_is(py, comma, ",") || !python_is(py, end, ")"))
		return import_note(py->im, line, NULL, "a call that is not NAME, VALUE");
	if (end + 1 == py->end)
		return give_pair(py, op, i + 1, comma, comma + 1, close);
	return import_note(py->im, line, NULL, "a call inside of another expression");
}

/* NAME or NAME, DEFAULT in the brackets at I. */
static int call_remove(struct python *py, size_t i)
{
	_cleanup_(freep) char *name = NULL;
	size_t until = python_find(py, i + 1, NULL, true);
	int r = name_of(py, i + 1, until, &name);

	return r < 0 || !name ? r : remove_name(py, py->t[i].line, name);
}

/* The entries of {...} between I and CLOSE. */
static int dict_entries(struct python *py, size_t i, size_t close)
{
	int r = 0;

	while (r == 0 && i < close) {
		size_t end = python_find(py, i, NULL, true), colon = python_find(py, i, ":", true);

		if (python_is(py, colon, ":") && colon < end)
			r = give_pair(py, IMPORT_ASSIGN, i, colon, colon + 1, end);
		else if (i < end)
			r = import_note(py->im, py->t[i].line, NULL,
					"an entry of the dictionary is not NAME: VALUE");
		i = end + 1;
	}
	return r;
}

/* NAME=VALUE, ... between I and CLOSE. */
static int keywords(struct python *py, size_t i, size_t close)
{
	int r = 0;

	while (r == 0 && i < close) {
		size_t end = python_find(py, i, NULL, true);
		_cleanup_(freep) char *name = NULL, *value = NULL;
		const char *why;

		if (python_is_type(py, i, PYTHON_NAME) && python_is(py, i + 1, "=")) {
			name = strndup(py->t[i].start, py->t[i].size);
			r = name ? python_literal(py, i + 2, end, &value, &why) : -ENOMEM;
			if (r == 0)
				r = give(py, IMPORT_ASSIGN, py->t[i].line, name, value, why);
		} else if (i < end) {
			r = import_note(py->im, py->t[i].line, NULL,
					"what it is updated with is not a literal");
		}
		i = end + 1;
	}
	return r;
}

/* What os.environ is updated with, from I to UNTIL. */
static int update_with(struct python *py, size_t i, size_t until)
{
	if (python_is(py, i, "{") && python_find(py, i + 1, NULL, false) == until - 1)
		return dict_entries(py, i + 1, until - 1);
	if (python_is(py, i, "dict") && python_is(py, i + 1, "(") &&
	    python_find(py, i + 2, NULL, false) == until - 1)
		return keywords(py, i + 2, until - 1);
	return keywords(py, i, until);
}

static int call_update(struct python *py, size_t i)
{
	size_t close = python_find(py, i + 1, NULL, false),
	       end = python_find(py, i + 1, NULL, true);
	int r;

	if (close + 1 != py->end)
		return import_note(py->im, py->t[i].line, NULL,
				   "a call inside of another expression");
	/* A dictionary first, keywords behind it. */
	r = update_with(py, i + 1, end);
	return r < 0 || !python_is(py, end, ",") ? r : keywords(py, end + 1, close);
}

/* os.environ[NAME] with its bracket at BRACKET, followed by =: what stands behind; 0: it is not. */
static size_t past_target(const struct python *py, size_t bracket)
{
	size_t close = python_is(py, bracket, "[") ? py->t[bracket].match : py->end;

	return python_is(py, close, "]") && python_is(py, close + 1, "=") ? close + 2 : 0;
}

/* os.environ[NAME] = os.environ[NAME] = VALUE. *RET_TAKEN: it was such a statement. */
static int assignment(struct python *py, size_t bracket, bool *ret_taken)
{
	size_t brackets[TARGETS_MAX], n = 0, value = 0, behind;
	int r = 0;

	while (n < TARGETS_MAX && bracket > 0 && (behind = past_target(py, bracket)) > 0) {
		brackets[n++] = bracket;
		value = behind;
		bracket = python_past(py, value, ALIAS_ENVIRON);
	}
	*ret_taken = n > 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = give_pair(py, IMPORT_ASSIGN, brackets[i] + 1, py->t[brackets[i]].match, value,
			      py->end);
	return r;
}

/* --- statements */

/* A change that is none of the forms that are read: named if a literal name stands in it. */
static int note_change(struct python *py, size_t i, size_t bracket)
{
	static const char reason[] = "the environment is changed in a way that is not read here";
	_cleanup_(freep) char *name = NULL;
	const char *why;
	int r = 0;

	if (python_opens(py, bracket))
		r = python_literal(py, bracket + 1, python_find(py, bracket + 1, NULL, true), &name,
				   &why);
	if (r < 0)
		return r;
	return name ? import_maybe(py->im, py->t[i].line, name, "%s", reason)
		    : import_note(py->im, py->t[i].line, NULL, "%s", reason);
}

static bool is_mutator(const struct python *py, size_t i)
{
	static const char *const names[] = {"setdefault", "update",      "pop",        "clear",
					    "popitem",    "__setitem__", "__delitem__"};

	for (size_t j = 0; j < ARRAY_SIZE(names); j++)
		if (python_is(py, i, names[j]))
			return true;
	return false;
}

static bool is_assignment_operator(const struct python *py, size_t i)
{
	return i < py->end && py->t[i].type == PYTHON_OP &&
	       py->t[i].start[py->t[i].size - 1] == '=' && !python_is(py, i, "==") &&
	       !python_is(py, i, "!=") && !python_is(py, i, "<=") && !python_is(py, i, ">=");
}

/* Is os.environ[...] with its bracket at E a target, also as one of several: a, os.environ[...] =
 * b? TARGETS_END: the last = of the statement. */
static bool is_target(const struct python *py, size_t e, size_t targets_end)
{
	size_t behind = py->t[e].match + 1;

	return is_assignment_operator(py, behind) ||
	       (behind < targets_end && python_is(py, behind, ","));
}

static size_t last_equals(const struct python *py, size_t i)
{
	size_t last = 0;

	while (python_is(py, i = python_find(py, i, "=", false), "="))
		last = i++;
	return last;
}

/* Anywhere in the statement from I on. */
static int scan_changes(struct python *py, size_t i)
{
	size_t targets_end = last_equals(py, i);
	int r = 0;

	for (; r == 0 && i < py->end; i++) {
		size_t e = python_past(py, i, ALIAS_ENVIRON), p = python_past(py, i, ALIAS_PUTENV);

		if (i > 0 && python_is(py, i - 1, "."))
			continue; /* another thing's environ */
		if (p == 0)
			p = python_past(py, i, ALIAS_UNSETENV);
		if (e > 0 && python_is(py, e, ".") && is_mutator(py, e + 1))
			r = note_change(py, i, e + 2);
		else if (e > 0 && python_is(py, e, "[") && is_target(py, e, targets_end))
			r = note_change(py, i, e);
		else if (e > 0 && is_assignment_operator(py, e))
			r = note_change(py, i, e);
		else if (p > 0 && python_is(py, p, "("))
			r = note_change(py, i, p);
		if (e > 0 || p > 0)
			i = (e > 0 ? e : p) - 1;
	}
	return r;
}

static int import_statement(struct python *py, size_t i)
{
	int r = 0;

	while (r == 0 && i < py->end) {
		size_t end = python_find(py, i, NULL, true);

		if (python_is(py, i, "os") && python_is(py, i + 1, "as"))
			r = python_alias_add(py, i + 2, ALIAS_OS);
		i = end + 1;
	}
	return r;
}

/* from os import ... */
static int from_statement(struct python *py, size_t i)
{
	static const struct {
		const char *name;
		enum alias what;
	} names[] = {
		{"environ", ALIAS_ENVIRON}, {"putenv", ALIAS_PUTENV}, {"unsetenv", ALIAS_UNSETENV}};
	int r = 0;

	if (!python_is(py, i, "os") || !python_is(py, i + 1, "import"))
		return 0;
	i += python_is(py, i + 2, "(") ? 3 : 2;
	while (r == 0 && i < py->end) {
		size_t end = python_find(py, i, NULL, true);

		for (size_t j = 0; r == 0 && j < ARRAY_SIZE(names); j++)
			if (python_is(py, i, names[j].name) && python_is(py, i + 1, "as"))
				r = python_alias_add(py, i + 2, names[j].what);
		i = end + 1;
	}
	return r;
}

static int del_statement(struct python *py, size_t i)
{
	int r = 0;

	while (r == 0 && i < py->end) {
		size_t end = python_find(py, i, NULL, true), e = python_past(py, i, ALIAS_ENVIRON);

		if (e > 0 && python_is(py, e, "["))
			r = call_remove(py, e);
		i = end + 1;
	}
	return r;
}

/* A statement that begins with os.environ, E behind it. *RET_TAKEN: it was read. */
static int environ_statement(struct python *py, size_t e, bool *ret_taken)
{
	*ret_taken = true;
	if (python_is(py, e, "["))
		return assignment(py, e, ret_taken);
	if (python_is(py, e, "|="))
		return update_with(py, e + 1, py->end);
	if (!python_is(py, e, ".") || !python_is(py, e + 2, "(")) {
		*ret_taken = false;
		return 0;
	}
	if (python_is(py, e + 1, "setdefault"))
		return call_pair(py, IMPORT_SETDEFAULT, e + 2);
	if (python_is(py, e + 1, "update"))
		return call_update(py, e + 2);
	if (python_is(py, e + 1, "pop"))
		return call_remove(py, e + 2);
	*ret_taken = false;
	return 0;
}

/* E = os.environ, or S = os.environ.setdefault */
static int alias_statement(struct python *py, size_t i, bool *ret_taken)
{
	size_t e = python_is_type(py, i, PYTHON_NAME) && python_is(py, i + 1, "=")
			   ? python_past(py, i + 2, ALIAS_ENVIRON)
			   : 0;

	*ret_taken = true;
	if (e > 0 && e == py->end)
		return python_alias_add(py, i, ALIAS_ENVIRON);
	if (e > 0 && e + 2 == py->end && python_is(py, e, ".") &&
	    python_is(py, e + 1, "setdefault"))
		return python_alias_add(py, i, ALIAS_SETDEFAULT);
	*ret_taken = false;
	return 0;
}

/* From I to py->end, without semicolons. */
static int simple_statement(struct python *py, size_t i)
{
	size_t e, p = python_past(py, i, ALIAS_PUTENV), u = python_past(py, i, ALIAS_UNSETENV);
	bool taken = false;
	int r = 0;

	if (python_is(py, i, "import"))
		return import_statement(py, i + 1);
	if (python_is(py, i, "from"))
		return from_statement(py, i + 1);
	if (python_is(py, i, "del"))
		return del_statement(py, i + 1);
	if (p > 0 && python_is(py, p, "("))
		return call_pair(py, IMPORT_ASSIGN, p);
	if (u > 0 && python_is(py, u, "("))
		return call_remove(py, u);
	if (python_alias_is(py, i, ALIAS_SETDEFAULT) && python_is(py, i + 1, "("))
		return call_pair(py, IMPORT_SETDEFAULT, i + 1);
	r = alias_statement(py, i, &taken);
	e = python_past(py, i, ALIAS_ENVIRON);
	if (r == 0 && !taken && e > 0)
		r = environ_statement(py, e, &taken);
	return r < 0 || taken ? r : scan_changes(py, i);
}

/* --- blocks */

static enum block_kind block_kind(const struct python *py, size_t i)
{
	static const char *const through[] = {"try", "finally", "with"};
	static const char *const functions[] = {"def", "class"};
	static const char *const conditions[] = {"if",    "elif",   "else",  "for",
						 "while", "except", "match", "case"};

	for (size_t j = 0; j < ARRAY_SIZE(through); j++)
		if (python_is(py, i, through[j]))
			return BLOCK_THROUGH;
	for (size_t j = 0; j < ARRAY_SIZE(functions); j++)
		if (python_is(py, i, functions[j]) ||
		    (python_is(py, i, "async") && python_is(py, i + 1, functions[j])))
			return BLOCK_FUNCTION;
	for (size_t j = 0; j < ARRAY_SIZE(conditions); j++)
		if (python_is(py, i, conditions[j]))
			return BLOCK_CONDITION;
	return BLOCK_GUARD; /* no block */
}

/* if "NAME" not in os.environ: and if os.environ.get("NAME") is None: at I, with COLON their end.
 * *RET is the name, malloc()ed, or NULL. 0 or -ENOMEM. */
static int guard_of(const struct python *py, size_t i, size_t colon, char **ret)
{
	size_t not = python_find(py, i + 1, "not", false),
	       e = python_past(py, i + 1, ALIAS_ENVIRON), close;
	const char *why;

	*ret = NULL;
	if (!python_is(py, i, "if"))
		return 0;
	if (python_is(py, not, "not") && python_is(py, not +1, "in") &&
	    python_past(py, not +2, ALIAS_ENVIRON) == colon)
		return python_literal(py, i + 1, not, ret, &why);
	if (e == 0 || !python_is(py, e, ".") || !python_is(py, e + 1, "get") ||
	    !python_is(py, e + 2, "("))
		return 0;
	close = py->t[e + 2].match;
	if (python_is(py, close + 1, "is") && python_is(py, close + 2, "None") &&
	    close + 3 == colon)
		return python_literal(py, e + 3, close, ret, &why);
	return 0;
}

static void block_pop(struct python *py)
{
	free(py->blocks[--py->n_blocks].guard);
}

/* A compound statement's head at I. *RET: behind its colon; 0: it is none. */
static int take_head(struct python *py, size_t i, size_t *ret)
{
	enum block_kind kind = block_kind(py, i);
	size_t colon = python_find(py, i, ":", false);
	struct block b = {.kind = kind, .indent = py->line.indent, .line = py->t[i].line};
	int r;

	*ret = 0;
	if (kind == BLOCK_GUARD || !python_is(py, colon, ":"))
		return 0;
	py->end = colon;
	r = scan_changes(py, i + 1);
	py->end = py->line.n;
	if (r < 0)
		return r;
	if (py->n_blocks == BLOCKS_MAX)
		return import_note(py->im, b.line, NULL, "blocks are nested too deeply") < 0
			       ? -ENOMEM
			       : -EBADMSG;
	(void)snprintf(b.word, sizeof b.word, "%.*s", (int)py->t[i].size, py->t[i].start);
	r = guard_of(py, i, colon, &b.guard);
	if (r < 0)
		return r;
	if (b.guard)
		b.kind = BLOCK_GUARD;
	py->blocks[py->n_blocks++] = b;
	*ret = colon + 1;
	return 0;
}

/* One logical line: heads of blocks, then statements. */
static int take_line(struct python *py)
{
	size_t i = 0, all = py->line.n, behind = 0;
	int r = 0;

	py->t = py->line.tokens;
	py->end = all;
	while (py->n_blocks > 0 && py->blocks[py->n_blocks - 1].indent >= py->line.indent)
		block_pop(py);
	r = take_head(py, 0, &behind);
	if (r < 0 || behind == all)
		return r;
	i = behind;
	while (r == 0 && i < all) {
		py->end = all;
		py->end = python_find(py, i, ";", false);
		if (i < py->end)
			r = simple_statement(py, i);
		i = py->end + 1;
	}
	if (behind > 0)
		block_pop(py); /* its body stood in the same line */
	return r;
}

int import_python(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(python_done) struct python py = {.im = im};
	struct python_reading rd = {.bytes = bytes, .size = size, .line = 1};
	int r;

	while ((r = python_next(&rd, &py.line)) > 0) {
		r = take_line(&py);
		if (r < 0)
			return r;
	}
	if (r == -EBADMSG)
		return import_note(im, rd.fault_line, NULL, "%s", rd.fault) < 0 ? -ENOMEM : r;
	return r;
}

int import_pth(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(freep) char *copy = malloc(size + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, size);
	/* Other lines name directories: they are blanked, so that line numbers stay. */
	for (size_t at = 0; at < size;) {
		char *lf = memchr(copy + at, '\n', size - at);
		size_t end = lf ? (size_t)(lf - copy) : size;

		if (end - at < 7 ||
		    (memcmp(copy + at, "import ", 7) != 0 && memcmp(copy + at, "import\t", 7) != 0))
			memset(copy + at, ' ', end - at);
		at = end + 1;
	}
	return import_python(im, copy, size);
}
