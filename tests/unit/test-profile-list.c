/* SPDX-License-Identifier: MIT */
#include "common/profile-list.h"
#include "common/util.h"
#include "tests/unit/test.h"

static void check_without(const char *more, const char *base, const char *want)
{
	_cleanup_(freep) char *got = NULL;

	check(profile_list_without(more, base, &got) == 0);
	check_streq(got, want);
}

TEST(without)
{
	check_without("/a", NULL, "/a");
	check_without("/a:/b:/a", NULL, "/a:/b");
	check_without("/b:/a:/b:/c", NULL, "/b:/a:/c");
	check_without("/a:/b", "/b", "/a");
	check_without("/a:/b", "/b:/a", "");
	check_without("/ab:/a", "/a", "/ab");
	check_without("", NULL, "");
	check_without("/a", "", "/a");
}

TEST(concat)
{
	_cleanup_(freep) char *s = NULL, *t = NULL;

	check(profile_list_concat("/a", "/b:/c", &s) == 0);
	check_streq(s, "/a:/b:/c");
	check(profile_list_concat("", "/b", &t) == 0);
	check_streq(t, "/b");
}

TEST(elements)
{
	check(profile_list_count("") == 1);
	check(profile_list_count("/a:/b") == 2);
	check(profile_list_has_empty(""));
	check(profile_list_has_empty(":/a") && profile_list_has_empty("/a:") &&
	      profile_list_has_empty("/a::/b"));
	check(!profile_list_has_empty("/a:/b"));
}

TEST(long_lists)
{
	enum { ELEMENTS = 60000 };
	_cleanup_(freep) char *list = malloc(2 * ELEMENTS), *got = NULL;

	check(list);
	for (size_t i = 0; i < ELEMENTS; i++) {
		list[2 * i] = 'x';
		list[2 * i + 1] = ':';
	}
	list[2 * ELEMENTS - 1] = '\0';
	check(profile_list_without(list, "y", &got) == 0);
	check_streq(got, "x");
}

TEST_MAIN
