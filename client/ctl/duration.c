/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/duration.h"

#include <time.h>

#include "common/util.h"

struct unit {
	const char *word;
	uint64_t seconds;
};

static const struct unit units[] = {
	{"s", 1},       {"sec", 1},       {"second", 1},     {"seconds", 1}, {"m", 60},
	{"min", 60},    {"minute", 60},   {"minutes", 60},   {"h", 3600},    {"hr", 3600},
	{"hour", 3600}, {"hours", 3600},  {"d", 86400},      {"day", 86400}, {"days", 86400},
	{"w", 604800},  {"week", 604800}, {"weeks", 604800},
};

static const struct unit shown[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* The word at *CURSOR, which it goes behind; none is seconds. NULL: no unit of time. */
static const struct unit *take_unit(const char **cursor)
{
	const char *word = *cursor;
	size_t n = 0;

	while (is_letter(word[n]))
		n++;
	*cursor += n;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (n == 0 || (strlen(units[i].word) == n && strncmp(units[i].word, word, n) == 0))
			return &units[i];
	return NULL;
}

/* One number with its unit, added to *TOTAL, which is at most one above the largest. */
static int take_part(const char **cursor, uint64_t *total)
{
	const struct unit *unit;
	uint64_t n = 0;

	if (!is_digit(**cursor))
		return -EINVAL;
	for (; is_digit(**cursor); (*cursor)++)
		if (n <= DURATION_MAX)
			n = n * 10 + (uint64_t)(**cursor - '0');
	*cursor = skip_blanks(*cursor);
	unit = take_unit(cursor);
	if (!unit)
		return -EINVAL;
	*cursor = skip_blanks(*cursor);
	if (n > DURATION_MAX || *total + n * unit->seconds > DURATION_MAX)
		*total = DURATION_MAX + 1;
	else
		*total += n * unit->seconds;
	return 0;
}

int duration_parse(const char *text, uint64_t *ret_seconds)
{
	const char *cursor = skip_blanks(text);
	uint64_t total = 0;
	int r;

	do {
		r = take_part(&cursor, &total);
		if (r < 0)
			return r;
	} while (*cursor);
	if (total == 0 || total > DURATION_MAX)
		return -ERANGE;
	*ret_seconds = total;
	return 0;
}

void duration_format(int64_t seconds, char ret[DURATION_SIZE])
{
	uint64_t left = seconds > 0 ? (uint64_t)seconds : 0;
	size_t used = 0, parts = 0;

	(void)snprintf(ret, DURATION_SIZE, "0s");
	for (size_t i = 0; i < ARRAY_SIZE(shown) && parts < 2 && used < DURATION_SIZE; i++) {
		uint64_t n = left / shown[i].seconds;

		if (n == 0 && parts > 0)
			break;
		if (n == 0)
			continue;
		used += (size_t)snprintf(ret + used, DURATION_SIZE - used, "%s%llu%s",
					 parts > 0 ? " " : "", (unsigned long long)n,
					 shown[i].word);
		left -= n * shown[i].seconds;
		parts++;
	}
}

void time_format(int64_t when, char ret[TIME_SIZE])
{
	time_t t = (time_t)when;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(ret, TIME_SIZE, "%FT%TZ", &tm) == 0)
		(void)strcpy(ret, "?");
}
