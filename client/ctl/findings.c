/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/findings.h"

#include "client/ctl/ctl.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"

static struct json_object *json_position(unsigned n)
{
	return n > 0 ? json_object_new_int64(n) : NULL;
}

struct json_object *finding_json(const struct finding *f, const char *file)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "file", json_text(file));
	json_object_object_add(o, "line", json_position(f->line));
	json_object_object_add(o, "column", json_position(f->column));
	json_object_object_add(o, "severity", json_text(finding_severity_name(f->severity)));
	json_object_object_add(o, "rule", json_text(f->rule));
	json_object_object_add(o, "variable", json_text(f->variable));
	json_object_object_add(o, "message", json_text(f->message));
	json_object_object_add(o, "fix", json_text(f->fix));
	return o;
}

struct json_object *findings_json(const struct findings *all)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < all->n; i++)
		json_object_array_add(list, finding_json(&all->items[i], NULL));
	return list;
}

void finding_print(const struct finding *f, const char *file)
{
	static const enum colour colours[] = {
		[FINDING_ERROR] = COLOUR_BAD,
		[FINDING_WARNING] = COLOUR_WARN,
		[FINDING_ADVICE] = COLOUR_NONE,
	};

	print_escaped(file);
	if (f->line > 0)
		printf(":%u", f->line);
	if (f->line > 0 && f->column > 0)
		printf(":%u", f->column);
	printf(": %s%s:%s ", colour_begin(colours[f->severity]), finding_severity_name(f->severity),
	       colour_end());
	print_escaped(f->message);
	printf("\n");
	if (f->fix) {
		printf("  fix: ");
		print_escaped(f->fix);
		printf("\n");
	}
}

void findings_warn(const struct findings *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct finding *f = &all->items[i];

		(void)ctl_error(CTL_GOOD, "%s: %s%s%s", finding_severity_name(f->severity),
				f->message, f->fix ? ": " : "", f->fix ? f->fix : "");
	}
}
