/* SPDX-License-Identifier: MIT */
/*
 * The first way through a Python file: its lines, and for each name how often the file binds it.
 * Names of functions' insides are their own; what a function may do to a dictionary of the file is
 * counted. In doubt a name is bound once more than it is, and a container is changed by others.
 */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

/* --- lines */

static int add_line(struct python *py, struct python_line *l, size_t *tokens_room)
{
	struct python_span *lines = py->lines;

	if ((py->n_lines & (py->n_lines - 1)) == 0)
		lines = reallocarray(lines, py->n_lines == 0 ? 1 : py->n_lines * 2, sizeof *lines);
	if (!lines)
		return -ENOMEM;
	py->lines = lines;
	if (py->n_tokens + l->n > *tokens_room) {
		size_t room = (py->n_tokens + l->n) * 2;
		struct python_token *grown = reallocarray(py->tokens, room, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		py->tokens = grown;
		*tokens_room = room;
	}
	memcpy(py->tokens + py->n_tokens, l->tokens, l->n * sizeof *l->tokens);
	py->lines[py->n_lines++] =
		(struct python_span){.first = py->n_tokens, .n = l->n, .indent = l->indent};
	py->n_tokens += l->n;
	l->n = 0; /* the values of its tokens have moved */
	return 0;
}

int python_load(struct python *py, struct python_reading *rd)
{
	_cleanup_(python_line_done) struct python_line line = {0};
	size_t room = 0;
	int r;

	while ((r = python_next(rd, &line)) > 0) {
		if (py->n_tokens + line.n > PYTHON_FILE_WORDS) {
			rd->fault = "the file is too long for a program that sets variables";
			rd->fault_line = line.tokens[0].line;
			return -EBADMSG;
		}
		r = add_line(py, &line, &room);
		if (r < 0)
			return r;
	}
	return r;
}

size_t python_block_end(const struct python *py, size_t at)
{
	size_t end = at + 1;

	while (end < py->n_lines && py->lines[end].indent > py->lines[at].indent)
		end++;
	return end;
}

struct python_view python_look(struct python *py, size_t line)
{
	struct python_view before = {py->t, py->end};

	py->t = py->tokens + py->lines[line].first;
	py->end = py->lines[line].n;
	return before;
}

void python_look_back(struct python *py, struct python_view view)
{
	py->t = view.t;
	py->end = view.end;
}

/* --- names */

static unsigned bucket_of(const char *start, size_t size)
{
	unsigned hash = 5381;

	for (size_t i = 0; i < size; i++)
		hash = hash * 33 + (unsigned char)start[i];
	return hash % PYTHON_BUCKETS;
}

struct python_name *python_name_get(const struct python *py, const char *start, size_t size)
{
	unsigned i = py->buckets[bucket_of(start, size)];

	for (; i > 0; i = py->names[i - 1].next)
		if (py->names[i - 1].size == size &&
		    memcmp(py->names[i - 1].start, start, size) == 0)
			return &py->names[i - 1];
	return NULL;
}

/* *RET NULL: there are too many, and no name is sure. */
static int name_make(struct python *py, const struct python_token *t, struct python_name **ret)
{
	unsigned *bucket = &py->buckets[bucket_of(t->start, t->size)];
	struct python_name *names = py->names;

	*ret = python_name_get(py, t->start, t->size);
	if (*ret)
		return 0;
	if (py->n_names == PYTHON_NAMES_MAX) {
		py->unsure = py->unsure > 0 ? py->unsure : t->line;
		return 0;
	}
	if ((py->n_names & (py->n_names - 1)) == 0)
		names = reallocarray(names, py->n_names == 0 ? 1 : py->n_names * 2, sizeof *names);
	if (!names)
		return -ENOMEM;
	py->names = names;
	*ret = &names[py->n_names];
	**ret = (struct python_name){.start = t->start, .size = t->size, .next = *bucket};
	*bucket = (unsigned)++py->n_names;
	return 0;
}

static int count_binding(struct python *py, const struct python_token *t)
{
	struct python_name *name;
	int r = name_make(py, t, &name);

	if (r < 0 || !name)
		return r;
	if (name->bound++ == 0)
		name->line = t->line;
	else if (name->bound == 2)
		name->again = t->line;
	return 0;
}

static int count_handed(struct python *py, const struct python_token *t)
{
	struct python_name *name;
	int r = name_make(py, t, &name);

	if (r == 0 && name)
		name->handed = true;
	return r;
}

/* --- which names a statement binds */

typedef int (*take_fn)(struct python *py, const struct python_token *t);

static int take_all(struct python *py, size_t i, size_t until, take_fn take)
{
	int r = 0;

	for (; r == 0 && i < until; i++)
		if (python_is_type(py, i, PYTHON_NAME))
			r = take(py, &py->t[i]);
	return r;
}

/* Is the bracket at I a subscript or a call, not one around targets? */
static bool is_trailer(const struct python *py, size_t i, size_t from)
{
	return i > from && (python_is_type(py, i - 1, PYTHON_NAME) || python_is(py, i - 1, ")") ||
			    python_is(py, i - 1, "]") || python_is_type(py, i - 1, PYTHON_STRING));
}

/* Is the name at I one by itself, not a member of another thing or the start of one? */
static bool stands_alone(const struct python *py, size_t i)
{
	return python_is_type(py, i, PYTHON_NAME) && (i == 0 || !python_is(py, i - 1, ".")) &&
	       !python_is(py, i + 1, ".") && !python_is(py, i + 1, "[") &&
	       !python_is(py, i + 1, "(");
}

/* Targets of an assignment or of for. */
static int take_targets(struct python *py, size_t i, size_t until, take_fn take)
{
	size_t from = i;
	int r = 0;

	for (; r == 0 && i < until; i++) {
		if (python_opens(py, i) && is_trailer(py, i, from))
			i = py->t[i].match;
		else if (stands_alone(py, i))
			r = take(py, &py->t[i]);
	}
	return r;
}

/* := and as, wherever they stand. */
static int take_inside(struct python *py, size_t i, take_fn take)
{
	int r = 0;

	for (; r == 0 && i < py->end; i++) {
		if (python_is_type(py, i, PYTHON_NAME) && python_is(py, i + 1, ":="))
			r = take(py, &py->t[i]);
		if (!python_is(py, i, "as"))
			continue;
		if (python_is(py, i + 1, "("))
			r = take_all(py, i + 2, py->t[i + 1].match, take);
		else
			r = take_targets(py, i + 1, i + 2, take);
	}
	return r;
}

/* From I to py->end: a simple statement, or a head without its colon. */
static int take_statement(struct python *py, size_t i, take_fn take)
{
	static const char *const all[] = {"import", "from", "global", "nonlocal", "case", NULL};
	static const char *const named[] = {"def", "class", NULL};
	size_t word = i + python_is(py, i, "async"), equals = python_last_equals(py, i);
	int r = take_inside(py, i, take);

	if (r < 0)
		return r;
	if (python_is_one_of(py, i, all))
		return take_all(py, i + 1, py->end, take);
	if (python_is_one_of(py, word, named))
		return python_is_type(py, word + 1, PYTHON_NAME) ? take(py, &py->t[word + 1]) : 0;
	if (python_is(py, i, "del"))
		return take_targets(py, i + 1, py->end, take);
	if (python_is(py, word, "for"))
		return take_targets(py, word + 1, python_find(py, word + 1, "in", false), take);
	if (python_is(py, i + 1, ":")) /* NAME: TYPE = */
		return equals > 0 ? take_targets(py, i, i + 1, take) : 0;
	if (equals > 0)
		return take_targets(py, i, equals, take);
	return python_is_assignment(py, i + 1) ? take_targets(py, i, i + 1, take) : 0;
}

/* Calls EACH for the head and the statements of the line being looked at; FROM: for those from there
 * on. */
static int each_statement(struct python *py, size_t from,
			  int (*each)(struct python *py, size_t i, void *data), void *data)
{
	enum block_kind kind;
	size_t all = py->end, i = from > 0 ? 0 : python_head_end(py, 0, &kind);
	int r = 0;

	if (i > 0) {
		py->end = i++;
		r = each(py, 0, data);
	} else {
		i = from;
	}
	while (r == 0 && i < all) {
		py->end = all;
		py->end = python_find(py, i, ";", false);
		if (i < py->end)
			r = each(py, i, data);
		i = py->end + 1;
	}
	py->end = all;
	return r;
}

static int bindings_of(struct python *py, size_t i, void *data)
{
	return take_statement(py, i, *(take_fn *)data);
}

int python_bindings(struct python *py, size_t at, size_t from, take_fn take)
{
	struct python_view before = python_look(py, at);
	int r = each_statement(py, from, bindings_of, &take);

	python_look_back(py, before);
	return r;
}

/* --- the whole file */

/* Is the name at I only looked at, if it is a container? */
static bool is_only_read(const struct python *py, size_t i)
{
	static const char *const members[] = {"items", "keys", "values", "get", "copy", NULL};
	static const char *const before[] = {"**", "*", "in", "|=", "if", "not", "and", "or", NULL};
	static const char *const calls[] = {"update", "dict", "list",  "tuple", "len",
					    "sorted", "set",  "print", "join",  NULL};

	if (python_is(py, i + 1, "."))
		return python_is_one_of(py, i + 2, members) && python_is(py, i + 3, "(");
	if (python_is(py, i + 1, "["))
		return true;
	if (i == 0)
		return false;
	return python_is_one_of(py, i - 1, before) ||
	       (i > 1 && python_is(py, i - 1, "(") && python_is_one_of(py, i - 2, calls));
}

/* Is the name at I that of a keyword of a call? BRACKETS are open there. */
static bool is_keyword(const struct python *py, size_t i, size_t brackets)
{
	return brackets > 0 && python_is(py, i + 1, "=");
}

struct scan {
	bool inside; /* of a function or class that begins with an indentation of */
	unsigned indent;
};

/* Which containers are changed or handed on, and what may bind any name. */
static int scan_uses(struct python *py, size_t i)
{
	static const char *const unsure[] = {"globals", "exec", "vars", "setattr", NULL};
	size_t targets = python_last_equals(py, i), brackets = 0;
	bool deletes = python_is(py, i, "del");
	int r = 0;

	if (python_is(py, i, "from") && py->end > i && python_is(py, py->end - 1, "*"))
		py->unsure = py->t[i].line;
	for (size_t j = i; r == 0 && j < py->end; j++) {
		size_t behind = j + 1;

		brackets += python_opens(py, j);
		brackets -= brackets > 0 && (python_is(py, j, ")") || python_is(py, j, "]") ||
					     python_is(py, j, "}"));
		if (!python_is_type(py, j, PYTHON_NAME) || (j > 0 && python_is(py, j - 1, ".")) ||
		    is_keyword(py, j, brackets))
			continue;
		if (python_is_one_of(py, j, unsure) && python_is(py, j + 1, "("))
			py->unsure = py->t[j].line;
		while (python_is(py, behind, "["))
			behind = py->t[behind].match + 1;
		if (!is_only_read(py, j) || deletes ||
		    (behind > j + 1 && (j < targets || python_is_assignment(py, behind))))
			r = count_handed(py, &py->t[j]);
	}
	return r;
}

static int scan_statement(struct python *py, size_t i, void *data)
{
	const struct scan *scan = data;
	size_t equals = python_last_equals(py, i);
	struct python_name *name;
	bool own = scan->inside && !python_is(py, i, "global");
	int r = take_statement(py, i, own ? count_handed : count_binding);

	/* What is bound by itself is not handed on by that. */
	if (r == 0)
		r = scan_uses(py, equals == i + 1 || python_is(py, i + 1, ":") ? i + 1 : i);
	if (r < 0 || !python_is_type(py, i, PYTHON_NAME) || !python_is(py, i + 1, "(") ||
	    py->t[i + 1].match + 1 != py->end)
		return r;
	r = name_make(py, &py->t[i], &name);
	if (r == 0 && name)
		name->called = true;
	return r;
}

int python_names_find(struct python *py)
{
	struct scan scan = {0};
	int r = 0;

	for (size_t at = 0; r == 0 && at < py->n_lines; at++) {
		enum block_kind kind;
		size_t head;

		(void)python_look(py, at);
		if (scan.inside && py->lines[at].indent <= scan.indent)
			scan.inside = false;
		head = python_head_end(py, 0, &kind);
		if (head > 0 && kind == BLOCK_FUNCTION && !scan.inside) {
			py->end = head;
			r = scan_statement(py, 0, &scan);
			scan = (struct scan){.inside = true, .indent = py->lines[at].indent};
			py->end = py->lines[at].n;
			if (r == 0 && head + 1 < py->end) /* its body in the same line */
				r = each_statement(py, head + 1, scan_statement, &scan);
			continue;
		}
		if (r == 0)
			r = each_statement(py, 0, scan_statement, &scan);
	}
	return r;
}
