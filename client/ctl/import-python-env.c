/* SPDX-License-Identifier: MIT */
/* What the statements of a Python program do to os.environ. */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

/* --- where a statement stands */

const struct block *python_place(const struct python *py, const char *name, const char **ret_why)
{
	for (size_t i = py->n_blocks; i-- > 0;) {
		const struct block *b = &py->blocks[i];

		if (b->kind == BLOCK_FUNCTION)
			*ret_why = "it stands in a function or class";
		else if (b->kind == BLOCK_CONDITION)
			*ret_why = "it depends on a condition";
		else if (b->kind == BLOCK_GUARD && !(name && streq(b->guard, name)))
			*ret_why = "it depends on another variable's absence";
		else
			continue;
		return b;
	}
	return NULL;
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
	const char *reason;
	const struct block *b = python_place(py, name, &reason);

	if (b)
		return import_maybe(py->im, line, name, "%s (%s, line %u)", reason, b->word,
				    b->line);
	if (is_guarded(py))
		op = IMPORT_SETDEFAULT;
	return value ? import_set(py->im, op, line, name, value)
		     : import_leave(py->im, op, line, name, "%s", why);
}

static int remove_name(struct python *py, unsigned line, const char *name)
{
	const char *reason;
	const struct block *b = python_place(py, name, &reason);

	if (!b)
		return import_unset(py->im, line, name);
	return import_maybe(py->im, line, name, "%s (%s, line %u)", reason, b->word, b->line);
}

static unsigned line_at(const struct python *py, size_t i)
{
	return py->t[i < py->end ? i : py->end - 1].line;
}

/* Where what the expression from I to UNTIL stands for is written. */
static unsigned source_line(struct python *py, size_t i, size_t until)
{
	const struct python_local *local = i + 1 == until ? python_local_get(py, i) : NULL;

	return local && local->line > 0 ? local->line : line_at(py, i);
}

/* The name is the expression from I to UNTIL. *RET NULL: a note was made. */
static int name_of(struct python *py, size_t i, size_t until, char **ret)
{
	int r = python_text(py, i, until, ret);

	if (r < 0 || *ret)
		return r;
	return import_note(py->im, line_at(py, i), NULL, "the name of a variable: %s", py->why);
}

/* os.environ.get(NAME, DEFAULT) or os.getenv(NAME, DEFAULT), of this NAME, from *I to *UNTIL: they
 * become those of DEFAULT. */
static int own_default(struct python *py, const char *name, size_t *i, size_t *until, bool *ret)
{
	size_t e = python_past(py, *i, ALIAS_ENVIRON), open = python_past(py, *i, ALIAS_GETENV),
	       comma;
	_cleanup_(freep) char *asked = NULL;
	int r;

	*ret = false;
	if (e > 0 && python_is(py, e, ".") && python_is(py, e + 1, "get"))
		open = e + 2;
	if (open == 0 || !python_is(py, open, "(") || py->t[open].match + 1 != *until)
		return 0;
	comma = python_find(py, open + 1, NULL, true);
	if (!python_is(py, comma, ","))
		return 0;
	r = python_text(py, open + 1, comma, &asked);
	if (r < 0 || !asked || !streq(asked, name))
		return r;
	*i = comma + 1;
	*until = python_find(py, *i, NULL, true);
	*ret = true;
	return 0;
}

/* NAME expression, VALUE expression. */
static int give_pair(struct python *py, enum import_op op, size_t name, size_t name_end,
		     size_t value, size_t value_end)
{
	_cleanup_(freep) char *n = NULL, *v = NULL;
	unsigned line = source_line(py, name, name_end);
	bool defaults = false;
	int r = name_of(py, name, name_end, &n);

	if (r < 0 || !n)
		return r;
	r = own_default(py, n, &value, &value_end, &defaults);
	if (r == 0)
		r = python_text(py, value, value_end, &v);
	return r < 0 ? r : give(py, defaults ? IMPORT_SETDEFAULT : op, line, n, v, py->why);
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

	return r < 0 || !name ? r : remove_name(py, source_line(py, i + 1, until), name);
}

/* --- several at once */

static int give_element(struct python *py, const struct python_element *el, bool dictionary)
{
	struct python_view before = python_look(py, el->line);
	_cleanup_(freep) char *value = NULL;
	unsigned line = line_at(py, el->key_from);
	int r = 0;

	if (!dictionary)
		r = give_pair(py, IMPORT_ASSIGN, el->key_from, el->key_until, el->from, el->until);
	else if (!el->key)
		r = import_note(py->im, line, NULL, "the name of a variable: %s", el->why);
	else
		r = python_text(py, el->from, el->until, &value);
	if (r == 0 && dictionary && el->key)
		r = give(py, IMPORT_ASSIGN, line, el->key, value, py->why);
	python_look_back(py, before);
	return r;
}

