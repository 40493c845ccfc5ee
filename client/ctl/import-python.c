/* SPDX-License-Identifier: MIT */
/*
 * What a Python program does to os.environ, as far as it can be told without running it: its
 * statements in their order, loops over constants turn by turn, functions of the file where they
 * are called. What a condition decides and all else that changes the environment is left out, with
 * its line and the reason.
 */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

static void python_done(struct python *py)
{
	python_aliases_cut(py, 0);
	python_blocks_cut(py, 0);
	python_locals_cut(py, 0);
	for (size_t i = 0; i < py->n_names; i++)
		python_value_done(&py->names[i].value);
	for (size_t i = 0; i < py->n_tokens; i++)
		free(py->tokens[i].value);
	free(py->names);
	free(py->tokens);
	free(py->lines);
}

/* Functions that were left for their calls, and have none that was followed. */
static int show_functions(struct python *py)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < py->n_names; i++) {
		struct python_name *name = &py->names[i];

		if (name->def == 0 || name->def_shown)
			continue;
		py->at = name->def - 1;
		(void)python_look(py, py->at);
		name->called = false; /* looked at where it stands */
		r = python_run_lines(py, py->at, python_block_end(py, py->at));
		python_blocks_cut(py, 0);
	}
	return r;
}

/* --- statements */

static int import_statement(struct python *py, size_t i)
{
	int r = 0;

	while (r == 0 && i < py->end) {
		size_t end = python_find(py, i, NULL, true);

		if (python_is(py, i, "os") && python_is(py, i + 1, "as"))
			r = python_alias_add(py, i + 2, ALIAS_OS);
		if (python_is(py, i, "os") && python_is(py, i + 1, ".") &&
		    python_is(py, i + 2, "path") && python_is(py, i + 3, "as"))
			r = python_alias_add(py, i + 4, ALIAS_PATH);
		i = end + 1;
	}
	return r;
}

/* from os import ..., from os.path import join */
static int from_statement(struct python *py, size_t i)
{
	static const struct {
		const char *name;
		enum alias what;
		bool path; /* of os.path */
	} names[] = {{"environ", ALIAS_ENVIRON, false},   {"putenv", ALIAS_PUTENV, false},
		     {"unsetenv", ALIAS_UNSETENV, false}, {"path", ALIAS_PATH, false},
		     {"getenv", ALIAS_GETENV, false},     {"join", ALIAS_JOIN, true}};
	bool path = python_is(py, i + 1, ".") && python_is(py, i + 2, "path");
	size_t word = path ? i + 3 : i + 1;
	int r = 0;

	if (!python_is(py, i, "os") || !python_is(py, word, "import"))
		return 0;
	i = word + (python_is(py, word + 1, "(") ? 2 : 1);
	while (r == 0 && i < py->end) {
		size_t end = python_find(py, i, NULL, true);

		for (size_t j = 0; r == 0 && j < ARRAY_SIZE(names); j++)
			if (names[j].path == path && python_is(py, i, names[j].name))
				r = python_alias_add(py, python_is(py, i + 1, "as") ? i + 2 : i,
						     names[j].what);
		i = end + 1;
	}
	return r;
}

/* What a name is bound to is kept if it is a constant, and is another name of os.environ if it is
 * that. */
static int bind(struct python *py, size_t i, size_t value, bool *ret_taken)
{
	struct python_name *name = python_name_get(py, py->t[i].start, py->t[i].size);
	size_t e = python_past(py, value, ALIAS_ENVIRON);
	const char *why;
	const struct block *b = python_place(py, NULL, &why);
	bool is_environ = e > 0 && e == py->end, is_setdefault = e > 0 && e + 2 == py->end &&
								 python_is(py, e, ".") &&
								 python_is(py, e + 1, "setdefault");

	if ((is_environ || is_setdefault) && name && name->bound > 1 && py->calls == 0)
		return import_note(py->im, py->t[i].line, NULL,
				   "os.environ gets a name that is bound again: what is done by "
				   "that name is not read");
	*ret_taken = is_environ || is_setdefault;
	if (is_environ || is_setdefault)
		return python_alias_add(py, i, is_environ ? ALIAS_ENVIRON : ALIAS_SETDEFAULT);
	if (!b &&
	    (python_alias_is(py, i, ALIAS_ENVIRON) || python_alias_is(py, i, ALIAS_SETDEFAULT)))
		return python_alias_add(py, i, ALIAS_NOTHING);
	if (!name || name->bound != 1 || name->read || py->calls > 0)
		return 0;
	if (b || py->loops > 0) {
		name->condition = b ? b->line : py->t[i].line;
		return 0;
	}
	int r = python_eval_any(py, value, py->end, &name->value);

	name->read = r == 0 && name->value.type != VALUE_UNKNOWN;
	return r;
}

