/* SPDX-License-Identifier: MIT */
#include "common/finding.h"

#include <stdarg.h>

#include "common/util.h"

const char *finding_severity_name(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_ERROR:
		return "error";
	case FINDING_WARNING:
		return "warning";
	case FINDING_ADVICE:
		break;
	}
	return "advice";
}

static void finding_done(struct finding *f)
{
	free(f->variable);
	free(f->message);
	free(f->fix);
}

static void findings_count(struct findings *f, enum finding_severity severity)
{
	if (severity == FINDING_ERROR)
		f->errors++;
	else if (severity == FINDING_WARNING)
		f->warnings++;
	else
		f->advices++;
}

/* Room for one more; grows by doubling, so that the capacity follows from the count. */
static int findings_grow(struct findings *f)
{
	struct finding *items;

	if (f->n >= 8 && (f->n & (f->n - 1)) != 0)
		return 0;
	if (f->n > 0 && f->n < 8)
		return 0;
	items = reallocarray(f->items, f->n == 0 ? 8 : f->n * 2, sizeof *items);
	if (!items)
		return -ENOMEM;
	f->items = items;
	return 0;
}

int findings_add(struct findings *f, enum finding_severity severity, unsigned line, unsigned column,
		 const char *rule, const char *variable, const char *fix, const char *format, ...)
{
	struct finding item = {.severity = severity, .line = line, .column = column, .rule = rule};
	va_list ap;
	int r;

	if (f->n > FINDINGS_MAX) {
		findings_count(f, severity);
		return 0;
	}
	r = findings_grow(f);
	if (r < 0)
		return r;
	if (f->n == FINDINGS_MAX) {
		item = (struct finding){.severity = FINDING_ADVICE, .rule = "too-many-findings"};
		item.message = strdup("there are more findings than are shown");
		variable = NULL;
		fix = "mend the first ones, then check again";
	} else {
		va_start(ap, format);
		if (vasprintf(&item.message, format, ap) < 0)
			item.message = NULL;
		va_end(ap);
	}
	item.variable = variable ? strdup(variable) : NULL;
	item.fix = fix ? strdup(fix) : NULL;
	if (!item.message || (variable && !item.variable) || (fix && !item.fix)) {
		finding_done(&item);
		return -ENOMEM;
	}
	findings_count(f, severity);
	f->items[f->n++] = item;
	return 0;
}

static int finding_compare(const struct finding *a, const struct finding *b)
{
	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	if (a->column != b->column)
		return a->column < b->column ? -1 : 1;
	return 0;
}

void findings_sort(struct findings *f)
{
	/* Insertion: at most FINDINGS_MAX, mostly in order already, and stable. */
	for (size_t i = 1; i < f->n; i++) {
		struct finding item = f->items[i];
		size_t j = i;

		while (j > 0 && finding_compare(&f->items[j - 1], &item) > 0) {
			f->items[j] = f->items[j - 1];
			j--;
		}
		f->items[j] = item;
	}
}

void findings_done(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		finding_done(&f->items[i]);
	free(f->items);
	*f = (struct findings){0};
}

int finding_format(const struct finding *f, const char *file, char **ret)
{
	char place[32] = "";
	char *text;

	if (f->line > 0 && f->column > 0)
		(void)snprintf(place, sizeof place, "%u:%u:", f->line, f->column);
	else if (f->line > 0)
		(void)snprintf(place, sizeof place, "%u:", f->line);
	if (asprintf(&text, "%s:%s %s: %s%s%s", file, place, finding_severity_name(f->severity),
		     f->message, f->fix ? ": " : "", f->fix ? f->fix : "") < 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}
