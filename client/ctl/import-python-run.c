/* SPDX-License-Identifier: MIT */
/*
 * Bodies that are gone through more than once, or elsewhere than they stand: of loops over
 * constants, turn by turn, and of functions where they are called.
 */
#include "config.h"

#include "client/ctl/import-python-internal.h"
#include "common/util.h"

static void local_done(struct python_local *local)
{
	python_value_done(&local->value);
}

void python_locals_cut(struct python *py, size_t n)
{
	while (py->n_locals > n)
		local_done(&py->locals[--py->n_locals]);
}

void python_block_pop(struct python *py)
{
	free(py->blocks[--py->n_blocks].guard);
}

void python_blocks_cut(struct python *py, size_t n)
{
	while (py->n_blocks > n)
		python_block_pop(py);
}

/* WORD is the token at I. */
int python_push_block(struct python *py, enum block_kind kind, size_t i)
{
	struct block *b = &py->blocks[py->n_blocks];

	if (py->n_blocks == BLOCKS_MAX)
		return import_note(py->im, py->t[i].line, NULL, "blocks are nested too deeply") < 0
			       ? -ENOMEM
			       : -EBADMSG;
	*b = (struct block){
		.kind = kind, .indent = py->lines[py->at].indent, .line = py->t[i].line};
	(void)snprintf(b->word, sizeof b->word, "%.*s", (int)py->t[i].size, py->t[i].start);
	py->n_blocks++;
	return 0;
}

/* The token T stands for VALUE, which is taken over. False: there are too many. */
static bool push_local(struct python *py, const struct python_token *t, unsigned line,
		       struct python_value *value)
{
	struct python_local *local = &py->locals[py->n_locals];

	if (py->n_locals == LOCALS_MAX) {
		python_value_done(value);
		return false;
	}
	*local = (struct python_local){
		.start = t->start, .size = t->size, .line = line, .value = *value};
	(void)snprintf(local->why, sizeof local->why, "%s", py->why);
	py->n_locals++;
	*value = (struct python_value){0};
	return true;
}

/* For python_bindings(): a name that a body binds is no constant in it. */
static int hide_name(struct python *py, const struct python_token *t)
{
	struct python_value unknown = {0};

	for (size_t i = py->locals_base; i < py->n_locals; i++)
		if (py->locals[i].size == t->size &&
		    memcmp(py->locals[i].start, t->start, t->size) == 0 &&
		    py->locals[i].value.type == VALUE_UNKNOWN)
			return 0;
	(void)python_not_read(py, "a name in it is bound in that body");
	return push_local(py, t, 0, &unknown) ? 0 : -E2BIG;
}

/* The body of a loop or function: the rest of a line, or lines. */
struct body {
	size_t head, token; /* behind the colon; all of the line: the body is the lines */
	size_t from, to;
};

static struct body body_of(const struct python *py, size_t colon)
{
	return (struct body){.head = py->at,
			     .token = colon + 1,
			     .from = py->at + 1,
			     .to = python_block_end(py, py->at)};
}

static bool is_short(const struct python *py, const struct body *b)
{
	return b->token < py->lines[b->head].n;
}

static void charge(struct python *py, const struct body *b)
{
	const struct python_span *last = &py->lines[b->to - 1];

	py->work -= (long)(last->first + last->n - py->lines[b->head].first);
}

/* Goes through it where the reading stands; its blocks end with it. */
static int run_body(struct python *py, const struct body *b)
{
	struct python_view before = python_look(py, b->head);
	size_t at = py->at, blocks = py->n_blocks, floor = py->floor;
	int r;

	charge(py, b);
	py->floor = blocks;
	py->at = b->head;
	r = is_short(py, b) ? python_run_statements(py, b->token)
			    : python_run_lines(py, b->from, b->to);
	python_blocks_cut(py, blocks);
	py->floor = floor;
	py->at = at;
	python_look_back(py, before);
	return r;
}

/* Is each line of it gone through to the end? RETURNS: a return may be its last statement. */
static bool is_straight(struct python *py, const struct body *b, bool returns)
{
	static const char *const leaves[] = {"return", "raise",    "yield", "global", "nonlocal",
					     "break",  "continue", "await", NULL};
	struct python_view before = python_look(py, b->head);
	size_t line = b->head, i = b->token;
	bool straight = true;

	for (; straight && line < b->to; line++, i = 0) {
		(void)python_look(py, line);
		for (; straight && i < py->end; i++)
			straight = !python_is_one_of(py, i, leaves) ||
				   (returns && i == 0 && line + 1 == b->to &&
				    python_is(py, i, "return") &&
				    py->lines[line].indent == py->lines[b->from].indent);
	}
	python_look_back(py, before);
	return straight;
}