/* What is in V, which stands in LINE. */
static int give_all(struct python *py, const struct python_value *v, unsigned line)
{
	_cleanup_(python_elements_done) struct python_elements elements = {0};
	int r = python_elements(py, v, &elements);

	if (r > 0)
		return import_note(py->im, line, NULL, "what it is updated with: %s", py->why);
	if (r == 0 && !elements.dictionary)
		python_elements_pair(py, &elements);
	for (size_t i = 0; r == 0 && i < elements.n; i++)
		r = give_element(py, &elements.items[i], elements.dictionary);
	if (r == 0 && elements.odd > 0)
		r = import_note(py->im, elements.odd, NULL,
				"an entry of the dictionary is not NAME: VALUE");
	return r;
}

/* NAME=VALUE, ... between I and CLOSE. */
static int keywords(struct python *py, size_t i, size_t close)
{
	int r = 0;

	while (r == 0 && i < close) {
		size_t end = python_find(py, i, NULL, true), from = i + python_is(py, i, "**");
		_cleanup_(freep) char *name = NULL, *value = NULL;
		struct python_value v = {0};

		if (python_is_type(py, i, PYTHON_NAME) && python_is(py, i + 1, "=")) {
			name = strndup(py->t[i].start, py->t[i].size);
			r = name ? python_text(py, i + 2, end, &value) : -ENOMEM;
			if (r == 0)
				r = give(py, IMPORT_ASSIGN, py->t[i].line, name, value, py->why);
		} else if (i < end) {
			r = python_eval_any(py, from, end, &v);
			if (r == 0 && v.type == VALUE_UNKNOWN)
				r = import_note(py->im, line_at(py, i), NULL,
						"what it is updated with: %s", py->why);
			else if (r == 0)
				r = give_all(py, &v, line_at(py, i));
			python_value_done(&v);
		}
		i = end + 1;
	}
	return r;
}

static int call_update(struct python *py, size_t i)
{
	size_t close = python_find(py, i + 1, NULL, false);

	if (close + 1 != py->end)
		return import_note(py->im, py->t[i].line, NULL,
				   "a call inside of another expression");
	return keywords(py, i + 1, close);
}

/* --- statements */

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

