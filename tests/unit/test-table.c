/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/table.h"

#include "common/util.h"
#include "tests/unit/test.h"

static const char *const headers[] = {"NAME", "VALUE", "LAST", NULL};

static void prints(const struct table *t, bool terminal, const char *want)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	check(f);
	check(table_print(t, f, terminal) == 0);
	check(fclose(f) == 0);
	check_streq(text, want);
}

static void fill(struct table *t)
{
	table_init(t, headers);
	table_cell(t, "NCCL_PROTO");
	table_cell(t, "a\tb\nc");
	table_cell(t, NULL);
	table_cell_format(t, "%d", 7);
	table_cell(t, "");
	table_cell(t, "z");
}

TEST(pipe_gets_tabs_and_no_header)
{
	_cleanup_(table_done) struct table t;

	fill(&t);
	prints(&t, false, "NCCL_PROTO\ta\\tb\\nc\t-\n7\t\tz\n");
}

TEST(terminal_gets_aligned_columns)
{
	_cleanup_(table_done) struct table t;

	fill(&t);
	prints(&t, true,
	       "NAME        VALUE    LAST\n"
	       "NCCL_PROTO  a\\tb\\nc  -\n"
	       "7                    z\n");
}

TEST(no_rows_print_nothing)
{
	_cleanup_(table_done) struct table t;

	table_init(&t, headers);
	prints(&t, true, "");
	prints(&t, false, "");
}

TEST(no_colour_in_a_pipe)
{
	int fds[2], saved = dup(STDOUT_FILENO);

	check(saved >= 0 && pipe(fds) == 0);
	fflush(stdout);
	check(dup2(fds[1], STDOUT_FILENO) >= 0);
	check(setenv("TERM", "xterm", 1) == 0);
	check_streq(colour_begin(COLOUR_BAD), "");
	check_streq(colour_end(), "");
	check(!ctl_terminal());
	check(dup2(saved, STDOUT_FILENO) >= 0);
	(void)close(saved);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

TEST_MAIN