/* 0, -ENOMEM, -E2BIG. */
static int hide_names(struct python *py, const struct body *b)
{
	int r = is_short(py, b) ? python_bindings(py, b->head, b->token, hide_name) : 0;

	for (size_t line = b->from; r == 0 && line < b->to; line++)
		r = python_bindings(py, line, 0, hide_name);
	return r;
}

/* --- loops */

struct loop {
	size_t targets[2], n_targets; /* tokens of the head */
	struct python_elements elements;
	struct body body;
	unsigned line;
};

/* for A in, for A, B in, for (A, B) in */
static bool find_targets(const struct python *py, size_t i, size_t in, struct loop *loop)
{
	if (python_is(py, i, "(") && py->t[i].match + 1 == in) {
		i++;
		in--;
	}
	if (!python_is_type(py, i, PYTHON_NAME))
		return false;
	loop->targets[0] = i;
	loop->n_targets = 1;
	if (i + 1 == in)
		return true;
	loop->targets[1] = i + 2;
	loop->n_targets = 2;
	return python_is(py, i + 1, ",") && python_is_type(py, i + 2, PYTHON_NAME) && i + 3 == in;
}

/* What is gone through, from I to UNTIL. 0, 1: it cannot be told, -ENOMEM. */
static int find_elements(struct python *py, size_t i, size_t until, struct loop *loop)
{
	static const char *const same[] = {"sorted", "list", "tuple", NULL};
	static const char *const members[] = {"items", "keys", NULL};
	struct python_value v;
	bool items = false, keys = false;
	int r;

	while (python_is_one_of(py, i, same) && python_is(py, i + 1, "(") &&
	       py->t[i + 1].match + 1 == until) {
		i += 2;
		until--;
	}
	if (until > i + 4 && python_is(py, until - 1, ")") && python_is(py, until - 2, "(") &&
	    python_is_one_of(py, until - 3, members) && python_is(py, until - 4, ".")) {
		items = python_is(py, until - 3, "items");
		keys = !items;
		until -= 4;
	}
	r = python_eval_any(py, i, until, &v);
	if (r < 0)
		return r;
	r = python_elements(py, &v, &loop->elements);
	python_value_done(&v);
	if (r != 0)
		return r;
	if (loop->elements.dictionary ? items != (loop->n_targets == 2) : items || keys)
		return 1;
	if (!loop->elements.dictionary && loop->n_targets == 2)
		python_elements_pair(py, &loop->elements);
	return 0;
}

/* Of two entries of a dictionary with one name the later one counts. */
static bool is_repeated(const struct loop *loop, size_t at)
{
	const struct python_elements *e = &loop->elements;

	for (size_t i = at + 1; e->dictionary && e->items[at].key && i < e->n; i++)
		if (e->items[i].key && streq(e->items[i].key, e->items[at].key))
			return true;
	return false;
}

/* One target is what stands from I to UNTIL in the line of EL. */
static int set_target(struct python *py, size_t target, const struct python_element *el, size_t i,
		      size_t until)
{
	const struct python_token *t = &py->t[target];
	struct python_view before = python_look(py, el->line);
	unsigned line = py->t[i].line;
	struct python_value v;
	int r = python_eval_any(py, i, until, &v);

	python_look_back(py, before);
	if (r < 0)
		return r;
	return push_local(py, t, line, &v) ? 0 : -E2BIG;
}

static int run_turn(struct python *py, const struct loop *loop, const struct python_element *el)
{
	size_t locals = py->n_locals;
	bool key = loop->n_targets == 2 || loop->elements.dictionary;
	struct python_value v = {0};
	int r;

	if (loop->elements.dictionary && el->key) { /* dict(NAME=...) has no literal */
		v = (struct python_value){.type = VALUE_TEXT, .text = strdup(el->key)};
		r = !v.text ? -ENOMEM
		    : push_local(py, &py->t[loop->targets[0]],
				 py->tokens[py->lines[el->line].first + el->key_from].line, &v)
			    ? 0
			    : -E2BIG;
	} else {
		r = set_target(py, loop->targets[0], el, key ? el->key_from : el->from,
			       key ? el->key_until : el->until);
	}
	if (r == 0 && loop->n_targets == 2)
		r = set_target(py, loop->targets[1], el, el->from, el->until);
	if (r == 0)
		r = hide_names(py, &loop->body);
	if (r == 0)
		r = run_body(py, &loop->body);
	python_locals_cut(py, locals);
	return r == -E2BIG
		       ? import_note(py->im, loop->line, NULL, "the loop has too many variables")
		       : r;
}

