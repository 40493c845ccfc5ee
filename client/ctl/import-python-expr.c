/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

/* --- tokens */

bool python_is(const struct python *py, size_t i, const char *text)
{
	return i < py->end && py->t[i].type != PYTHON_STRING && py->t[i].size == strlen(text) &&
	       memcmp(py->t[i].start, text, py->t[i].size) == 0;
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

/* --- what names mean */

int python_alias_add(struct python *py, size_t i, enum alias what)
{
	if (!python_is_type(py, i, PYTHON_NAME) || py->n_aliases == ALIASES_MAX)
		return 0;
	py->aliases[py->n_aliases].what = what;
	py->aliases[py->n_aliases].name = strndup(py->t[i].start, py->t[i].size);
	return py->aliases[py->n_aliases].name ? (void)py->n_aliases++, 0 : -ENOMEM;
}

bool python_alias_is(const struct python *py, size_t i, enum alias what)
{
	static const char *const own[] = {[ALIAS_OS] = "os",
					  [ALIAS_ENVIRON] = "environ",
					  [ALIAS_PUTENV] = "putenv",
					  [ALIAS_UNSETENV] = "unsetenv"};

	if (!python_is_type(py, i, PYTHON_NAME))
		return false;
	if (what < ARRAY_SIZE(own) && python_is(py, i, own[what]))
		return true;
	for (size_t j = 0; j < py->n_aliases; j++)
		if (py->aliases[j].what == what && python_is(py, i, py->aliases[j].name))
			return true;
	return false;
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
					      [ALIAS_UNSETENV] = "unsetenv"};
	size_t behind = past_module(py, i);

	if (behind > 0)
		return python_is(py, behind, members[what]) ? behind + 1 : 0;
	return python_alias_is(py, i, what) ? i + 1 : 0;
}

/* --- literals */

int python_literal(const struct python *py, size_t i, size_t until, char **ret,
		   const char **ret_why)
{
	size_t size = 0;
	char *p;

	*ret = NULL;
	*ret_why = "it is not a literal";
	while (i < until && python_is(py, i, "(") && py->t[i].match + 1 == until) {
		i++;
		until--;
	}
	for (size_t j = i; j < until; j++) {
		if (!python_is_type(py, j, PYTHON_STRING))
			return 0;
		if (!py->t[j].value) {
			*ret_why = py->t[j].why;
			return 0;
		}
		size += strlen(py->t[j].value);
	}
	if (i >= until)
		return 0;
	*ret = p = malloc(size + 1);
	if (!p)
		return -ENOMEM;
	for (size_t j = i; j < until; j++)
		p = stpcpy(p, py->t[j].value);
	return 0;
}
