/* SPDX-License-Identifier: MIT */
#include "client/ctl/duration.h"

#include <time.h>

#include "common/util.h"
#include "tests/unit/test.h"

TEST(durations)
{
	static const struct {
		const char *text;
		uint64_t seconds;
	} good[] = {
		{"1", 1},
		{"90", 90},
		{"2h", 7200},
		{"90min", 5400},
		{"90m", 5400},
		{"1d", 86400},
		{"1d 12h", 129600},
		{"1d12h", 129600},
		{" 1 hour  30 minutes ", 5400},
		{"1h 30", 3630},
		{"2 weeks", 1209600},
		{"1hr 1sec", 3601},
		{"0h 1s", 1},
		{"3650d", DURATION_MAX},
		{"315360000", DURATION_MAX},
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t n = 0;

		if (duration_parse(good[i].text, &n) < 0 || n != good[i].seconds)
			fprintf(stderr, "'%s' is %llu\n", good[i].text, (unsigned long long)n);
		check(n == good[i].seconds);
	}
}

TEST(refused)
{
	static const struct {
		const char *text;
		int error;
	} bad[] = {
		{"", -EINVAL},
		{" ", -EINVAL},
		{"h", -EINVAL},
		{"2x", -EINVAL},
		{"2H", -EINVAL},
		{"2 h x", -EINVAL},
		{"-1h", -EINVAL},
		{"+1h", -EINVAL},
		{"1.5h", -EINVAL},
		{"1,5h", -EINVAL},
		{"1h;", -EINVAL},
		{"2ms", -EINVAL},
		{"1y", -EINVAL},
		{"infinity", -EINVAL},
		{"0", -ERANGE},
		{"0h 0min", -ERANGE},
		{"3650d 1s", -ERANGE},
		{"315360001", -ERANGE},
		{"99999999w", -ERANGE},
		{"18446744073709551616", -ERANGE},
		{"18446744073709551617s 1s", -ERANGE},
		{"3650d 3650d 3650d", -ERANGE},
		{"99999999999999999999999999999999999h", -ERANGE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t n = 77;
		int r = duration_parse(bad[i].text, &n);

		if (r != bad[i].error || n != 77)
			fprintf(stderr, "'%s': %d\n", bad[i].text, r);
		check(r == bad[i].error && n == 77);
	}
}

static void shows(int64_t seconds, const char *text)
{
	char s[DURATION_SIZE];

	duration_format(seconds, s);
	check_streq(s, text);
}

TEST(format)
{
	shows(0, "0s");
	shows(-5, "0s");
	shows(1, "1s");
	shows(60, "1min");
	shows(61, "1min 1s");
	shows(7200, "2h");
	shows(7201, "2h");
	shows(7199, "1h 59min");
	shows(86400 * 3 + 3599, "3d");
	shows(86400 * 3 + 3600, "3d 1h");
	shows(INT64_MAX, "106751991167300d 15h");
}

/* The same text whatever the zone. */
TEST(time)
{
	char s[TIME_SIZE];

	check(setenv("TZ", "Asia/Tokyo", 1) == 0);
	tzset();
	time_format(1790000000, s);
	check_streq(s, "2026-09-21T14:13:20Z");
	time_format(0, s);
	check_streq(s, "1970-01-01T00:00:00Z");
	time_format(INT64_MAX, s);
	check_streq(s, "?");
}

TEST_MAIN
