/* SPDX-License-Identifier: MIT */
/*
 * What apply takes back by marks of a former snapshot, and the environments that people and hostile
 * parents make.
 */
#include "tests/unit/apply-process.h"

TEST(marked_variables_are_taken_back)
{
	struct process parent =
		start(ENV("H=/h"), "default A=old\ndefault B=b\ndefault C=c\ndefault D=d\n");
	struct process child =
		start(parent.env, "default A=new\ndefault B=b\nunset D\ndefault E=e\n");

	is(&child, "A", "new", CUDAENV_REPLACED, true);
	is(&child, "B", "b", CUDAENV_ALREADY, false);
	is(&child, "C", NULL, CUDAENV_REMOVED, true); /* the new snapshot lacks it */
	is(&child, "D", NULL, CUDAENV_REMOVED, true);
	is(&child, "E", "e", CUDAENV_SET, true);
	is(&child, "CUDAENV_SNAPSHOT", child.snapshot->digest, CUDAENV_REPLACED, true);
	check(child.applied.n_variables == 5);
	check_streq(child.applied.changes[4].name, "C"); /* behind the snapshot's own */
	/* B is still ours. */
	check(strstr(value(&child, "CUDAENV_APPLIED"), "B:"));
	check(occurrences(&child, "A") == 1 && occurrences(&child, "CUDAENV_APPLIED") == 1);
	done(&child);
	done(&parent);
}

TEST(a_changed_value_is_the_users)
{
	struct process parent = start(ENV("H=/h"), "default A=old\ndefault B=b\n"), child;
	char *env[16];
	size_t n = 0;

	for (char *const *e = parent.env; *e; e++)
		env[n++] = startswith(*e, "A=") ? "A=mine" : startswith(*e, "B=") ? "B=mine" : *e;
	env[n] = NULL;
	child = start(env, "default A=new\n");
	is(&child, "A", "mine", CUDAENV_KEPT, false);
	check_streq(value(&child, "B"), "mine");
	check(!change(&child, "B"));
	check_streq(value(&child, "CUDAENV_APPLIED"), "");
	done(&child);
	/* By force it goes. */
	child = start(env, "force A=new\n");
	is(&child, "A", "new", CUDAENV_REPLACED, true);
	done(&child);
	done(&parent);
}

