/* SPDX-License-Identifier: MIT */
#include "common/near.h"

#include "common/util.h"
#include "tests/unit/test.h"

static const char *near(const char *word)
{
	static const char *const names[] = {"env", "env.force", "env.unset", "profile", "status"};
	const char *found = near_match(word, names, ARRAY_SIZE(names));

	return found ? found : "";
}

TEST(slips)
{
	check_streq(near("evn"), "env");
	check_streq(near("env.froce"), "env.force");
	check_streq(near("en.unset"), "env.unset");
	check_streq(near("profil"), "profile");
	check_streq(near("statsus"), "status");
	check_streq(near("statys"), "status");
	check_streq(near("stauts"), "status");
}

TEST(case_and_ends)
{
	check_streq(near("ENV"), "env");
	check_streq(near("Profile"), "profile");
	check_streq(near("environment"), "env");
	check_streq(near("stat"), "status");
}

TEST(nothing_like_it)
{
	char word[4096];

	check_streq(near(""), "");
	check_streq(near("e"), "");
	check_streq(near("ab"), "");
	check_streq(near("nonsense"), "");
	check_streq(near("xnx"), "");
	memset(word, 'e', sizeof word - 1);
	word[sizeof word - 1] = '\0';
	check_streq(near(word), "");
	check(!near_match("env", NULL, 0));
}

TEST_MAIN
