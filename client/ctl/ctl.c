/* SPDX-License-Identifier: MIT */
/*
 * The verb list, option parsing, help and error lines. Options may stand before or after the verb
 * and among its arguments; a verb that runs a command takes none after its first argument.
 */
#include "config.h"

#include "client/ctl/ctl.h"

#include <getopt.h>
#include <locale.h>
#include <stdarg.h>

#include "client/ctl/text.h"
#include "common/near.h"
#include "common/util.h"

#define OPTIONS_MAX 24

enum { OPT_HELP = 256, OPT_USER, OPT_JSON, OPT_DRY_RUN, OPT_REASON, OPT_VERSION, OPT_OWN };

static const struct verb *const verbs[] = {
	&verb_status,  &verb_list, &verb_show,   &verb_check,    &verb_on,
	&verb_observe, &verb_off,  &verb_use,    &verb_rollback, &verb_history,
	&verb_workers, &verb_exec, &verb_python, &verb_help,
};

static void _printf_(2, 0) print_line(const char *prefix, const char *format, va_list ap)
{
	_cleanup_(freep) char *text = NULL, *escaped = NULL;

	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	escaped = text ? text_escape(text, strlen(text)) : NULL;
	(void)fflush(stdout);
	fprintf(stderr, "cudaenvctl: %s%s\n", prefix, escaped ? escaped : "out of memory");
}

int ctl_error(int status, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_line("", format, ap);
	va_end(ap);
	return status;
}

void ctl_note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_line("note: ", format, ap);
	va_end(ap);
}

int ctl_finish(int status)
{
	if (fflush(stdout) == EOF || ferror(stdout))
		return ctl_error(CTL_FAILED, "cannot write the answer: %s", strerror(errno));
	return status;
}

const struct paths *ctl_paths(struct ctl *ctl)
{
	int r;

	if (ctl->have_paths)
		return &ctl->paths;
	r = paths_find(ctl->user, &ctl->paths);
	if (r == -ENXIO)
		(void)ctl_error(CTL_FAILED,
				"cannot tell where your cudaenv is: neither HOME nor the "
				"XDG variables are set; set HOME or CUDAENV_RUNTIME_DIR");
	else if (r < 0)
		(void)ctl_error(CTL_FAILED, "cannot find cudaenv's directories: %s", strerror(-r));
	if (r < 0)
		return NULL;
	ctl->have_paths = true;
	return &ctl->paths;
}

static void help_options(const struct verb *verb)
{
	char left[64];

	if (verb && verb->options) {
		for (const struct ctl_option *o = verb->options; o->name; o++) {
			int n = o->letter ? snprintf(left, sizeof left, "-%c, --%s", o->letter,
						     o->name)
					  : snprintf(left, sizeof left, "    --%s", o->name);

			if (o->argument && n > 0 && (size_t)n < sizeof left)
				(void)snprintf(left + n, sizeof left - (size_t)n, "=%s",
					       o->argument);
			printf("  %-24s %s\n", left, o->help);
		}
	}
	if (verb && verb->flags & (VERB_CHANGES | VERB_DRY_RUN))
		printf("  %-24s %s\n", "    --dry-run", "say what would change, change nothing");
	if (verb && verb->flags & VERB_CHANGES)
		printf("  %-24s %s\n", "    --reason=TEXT", "kept in the history with the change");
	printf("  %-24s %s\n  %-24s %s\n  %-24s %s\n", "    --user",
	       "your own cudaenvd, not the system's", "    --json", "one JSON document on stdout",
	       "-h, --help", "this text");
	if (!verb)
		printf("  %-24s %s\n", "    --version", "the version");
}

static int help_verb(const struct verb *verb)
{
	printf("Usage: cudaenvctl %s [OPTION...]%s%s\n\n%s\n", verb->name,
	       verb->arguments[0] ? " " : "", verb->arguments, verb->summary);
	if (verb->help)
		printf("\n%s\n", verb->help);
	printf("\nOptions:\n");
	help_options(verb);
	printf("\nExit status: 0 good, 1 the answer is bad news, 2 wrong usage, 3 the system "
	       "failed.\n");
	return ctl_finish(CTL_GOOD);
}

static int help(void)
{
	printf("Usage: cudaenvctl [OPTION...] VERB [ARGUMENT...]\n\n"
	       "The CUDA and NCCL environment of this node's processes.\n\nVerbs:\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		printf("  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
	printf("\nOptions:\n");
	help_options(NULL);
	printf("\n`cudaenvctl VERB --help` tells more.\n");
	return ctl_finish(CTL_GOOD);
}

static const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (streq(verbs[i]->name, name))
			return verbs[i];
	return NULL;
}