TEST(lists_are_taken_back)
{
	static const struct {
		const char *own, *old, *new, *after;
	} cases[] = {
		{"P=/x", "prepend P=/a:/b\nappend P=/z\n", "prepend P=/c\n", "/c:/x"},
		{"P=/x", "prepend P=/a\n", "append P=/a\n", "/x:/a"},
		{"P=:/x:", "prepend P=/a\nappend P=/z\n", "prepend P=/c\n", "/c::/x:"},
		{"P=/x", "prepend P=/a\n", "default Q=q\n", "/x"},
		{NULL, "prepend P=/a\n", "default Q=q\n", NULL},
		{NULL, "prepend P=/a\n", "default P=p\n", "p"},
		{"P=/x", "prepend P=/a\n", "default P=p\n", "/x"},
		{"P=/x", "prepend P=/a\n", "force P=p\n", "p"},
		{"P=/x", "prepend P=/a\n", "unset P\n", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct process parent = start(ENV((char *)cases[i].own), cases[i].old);
		struct process child = start(parent.env, cases[i].new);

		is(&child, "P", cases[i].after, cases[i].after ? CUDAENV_REPLACED : CUDAENV_REMOVED,
		   true);
		done(&child);
		done(&parent);
	}
}

TEST(the_same_list_again)
{
	struct process parent = start(ENV("P=/x"), "prepend P=/a\n");
	struct process child = start(parent.env, "prepend P=/a\ndefault Q=q\n");

	is(&child, "P", "/a:/x", CUDAENV_ALREADY, false);
	check(strstr(value(&child, "CUDAENV_APPLIED"), "P:")); /* and still ours */
	done(&child);
	done(&parent);
}

/* An exec set what a hook must neither set nor remove. */
TEST(too_late_is_not_taken_back_by_the_hook)
{
	struct process parent = start_as(ENV("H=1"), snapshot(HEAD, "prepend LD_LIBRARY_PATH=/a\n"),
					 USER, APPLY_EXEC);
	struct process child = start(parent.env, "default A=a\n"), exec;

	check_streq(value(&child, "LD_LIBRARY_PATH"), "/a");
	check(strstr(value(&child, "CUDAENV_APPLIED"), "LD_LIBRARY_PATH:"));
	exec = start_as(child.env, snapshot(HEAD, "default B=b\n"), USER, APPLY_EXEC);
	is(&exec, "LD_LIBRARY_PATH", NULL, CUDAENV_REMOVED, true);
	is(&exec, "A", NULL, CUDAENV_REMOVED, true);
	done(&exec);
	done(&child);
	done(&parent);
}

/* Marks of a host whose snapshot is unknown here. */
TEST(token_of_another_host)
{
	char mark[64];
	struct process p;

	(void)snprintf(mark, sizeof mark, "CUDAENV_APPLIED=A:%04x,B:%04x", digest_mark("there", 5),
		       digest_mark("x", 1));
	p = start(ENV("CUDAENV_SNAPSHOT="
		      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		      "CUDAENV_PROFILE=there", mark, "A=there", "B=x"),
		  "default A=here\n");
	is(&p, "A", "here", CUDAENV_REPLACED, true);
	is(&p, "B", NULL, CUDAENV_REMOVED, true);
	is(&p, "CUDAENV_PROFILE", "p", CUDAENV_REPLACED, true);
	done(&p);
}

/* --- odd and hostile environments */

TEST(malformed_marks)
{
	static const char *const bad[] = {
		"A",
		"A:",
		"A:12",
		"A:12345",
		"A:00G0",
		"A:ABCD",
		":1234",
		"1A:1234",
		"A:1234:1",
		"A:1234:1:2:3",
		"A:1234::",
		"A:1234:-1:0",
		"A:1234:65536:0",
		"A:1234:999999:0",
		"A:1234,",
		",A:1234",
		"A:1234,,B:1234",
		"A:1234:",
		"A=b:1234",
		"CUDAENV_SNAPSHOT:1234",
		" A:1234",
		"A:1234 ",
		"A:1234:0:0:",
	};
	struct snapshot *s = snapshot(HEAD, "default A=a\nforce B=b\n");
	char token[128];

	(void)snprintf(token, sizeof token, "CUDAENV_SNAPSHOT=%s", s->digest);
	snapshot_freep(&s);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char marks[128];
		struct process p;

		(void)snprintf(marks, sizeof marks, "CUDAENV_APPLIED=%s", bad[i]);
		p = start(ENV(token, marks, "A=mine", "B=mine"), "default A=a\nforce B=b\n");
		/* Not believed as a whole: a start, where force counts. */
		is(&p, "A", "mine", CUDAENV_KEPT, false);
		is(&p, "B", "b", CUDAENV_REPLACED, true);
		done(&p);
	}
	/* Well-formed ones are believed: the same environment is kept. */
	struct process p = start(ENV(token, "CUDAENV_APPLIED=B:1234:65535:0", "A=mine", "B=mine"),
				 "default A=a\nforce B=b\n");

	check(!p.applied.env);
	done(&p);
	p = start(ENV(token, "CUDAENV_APPLIED=", "A=mine", "B=mine"), "default A=a\nforce B=b\n");
	check(!p.applied.env);
	done(&p);
	/* Without marks it is no keeping. */
	p = start(ENV(token, "A=mine", "B=mine"), "default A=a\nforce B=b\n");
	is(&p, "B", "b", CUDAENV_REPLACED, true);
	done(&p);
}

TEST(malformed_tokens)
{
	static const char *const bad[] = {
		"", "x", "none", "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char token[128];
		struct process p;

		(void)snprintf(token, sizeof token, "CUDAENV_SNAPSHOT=%s", bad[i]);
		p = start(ENV(token, "CUDAENV_APPLIED=", "B=mine"), "force B=b\n");
		is(&p, "B", "b", CUDAENV_REPLACED, true);
		is(&p, "CUDAENV_SNAPSHOT", p.snapshot->digest, CUDAENV_REPLACED, true);
		done(&p);
	}
}

