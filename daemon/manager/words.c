/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <stdarg.h>

#include "common/util.h"
#include "daemon/manager/words.h"

void words_done(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->items[i]);
	free(w->items);
	*w = (struct words){0};
}

static int words_take(struct words *w, char *word)
{
	char **items = reallocarray(w->items, w->n + 1, sizeof(*items));

	if (!items) {
		free(word);
		return -ENOMEM;
	}
	w->items = items;
	w->items[w->n++] = word;
	return 0;
}

int words_add(struct words *w, const char *word)
{
	char *copy = strdup(word);

	return copy ? words_take(w, copy) : -ENOMEM;
}

int words_addf(struct words *w, const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : words_take(w, text);
}

bool words_contain(const struct words *w, const char *word)
{
	for (size_t i = 0; i < w->n; i++)
		if (streq(w->items[i], word))
			return true;
	return false;
}

static void words_remove(struct words *w, const char *word)
{
	for (size_t i = 0; i < w->n; i++)
		if (streq(w->items[i], word)) {
			free(w->items[i]);
			memmove(w->items + i, w->items + i + 1, (w->n - i - 1) * sizeof(*w->items));
			w->n--;
			return;
		}
}

int words_merge(struct words *w, const char *text)
{
	_cleanup_(freep) char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *word = strtok_r(copy, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (streq(word, "!*"))
			words_done(w);
		else if (word[0] == '!')
			words_remove(w, word + 1);
		else if (!words_contain(w, word) && words_add(w, word) < 0)
			return -ENOMEM;
	}
	return 0;
}
