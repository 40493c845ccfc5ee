/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/override.h"

#include <time.h>

#include "client/ctl/duration.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/util.h"

static int find_scope(const struct override_options *options, struct target *ret)
{
	_cleanup_(freep) char *fault = NULL, *text = NULL;
	const char *name = options->unit ? options->unit : options->user;
	int r;

	if (options->unit && options->user)
		return ctl_error(CTL_USAGE, "either --unit or --user, not both");
	if (!name)
		return CTL_GOOD;
	if (asprintf(&text, "%s %s", options->unit ? "unit" : "user", name) < 0) {
		text = NULL;
		return ctl_error(CTL_FAILED, "out of memory");
	}
	r = scope_parse(text, &ret->scope, &fault);
	if (fault)
		return ctl_error(CTL_USAGE, "%s", fault);
	return r < 0 ? ctl_error(CTL_FAILED, "%s: %s", text, strerror(-r)) : CTL_GOOD;
}

static int find_duration(const struct override_options *options, struct target *ret)
{
	int r = options->duration ? duration_parse(options->duration, &ret->seconds) : 0;

	if (r == -EINVAL)
		return ctl_error(CTL_USAGE, "'%.80s' is no time: write " DURATION_EXAMPLES,
				 options->duration);
	if (r < 0)
		return ctl_error(CTL_USAGE, "--for takes a second to ten years, not '%.80s'",
				 options->duration);
	return CTL_GOOD;
}

int target_find(const struct override_options *options, struct target *ret)
{
	struct target t = {.scope = {.kind = SCOPE_NODE}};
	int r = find_scope(options, &t);

	if (r == CTL_GOOD)
		r = find_duration(options, &t);
	if (r != CTL_GOOD)
		return r;
	scope_format(&t.scope, t.text);
	if (t.scope.kind == SCOPE_USER)
		(void)snprintf(t.request, sizeof t.request, "user %u", (unsigned)t.scope.uid);
	else
		(void)strcpy(t.request, t.text);
	*ret = t;
	return CTL_GOOD;
}

int64_t target_until(const struct target *t)
{
	return t->seconds > 0 ? (int64_t)time(NULL) + (int64_t)t->seconds : 0;
}

struct json_object *override_find(struct json_object *list, const char *action, const char *scope)
{
	struct json_object *all = json_array(list, "overrides");

	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *o = json_object_array_get_idx(all, i);
		const char *a = json_string(o, "action"), *s = json_string(o, "scope");

		if (a && s && streq(a, action) && streq(s, scope))
			return o;
	}
	return NULL;
}

void override_print_end(int64_t until, uint64_t seconds)
{
	char when[TIME_SIZE], asked[DURATION_SIZE];

	if (until <= 0)
		return;
	time_format(until, when);
	duration_format((int64_t)seconds, asked);
	printf(", until %s (%s)", when, asked);
}

static void write_variables(struct json_object *variables, FILE *f)
{
	for (size_t i = 0; variables && i < json_object_array_length(variables); i++) {
		struct json_object *v = json_object_array_get_idx(variables, i);
		const char *name = json_string(v, "name"), *value = json_string(v, "value");

		fprintf(f, "%s%s=%s", i > 0 ? " " : "", name ? name : "", value ? value : "");
	}
}

void override_print_variables(struct json_object *variables)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	write_variables(variables, f);
	if (fclose(f) == 0)
		print_escaped(text);
}

char *override_describe(struct json_object *override)
{
	const char *profile = json_string(override, "profile");
	int64_t until = json_number(override, "until", 0), left = until - (int64_t)time(NULL);
	char time_left[DURATION_SIZE];
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	if (profile)
		fprintf(f, "profile %s", profile);
	else
		write_variables(json_array(override, "variables"), f);
	duration_format(left, time_left);
	if (until > 0 && left > 0)
		fprintf(f, ", %s left", time_left);
	else if (until > 0)
		fputs(", ended", f);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static bool has_ended(struct json_object *override)
{
	int64_t until = json_number(override, "until", 0);

	return until > 0 && until <= (int64_t)time(NULL);
}

void override_print_others(struct json_object *status)
{
	struct json_object *all = json_array(status, "overrides");
	bool any = false;

	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *o = json_object_array_get_idx(all, i);
		_cleanup_(freep) char *text = override_describe(o);
		const char *scope = json_string(o, "scope");

		if (has_ended(o) || !text || !scope)
			continue;
		if (!any)
			printf("These overrides go before it (cudaenvctl use --reset ends "
			       "them):\n");
		any = true;
		printf("  ");
		print_escaped(scope);
		printf(": ");
		print_escaped(text);
		printf("\n");
	}
}
