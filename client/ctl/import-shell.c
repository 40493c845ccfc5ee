/* SPDX-License-Identifier: MIT */
/*
 * What a shell file exports: `export A=b`, `A=b; export A`, `set -a`, `declare -x`, with the values
 * of variables that it has set itself, and `A=${A:-b}` for who has no A. Only commands that are
 * certain to run count; those under a condition, in a function, a pipe or a subshell are left out.
 * Nothing is run and no other file is followed.
 */
#include "config.h"

#include <ctype.h>

#include "client/ctl/import-shell-variable.h"
#include "client/ctl/import-shell-word.h"
#include "client/ctl/import.h"
#include "common/util.h"

#define WORDS_MAX  4096 /* in one command */
#define BLOCKS_MAX 256

struct shell {
	struct import *im;
	struct shell_reading rd;
	struct shell_word *words; /* of the command being read */
	size_t n_words;
	struct shell_variables variables;
	struct {
		char kind; /* i f, l oop, c ase, { or ( */
		unsigned line;
	} blocks[BLOCKS_MAX];
	size_t n_blocks;
	bool all_exported; /* set -a */
	bool conditional;  /* behind && or || */
	bool piped;
	bool command_next; /* a reserved word may come */
	bool loop_next;    /* the name that a loop gives values to */
};

static void shell_done(struct shell *sh)
{
	for (size_t i = 0; i < sh->n_words; i++)
		shell_word_done(&sh->words[i]);
	shell_variables_done(&sh->variables);
	free(sh->words);
	shell_reading_done(&sh->rd);
}

static struct shell_variable *get(struct shell *sh, const char *name, size_t size)
{
	return shell_variable_get(&sh->variables, name, size);
}

static int too_many(struct shell *sh, unsigned line)
{
	if (sh->variables.n < SHELL_VARIABLES_MAX)
		return -ENOMEM;
	return import_note(sh->im, line, NULL, "there are more than %u variables",
			   (unsigned)SHELL_VARIABLES_MAX);
}

/* What a variable is at this point, for expansions. */
static void look_up(void *data, const char *name, size_t size, struct shell_lookup *ret)
{
	const struct shell *sh = data;
	const struct shell_variable *v = shell_variable_find(&sh->variables, name, size);

	*ret = (struct shell_lookup){.state = SHELL_UNBOUND};
	for (size_t i = 0; i < sh->n_words; i++)
		if (sh->words[i].name_size == size && memcmp(sh->words[i].text, name, size) == 0)
			*ret = (struct shell_lookup){.state = SHELL_UNSURE,
						     .why = "the same command sets it"};
	if (!v || ret->why || (!v->set && !v->doubt))
		return;
	ret->state = SHELL_UNSURE;
	if (v->doubt)
		*ret = (struct shell_lookup){SHELL_UNSURE, NULL, v->doubt, v->doubt_line};
	else if (v->why)
		ret->why = "what it is cannot be told";
	else if (v->keeps)
		ret->why = "a process may have its own";
	else
		*ret = (struct shell_lookup){.state = SHELL_SET, .value = v->value};
	if (v->why && !v->doubt)
		ret->line = v->line;
}

/* Why a command may not run, as the end of a sentence; "" it runs. */
static const char *condition(const struct shell *sh, unsigned *ret_line)
{
	*ret_line = sh->n_blocks > 0 ? sh->blocks[sh->n_blocks - 1].line : 0;
	if (sh->n_blocks > 0)
		return "it stands in a block or function";
	if (sh->conditional)
		return "it depends on the command before it (&& or ||)";
	return sh->piped ? "it stands in a pipe or runs beside the shell" : "";
}

/* An exported variable gets what P says. */
static int give(struct shell *sh, const struct shell_variable *p)
{
	unsigned block;
	const char *why = condition(sh, &block);

	if (p->block > 0)
		return import_maybe(sh->im, p->line, p->name,
				    "it stands in a block or function (line %u)", p->block);
	if (block > 0)
		return import_maybe(sh->im, p->line, p->name, "%s (line %u)", why, block);
	if (*why || p->maybe)
		return import_maybe(sh->im, p->line, p->name, "%s", *why ? why : p->maybe);
	if (p->why)
		return import_leave(sh->im, IMPORT_ASSIGN, p->line, p->name, "%s", p->why);
	return import_set(sh->im, p->keeps ? IMPORT_SETDEFAULT : IMPORT_ASSIGN, p->line, p->name,
			  p->value);
}

