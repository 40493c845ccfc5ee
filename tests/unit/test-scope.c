/* SPDX-License-Identifier: MIT */
#include "common/scope.h"

#include "common/util.h"
#include "tests/unit/test.h"

static void good(const char *text, const char *again)
{
	char formatted[SCOPE_TEXT_SIZE];
	char *fault = NULL;
	struct scope s;

	check(scope_parse(text, &s, &fault) == 0 && !fault);
	scope_format(&s, formatted);
	check_streq(formatted, again);
}

TEST(scopes)
{
	struct scope a, b;
	char *fault = NULL;

	good("node", "node");
	good("unit vllm", "unit vllm.service");
	good("unit vllm@1.service", "unit vllm@1.service");
	good("unit my.app", "unit my.app.service");
	good("unit session-2.scope", "unit session-2.scope");
	good("unit dev\\x2dfoo.service", "unit dev\\x2dfoo.service");
	good("user root", "user root");
	good("user 0", "user root");
	good("user 00", "user root");
	good("user 3987654321", "user 3987654321");
	check(scope_parse("user 0", &a, &fault) == 0 && scope_parse("user root", &b, &fault) == 0);
	check(scope_same(&a, &b) && a.uid == 0);
	check(scope_parse("user 3987654321", &b, &fault) == 0 && b.uid == 3987654321u);
	check(!scope_same(&a, &b));
	check(scope_parse("unit root", &a, &fault) == 0 && !scope_same(&a, &b));
	check(scope_parse("unit root.service", &b, &fault) == 0 && scope_same(&a, &b));
}

TEST(refused)
{
	static const char *const bad[] = {
		"",
		"nod",
		"node ",
		"units a",
		"unit",
		"unit ",
		"unit *",
		"unit vllm@*.service",
		"unit a[b]",
		"unit a?",
		"unit a b",
		"unit a/b",
		"unit .service",
		"unit a\nb",
		"unit \303\244",
		"unit a.socket",
		"unit a.slice",
		"user",
		"user ",
		"user no such user",
		"user no-such-user-here",
		"user 4294967295",
		"user 99999999999999999999999",
		"user -1",
		"user a\nb",
		"user a/b",
		"group 0",
	};
	char name[SCOPE_NAME_SIZE + 8] = "unit ";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct scope s = {.uid = 77};
		char *fault = NULL;
		int r = scope_parse(bad[i], &s, &fault);

		if (r != -EINVAL && r != -ENOENT)
			fprintf(stderr, "'%s' is taken\n", bad[i]);
		check((r == -EINVAL || r == -ENOENT) && fault && fault[0] && s.uid == 77);
		free(fault);
	}
	memset(name + 5, 'a', SCOPE_NAME_SIZE - 1 - STRLEN(".service"));
	name[5 + SCOPE_NAME_SIZE - 1 - STRLEN(".service")] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		struct scope s;
		char *fault = NULL;

		check(scope_parse(name, &s, &fault) == (i == 0 ? 0 : -EINVAL));
		check(i > 0 || scope_unit_valid(s.name));
		free(fault);
		strcat(name, "a");
	}
}

TEST_MAIN
