/* SPDX-License-Identifier: MIT */
#include "common/finding.h"
#include "tests/unit/test.h"

TEST(format)
{
	struct findings f = {0};
	char *text;

	check(findings_add(&f, FINDING_ERROR, 3, 7, "r", "A", "do this", "no %s", "good") == 0);
	check(findings_add(&f, FINDING_WARNING, 0, 0, "r", NULL, NULL, "whole file") == 0);
	check(findings_add(&f, FINDING_ADVICE, 4, 0, "r", NULL, NULL, "line") == 0);
	check(f.n == 3 && f.errors == 1 && f.warnings == 1 && f.advices == 1);
	check(finding_format(&f.items[0], "x.ini", &text) == 0);
	check_streq(text, "x.ini:3:7: error: no good: do this");
	free(text);
	check(finding_format(&f.items[1], "x.ini", &text) == 0);
	check_streq(text, "x.ini: warning: whole file");
	free(text);
	check(finding_format(&f.items[2], "x.ini", &text) == 0);
	check_streq(text, "x.ini:4: advice: line");
	free(text);
	check_streq(f.items[0].variable, "A");
	findings_done(&f);
	check(f.n == 0 && !f.items);
}

TEST(sort_is_by_place_and_stable)
{
	static const unsigned places[][2] = {{2, 1}, {1, 9}, {2, 1}, {0, 0}, {1, 2}};
	static const char *const want[] = {"3", "4", "1", "0", "2"};
	struct findings f = {0};

	for (unsigned i = 0; i < 5; i++)
		check(findings_add(&f, FINDING_ERROR, places[i][0], places[i][1], "r", NULL, NULL,
				   "%u", i) == 0);
	findings_sort(&f);
	for (unsigned i = 0; i < 5; i++)
		check_streq(f.items[i].message, want[i]);
	findings_done(&f);
}

TEST(many_are_counted_but_not_kept)
{
	struct findings f = {0};

	for (unsigned i = 0; i < FINDINGS_MAX + 500; i++)
		check(findings_add(&f, FINDING_ERROR, i + 1, 1, "r", NULL, NULL, "x") == 0);
	check(f.n == FINDINGS_MAX + 1);
	check(f.errors == FINDINGS_MAX + 500);
	check_streq(f.items[FINDINGS_MAX].rule, "too-many-findings");
	findings_sort(&f);
	check_streq(f.items[0].rule, "too-many-findings");
	check(f.items[1].line == 1);
	findings_done(&f);
}

TEST_MAIN