/* P is set in LINE, under the conditions of this place. */
static void put_place(struct shell *sh, struct shell_variable *p, unsigned line)
{
	const char *why = condition(sh, &p->block);

	p->line = line;
	p->maybe = *why && p->block == 0 ? why : NULL;
	p->set = true;
	if (!*why || p->doubt)
		return;
	p->doubt = "it is set under a condition or in a function";
	p->doubt_line = line;
}

/* W is an assignment; ARGUMENT: of a command, where a shell may cut what it expands to. */
static int assign(struct shell *sh, const struct shell_word *w, bool exports, bool argument)
{
	struct shell_variable *p = get(sh, w->text, w->name_size);
	const char *why = w->why                  ? w->why
			  : w->appends            ? "it extends another value (+=)"
			  : argument && w->splits ? "without quotes a shell may cut it into words"
						  : NULL;
	char *value, *copy = NULL;

	if (!p)
		return too_many(sh, w->line);
	value = strdup(w->text + w->name_size + 1 + w->appends);
	if (why)
		copy = strdup(why);
	if (!value || (why && !copy)) {
		free(value);
		free(copy);
		return -ENOMEM;
	}
	free(p->value);
	free(p->why);
	p->value = value;
	p->why = copy;
	p->keeps = w->keeps;
	put_place(sh, p, w->line);
	if (!exports && !p->exported && !sh->all_exported)
		return 0;
	p->exported = true;
	return give(sh, p);
}

/* ${NAME:=VALUE} in W, in whatever command. */
static int assign_default(struct shell *sh, const struct shell_word *w)
{
	struct shell_variable *p = get(sh, w->assigned, strlen(w->assigned));
	char *value;

	if (!p)
		return too_many(sh, w->line);
	value = strdup(w->assigned_value);
	if (!value)
		return -ENOMEM;
	free(p->value);
	free(p->why);
	p->value = value;
	p->why = NULL;
	p->keeps = true;
	put_place(sh, p, w->line);
	return p->exported || sh->all_exported ? give(sh, p) : 0;
}

/* A command that is not read gives NAME a value. */
static int set_unknown(struct shell *sh, const struct shell_word *w, size_t size)
{
	struct shell_variable *p = get(sh, w->text, size);

	if (!p)
		return too_many(sh, w->line);
	free(p->why);
	p->why = strdup("a command gives it its value");
	if (!p->why)
		return -ENOMEM;
	p->keeps = false;
	put_place(sh, p, w->line);
	return p->exported ? give(sh, p) : 0;
}

/* `export NAME`: the value came before, or comes later. */
static int export_name(struct shell *sh, const struct shell_word *w)
{
	struct shell_variable *p;

	if (w->why)
		return import_note(sh->im, w->line, NULL, "a name to export: %s", w->why);
	p = get(sh, w->text, strlen(w->text));
	if (!p)
		return sh->variables.n == SHELL_VARIABLES_MAX ? 0 : -ENOMEM;
	if (p->exported)
		return 0;
	p->exported = true;
	return p->set ? give(sh, p) : 0;
}

/* Arguments of export, declare -x and typeset -x. */
static int export_all(struct shell *sh, size_t from)
{
	int r = 0;

	for (size_t i = from; r == 0 && i < sh->n_words; i++) {
		struct shell_word *w = &sh->words[i];
		size_t equals = strcspn(w->text, "=");

		if (w->name_size == 0 && w->text[equals] && shell_is_name(w->text, equals))
			w->name_size = equals; /* in quotes it is one here */
		if (w->name_size > 0)
			r = assign(sh, w, true, true);
		else if (w->text[0] != '-')
			r = export_name(sh, w);
	}
	return r;
}

static bool has_option(const struct shell *sh, size_t from, char letter)
{
	for (size_t i = from; i < sh->n_words; i++)
		if (sh->words[i].text[0] == '-' && strchr(sh->words[i].text, letter))
			return true;
	return false;
}

