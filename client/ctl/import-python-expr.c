/* SPDX-License-Identifier: MIT */
/* What tokens of a Python program mean, one line at a time. */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

/* --- tokens */

bool python_is(const struct python *py, size_t i, const char *text)
{
	return i < py->end && py->t[i].type != PYTHON_STRING && py->t[i].size == strlen(text) &&
	       memcmp(py->t[i].start, text, py->t[i].size) == 0;
}

bool python_is_one_of(const struct python *py, size_t i, const char *const texts[])
{
	for (size_t j = 0; texts[j]; j++)
		if (python_is(py, i, texts[j]))
			return true;
	return false;
}

bool python_is_type(const struct python *py, size_t i, enum python_type type)
{
	return i < py->end && py->t[i].type == type;
}

bool python_opens(const struct python *py, size_t i)
{
	return python_is(py, i, "(") || python_is(py, i, "[") || python_is(py, i, "{");
}

static bool closes(const struct python *py, size_t i)
{
	return python_is(py, i, ")") || python_is(py, i, "]") || python_is(py, i, "}");
}

bool python_is_assignment(const struct python *py, size_t i)
{
	static const char *const others[] = {"==", "!=", "<=", ">=", NULL};

	return python_is_type(py, i, PYTHON_OP) && py->t[i].start[py->t[i].size - 1] == '=' &&
	       !python_is_one_of(py, i, others);
}

size_t python_find(const struct python *py, size_t i, const char *text, bool comma)
{
	for (; i < py->end; i++) {
		if ((text && python_is(py, i, text)) || (comma && python_is(py, i, ",")) ||
		    closes(py, i))
			return i;
		if (python_opens(py, i))
			i = py->t[i].match;
	}
	return py->end;
}

size_t python_last_equals(const struct python *py, size_t i)
{
	size_t last = 0;

	while (python_is(py, i = python_find(py, i, "=", false), "="))
		last = i++;
	return last;
}

size_t python_head_end(const struct python *py, size_t i, enum block_kind *ret)
{
	static const char *const through[] = {"try", "finally", "with", NULL};
	static const char *const functions[] = {"def", "class", NULL};
	static const char *const conditions[] = {"if",     "elif",  "else", "for", "while",
						 "except", "match", "case", NULL};
	size_t word = i + python_is(py, i, "async"), colon;

	if (python_is_one_of(py, word, through))
		*ret = BLOCK_THROUGH;
	else if (python_is_one_of(py, word, functions))
		*ret = BLOCK_FUNCTION;
	else if (python_is_one_of(py, word, conditions))
		*ret = BLOCK_CONDITION;
	else
		return 0;
	colon = python_find(py, i, ":", false);
	return python_is(py, colon, ":") ? colon : 0;
}

/* --- what names mean */

int python_alias_add(struct python *py, size_t i, enum alias what)
{
	if (!python_is_type(py, i, PYTHON_NAME) || py->n_aliases == ALIASES_MAX)
		return 0;
	py->aliases[py->n_aliases].what = what;
	py->aliases[py->n_aliases].name = strndup(py->t[i].start, py->t[i].size);
	return py->aliases[py->n_aliases].name ? (void)py->n_aliases++, 0 : -ENOMEM;
}

void python_aliases_cut(struct python *py, size_t n)
{
	while (py->n_aliases > n)
		free(py->aliases[--py->n_aliases].name);
}

bool python_alias_is(const struct python *py, size_t i, enum alias what)
{
	static const char *const own[] = {[ALIAS_OS] = "os",
					  [ALIAS_ENVIRON] = "environ",
					  [ALIAS_PUTENV] = "putenv",
					  [ALIAS_UNSETENV] = "unsetenv",
					  [ALIAS_GETENV] = "getenv"};

	if (!python_is_type(py, i, PYTHON_NAME))
		return false;
	for (size_t j = py->n_aliases; j-- > 0;)
		if (python_is(py, i, py->aliases[j].name))
			return py->aliases[j].what == what;
	return what < ARRAY_SIZE(own) && own[what] && python_is(py, i, own[what]);
}

/* os, or __import__("os"), and a dot: the token behind them; 0: not. */
static size_t past_module(const struct python *py, size_t i)
{
	if (python_alias_is(py, i, ALIAS_OS) && python_is(py, i + 1, "."))
		return i + 2;
	if (python_is(py, i, "__import__") && python_is(py, i + 1, "(") &&
	    python_is_type(py, i + 2, PYTHON_STRING) && py->t[i + 2].value &&
	    streq(py->t[i + 2].value, "os") && python_is(py, i + 3, ")") &&
	    python_is(py, i + 4, "."))
		return i + 5;
	return 0;
}

size_t python_past(const struct python *py, size_t i, enum alias what)
{
	static const char *const members[] = {[ALIAS_ENVIRON] = "environ",
					      [ALIAS_PUTENV] = "putenv",
					      [ALIAS_UNSETENV] = "unsetenv",
					      [ALIAS_PATH] = "path",
					      [ALIAS_GETENV] = "getenv"};
	size_t behind;

	if (what == ALIAS_JOIN) {
		behind = python_past(py, i, ALIAS_PATH);
		if (behind > 0)
			return python_is(py, behind, ".") && python_is(py, behind + 1, "join")
				       ? behind + 2
				       : 0;
		return python_alias_is(py, i, what) ? i + 1 : 0;
	}
	behind = past_module(py, i);
	if (behind > 0)
		return python_is(py, behind, members[what]) ? behind + 1 : 0;
	return python_alias_is(py, i, what) ? i + 1 : 0;
}
