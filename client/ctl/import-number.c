/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-number.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "common/util.h"

#define DEPTH_MAX 40

static bool power(long long a, long long b, long long *ret)
{
	if (b < 0 || b > 63)
		return false;
	for (*ret = 1; b > 0; b--)
		if (__builtin_mul_overflow(*ret, a, ret))
			return false;
	return true;
}

bool number_calculate(const char *op, long long a, long long b, long long *ret)
{
	if (streq(op, "+"))
		return !__builtin_add_overflow(a, b, ret);
	if (streq(op, "-"))
		return !__builtin_sub_overflow(a, b, ret);
	if (streq(op, "*"))
		return !__builtin_mul_overflow(a, b, ret);
	if (streq(op, "**"))
		return power(a, b, ret);
	if (streq(op, "//")) {
		if (a < 0 || b <= 0)
			return false;
		*ret = a / b;
		return true;
	}
	if (!streq(op, "<<") || a < 0 || b < 0 || b > 62 || a > LLONG_MAX >> b)
		return false;
	*ret = a << b;
	return true;
}

bool number_parse(const char *s, long long *ret)
{
	const char *digits = s;
	char *end;
	int base = 10;

	if (s[0] == '0' && s[1] && strchr("xXoObB", s[1])) {
		base = strchr("xX", s[1]) ? 16 : strchr("oO", s[1]) ? 8 : 2;
		digits = s + 2;
	}
	if (!isxdigit((unsigned char)digits[0]))
		return false;
	errno = 0;
	*ret = strtoll(digits, &end, base);
	return errno == 0 && !*end && (base != 10 || digits[0] != '0' || *ret == 0);
}

struct sum {
	const char *s, *end;
	unsigned depth;
};

static bool take_level(struct sum *sum, unsigned level, long long *ret);

static void skip_blanks(struct sum *sum)
{
	while (sum->s < sum->end && (*sum->s == ' ' || *sum->s == '\t' || *sum->s == '\n'))
		sum->s++;
}

static bool take_number(struct sum *sum, long long *ret)
{
	char digits[32];
	size_t n = 0;

	while (sum->s < sum->end && isalnum((unsigned char)*sum->s) && n < sizeof digits - 1)
		digits[n++] = *sum->s++;
	digits[n] = '\0';
	/* No shell knows 0b and 0o. */
	return !(n > 1 && digits[0] == '0' && strchr("oObB", digits[1])) &&
	       number_parse(digits, ret);
}

static bool take_atom(struct sum *sum, long long *ret)
{
	bool good;

	skip_blanks(sum);
	if (sum->s == sum->end || ++sum->depth > DEPTH_MAX)
		return false;
	if (*sum->s == '-') {
		sum->s++;
		good = take_atom(sum, ret) && number_calculate("-", 0, *ret, ret);
	} else if (*sum->s == '(') {
		sum->s++;
		good = take_level(sum, 0, ret) && sum->s < sum->end && *sum->s == ')';
		sum->s += good;
	} else {
		good = take_number(sum, ret);
	}
	sum->depth--;
	skip_blanks(sum);
	return good;
}

/* The operator of LEVEL that stands next, as number_calculate() calls it; NULL: none does. */
static const char *take_operator(struct sum *sum, unsigned level)
{
	static const struct {
		unsigned level;
		const char *text, *op;
	} operators[] = {
		{0, "<<", "<<"}, {1, "+", "+"}, {1, "-", "-"}, {2, "*", "*"}, {2, "/", "//"}};

	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		size_t n = strlen(operators[i].text);

		if (operators[i].level != level || (size_t)(sum->end - sum->s) < n ||
		    memcmp(sum->s, operators[i].text, n) != 0)
			continue;
		sum->s += n;
		return operators[i].op;
	}
	return NULL;
}

static bool take_level(struct sum *sum, unsigned level, long long *ret)
{
	const char *op;
	long long b;

	if (level == 3)
		return take_atom(sum, ret);
	if (!take_level(sum, level + 1, ret))
		return false;
	while ((op = take_operator(sum, level)))
		if (!take_level(sum, level + 1, &b) || !number_calculate(op, *ret, b, ret))
			return false;
	return true;
}

bool number_of_shell(const char *s, size_t size, long long *ret)
{
	struct sum sum = {.s = s, .end = s + size};

	return take_level(&sum, 0, ret) && sum.s == sum.end;
}
