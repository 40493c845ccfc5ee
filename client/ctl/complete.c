/* SPDX-License-Identifier: MIT */
/*
 * The hidden verb __complete, which the shells' completions call: the words after cudaenvctl, the
 * last of them the one under the cursor, maybe empty. It answers from the tables that the program
 * itself works by, so that no completion can fall behind: verbs, options, what an option or
 * argument takes as its placeholder says (PROFILE, FILE, DIR, EXE, VERB, JOB, PID, COMMAND, a|b|c).
 * One line each:
 *
 *   WORD<TAB>DESCRIPTION     may stand in place of the last word
 *   :file  :directory        so may names of files, of directories (behind --option= as well)
 *   :command N               from the word of this number on it is a command line of its own
 *
 * It never fails and never asks a daemon.
 */
#include "config.h"

#include "client/ctl/jsonutil.h"
#include "client/ctl/published.h"
#include "client/ctl/text.h"
#include "client/ctl/workers.h"
#include "common/profile.h"
#include "common/util.h"

struct line {
	struct ctl *ctl;
	const struct verb *verb; /* NULL: not yet */
	struct ctl_option options[CTL_OPTIONS_MAX];
	size_t n_options;
	const struct ctl_option *pending; /* the last word is its argument */
	const char *word;                 /* the last one */
	int arguments;                    /* before it, without the verb */
	int command;                      /* number of the word where a command begins, -1 */
	bool only_arguments;              /* after -- */
};

static void put(const struct line *l, const char *prefix, const char *word, size_t n,
		const char *suffix, const char *description)
{
	size_t prefix_size = strlen(prefix);
	_cleanup_(freep) char *escaped = NULL;

	if (strncmp(l->word, prefix, prefix_size) != 0 ||
	    strncmp(l->word + prefix_size, word, strnlen(l->word + prefix_size, n)) != 0 ||
	    strlen(l->word + prefix_size) > n + strlen(suffix))
		return;
	escaped = description ? text_escape(description, strlen(description)) : NULL;
	printf("%s%.*s%s\t%s\n", prefix, (int)n, word, suffix, escaped ? escaped : "");
}

static void put_word(const struct line *l, const char *prefix, const char *word,
		     const char *description)
{
	put(l, prefix, word, strlen(word), "", description);
}

static void put_verbs(const struct line *l)
{
	for (size_t i = 0; ctl_verb(i); i++)
		put_word(l, "", ctl_verb(i)->name, ctl_verb(i)->summary);
}

static void put_options(const struct line *l)
{
	for (size_t i = 0; i < l->n_options; i++) {
		const struct ctl_option *o = &l->options[i];
		const char letter[] = {'-', o->letter, '\0'};
		_cleanup_(freep) char *name = NULL;

		if (o->letter && !startswith(l->word, "--"))
			put_word(l, "", letter, o->help);
		if (asprintf(&name, "--%s", o->name) < 0)
			name = NULL;
		if (name)
			put(l, "", name, strlen(name), o->argument ? "=" : "", o->help);
	}
}

static bool is_published(struct json_object *published, const char *name)
{
	for (size_t i = 0; published && i < json_object_array_length(published); i++) {
		const char *s = json_string(json_object_array_get_idx(published, i), "name");

		if (s && streq(s, name))
			return true;
	}
	return false;
}

/* Those whose file has errors for verbs that speak of errors, and for those that go by what is
 * published where a version of it is. */
static void put_files(const struct line *l, const char *prefix, const struct profile_set *set,
		      struct json_object *published)
{
	unsigned flags = l->verb ? l->verb->flags : 0;

	for (size_t i = 0; i < set->n_profiles; i++) {
		const struct profile *p = set->profiles[i];

		if (p->valid || flags & VERB_BROKEN ||
		    (!(flags & VERB_FILES) && is_published(published, p->name)))
			put_word(l, prefix, p->name, p->valid ? p->description : "has errors");
	}
}

static void put_gone(const struct line *l, const char *prefix, const struct profile_set *set,
		     struct json_object *published)
{
	if (l->verb && l->verb->flags & VERB_FILES)
		return;
	for (size_t i = 0; published && i < json_object_array_length(published); i++) {
		const char *name = json_string(json_object_array_get_idx(published, i), "name");

		if (name && snapshot_label_valid(name, strlen(name)) &&
		    !profile_set_find(set, name))
			put_word(l, prefix, name, "its file is gone");
	}
}

/* Files that are profiles, and published ones whose file is gone, as far as the verb can use them.
 */
static void put_profiles(const struct line *l, const char *prefix)
{
	_cleanup_(profile_set_done) struct profile_set set = {0};
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	struct ctl *ctl = l->ctl;
	const struct paths *paths = &ctl->paths;
	struct json_object *published = NULL;

	/* Not ctl_paths(), which complains. */
	if (!ctl->have_paths && paths_find(ctl->user, &ctl->paths) < 0)
		return;
	ctl->have_paths = true;
	(void)profile_set_load((const char *const *)paths->profiles, NULL, &set);
	if (published_open(paths->runtime, &p) == 0)
		published = json_array(p.status, "profiles");
	put_files(l, prefix, &set, published);
	put_gone(l, prefix, &set, published);
}

/* Jobs by their names, or their processes by number. */
static void put_workers(const struct line *l, const char *prefix, bool jobs)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(workers_done) struct workers w = {0};
	struct ctl *ctl = l->ctl;

	if (!ctl->have_paths && paths_find(ctl->user, &ctl->paths) < 0)
		return;
	ctl->have_paths = true;
	if (published_open(ctl->paths.runtime, &p) < 0 ||
	    workers_collect(&p, geteuid() == 0 ? WORKERS_EVERYONE : geteuid(), &w) < 0)
		return;
	for (size_t i = 0; jobs && i < w.n_jobs; i++)
		put_word(l, prefix, w.jobs[i].key, workers_job_unit(&w, &w.jobs[i]));
	for (size_t i = 0; !jobs && i < w.n; i++) {
		char pid[16];

		(void)snprintf(pid, sizeof pid, "%d", (int)w.items[i].pid);
		put_word(l, prefix, pid, w.items[i].exe);
	}
}