static int declare(struct shell *sh, size_t from)
{
	int r = 0;

	if (has_option(sh, from, 'x'))
		return export_all(sh, from);
	for (size_t i = from; r == 0 && i < sh->n_words; i++)
		if (sh->words[i].name_size > 0)
			r = assign(sh, &sh->words[i], false, true);
	return r;
}

static int unset(struct shell *sh, size_t from)
{
	unsigned block;
	const char *why = condition(sh, &block);
	int r = 0;

	if (has_option(sh, from, 'f'))
		return 0;
	for (size_t i = from; r == 0 && i < sh->n_words; i++) {
		const struct shell_word *w = &sh->words[i];
		struct shell_variable *p;

		if (w->text[0] == '-')
			continue;
		if (w->why) {
			r = import_note(sh->im, w->line, NULL, "a name to unset: %s", w->why);
			continue;
		}
		if (*why) {
			r = import_maybe(sh->im, w->line, w->text, "%s", why);
			continue;
		}
		p = shell_variable_find(&sh->variables, w->text, strlen(w->text));
		if (p && p->line > 0 && !p->exported && !import_find(sh->im, p->name)) {
			p->set = false; /* its own, and gone again */
			continue;
		}
		if (p)
			p->set = p->exported = false;
		r = import_unset(sh->im, w->line, w->text);
	}
	return r;
}

static void set_options(struct shell *sh, size_t from)
{
	for (size_t i = from; i < sh->n_words; i++) {
		const char *s = sh->words[i].text;
		bool named = i + 1 < sh->n_words && (streq(s, "-o") || streq(s, "+o")) &&
			     streq(sh->words[i + 1].text, "allexport");

		if ((s[0] == '-' || s[0] == '+') && s[1] != '-' && (strchr(s, 'a') || named))
			sh->all_exported = s[0] == '-';
	}
}

static int note_word(struct shell *sh, const struct shell_word *w, const char *reason)
{
	_cleanup_(freep) char *name = strndup(w->text, w->name_size);

	return name ? import_note(sh->im, w->line, name, "%s", reason) : -ENOMEM;
}

/* Without a command a line's assignments are the shell's own; before one they are only that
 * command's. */
static int assignments(struct shell *sh, size_t n, bool own)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = own ? assign(sh, &sh->words[i], false, false)
			: note_word(sh, &sh->words[i], "it is set for one command alone");
	return r;
}

/* NAME of an upper-case NAME= at S; 0: it is none. */
static size_t upper_name(const char *s)
{
	size_t n = strcspn(s, "=");

	return s[n] && isupper((unsigned char)s[0]) && shell_is_name(s, n) ? n : 0;
}

/* An upper-case NAME= at the start of a word, or in an option behind = or a comma; NULL: none. */
static const char *find_upper(const char *word)
{
	const char *s = word;

	while (upper_name(s) == 0) {
		s += strcspn(s, "=,");
		if (word[0] != '-' || !*s)
			return NULL;
		s++;
	}
	return s;
}

/* env NAME=VALUE, mpirun -x NAME=VALUE, srun --export=ALL,NAME=VALUE: environments of others. */
static int others(struct shell *sh, size_t from)
{
	int r = 0;

	for (size_t i = from; r == 0 && i < sh->n_words; i++) {
		const char *s = find_upper(sh->words[i].text);
		_cleanup_(freep) char *name = s ? strndup(s, upper_name(s)) : NULL;

		if (s)
			r = name ? import_note(sh->im, sh->words[i].line, name,
					       "it is an argument of a command, for what that "
					       "starts")
				 : -ENOMEM;
	}
	return r;
}

/* Words that are names which a command gives values to. */
static int set_unknowns(struct shell *sh, size_t from)
{
	int r = 0;

	for (size_t i = from; r == 0 && i < sh->n_words; i++) {
		const struct shell_word *w = &sh->words[i];
		size_t size = w->name_size > 0 ? w->name_size : strlen(w->text);

		if (snapshot_name_valid(w->text, size))
			r = set_unknown(sh, w, size);
	}
	return r;
}

