/* SPDX-License-Identifier: MIT */
/* What cudaenvctl reads from processes and files that are not its own: command lines, maps,
 * published text, JSON. */
#include "config.h"

#include <stdint.h>

#include "client/ctl/duration.h"
#include "client/ctl/holders.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/off.h"
#include "client/ctl/started.h"
#include "client/ctl/text.h"
#include "common/scope.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a duration is can be said, and what a unit is. */
static void read_target(const char *text)
{
	_cleanup_(freep) char *fault = NULL, *scope = NULL;
	char said[DURATION_SIZE];
	struct scope s;
	uint64_t n;

	if (duration_parse(text, &n) == 0) {
		if (n == 0 || n > DURATION_MAX)
			abort();
		duration_format((int64_t)n, said);
		if (duration_parse(said, &n) < 0)
			abort();
	}
	if (asprintf(&scope, "unit %s", text) < 0) {
		scope = NULL;
		return;
	}
	if (scope_parse(scope, &s, &fault) == 0 && !scope_unit_valid(s.name))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = strndup((const char *)data, size), *rewritten = NULL;
	_cleanup_(freep) char *escaped = text_escape((const char *)data, size), *again = NULL;
	_cleanup_(json_putp) struct json_object *o = NULL;

	if (!text || !escaped)
		return 0;
	(void)started_classify((const char *)data, size);
	(void)holders_maps_line(text);
	read_target(text);
	(void)text_width(escaped);
	/* What has been escaped holds nothing more to escape. */
	again = text_escape(escaped, strlen(escaped));
	if (again && !streq(escaped, again))
		abort();
	rewritten = off_rewrite(text, 7);
	if (rewritten && !strstr(rewritten, "mode off"))
		abort();
	o = json_parse(text, strlen(text));
	(void)json_string(o, "mode");
	return 0;
}
