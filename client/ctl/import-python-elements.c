/* SPDX-License-Identifier: MIT */
/* What stands in a dictionary, a list or a tuple of constants. */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

#define ELEMENTS_MAX IMPORT_ITEMS_MAX
#define INSIDE_MAX   8 /* of ** in each other */

void python_elements_done(struct python_elements *e)
{
	for (size_t i = 0; i < e->n; i++) {
		free(e->items[i].key);
		free(e->items[i].why);
	}
	free(e->items);
	*e = (struct python_elements){0};
}

static int add(struct python *py, struct python_elements *e, const struct python_element *el)
{
	struct python_element *items = e->items;

	if (e->n == ELEMENTS_MAX)
		return python_not_read(py, "it has too many entries");
	if ((e->n & (e->n - 1)) == 0)
		items = reallocarray(items, e->n == 0 ? 1 : e->n * 2, sizeof *items);
	if (!items)
		return -ENOMEM;
	e->items = items;
	items[e->n++] = *el;
	return 0;
}

static int find_key(struct python *py, struct python_element *el)
{
	int r = python_text(py, el->key_from, el->key_until, &el->key);

	if (r < 0 || el->key)
		return r;
	el->why = strdup(py->why);
	return el->why ? 0 : -ENOMEM;
}

static int collect(struct python *py, const struct python_value *v, unsigned depth,
		   struct python_elements *ret);

/* **NAME */
static int take_others(struct python *py, size_t i, size_t end, unsigned depth,
		       struct python_elements *ret)
{
	struct python_value v;
	int r = python_eval_any(py, i, end, &v);

	if (r == 0 && v.type == VALUE_CONTAINER && v.bracket != '[' && depth < INSIDE_MAX)
		r = collect(py, &v, depth + 1, ret);
	else if (r == 0 && ret->odd == 0)
		ret->odd = py->t[i < py->end ? i : 0].line;
	python_value_done(&v);
	return r;
}

/* One between commas. */
static int take_one(struct python *py, const struct python_value *v, size_t i, size_t end,
		    unsigned depth, struct python_elements *ret)
{
	struct python_element el = {.line = v->line, .from = i, .until = end};
	size_t colon = python_find(py, i, ":", true);
	int r = 0;

	if (python_is(py, python_find(py, i, "for", true), "for"))
		return python_not_read(py, "it is computed (a comprehension)");
	if (v->bracket == '[')
		return add(py, ret, &el);
	if (python_is(py, i, "**"))
		return take_others(py, i + 1, end, depth, ret);
	if (v->bracket == '{' && python_is(py, colon, ":") && colon < end) {
		el.key_from = i;
		el.key_until = colon;
		el.from = colon + 1;
		r = find_key(py, &el);
	} else if (v->bracket == 'd' && python_is_type(py, i, PYTHON_NAME) &&
		   python_is(py, i + 1, "=")) {
		el.key_from = i;
		el.key_until = i + 1;
		el.from = i + 2;
		el.key = strndup(py->t[i].start, py->t[i].size);
		r = el.key ? 0 : -ENOMEM;
	} else {
		ret->odd = ret->odd > 0 ? ret->odd : py->t[i].line;
		return 0;
	}
	r = r == 0 ? add(py, ret, &el) : r;
	if (r != 0) {
		free(el.key);
		free(el.why);
	}
	return r;
}

static int collect(struct python *py, const struct python_value *v, unsigned depth,
		   struct python_elements *ret)
{
	struct python_view before = python_look(py, v->line);
	int r = 0;

	for (size_t i = v->from; r == 0 && i < v->until;) {
		size_t end = python_find(py, i, NULL, true);

		end = end < v->until ? end : v->until;
		py->work -= (long)(end - i) + 16;
		if (py->work < 0)
			r = python_not_read(py, "the file makes too much of itself");
		else if (i < end)
			r = take_one(py, v, i, end, depth, ret);
		i = end + 1;
	}
	python_look_back(py, before);
	return r;
}

int python_elements(struct python *py, const struct python_value *v, struct python_elements *ret)
{
	if (v->type != VALUE_CONTAINER)
		return python_not_read(py, "it is no dictionary, list or tuple of constants");
	ret->dictionary = v->bracket != '[';
	return collect(py, v, 0, ret);
}

/* ("NAME", "VALUE") or [...] */
static bool split(struct python *py, struct python_element *el)
{
	size_t comma, end;

	if ((!python_is(py, el->from, "(") && !python_is(py, el->from, "[")) ||
	    py->t[el->from].match + 1 != el->until)
		return false;
	comma = python_find(py, el->from + 1, NULL, true);
	end = python_find(py, comma + 1, NULL, true);
	if (!python_is(py, comma, ",") || end != el->until - 1 - python_is(py, end, ","))
		return false;
	el->key_from = el->from + 1;
	el->key_until = comma;
	el->from = comma + 1;
	el->until = end;
	return true;
}

void python_elements_pair(struct python *py, struct python_elements *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < e->n; i++) {
		struct python_view before = python_look(py, e->items[i].line);

		if (split(py, &e->items[i]))
			e->items[kept++] = e->items[i];
		else if (e->odd == 0)
			e->odd = py->t[e->items[i].from].line;
		python_look_back(py, before);
	}
	e->n = kept;
}