/* Another file, or text, is run here. */
static int not_followed(struct shell *sh, size_t first, bool file)
{
	const struct shell_word *w = &sh->words[first],
				*path = first + 1 < sh->n_words ? &sh->words[first + 1] : NULL;

	shell_variables_doubt(&sh->variables,
			      file ? "another file is read in between" : "eval may have set it",
			      w->line);
	if (!file)
		return import_note(sh->im, w->line, NULL, "eval is not followed");
	return import_note(sh->im, w->line, NULL,
			   "another file is read here, which was not looked at%s%s",
			   path && !path->why ? ": " : "", path && !path->why ? path->text : "");
}

static bool is_one_of(const char *s, const char *const list[])
{
	for (size_t i = 0; list[i]; i++)
		if (streq(s, list[i]))
			return true;
	return false;
}

/* The words from FIRST on, whose command is this. */
static int run_command(struct shell *sh, const char *command, size_t first)
{
	static const char *const declares[] = {"declare", "typeset", "readonly", "local", NULL};
	static const char *const setters[] = {"read",      "getopts", "mapfile",
					      "readarray", "let",     NULL};

	if (streq(command, "export"))
		return has_option(sh, first + 1, 'n') || has_option(sh, first + 1, 'f')
			       ? import_note(sh->im, sh->words[first].line, NULL,
					     "export -n and -f are not read")
			       : export_all(sh, first + 1);
	if (is_one_of(command, declares))
		return declare(sh, first + 1);
	if (streq(command, "unset"))
		return unset(sh, first + 1);
	if (streq(command, ".") || streq(command, "source"))
		return not_followed(sh, first, true);
	if (streq(command, "eval"))
		return not_followed(sh, first, false);
	if (streq(command, "setenv"))
		return import_note(sh->im, sh->words[first].line, NULL,
				   "setenv is of csh, which is not read");
	if (is_one_of(command, setters) || (streq(command, "printf") && has_option(sh, first, 'v')))
		return set_unknowns(sh, first + 1);
	if (streq(command, "set") && sh->n_blocks == 0 && !sh->conditional)
		set_options(sh, first + 1);
	return others(sh, first + 1);
}

/* The words of one simple command. */
static int run(struct shell *sh)
{
	size_t first = 0;
	const char *command;
	int r = 0;

	for (size_t i = 0; r == 0 && i < sh->n_words; i++)
		if (sh->words[i].assigned)
			r = assign_default(sh, &sh->words[i]);
	while (first < sh->n_words && sh->words[first].name_size > 0)
		first++;
	if (r < 0)
		return r;
	if (first == sh->n_words)
		return assignments(sh, first, true);
	command = sh->words[first].why ? "" : sh->words[first].text;
	r = assignments(sh, first, false);
	return r < 0 ? r : run_command(sh, command, first);
}

static int end_command(struct shell *sh)
{
	int r = sh->n_words > 0 ? run(sh) : 0;

	for (size_t i = 0; i < sh->n_words; i++)
		shell_word_done(&sh->words[i]);
	sh->n_words = 0;
	sh->command_next = true;
	return r;
}

static int push(struct shell *sh, char kind, unsigned line)
{
	if (sh->n_blocks == BLOCKS_MAX) {
		sh->rd.fault = "blocks are nested too deeply";
		sh->rd.fault_line = line;
		return -EBADMSG;
	}
	sh->blocks[sh->n_blocks].kind = kind;
	sh->blocks[sh->n_blocks++].line = line;
	return 0;
}

static void pop(struct shell *sh, char kind)
{
	if (sh->n_blocks > 0 && sh->blocks[sh->n_blocks - 1].kind == kind)
		sh->n_blocks--;
}

static const struct {
	const char *word;
	char opens, closes;
	bool command_next; /* behind it */
} reserved[] = {
	{"if", 'i', 0, true},    {"then", 0, 0, true},    {"elif", 0, 0, true},
	{"else", 0, 0, true},    {"fi", 0, 'i', false},   {"while", 'l', 0, true},
	{"until", 'l', 0, true}, {"for", 'l', 0, false},  {"select", 'l', 0, false},
	{"do", 0, 0, true},      {"done", 0, 'l', false}, {"case", 'c', 0, false},
	{"esac", 0, 'c', false}, {"{", '{', 0, true},     {"}", 0, '{', false},
	{"!", 0, 0, true},       {"time", 0, 0, true},
};