/* "a|b|c" in small letters: these words themselves. */
static bool are_words(const char *placeholder)
{
	return strchr(placeholder, '|') &&
	       placeholder[strspn(placeholder, "abcdefghijklmnopqrstuvwxyz0123456789-|")] == '\0';
}

static void put_words(const struct line *l, const char *prefix, const char *words)
{
	for (size_t n; *words; words += n + (words[n] == '|')) {
		n = strcspn(words, "|");
		put(l, prefix, words, n, "", NULL);
	}
}

/* Does the capital word NAME stand in PLACEHOLDER? */
static bool names(const char *placeholder, const char *name)
{
	for (const char *p = placeholder; (p = strstr(p, name)); p++) {
		char before = p > placeholder ? p[-1] : ' ', after = p[strlen(name)];

		if (!(before >= 'A' && before <= 'Z') && !(after >= 'A' && after <= 'Z'))
			return true;
	}
	return false;
}

static void put_taken(const struct line *l, const char *prefix, const char *placeholder)
{
	if (are_words(placeholder))
		put_words(l, prefix, placeholder);
	if (names(placeholder, "PROFILE"))
		put_profiles(l, prefix);
	if (names(placeholder, "VERB"))
		put_verbs(l);
	if (names(placeholder, "JOB"))
		put_workers(l, prefix, true);
	if (names(placeholder, "PID") && l->arguments == 0)
		put_workers(l, prefix, false);
	if (names(placeholder, "FILE") || names(placeholder, "EXE"))
		puts(":file");
	if (names(placeholder, "DIR"))
		puts(":directory");
}

static const struct ctl_option *find_option(const struct line *l, const char *name, size_t n)
{
	for (size_t i = 0; i < l->n_options; i++)
		if (strlen(l->options[i].name) == n && strncmp(l->options[i].name, name, n) == 0)
			return &l->options[i];
	return NULL;
}

/* The option whose argument is the word after WORD, if it is one. */
static const struct ctl_option *takes_next(const struct line *l, const char *word)
{
	const struct ctl_option *o = NULL;

	if (startswith(word, "--"))
		return strchr(word, '=') || !(o = find_option(l, word + 2, strlen(word + 2))) ||
				       !o->argument
			       ? NULL
			       : o;
	for (size_t i = 0; i < l->n_options; i++)
		if (l->options[i].letter == word[1] && word[2] == '\0' && l->options[i].argument)
			o = &l->options[i];
	return o;
}

static void read_word(struct line *l, int i, const char *word)
{
	if (l->pending) {
		l->pending = NULL;
	} else if (!l->only_arguments && streq(word, "--")) {
		l->only_arguments = true;
		if (l->verb && l->verb->flags & VERB_COMMAND)
			l->command = i + 1;
	} else if (!l->only_arguments && word[0] == '-' && word[1]) {
		l->pending = takes_next(l, word);
		l->ctl->user = l->ctl->user || (!l->pending && streq(word, "--user"));
	} else if (!l->verb) {
		for (size_t v = 0; ctl_verb(v); v++)
			if (streq(ctl_verb(v)->name, word))
				l->verb = ctl_verb(v);
		l->n_options = ctl_options(l->ctl, l->verb, l->options);
		l->arguments -= !l->verb; /* no verb of ours: nothing is offered after it */
	} else {
		if (l->verb->flags & VERB_COMMAND)
			l->command = i;
		l->arguments++;
	}
}

static void answer(const struct line *l)
{
	const struct verb *verb = l->verb;
	const char *equals = strchr(l->word, '=');

	if (l->pending) {
		put_taken(l, "", l->pending->argument);
	} else if (startswith(l->word, "--") && equals && !l->only_arguments) {
		size_t n = (size_t)(equals - l->word);
		const struct ctl_option *o = find_option(l, l->word + 2, n - 2);
		_cleanup_(freep) char *prefix = strndup(l->word, n + 1);

		if (prefix && o && o->argument)
			put_taken(l, prefix, o->argument);
	} else if (l->word[0] == '-' && !l->only_arguments) {
		put_options(l);
	} else if (!verb) {
		if (l->arguments == 0)
			put_verbs(l);
	} else if (verb->max_arguments < 0 || l->arguments < verb->max_arguments) {
		put_taken(l, "", verb->arguments);
	}
}

static int run_complete(struct ctl *ctl, int argc, char *argv[])
{
	struct line l = {.ctl = ctl, .command = -1, .word = argv[argc - 1]};

	l.n_options = ctl_options(ctl, NULL, l.options);
	for (int i = 0; i < argc - 1 && l.command < 0; i++)
		read_word(&l, i, argv[i]);
	if (l.command < 0 && l.verb && l.verb->flags & VERB_COMMAND && !l.pending &&
	    (l.only_arguments || l.word[0] != '-'))
		l.command = argc - 1;
	if (l.command >= 0)
		printf(":command %d\n", l.command);
	else
		answer(&l);
	return CTL_GOOD;
}

const struct verb verb_complete = {
	.name = "__complete",
	.arguments = "[--] WORD...",
	.summary = "What may stand in place of the last word, for the shells' completions.",
	.flags = VERB_COMMAND,
	.min_arguments = 1,
	.max_arguments = -1,
	.run = run_complete,
};
