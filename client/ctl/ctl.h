/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The frame of cudaenvctl: one struct verb for each command, its options as a table, and what all
 * commands share (--json, --help, --user, --dry-run, --reason, exit status, error lines). A verb's
 * file defines its struct verb; ctl.c lists them, parses the options, checks the number of
 * arguments, prints help and calls run().
 *
 * Answers go to stdout, everything else to stderr; with --json stdout holds one JSON document or
 * nothing.
 */

#include <stdbool.h>
#include <stddef.h>

#include "common/paths.h"

#define CTL_FACTS FACTSDIR "/must-match"

enum ctl_status {
	CTL_GOOD = 0,
	CTL_BAD_NEWS = 1, /* the answer itself: errors found, not running, refused */
	CTL_USAGE = 2,
	CTL_FAILED = 3, /* the system failed: no answer could be had */
};

struct json_object;

struct ctl {
	const struct verb *verb;
	bool user; /* --user */
	bool json;
	bool dry_run;       /* only verbs with VERB_CHANGES or VERB_DRY_RUN */
	const char *reason; /* "" without --reason */
	bool help;          /* --help */
	bool version;       /* --version */
	bool have_paths;
	struct paths paths; /* through ctl_paths() */
};

#define CTL_OPTIONS_MAX 32

/* An option of one verb. Exactly one of flag and value is set; they are the verb file's own arg_
 * variables. */
struct ctl_option {
	const char *name;     /* long name without its dashes; NULL ends the table */
	char letter;          /* 0: none */
	const char *argument; /* placeholder in the help, or "a|b|c"; NULL: takes none */
	const char *help;
	bool *flag;
	const char **value;
};

enum {
	VERB_CHANGES = 1u << 0, /* takes --dry-run and --reason */
	VERB_COMMAND = 1u << 1, /* options end at the first argument: the rest is a command line */
	VERB_DRY_RUN = 1u << 2, /* takes --dry-run alone: no history is kept of it */
	VERB_FILES = 1u << 3,   /* its profiles are files: what is published alone is not meant */
	VERB_BROKEN = 1u << 4,  /* its profiles may have errors */
};

struct verb {
	const char *name;
	const char *arguments; /* "[PROFILE|FILE...]", "" */
	const char *summary;   /* one line */
	const char *help;      /* more lines, NULL */
	unsigned flags;
	int min_arguments;
	int max_arguments;                /* -1: any number */
	const struct ctl_option *options; /* NULL: none of its own */
	/* ARGV holds the ARGC arguments that are no options, without the verb. Returns an enum
	 * ctl_status (exec: or the exit status of env(1)). */
	int (*run)(struct ctl *ctl, int argc, char *argv[]);
};

extern const struct verb verb_status, verb_list, verb_show, verb_diff, verb_check, verb_on,
	verb_observe, verb_off, verb_use, verb_set, verb_rollback, verb_history, verb_workers,
	verb_exec, verb_export, verb_import, verb_python, verb_help, verb_complete, verb_why,
	verb_release, verb_doctor;

/* The verbs in the order of --help; NULL after the last. */
const struct verb *ctl_verb(size_t i);
/* Every option that VERB takes, its own first (NULL: those before any verb), pointing into CTL. One
 * of its own stands in place of the frame's of that name (--user=USER: the frame's --user is then
 * given before the verb). Returns their number. */
size_t ctl_options(struct ctl *ctl, const struct verb *verb,
		   struct ctl_option ret[CTL_OPTIONS_MAX]);

/* main(), for tests as well. */
int ctl_main(int argc, char *argv[]);

/* Where the pieces are, found once; NULL after an error line. */
const struct paths *ctl_paths(struct ctl *ctl);

/* Prints "cudaenvctl: text" to stderr, escaped, and returns STATUS: `return ctl_error(CTL_FAILED,
 * ...)`. */
int ctl_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same without a status, for what is worth saying beside an answer. */
void ctl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes stdout; STATUS, or CTL_FAILED when the answer could not be written (a full disk). */
int ctl_finish(int status);
