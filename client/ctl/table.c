/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/table.h"

#include <stdarg.h>

#include "client/ctl/text.h"
#include "common/util.h"

void table_init(struct table *t, const char *const *headers)
{
	*t = (struct table){0};
	for (size_t i = 0; i < TABLE_COLUMNS_MAX && headers[i]; i++)
		t->headers[t->n_columns++] = headers[i];
}

void table_cell(struct table *t, const char *text)
{
	char **cells, *cell;

	cell = text ? text_escape(text, strlen(text)) : strdup("-");
	cells = cell ? realloc(t->cells, (t->n_cells + 1) * sizeof *cells) : NULL;
	if (!cells) {
		free(cell);
		t->failed = true;
		return;
	}
	t->cells = cells;
	t->cells[t->n_cells++] = cell;
}

void table_cell_format(struct table *t, const char *format, ...)
{
	_cleanup_(freep) char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0) {
		text = NULL;
		t->failed = true;
	}
	va_end(ap);
	table_cell(t, text ? text : "");
}

static void print_row(const struct table *t, FILE *f, char *const *cells, const size_t *widths)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		bool last = i + 1 == t->n_columns;

		fputs(cells[i], f);
		if (last)
			fputc('\n', f);
		else if (!widths)
			fputc('\t', f);
		else
			fprintf(f, "%*s", (int)(widths[i] - text_width(cells[i]) + 2), "");
	}
}

int table_print(const struct table *t, FILE *f, bool terminal)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0};

	if (t->failed)
		return -ENOMEM;
	if (t->n_columns == 0 || t->n_cells == 0)
		return 0;
	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = text_width(t->headers[i]);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t width = text_width(t->cells[i]);

		if (width > widths[i % t->n_columns])
			widths[i % t->n_columns] = width;
	}
	if (terminal && t->headers[0][0]) {
		fputs(colour_begin(COLOUR_HEAD), f);
		print_row(t, f, (char *const *)t->headers, widths);
		fputs(colour_end(), f);
	}
	for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns)
		print_row(t, f, t->cells + i, terminal ? widths : NULL);
	return 0;
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){0};
}

bool ctl_terminal(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

static bool colours(void)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

	return ctl_terminal() && term && !streq(term, "dumb") && !(no && no[0]);
}

const char *colour_begin(enum colour colour)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "",          [COLOUR_GOOD] = "\033[32m", [COLOUR_WARN] = "\033[33m",
		[COLOUR_BAD] = "\033[1;31m", [COLOUR_HEAD] = "\033[1m",
	};

	return colours() ? codes[colour] : "";
}

const char *colour_end(void)
{
	return colours() ? "\033[0m" : "";
}

void print_escaped(const char *text)
{
	_cleanup_(freep) char *escaped = text_escape(text, strlen(text));

	fputs(escaped ? escaped : "?", stdout);
}
