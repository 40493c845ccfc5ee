/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Unit tests: TEST(name) { check(...); } and TEST_MAIN at the end. Each test runs in file order in
 * one process; a failed check prints where and ends the program with status 1. skip("reason") from
 * a test counts it as skipped.
 */
#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

static struct test *tests, **tests_tail = &tests;
static int test_skipped;

#define TEST(id)                                                                                   \
	static void test_##id(void);                                                               \
	__attribute__((constructor)) static void register_##id(void)                               \
	{                                                                                          \
		static struct test t = {#id, test_##id, NULL};                                     \
		*tests_tail = &t;                                                                  \
		tests_tail = &t.next;                                                              \
	}                                                                                          \
	static void test_##id(void)

#define check(expr)                                                                                \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			fprintf(stderr, "%s:%d: failed: %s (errno %d)\n", __FILE__, __LINE__,      \
				#expr, errno);                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define check_streq(a, b)                                                                          \
	do {                                                                                       \
		const char *a_ = (a), *b_ = (b);                                                   \
		if (!a_ || !b_ || strcmp(a_, b_) != 0) {                                           \
			fprintf(stderr, "%s:%d: \"%s\" is not \"%s\"\n", __FILE__, __LINE__,       \
				a_ ? a_ : "(null)", b_ ? b_ : "(null)");                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define skip(reason)                                                                               \
	do {                                                                                       \
		printf("SKIP %s: %s\n", __func__, reason);                                         \
		test_skipped++;                                                                    \
		return;                                                                            \
	} while (0)

#define TEST_MAIN                                                                                  \
	int main(void)                                                                             \
	{                                                                                          \
		for (struct test *t = tests; t; t = t->next) {                                     \
			printf("%s\n", t->name);                                                   \
			fflush(stdout);                                                            \
			t->run();                                                                  \
		}                                                                                  \
		if (test_skipped > 0)                                                              \
			printf("%d skipped\n", test_skipped);                                      \
		return 0;                                                                          \
	}
