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

#include "client/ctl/examples.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/text.h"
#include "common/near.h"
#include "common/util.h"

static const struct verb *const verbs[] = {
	&verb_status,  &verb_list,   &verb_show,    &verb_diff, &verb_check,    &verb_on,
	&verb_observe, &verb_off,    &verb_use,     &verb_set,  &verb_rollback, &verb_history,
	&verb_workers, &verb_why,    &verb_release, &verb_exec, &verb_export,   &verb_import,
	&verb_python,  &verb_doctor, &verb_help,
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

static bool has_option(const struct ctl_option *options, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (streq(options[i].name, name))
			return true;
	return false;
}

size_t ctl_options(struct ctl *ctl, const struct verb *verb, struct ctl_option ret[CTL_OPTIONS_MAX])
{
	const struct ctl_option
		dry_run = {.name = "dry-run",
			   .help = "say what would change, change nothing",
			   .flag = &ctl->dry_run},
		reason = {.name = "reason",
			  .argument = "TEXT",
			  .help = "kept in the history with the change",
			  .value = &ctl->reason},
		version = {.name = "version", .help = "the version", .flag = &ctl->version},
		all[] = {
			{.name = "user",
			 .help = "your own cudaenvd, not the system's",
			 .flag = &ctl->user},
			{.name = "json", .help = "one JSON document on stdout", .flag = &ctl->json},
			{.name = "help", .letter = 'h', .help = "this text", .flag = &ctl->help}};
	const struct ctl_option *own = verb ? verb->options : NULL;
	unsigned flags = verb ? verb->flags : 0;
	size_t n = 0;

	while (own && own->name && n + ARRAY_SIZE(all) + 2 < CTL_OPTIONS_MAX)
		ret[n++] = *own++;
	if (flags & (VERB_CHANGES | VERB_DRY_RUN))
		ret[n++] = dry_run;
	if (flags & VERB_CHANGES)
		ret[n++] = reason;
	/* A verb's own --user is a user's name: ours then stands before the verb. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!has_option(ret, n, all[i].name))
			ret[n++] = all[i];
	if (!verb)
		ret[n++] = version;
	return n;
}

static void help_options(struct ctl *ctl, const struct verb *verb)
{
	struct ctl_option options[CTL_OPTIONS_MAX];
	size_t n = ctl_options(ctl, verb, options);

	for (size_t i = 0; i < n; i++) {
		const struct ctl_option *o = &options[i];
		char left[64], letter[] = {'-', o->letter, ',', ' ', '\0'};

		(void)snprintf(left, sizeof left, "%s--%s%s%s", o->letter ? letter : "    ",
			       o->name, o->argument ? "=" : "", o->argument ? o->argument : "");
		printf("  %-24s %s\n", left, o->help);
	}
}

static void help_examples(const struct verb *verb)
{
	const char *example = ctl_example(verb->name, 0);

	if (example)
		printf("\nExamples:\n");
	for (size_t i = 1; example; example = ctl_example(verb->name, i++))
		printf("  %s\n", example);
}

static int help_verb(struct ctl *ctl, const struct verb *verb)
{
	printf("Usage: cudaenvctl %s [OPTION...]%s%s\n\n%s\n", verb->name,
	       verb->arguments[0] ? " " : "", verb->arguments, verb->summary);
	if (verb->help)
		printf("\n%s\n", verb->help);
	printf("\nOptions:\n");
	help_options(ctl, verb);
	printf("\nExit status: 0 good, 1 the answer is bad news, 2 wrong usage, 3 the system "
	       "failed.\n");
	help_examples(verb);
	return ctl_finish(CTL_GOOD);
}

static int help(struct ctl *ctl)
{
	printf("Usage: cudaenvctl [OPTION...] VERB [ARGUMENT...]\n\n"
	       "The CUDA and NCCL environment of this node's processes.\n\nVerbs:\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		printf("  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
	printf("\nOptions:\n");
	help_options(ctl, NULL);
	printf("\n`cudaenvctl VERB --help` tells more.\n");
	return ctl_finish(CTL_GOOD);
}

const struct verb *ctl_verb(size_t i)
{
	return i < ARRAY_SIZE(verbs) ? verbs[i] : NULL;
}

static const struct verb *verb_find(const char *name)
{
	/* Not for people, so in no list. */
	if (streq(name, verb_complete.name))
		return &verb_complete;
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

static struct json_object *option_json(const struct ctl_option *option)
{
	const char letter[] = {option->letter, '\0'};
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "name", json_text(option->name));
	json_object_object_add(o, "letter", json_text(option->letter ? letter : NULL));
	json_object_object_add(o, "argument", json_text(option->argument));
	json_object_object_add(o, "help", json_text(option->help));
	return o;
}

static struct json_object *examples_json(const struct verb *verb)
{
	struct json_object *list = json_object_new_array();
	const char *example;

	for (size_t i = 0; (example = ctl_example(verb->name, i)); i++)
		json_object_array_add(list, json_text(example));
	return list;
}

/* VERB NULL: what stands before any verb. */
static struct json_object *verb_json(struct ctl *ctl, const struct verb *verb)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	struct ctl_option options[CTL_OPTIONS_MAX];
	size_t n = ctl_options(ctl, verb, options);

	if (verb) {
		json_object_object_add(o, "name", json_text(verb->name));
		json_object_object_add(o, "arguments", json_text(verb->arguments));
		json_object_object_add(o, "summary", json_text(verb->summary));
		json_object_object_add(o, "help", json_text(verb->help));
		json_object_object_add(o, "examples", examples_json(verb));
	}
	json_object_object_add(o, "options", list);
	for (size_t i = 0; i < n; i++)
		json_object_array_add(list, option_json(&options[i]));
	return o;
}