/* NAME = or NAME: TYPE =, and where its value begins; 0: it is not. */
static size_t past_binding(const struct python *py, size_t i)
{
	size_t equals = python_is(py, i + 1, ":") ? python_find(py, i, "=", false) : i + 1;

	if (!python_is_type(py, i, PYTHON_NAME) || !python_is(py, equals, "=") ||
	    python_last_equals(py, i) != equals)
		return 0;
	return equals + 1;
}

/* From I to py->end, without semicolons. */
static int simple_statement(struct python *py, size_t i)
{
	bool taken = false;
	size_t value;
	int r = 0;

	if (py->calls > 0 && python_is(py, i, "return") && i + 1 < py->end)
		i++;
	if (python_is(py, i, "import"))
		return import_statement(py, i + 1);
	if (python_is(py, i, "from"))
		return from_statement(py, i + 1);
	r = python_env_statement(py, i, &taken);
	if (r < 0 || taken)
		return r;
	value = past_binding(py, i);
	if (value > 0)
		r = bind(py, i, value, &taken);
	else
		r = python_take_call(py, i, &taken);
	return r < 0 || (taken && value > 0) ? r : python_env_scan(py, i);
}

int python_run_statements(struct python *py, size_t i)
{
	size_t all = py->lines[py->at].n;
	int r = 0;

	while (r == 0 && i < all) {
		py->end = all;
		py->end = python_find(py, i, ";", false);
		if (i < py->end)
			r = simple_statement(py, i);
		i = py->end + 1;
	}
	py->end = all;
	return r;
}

/* A compound statement's head. 1: it was taken with its body; 0: with *RET_COLON 0 it is none. */
static int take_head(struct python *py, size_t *ret_colon)
{
	enum block_kind kind;
	size_t colon = python_head_end(py, 0, &kind);
	int r;

	*ret_colon = colon;
	if (colon == 0)
		return 0;
	py->end = colon;
	r = python_env_scan(py, 1);
	py->end = py->lines[py->at].n;
	if (r == 0)
		r = kind == BLOCK_FUNCTION ? python_take_def(py, 0)
					   : python_take_loop(py, 0, colon);
	if (r != 0)
		return r;
	r = python_push_block(py, kind, 0);
	if (r < 0)
		return r;
	r = python_env_guard(py, 0, colon, &py->blocks[py->n_blocks - 1].guard);
	if (py->blocks[py->n_blocks - 1].guard)
		py->blocks[py->n_blocks - 1].kind = BLOCK_GUARD;
	return r;
}

/* The line py->at: heads of blocks, then statements. */
static int take_line(struct python *py)
{
	size_t colon;
	int r;

	(void)python_look(py, py->at);
	py->work -= (long)py->end;
	while (py->n_blocks > py->floor &&
	       py->blocks[py->n_blocks - 1].indent >= py->lines[py->at].indent)
		python_block_pop(py);
	r = take_head(py, &colon);
	if (r != 0)
		return r < 0 ? r : 0;
	if (colon + 1 == py->end)
		return 0;
	r = python_run_statements(py, colon > 0 ? colon + 1 : 0);
	if (colon > 0 && r == 0)
		python_block_pop(py); /* its body stood in the same line */
	return r;
}

/* What a body leads to returns to where it was. */
int python_run_lines(struct python *py, size_t from, size_t to)
{
	int r = 0;

	for (py->at = from; r == 0 && !py->tired && py->at < to; py->at++) {
		r = take_line(py);
		if (r == 0 && py->work < 0) {
			py->tired = true;
			r = import_note(
				py->im, py->tokens[py->lines[py->at].first].line, NULL,
				"the file makes too much of itself: what follows is not read");
		}
	}
	return r;
}

int import_python(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(freep) struct python *py = calloc(1, sizeof *py);
	struct python_reading rd = {.bytes = bytes, .size = size, .line = 1};
	int r, fault;

	if (!py)
		return -ENOMEM;
	py->im = im;
	py->work = PYTHON_WORK;
	fault = r = python_load(py, &rd);
	if (r == -EBADMSG)
		r = 0;
	if (r == 0)
		r = python_names_find(py);
	if (r == 0)
		r = python_run_lines(py, 0, py->n_lines);
	if (r == 0)
		r = show_functions(py);
	python_done(py);
	if (r == 0 && fault == -EBADMSG)
		return import_note(im, rd.fault_line, NULL, "%s", rd.fault) < 0 ? -ENOMEM : fault;
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