/* A statement that begins with os.environ, E behind it. */
static int environ_statement(struct python *py, size_t e, bool *ret_taken)
{
	*ret_taken = true;
	if (python_is(py, e, "["))
		return assignment(py, e, ret_taken);
	if (python_is(py, e, "|="))
		return keywords(py, e + 1, py->end);
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

int python_env_statement(struct python *py, size_t i, bool *ret_taken)
{
	size_t e = python_past(py, i, ALIAS_ENVIRON), p = python_past(py, i, ALIAS_PUTENV),
	       u = python_past(py, i, ALIAS_UNSETENV);

	*ret_taken = true;
	if (python_is(py, i, "del"))
		return del_statement(py, i + 1);
	if (p > 0 && python_is(py, p, "("))
		return call_pair(py, IMPORT_ASSIGN, p);
	if (u > 0 && python_is(py, u, "("))
		return call_remove(py, u);
	if (python_alias_is(py, i, ALIAS_SETDEFAULT) && python_is(py, i + 1, "("))
		return call_pair(py, IMPORT_SETDEFAULT, i + 1);
	if (e > 0)
		return environ_statement(py, e, ret_taken);
	*ret_taken = false;
	return 0;
}

/* --- what is none of these */

/* A change that is none of the forms that are read: named if a name that is known stands in it. */
static int note_change(struct python *py, size_t i, size_t bracket)
{
	static const char reason[] = "the environment is changed in a way that is not read here";
	_cleanup_(freep) char *name = NULL;
	int r = 0;

	if (python_opens(py, bracket))
		r = python_text(py, bracket + 1, python_find(py, bracket + 1, NULL, true), &name);
	if (r < 0)
		return r;
	return name ? import_maybe(py->im, py->t[i].line, name, "%s", reason)
		    : import_note(py->im, py->t[i].line, NULL, "%s", reason);
}

static bool is_mutator(const struct python *py, size_t i)
{
	static const char *const names[] = {"setdefault", "update",      "pop",         "clear",
					    "popitem",    "__setitem__", "__delitem__", NULL};

	return python_is_one_of(py, i, names);
}

/* Is os.environ[...] with its bracket at E a target, also as one of several: a, os.environ[...] =
 * b? TARGETS_END: the last = of the statement. */
static bool is_target(const struct python *py, size_t e, size_t targets_end)
{
	size_t behind = py->t[e].match + 1;

	return python_is_assignment(py, behind) ||
	       (behind < targets_end && python_is(py, behind, ","));
}

/* os.environ itself, from I to E, is an argument of a call that may change it. */
static bool is_handed(const struct python *py, size_t i, size_t e)
{
	static const char *const readers[] = {"dict", "print", "len",   "sorted", "list", "str",
					      "repr", "set",   "tuple", "iter",   "bool", NULL};
	static const char *const members[] = {"copy", "deepcopy", NULL};

	if (i < 2 || (!python_is(py, e, ",") && !python_is(py, e, ")")))
		return false;
	if (python_is(py, i - 1, ","))
		return true;
	return python_is(py, i - 1, "(") && python_is_type(py, i - 2, PYTHON_NAME) &&
	       !python_is_one_of(py, i - 2, i > 2 && python_is(py, i - 3, ".") ? members : readers);
}

/* setenv() of the C library, os.environb, monkeypatch.setenv(): by name. */
static bool is_foreign(const struct python *py, size_t i)
{
	static const char *const members[] = {"setenv", "putenv", "unsetenv", NULL};

	return (i > 0 && python_is(py, i - 1, ".") && python_is_one_of(py, i, members) &&
		python_is(py, i + 1, "(")) ||
	       (python_is(py, i, "environb") &&
		((python_is(py, i + 1, "[") && python_is_assignment(py, py->t[i + 1].match + 1)) ||
		 (python_is(py, i + 1, ".") && is_mutator(py, i + 2))));
}

/* Text that is run as a program. */
static bool is_program(const struct python *py, size_t i)
{
	static const char *const names[] = {"exec", "eval", "runpy", NULL};

	return python_is_one_of(py, i, names) && (i == 0 || !python_is(py, i - 1, ".")) &&
	       (python_is(py, i + 1, "(") || python_is(py, i + 1, "."));
}

/* NAME = os.environ.copy() or dict(os.environ). */
static bool is_copy(const struct python *py, size_t i)
{
	size_t e = python_past(py, i, ALIAS_ENVIRON);

	if (i < 2 || e == 0)
		return false;
	return (python_is(py, i - 1, "=") && python_is(py, e, ".") &&
		python_is(py, e + 1, "copy") && e + 4 == py->end) ||
	       (i > 2 && python_is(py, i - 1, "(") && python_is(py, i - 2, "dict") &&
		python_is(py, i - 3, "=") && python_is(py, e, ")") && e + 1 == py->end);
}

/* At I: what is no change, and may lead to one. 1: a note was made; 0, negative. */
static int scan_others(struct python *py, size_t i)
{
	const char *reason = NULL;

	if (is_program(py, i))
		reason = "a text is run as a program, which is not read";
	if (is_copy(py, i))
		reason = "a copy of os.environ, for what is started with it: what is set in it is "
			 "not read";
	if (!reason)
		return 0;
	return import_note(py->im, py->t[i].line, NULL, "%s", reason) < 0 ? -ENOMEM : 1;
}

int python_env_scan(struct python *py, size_t i)
{
	size_t targets_end = python_last_equals(py, i);
	int r = 0;

	for (; r == 0 && i < py->end; i++) {
		size_t e = python_past(py, i, ALIAS_ENVIRON), p = python_past(py, i, ALIAS_PUTENV);

		r = scan_others(py, i);
		if (r == 0 && is_foreign(py, i)) {
			r = note_change(py, i, i + 1);
			continue;
		}
		if (r != 0) {
			r = r < 0 ? r : 0;
			continue;
		}
		if (i > 0 && python_is(py, i - 1, "."))
			continue; /* another thing's environ */
		if (p == 0)
			p = python_past(py, i, ALIAS_UNSETENV);
		if (e > 0 && python_is(py, e, ".") && is_mutator(py, e + 1))
			r = note_change(py, i, e + 2);
		else if (e > 0 && python_is(py, e, "[") && is_target(py, e, targets_end))
			r = note_change(py, i, e);
		else if (e > 0 && python_is_assignment(py, e))
			r = note_change(py, i, e);
		else if (e > 0 && is_handed(py, i, e))
			r = import_note(py->im, py->t[i].line, NULL,
					"os.environ is handed to a call, which may change it");
		else if (p > 0 && python_is(py, p, "("))
			r = note_change(py, i, p);
		if (e > 0 || p > 0)
			i = (e > 0 ? e : p) - 1;
	}
	return r;
}

bool python_env_named(const struct python *py, size_t i)
{
	static const char *const names[] = {"environ",  "environb", "putenv",
					    "unsetenv", "setenv",   NULL};

	return python_is_one_of(py, i, names) || python_alias_is(py, i, ALIAS_ENVIRON) ||
	       python_alias_is(py, i, ALIAS_PUTENV) || python_alias_is(py, i, ALIAS_UNSETENV) ||
	       python_alias_is(py, i, ALIAS_SETDEFAULT);
}

int python_env_guard(struct python *py, size_t i, size_t colon, char **ret)
{
	size_t not = python_find(py, i + 1, "not", false),
	       e = python_past(py, i + 1, ALIAS_ENVIRON), close;

	*ret = NULL;
	if (!python_is(py, i, "if"))
		return 0;
	if (python_is(py, not, "not") && python_is(py, not +1, "in") &&
	    python_past(py, not +2, ALIAS_ENVIRON) == colon)
		return python_text(py, i + 1, not, ret);
	if (e == 0 || !python_is(py, e, ".") || !python_is(py, e + 1, "get") ||
	    !python_is(py, e + 2, "("))
		return 0;
	close = py->t[e + 2].match;
	if (python_is(py, close + 1, "is") && python_is(py, close + 2, "None") &&
	    close + 3 == colon)
		return python_text(py, e + 3, close, ret);
	return 0;
}