/* The tables that this program works by, so that nothing else need keep a list of them. */
static void help_json(struct ctl *ctl, const struct verb *only)
{
	_cleanup_(json_putp) struct json_object *o = verb_json(ctl, NULL);
	struct json_object *list = json_object_new_array();

	json_object_object_add(o, "version", json_text(PACKAGE_VERSION));
	json_object_object_add(o, "verbs", list);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!only || verbs[i] == only)
			json_object_array_add(list, verb_json(ctl, verbs[i]));
	json_print(o);
}

static int run_help(struct ctl *ctl, int argc, char *argv[])
{
	const struct verb *verb = argc > 0 ? verb_find(argv[0]) : NULL;

	if (argc > 0 && !verb)
		return unknown_verb(argv[0]);
	if (!ctl->json)
		return verb ? help_verb(ctl, verb) : help(ctl);
	help_json(ctl, verb);
	return CTL_GOOD;
}

const struct verb verb_help = {
	.name = "help",
	.arguments = "[VERB]",
	.summary = "The text of --help, of a verb or of all.",
	.max_arguments = 1,
	.run = run_help,
};

#define OPTION_CODE 256 /* of the first option, without regard to its letter */

/* What getopt_long() is given. */
struct option_table {
	struct ctl_option own[CTL_OPTIONS_MAX];
	struct option options[CTL_OPTIONS_MAX + 1];
	char letters[2 * CTL_OPTIONS_MAX + 4];
	size_t n;
};

/* RET is all zeros. */
static void option_table(struct ctl *ctl, struct option_table *ret)
{
	const struct verb *verb = ctl->verb;
	char *letters = ret->letters;

	if (!verb || verb->flags & VERB_COMMAND)
		*letters++ = '+';
	*letters++ = ':';
	ret->n = ctl_options(ctl, verb, ret->own);
	for (size_t i = 0; i < ret->n; i++) {
		const struct ctl_option *o = &ret->own[i];

		ret->options[i] =
			(struct option){o->name, o->argument ? required_argument : no_argument,
					NULL, OPTION_CODE + (int)i};
		if (o->letter)
			*letters++ = o->letter;
		if (o->letter && o->argument)
			*letters++ = ':';
	}
}

/* CODE: what getopt_long() returned. */
static int option_take(const struct option_table *table, int code)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct ctl_option *o = &table->own[i];

		if (code != OPTION_CODE + (int)i &&
		    (!o->letter || code != (unsigned char)o->letter))
			continue;
		if (o->flag)
			*o->flag = true;
		else
			*o->value = optarg;
		return 0;
	}
	return -EINVAL;
}

/* GIVEN: as it was written, maybe with =VALUE. CODE: ':' where the argument is missing. */
static int wrong_option(const struct verb *verb, const struct option_table *table,
			const char *given, int code)
{
	const char *names[CTL_OPTIONS_MAX], *near = NULL;
	_cleanup_(freep) char *name = NULL;

	for (size_t i = 0; i < table->n; i++)
		names[i] = table->options[i].name;
	if (code != ':' && startswith(given, "--"))
		name = strndup(given + 2, strcspn(given + 2, "="));
	if (name)
		near = near_match(name, names, table->n);
	return ctl_error(-EINVAL, "%s '%s'%s%s%s; see cudaenvctl %s%s--help",
			 code == ':' ? "no argument for" : "unknown option", given,
			 near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "",
			 verb ? verb->name : "", verb ? " " : "");
}

/* 0, or -EINVAL after an error line. */
static int parse_options(struct ctl *ctl, int argc, char *argv[])
{
	struct option_table table = {0};
	int code;

	option_table(ctl, &table);
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while ((code = getopt_long(argc, argv, table.letters, table.options, NULL)) >= 0)
		if (option_take(&table, code) < 0)
			return wrong_option(ctl->verb, &table, argv[optind - 1], code);
	return 0;
}

static int run_verb(struct ctl *ctl, int argc, char *argv[])
{
	const struct verb *verb = ctl->verb;
	int r;

	r = parse_options(ctl, argc, argv);
	if (r < 0)
		return CTL_USAGE;
	if (ctl->help)
		return help_verb(ctl, verb);
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
	if (ctl.version) {
		printf("cudaenvctl %s\n", PACKAGE_VERSION);
		return ctl_finish(CTL_GOOD);
	}
	if (ctl.help)
		return help(&ctl);
	if (optind >= argc)
		return ctl_error(CTL_USAGE, "no verb given; see cudaenvctl --help");
	ctl.verb = verb_find(argv[optind]);
	if (!ctl.verb)
		return unknown_verb(argv[optind]);
	return run_verb(&ctl, argc - optind, argv + optind);
}