static int run_turns(struct python *py, struct loop *loop, size_t word)
{
	size_t blocks = py->n_blocks;
	int r = 0;

	if (!is_straight(py, &loop->body, false))
		r = python_push_block(py, BLOCK_CONDITION, word);
	py->loops++;
	for (size_t i = 0; r == 0 && !py->tired && i < loop->elements.n; i++) {
		py->work -= 16 + (long)(loop->elements.n - i) / 8;
		if (!is_repeated(loop, i))
			r = run_turn(py, loop, &loop->elements.items[i]);
	}
	py->loops--;
	python_blocks_cut(py, blocks);
	if (r == 0 && loop->elements.odd > 0)
		r = import_note(py->im, loop->elements.odd, NULL,
				"an entry is not what the loop takes");
	return r;
}

/* for ... at I with its colon. 1: it was gone through; 0: it is not such a loop; negative. */
int python_take_loop(struct python *py, size_t i, size_t colon)
{
	struct loop loop = {.body = body_of(py, colon), .line = py->t[i].line};
	size_t in = python_find(py, i + 1, "in", false), all = py->end;
	int r;

	if (!python_is(py, i, "for") || py->loops == LOOPS_MAX ||
	    !find_targets(py, i + 1, in, &loop))
		return 0;
	py->end = colon;
	r = find_elements(py, in + 1, colon, &loop);
	py->end = all;
	if (r == 0 && loop.elements.n > TURNS_MAX)
		r = import_note(py->im, loop.line, NULL, "the loop has more than %d turns",
				TURNS_MAX);
	else if (r == 0)
		r = run_turns(py, &loop, i);
	else if (r > 0)
		r = -EAGAIN;
	python_elements_done(&loop.elements);
	if (r == -EAGAIN)
		return 0;
	py->at = loop.body.to - 1;
	return r < 0 ? r : 1;
}

/* --- functions */

static bool is_decorated(struct python *py, size_t at)
{
	struct python_view before;
	bool decorated;

	if (at == 0)
		return false;
	before = python_look(py, at - 1);
	decorated = python_is(py, 0, "@");
	python_look_back(py, before);
	return decorated;
}

/* def NAME at I: 1: it is gone through where it is called; 0: it is looked at here. */
int python_take_def(struct python *py, size_t i)
{
	struct python_name *name;
	const char *why;

	if (!python_is(py, i, "def") || !python_is_type(py, i + 1, PYTHON_NAME) || py->calls > 0 ||
	    py->loops > 0 || python_place(py, NULL, &why) || is_decorated(py, py->at))
		return 0;
	name = python_name_get(py, py->t[i + 1].start, py->t[i + 1].size);
	if (!name || name->bound != 1 || !name->called || py->unsure > 0)
		return 0;
	name->def = py->at + 1;
	py->at = python_block_end(py, py->at) - 1;
	return 1;
}

struct call {
	const struct python_name *name;
	size_t open; /* of its arguments, in the line of the call */
	struct body body;
	size_t params; /* the bracket of its parameters, in the line of its head */
};

/* The argument that the parameter of this name, the Nth, has: FROM and UNTIL. False: none. */
static bool find_argument(const struct python *py, const struct call *call,
			  const struct python_token *param, size_t n, size_t *ret_from,
			  size_t *ret_until)
{
	size_t close = py->t[call->open].match, at = 0;

	for (size_t i = call->open + 1; i < close; at++) {
		size_t end = python_find(py, i, NULL, true);
		bool keyword = python_is_type(py, i, PYTHON_NAME) && python_is(py, i + 1, "=");

		if (python_is(py, i, "*") || python_is(py, i, "**"))
			return false;
		if (keyword ? py->t[i].size == param->size &&
				      memcmp(py->t[i].start, param->start, param->size) == 0
			    : at == n) {
			*ret_from = keyword ? i + 2 : i;
			*ret_until = end;
			return *ret_from < end;
		}
		i = end + 1;
	}
	return false;
}

/* The parameter at I of the head, the Nth. 0, -E2BIG: it cannot be told, -ENOMEM. */
static int set_param(struct python *py, const struct call *call, size_t i, size_t end, size_t n,
		     struct python_local *ret)
{
	const struct python_token *t = &py->tokens[py->lines[call->body.head].first + i];
	size_t from, until, base = py->locals_base;
	int r;

	*ret = (struct python_local){.start = t->start, .size = t->size};
	if (t->type != PYTHON_NAME)
		return -E2BIG; /* * or / */
	if (find_argument(py, call, t, n, &from, &until)) {
		const struct python_local *own =
			from + 1 == until ? python_local_get(py, from) : NULL;

		ret->line = own && own->line > 0 ? own->line : py->t[from].line;
		r = python_eval_any(py, from, until, &ret->value);
		(void)snprintf(ret->why, sizeof ret->why, "%s", py->why);
		return r;
	}
	struct python_view before = python_look(py, call->body.head);