static int unknown_verb(const char *name)
{
	const char *names[ARRAY_SIZE(verbs)], *near;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		names[i] = verbs[i]->name;
	near = near_match(name, names, ARRAY_SIZE(names));
	return ctl_error(CTL_USAGE, "unknown verb '%s'%s%s%s; see cudaenvctl --help", name,
			 near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int run_help(struct ctl *ctl, int argc, char *argv[])
{
	const struct verb *verb = argc > 0 ? verb_find(argv[0]) : NULL;

	if (argc == 0)
		return help();
	return verb ? help_verb(verb) : unknown_verb(argv[0]);
}

const struct verb verb_help = {
	.name = "help",
	.arguments = "[VERB]",
	.summary = "The text of --help, of a verb or of all.",
	.max_arguments = 1,
	.run = run_help,
};

/* What getopt_long() is given: the common options and the verb's own. */
struct option_table {
	struct option options[OPTIONS_MAX];
	char letters[2 * OPTIONS_MAX + 4];
	size_t n;
};

static void option_add(struct option_table *t, const char *name, bool argument, int code,
		       char letter)
{
	size_t used = strlen(t->letters);

	if (t->n + 1 >= OPTIONS_MAX)
		return;
	t->options[t->n++] =
		(struct option){name, argument ? required_argument : no_argument, NULL, code};
	if (!letter)
		return;
	t->letters[used++] = letter;
	if (argument)
		t->letters[used++] = ':';
	t->letters[used] = '\0';
}

static void option_table(const struct verb *verb, struct option_table *ret)
{
	*ret = (struct option_table){.letters = ":"};
	if (!verb || verb->flags & VERB_COMMAND)
		memcpy(ret->letters, "+:", 3);
	option_add(ret, "help", false, OPT_HELP, 'h');
	option_add(ret, "user", false, OPT_USER, 0);
	option_add(ret, "json", false, OPT_JSON, 0);
	if (!verb)
		option_add(ret, "version", false, OPT_VERSION, 0);
	if (verb && verb->flags & (VERB_CHANGES | VERB_DRY_RUN))
		option_add(ret, "dry-run", false, OPT_DRY_RUN, 0);
	if (verb && verb->flags & VERB_CHANGES)
		option_add(ret, "reason", true, OPT_REASON, 0);
	for (int i = 0; verb && verb->options && verb->options[i].name; i++)
		option_add(ret, verb->options[i].name, verb->options[i].argument, OPT_OWN + i,
			   verb->options[i].letter);
}

static int option_own(const struct verb *verb, int code)
{
	const struct ctl_option *o = verb->options;

	for (int i = 0; o && o[i].name; i++) {
		if (code != OPT_OWN + i && (!o[i].letter || code != (unsigned char)o[i].letter))
			continue;
		if (o[i].flag)
			*o[i].flag = true;
		else
			*o[i].value = optarg;
		return 0;
	}
	return -EINVAL;
}

/* GIVEN: as it was written, maybe with =VALUE. CODE: ':' where the argument is missing. */
static int wrong_option(const struct verb *verb, const struct option_table *table,
			const char *given, int code)
{
	const char *names[OPTIONS_MAX], *near = NULL;
	_cleanup_(freep) char *name = NULL;

	for (size_t i = 0; i < table->n; i++)
		names[i] = table->options[i].name;
	if (code != ':' && startswith(given, "--"))
		name = strndup(given + 2, strcspn(given + 2, "="));
	if (name)
		near = near_match(name, names, table->n);
	return ctl_error(-1, "%s '%s'%s%s%s; see cudaenvctl %s%s--help",
			 code == ':' ? "no argument for" : "unknown option", given,
			 near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "",
			 verb ? verb->name : "", verb ? " " : "");
}

/* 0: go on, 1: help was asked for, 2: the version, negative: an error line was printed. */
static int parse_options(struct ctl *ctl, int argc, char *argv[])
{
	const struct verb *verb = ctl->verb;
	struct option_table table;
	int code, asked = 0;

	option_table(verb, &table);
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while ((code = getopt_long(argc, argv, table.letters, table.options, NULL)) >= 0) {
		if (code == OPT_HELP || code == 'h')
			asked = 1;
		else if (code == OPT_VERSION)
			asked = 2;
		else if (code == OPT_USER)
			ctl->user = true;
		else if (code == OPT_JSON)
			ctl->json = true;
		else if (code == OPT_DRY_RUN)
			ctl->dry_run = true;
		else if (code == OPT_REASON)
			ctl->reason = optarg;
		else if (code == '?' || code == ':' || !verb || option_own(verb, code) < 0)
			return wrong_option(verb, &table, argv[optind - 1], code);
	}
	return asked;
}

static int run_verb(struct ctl *ctl, int argc, char *argv[])
{
	const struct verb *verb = ctl->verb;
	int r;

	r = parse_options(ctl, argc, argv);
	if (r != 0)
		return r == 1 ? help_verb(verb) : CTL_USAGE;
	argc -= optind;
	argv += optind;
	if (argc < verb->min_arguments)
		return ctl_error(CTL_USAGE, "an argument is missing: cudaenvctl %s %s", verb->name,
				 verb->arguments);
	if (verb->max_arguments >= 0 && argc > verb->max_arguments)
		return ctl_error(CTL_USAGE, "unexpected argument '%s'; see cudaenvctl %s --help",
				 argv[verb->max_arguments], verb->name);
	r = verb->run(ctl, argc, argv);
	if (ctl->have_paths)
		paths_done(&ctl->paths);
	return ctl_finish(r);
}

int ctl_main(int argc, char *argv[])
{
	struct ctl ctl = {.reason = ""};
	int r;

	(void)setlocale(LC_CTYPE, "");
	r = parse_options(&ctl, argc, argv);
	if (r < 0)
		return CTL_USAGE;
	if (r == 2) {
		printf("cudaenvctl %s\n", PACKAGE_VERSION);
		return ctl_finish(CTL_GOOD);
	}
	if (r == 1)
		return help();
	if (optind >= argc)
		return ctl_error(CTL_USAGE, "no verb given; see cudaenvctl --help");
	ctl.verb = verb_find(argv[optind]);
	if (!ctl.verb)
		return unknown_verb(argv[optind]);
	return run_verb(&ctl, argc - optind, argv + optind);
}