/* Counts in a mark that no list has; a mark on a variable of the program's. */
TEST(marks_that_lie)
{
	char marks[128];
	struct process p;

	(void)snprintf(marks, sizeof marks, "CUDAENV_APPLIED=P:%04x:9:9,Q:%04x:0:2,R:%04x:0:0",
		       digest_mark("/a:/b", 5), digest_mark("/a:/b:/c", 8), digest_mark("r", 1));
	p = start(ENV(marks, "P=/a:/b", "Q=/a:/b:/c", "R=r"), "default A=a\n");
	is(&p, "P", NULL, CUDAENV_REMOVED, true);
	is(&p, "Q", "/a", CUDAENV_REPLACED, true);
	check_streq(value(&p, "R"), "r");
	done(&p);
	/* The first mark of a name counts. */
	(void)snprintf(marks, sizeof marks, "CUDAENV_APPLIED=A:0000,A:%04x", digest_mark("x", 1));
	p = start(ENV(marks, "A=x"), "default A=a\n");
	is(&p, "A", "x", CUDAENV_KEPT, false);
	done(&p);
}

TEST(duplicate_names)
{
	struct process p = start(ENV("A=first", "B=first", "A=second", "B=second"),
				 "force A=a\ndefault B=b\n");

	is(&p, "A", "a", CUDAENV_REPLACED, true);
	check(occurrences(&p, "A") == 1);
	is(&p, "B", "first", CUDAENV_KEPT, false);
	check(occurrences(&p, "B") == 2); /* not ours to mend */
	done(&p);
}

TEST(entries_without_equals)
{
	char **env = ENV("A", "=", "=C:=x", "", "B=b", "A=1");
	struct process p = start(env, "default A=a\ndefault C=c\n");

	is(&p, "A", "1", CUDAENV_KEPT, false);
	is(&p, "C", "c", CUDAENV_SET, true);
	for (size_t i = 0; i < 6; i++)
		check(p.env[i] == env[i]);
	done(&p);
}

TEST(no_environment_at_all)
{
	struct process p = start(NULL, "default A=a\nunset B\n");

	is(&p, "A", "a", CUDAENV_SET, true);
	check(p.env[4] == NULL);
	done(&p);
	p = start((char *[]){NULL}, "");
	is(&p, "CUDAENV_APPLIED", "", CUDAENV_SET, true);
	check(p.applied.n_variables == 0);
	done(&p);
}

/* The token's own names are not a profile's to set. */
TEST(own_names)
{
	struct process p = start(
		ENV("CUDAENV_DISABLE=0"),
		"force CUDAENV_APPLIED=x\nforce CUDAENV_DISABLE=1\nforce CUDAENV_SNAPSHOT=y\n");

	check_streq(value(&p, "CUDAENV_SNAPSHOT"), p.snapshot->digest);
	check_streq(value(&p, "CUDAENV_APPLIED"), "");
	check_streq(value(&p, "CUDAENV_DISABLE"), "0");
	check(p.applied.n_variables == 0);
	done(&p);
}

/* 20,000 strings V00000=x ...; the snapshot speaks of 16,384 names from V18000 on. */
TEST(huge_environment)
{
	enum { OLD = 20000, FIRST = 18000, LAST = 34383 };
	_cleanup_(freep) char *strings = malloc((size_t)OLD * 16);
	_cleanup_(freep) char **env = calloc(OLD + 1, sizeof *env);
	_cleanup_(freep) char *entries = malloc((size_t)(LAST - FIRST + 1) * 20);
	struct process p, child;
	char *at = entries;
	size_t marks;

	check(strings && env && entries);
	for (int i = 0; i < OLD; i++) {
		env[i] = strings + (size_t)i * 16;
		(void)sprintf(env[i], "V%05d=x", i);
	}
	for (int i = FIRST; i <= LAST; i++)
		at += sprintf(at, "default V%05d=y\n", i);
	p = start(env, entries);
	check(p.applied.n_variables == LAST - FIRST + 1);
	check(p.applied.changes[OLD - FIRST - 1].state == CUDAENV_KEPT);
	check(p.applied.changes[OLD - FIRST].state == CUDAENV_SET);
	check_streq(p.applied.changes[LAST - FIRST].name, "V34383");
	check_streq(p.applied.changes[LAST - FIRST].value, "y");
	/* No string may be longer than execve(2) takes, so some go unmarked. */
	marks = STRLEN("CUDAENV_APPLIED=") + strlen(value(&p, "CUDAENV_APPLIED"));
	check(marks <= SNAPSHOT_STRING_MAX && marks > SNAPSHOT_STRING_MAX - 64);
	child = start(p.env, "default V00000=y\n");
	check_streq(value(&child, "V00000"), "x");
	check(!value(&child, "V20000"));
	check_streq(value(&child, "V34383"), "y");
	done(&child);
	done(&p);
}

TEST_MAIN
