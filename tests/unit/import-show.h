/* SPDX-License-Identifier: MIT */
#pragma once

/* What a reader made of a text, as one string: a line "LINE STATE NAME=VALUE" for each variable, a
 * line "LINE? NAME: reason" for each note. */

#include "client/ctl/import.h"
#include "common/util.h"
#include "tests/unit/test.h"

static inline const char *import_show_bytes(enum import_kind kind, const char *text, size_t size)
{
	static const char *const states[] = {[IMPORT_UNKNOWN] = "unknown",
					     [IMPORT_DEFAULT] = "default",
					     [IMPORT_FORCE] = "force",
					     [IMPORT_UNSET] = "unset"};
	static char shown[65536];
	struct import im = {0};
	FILE *f = fmemopen(shown, sizeof shown, "w");
	int r;

	check(f);
	shown[0] = '\0';
	check(import_begin_file(&im, "F") == 0);
	r = import_read(&im, kind, text, size);
	check(r == 0 || r == -EBADMSG);
	for (size_t i = 0; i < im.n_items; i++)
		if (im.items[i].file)
			fprintf(f, "%u %s %s=%s\n", im.items[i].line, states[im.items[i].state],
				im.items[i].name, im.items[i].value);
	for (size_t i = 0; i < im.n_notes; i++)
		fprintf(f, "%u? %s: %s\n", im.notes[i].line,
			im.notes[i].name ? im.notes[i].name : "-", im.notes[i].reason);
	if (r == -EBADMSG)
		fputs("broken\n", f);
	check(fclose(f) == 0);
	import_done(&im);
	return shown;
}

static inline const char *import_show(enum import_kind kind, const char *text)
{
	return import_show_bytes(kind, text, strlen(text));
}