	from = python_find(py, i, "=", true);
	py->locals_base = py->n_locals; /* a default is of the module */
	r = python_is(py, from, "=") && from < end ? python_eval_any(py, from + 1, end, &ret->value)
						   : -E2BIG;
	(void)snprintf(ret->why, sizeof ret->why, "%s", py->why);
	py->locals_base = base;
	python_look_back(py, before);
	return r;
}

/* All parameters become locals above what is there. 0, -E2BIG, -ENOMEM. */
static int set_params(struct python *py, const struct call *call)
{
	struct python_local params[CALLS_MAX];
	size_t n = 0, close, close_call = py->t[call->open].match, given = 0;
	int r = 0;

	for (size_t i = call->open + 1; i < close_call; given++)
		i = python_find(py, i, NULL, true) + 1;
	close = py->tokens[py->lines[call->body.head].first + call->params].match;
	for (size_t i = call->params + 1, end; r == 0 && i < close; i = end + 1, n++) {
		struct python_view before = python_look(py, call->body.head);

		end = python_find(py, i, NULL, true);
		python_look_back(py, before);
		if (n == CALLS_MAX || py->n_locals + n >= LOCALS_MAX) {
			r = -E2BIG;
			break;
		}
		r = set_param(py, call, i, end, n, &params[n]);
	}
	r = r == 0 && given > n ? -E2BIG : r;
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			py->locals[py->n_locals++] = params[i];
		else
			local_done(&params[i]);
	}
	return r;
}

/* Does it name the environment, or call what may? */
static bool is_of_interest(struct python *py, const struct body *b)
{
	const struct python_span *last = &py->lines[b->to - 1];
	size_t end = last->first + last->n;
	struct python_view before = {py->t, py->end};
	bool found = false;

	py->t = py->tokens;
	py->end = end;
	for (size_t i = py->lines[b->head].first + b->token; !found && i < end; i++) {
		const struct python_name *name =
			python_is(py, i + 1, "(") && python_is_type(py, i, PYTHON_NAME)
				? python_name_get(py, py->t[i].start, py->t[i].size)
				: NULL;

		found = python_env_named(py, i) || (name && name->def > 0);
	}
	charge(py, b);
	python_look_back(py, before);
	return found;
}

static int run_call(struct python *py, const struct call *call)
{
	size_t blocks = py->n_blocks, locals = py->n_locals, base = py->locals_base,
	       aliases = py->n_aliases;
	int r = set_params(py, call);

	py->locals_base = locals;
	if (r == 0)
		r = hide_names(py, &call->body);
	if (r == 0 && !is_straight(py, &call->body, true)) {
		struct python_view before = python_look(py, call->body.head);

		r = python_push_block(py, BLOCK_FUNCTION, 0);
		if (r == 0)
			py->blocks[py->n_blocks - 1].line = py->t[0].line;
		python_look_back(py, before);
	}
	py->calls++;
	if (r == 0)
		r = run_body(py, &call->body);
	py->calls--;
	py->locals_base = base;
	python_locals_cut(py, locals);
	python_blocks_cut(py, blocks);
	python_aliases_cut(py, aliases);
	return r;
}

/* NAME(...) of a function of this file. *RET_TAKEN: its body was gone through. */
int python_take_call(struct python *py, size_t i, bool *ret_taken)
{
	struct call call = {.open = i + 1};
	struct python_name *name;
	struct python_view before;
	size_t colon;
	enum block_kind kind;
	int r;

	*ret_taken = false;
	if (!python_is_type(py, i, PYTHON_NAME) || !python_is(py, i + 1, "(") ||
	    py->t[i + 1].match + 1 != py->end)
		return 0;
	name = python_name_get(py, py->t[i].start, py->t[i].size);
	if (!name || name->def == 0 || python_local_get(py, i))
		return 0;
	before = python_look(py, name->def - 1);
	colon = python_head_end(py, 0, &kind);
	python_look_back(py, before);
	call.name = name;
	call.params = 2;
	call.body = (struct body){.head = name->def - 1,
				  .token = colon + 1,
				  .from = name->def,
				  .to = python_block_end(py, name->def - 1)};
	if (!is_of_interest(py, &call.body))
		return 0;
	r = py->calls < CALLS_MAX ? run_call(py, &call) : -E2BIG;
	if (r == -E2BIG)
		return import_note(py->im, py->t[i].line, NULL,
				   "a call of a function (line %u) that is not followed",
				   name->line);
	name->def_shown = *ret_taken = true;
	return r;
}
