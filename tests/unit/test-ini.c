/* SPDX-License-Identifier: MIT */
#include "common/ini.h"
#include "common/util.h"
#include "tests/unit/test.h"

static struct ini ini;
static struct findings findings;

static void read_bytes(const char *bytes, size_t size)
{
	/* Exactly as long as the text, so that a sanitizer sees a read beyond it. */
	char *copy = malloc(size > 0 ? size : 1);

	ini_done(&ini);
	findings_done(&findings);
	check(copy);
	memcpy(copy, bytes, size);
	check(ini_read(copy, size, &ini, &findings) == 0);
	free(copy);
	findings_sort(&findings);
}

static void read_text(const char *text)
{
	read_bytes(text, strlen(text));
}

static void check_entry(size_t i, const char *section, const char *key, const char *value,
			unsigned line)
{
	check(i < ini.n_entries);
	check_streq(ini.entries[i].section, section);
	check_streq(ini.entries[i].key, key);
	check_streq(ini.entries[i].value, value);
	check(ini.entries[i].line == line);
}

static void check_finding(size_t i, const char *rule, unsigned line, unsigned column)
{
	check(i < findings.n);
	check_streq(findings.items[i].rule, rule);
	check(findings.items[i].line == line);
	check(findings.items[i].column == column);
}

TEST(nothing)
{
	read_text("");
	check(ini.n_entries == 0 && ini.n_sections == 0 && findings.n == 0);
	read_text("\n \t\n# c\n; c\n");
	check(ini.n_entries == 0 && ini.n_sections == 0 && findings.n == 0);
}

TEST(places)
{
	read_text("[a]\nx=1\n\n  y  =  2\n[b]\n[c]\n\xc3\xa4=\xc3\xa4");
	check(findings.n == 0);
	check(ini.n_entries == 3 && ini.n_sections == 3);
	check_entry(0, "a", "x", "1", 2);
	check_entry(1, "a", "y", "2", 4);
	check(ini.entries[1].column == 3 && ini.entries[1].value_column == 9);
	check(ini.entries[1].section_line == 1);
	check_entry(2, "c", "\xc3\xa4", "\xc3\xa4", 7);
	check(ini.entries[2].value_column == 3); /* characters, not bytes */
	check_streq(ini.sections[1].name, "b");
	check(ini.sections[1].line == 5);
}

TEST(what_libinih_would_change)
{
	char name[400], text[2000];

	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	/* sections over 50 bytes, keys over 50 bytes, lines over 200 bytes, colons, inline
	 * comments, continuation */
	snprintf(text, sizeof text, "[%s]\n%s = %s\na:b = c ;d\n  more = 1\n", name, name, name);
	read_text(text);
	check(findings.n == 0);
	check_entry(0, name, name, name, 2);
	check_entry(1, name, "a:b", "c ;d", 3);
	check_entry(2, name, "more", "1", 4);
}

TEST(line_ends)
{
	read_text("\xef\xbb\xbf[a]\r\nx=1\r\ny=2\r");
	check(findings.n == 0);
	check_entry(0, "a", "x", "1", 2);
	check_entry(1, "a", "y", "2", 3);
	read_text("\xef\xbb\xbf\xef\xbb\xbf[a]\n"); /* one mark is accepted, not two */
	check(ini.n_sections == 0);
	check_finding(0, "no-equals", 1, 1);
	read_text("[a]\nx=1\ry=2\n");
	check(ini.n_entries == 0);
	check_finding(0, "lone-cr", 2, 4);
	read_text("[a]\nx=1\r\r\n");
	check_finding(0, "lone-cr", 2, 4);
	read_bytes("[a]\nx=\0\n", 8);
	check_finding(0, "nul", 2, 3);
}

TEST(broken_sections_take_their_keys_along)
{
	read_text("[a]\nx=1\n[b\nx=2\n[c]d\nx=3\n[ d ]\nx=4\n[]\nx=5\n[\x01]\nx=6\n[e]\nx=7\n");
	check(ini.n_entries == 2);
	check_entry(0, "a", "x", "1", 2);
	check_entry(1, "e", "x", "7", 14);
	check(findings.errors == 5 && findings.n == 5);
	check_finding(0, "missing-bracket", 3, 3);
	check_finding(1, "text-after-section", 5, 4);
	check_finding(2, "blank-in-section", 7, 2);
	check_finding(3, "empty-section", 9, 1);
	check_finding(4, "control-character", 11, 2);
}

TEST(no_section)
{
	read_text("x=1\n[a]\ny=1\n");
	check_finding(0, "no-section", 1, 1);
	check(ini.n_entries == 1);
}

TEST(duplicates)
{
	read_text("[a]\nx=1\ny=1\nx=2\nx=3\n[b]\nx=1\n[a]\nx=4\nz=5\n");
	check(findings.n == 4 && findings.errors == 4);
	check_finding(0, "duplicate-key", 4, 1);
	check_streq(findings.items[0].variable, "x");
	check(strstr(findings.items[0].message, "line 2"));
	check_finding(1, "duplicate-key", 5, 1);
	check_finding(2, "duplicate-section", 8, 1);
	check(strstr(findings.items[2].message, "line 1"));
	check_finding(3, "duplicate-key", 9, 1);
	check(ini.n_entries == 4);
	check_entry(0, "a", "x", "1", 2); /* the first stays */
	check_entry(3, "a", "z", "5", 10);
}

TEST(long_lines)
{
	_cleanup_(freep) char *text = malloc(INI_LINE_MAX + 64);

	check(text);
	memset(text, 'v', INI_LINE_MAX + 64);
	memcpy(text, "[a]\nx=", 6);
	read_bytes(text, 4 + INI_LINE_MAX);
	check(findings.n == 0 && ini.n_entries == 1);
	check(strlen(ini.entries[0].value) == INI_LINE_MAX - 2);
	read_bytes(text, 4 + INI_LINE_MAX + 1);
	check(ini.n_entries == 0);
	check_finding(0, "line-too-long", 2, 1);
}

TEST(many_lines)
{
	/* All of them duplicates, then all of them sections. */
	enum { LINES = 100000 };
	_cleanup_(freep) char *text = malloc(4 * LINES + 4);

	check(text);
	memcpy(text, "[a]\n", 4);
	for (size_t i = 0; i < LINES; i++)
		memcpy(text + 4 + 4 * i, "xx=\n", 4);
	read_bytes(text, 4 * LINES + 4);
	check(ini.n_entries == 1);
	check(findings.errors == LINES - 1);
	for (size_t i = 0; i < LINES; i++)
		memcpy(text + 4 + 4 * i, "[b]\n", 4);
	read_bytes(text, 4 * LINES + 4);
	check(ini.n_sections == LINES + 1);
	check(findings.errors == LINES - 1);
	ini_done(&ini);
	findings_done(&findings);
}

TEST_MAIN