/* 1: W was a reserved word, which is taken; 0: not; negative. */
static int take_reserved(struct shell *sh, const struct shell_word *w)
{
	if (!sh->command_next || w->quoted || w->why)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
		if (!streq(w->text, reserved[i].word))
			continue;
		if (reserved[i].closes)
			pop(sh, reserved[i].closes);
		sh->command_next = reserved[i].command_next;
		sh->loop_next = streq(w->text, "for") || streq(w->text, "select");
		return reserved[i].opens && push(sh, reserved[i].opens, w->line) < 0 ? -EBADMSG : 1;
	}
	return 0;
}

/* Takes W over. */
static int take_word(struct shell *sh, struct shell_word *w)
{
	int r;

	if (sh->loop_next) {
		sh->loop_next = false;
		r = set_unknown(sh, w, strlen(w->text));
		shell_word_done(w);
		return r;
	}
	r = take_reserved(sh, w);
	if (r != 0) {
		shell_word_done(w);
		return r < 0 ? r : 0;
	}
	if (sh->n_words == WORDS_MAX) {
		shell_word_done(w);
		sh->rd.fault = "a command has too many words";
		sh->rd.fault_line = sh->rd.line;
		return -EBADMSG;
	}
	if ((sh->n_words & (sh->n_words - 1)) == 0) {
		struct shell_word *grown = reallocarray(
			sh->words, sh->n_words == 0 ? 1 : sh->n_words * 2, sizeof *grown);

		if (!grown) {
			shell_word_done(w);
			return -ENOMEM;
		}
		sh->words = grown;
	}
	sh->words[sh->n_words++] = *w;
	/* Behind an assignment there may be another one, but no reserved word. */
	sh->command_next = false;
	return 0;
}

static int take_operator(struct shell *sh)
{
	const char *op = sh->rd.op;
	unsigned line = sh->rd.line;
	bool lists = streq(op, "&&") || streq(op, "||");
	int r;

	if (op[0] == '<' || op[0] == '>')
		return 0; /* its word is taken for an argument, which does no harm */
	sh->piped = sh->piped || streq(op, "|") || streq(op, "&");
	r = end_command(sh);
	sh->loop_next = false;
	if (r < 0)
		return r;
	if (streq(op, "(") && push(sh, '(', line) < 0)
		return -EBADMSG;
	if (streq(op, ")"))
		pop(sh, '(');
	sh->conditional = lists;
	sh->piped = streq(op, "|");
	return 0;
}

static int take(struct shell *sh, int token, struct shell_word *w)
{
	int r;

	if (token == SHELL_WORD)
		return take_word(sh, w);
	if (token == SHELL_OPERATOR)
		return take_operator(sh);
	/* A list goes on behind && and || on the next line. */
	if (sh->n_words == 0 && sh->conditional)
		return 0;
	r = end_command(sh);
	sh->conditional = sh->piped = false;
	return r;
}

/* Variables that the file sets and never exports. */
static int note_plain(struct shell *sh)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sh->variables.n; i++) {
		const struct shell_variable *p = &sh->variables.items[i];

		if (p->set && !p->why && !p->exported && !import_find(sh->im, p->name))
			r = import_note(sh->im, p->line, p->name,
					"it is not exported: no other program has it");
	}
	return r;
}

int import_shell(struct import *im, const char *bytes, size_t size)
{
	_cleanup_(shell_done) struct shell sh = {
		.im = im,
		.rd = {.bytes = bytes, .size = size, .line = 1, .lookup = look_up},
		.command_next = true};
	int r = 0, token;

	sh.rd.data = &sh;
	do {
		struct shell_word w = {0};

		token = shell_next(&sh.rd, &w);
		r = token < 0 ? token : take(&sh, token, &w);
	} while (r == 0 && token != SHELL_END);
	if (r == -EBADMSG)
		return import_note(im, sh.rd.fault_line, NULL, "%s", sh.rd.fault) < 0 ? -ENOMEM : r;
	return r < 0 ? r : note_plain(&sh);
}
