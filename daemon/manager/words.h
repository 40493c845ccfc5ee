/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A growing list of owned strings: the lists in cudaenvd.conf, and the complaints that a module
 * which does not log hands to one that does.
 */

#include <stdbool.h>
#include <stddef.h>

struct words {
	char **items;
	size_t n;
};

void words_done(struct words *w);
/* Appends a copy. 0 or -ENOMEM. */
int words_add(struct words *w, const char *word);
/* Appends what printf would print. 0 or -ENOMEM. */
int words_addf(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool words_contain(const struct words *w, const char *word);

/* Blank-separated words of TEXT join the list (each once); "!WORD" takes one out, "!*" all. 0 or
 * -ENOMEM. */
int words_merge(struct words *w, const char *text);
