/* SPDX-License-Identifier: MIT */
/*
 * Every rule of client/apply.h at a job's start, and what is kept below one.
 */
#include "tests/unit/apply-process.h"

TEST(default_sets_what_is_absent)
{
	char **env = ENV("HOME=/root", "B=user", "C=c");
	struct process p = start(env, "default A=a\ndefault B=b\ndefault C=c\n");

	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "user", CUDAENV_KEPT, false);
	is(&p, "C", "c", CUDAENV_ALREADY, false);
	check_streq(value(&p, "HOME"), "/root");
	is(&p, "CUDAENV_SNAPSHOT", p.snapshot->digest, CUDAENV_SET, true);
	is(&p, "CUDAENV_PROFILE", "p", CUDAENV_SET, true);
	check(p.applied.n_changes == 6 && p.applied.n_variables == 3);
	/* Only what we set is marked. */
	check(startswith(value(&p, "CUDAENV_APPLIED"), "A:"));
	check(!strchr(value(&p, "CUDAENV_APPLIED"), ','));
	/* The array is another one, with the old strings. */
	check(p.applied.env && p.applied.env != env && p.applied.env[0] == env[0]);
	done(&p);
}

TEST(values_are_bytes)
{
	char **env = ENV("X=\xff\x01");
	struct process p = start(env, "default A= b=c\xc3\xa9 \ndefault B=\ndefault X=y\n");

	is(&p, "A", " b=c\xc3\xa9 ", CUDAENV_SET, true);
	is(&p, "B", "", CUDAENV_SET, true);
	is(&p, "X", "\xff\x01", CUDAENV_KEPT, false);
	done(&p);
}

TEST(an_empty_value_is_the_users)
{
	struct process p = start(ENV("A="), "default A=a\n");

	is(&p, "A", "", CUDAENV_KEPT, false);
	done(&p);
}

TEST(force_replaces)
{
	struct process p = start(ENV("B=user", "C=c"), "force A=a\nforce B=b\nforce C=c\n");

	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "b", CUDAENV_REPLACED, true);
	is(&p, "C", "c", CUDAENV_ALREADY, false);
	check(!strstr(value(&p, "CUDAENV_APPLIED"), "C:"));
	done(&p);
}

TEST(unset_removes)
{
	struct process p = start(ENV("A=1", "B=2", "A=3", "AA=4"), "unset A\nunset C\n");

	is(&p, "A", NULL, CUDAENV_REMOVED, true);
	check(occurrences(&p, "A") == 0);
	is(&p, "C", NULL, CUDAENV_ALREADY, false);
	check_streq(value(&p, "B"), "2");
	check_streq(value(&p, "AA"), "4");
	check_streq(value(&p, "CUDAENV_APPLIED"), "");
	done(&p);
}

TEST(together_all_or_none)
{
	static const char entries[] = "together x A=a\ntogether x B=b\ntogether y C=c\n";
	struct process p = start(ENV("Z=1"), entries);

	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "b", CUDAENV_SET, true);
	is(&p, "C", "c", CUDAENV_SET, true);
	done(&p);

	p = start(ENV("B=user"), entries);
	is(&p, "A", NULL, CUDAENV_KEPT, false);
	is(&p, "B", "user", CUDAENV_KEPT, false);
	is(&p, "C", "c", CUDAENV_SET, true); /* another group */
	done(&p);

	p = start(ENV("B=b"), entries);
	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "b", CUDAENV_ALREADY, false);
	done(&p);

	p = start(ENV("A=a", "B="), entries);
	is(&p, "A", "a", CUDAENV_ALREADY, false);
	is(&p, "B", "", CUDAENV_KEPT, false);
	done(&p);
}

TEST(together_with_one_too_late)
{
	static const char entries[] = "together x A=a\ntogether x LD_PRELOAD=x.so\n";
	struct process p = start(ENV("Z=1"), entries);

	is(&p, "A", NULL, CUDAENV_TOO_LATE, false);
	is(&p, "LD_PRELOAD", NULL, CUDAENV_TOO_LATE, false);
	done(&p);
	p = start(ENV("LD_PRELOAD=x.so"), entries);
	is(&p, "A", "a", CUDAENV_SET, true);
	done(&p);
	p = start_as(ENV("Z=1"), snapshot(HEAD, entries), USER, APPLY_EXEC);
	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "LD_PRELOAD", "x.so", CUDAENV_SET, true);
	done(&p);
}

#define TOOLKIT(rule, root) HEAD "toolkit " rule " " root "\n"
#define TOOLKIT_ENTRIES                                                                            \
	"together toolkit CUDA_HOME=/t\ntogether toolkit CUDA_PATH=/t\ntogether toolkit "          \
	"PATH=/t/bin\n"

TEST(toolkit)
{
	struct process p = start_as(ENV("PATH=/usr/bin"),
				    snapshot(TOOLKIT("default", "/"), TOOLKIT_ENTRIES), USER, 0);

	is(&p, "CUDA_HOME", "/t", CUDAENV_SET, true);
	is(&p, "CUDA_PATH", "/t", CUDAENV_SET, true);
	is(&p, "PATH", "/t/bin:/usr/bin", CUDAENV_REPLACED, true);
	done(&p);

	/* No PATH for root. */
	p = start_as(ENV("PATH=/usr/bin"), snapshot(TOOLKIT("default", "/"), TOOLKIT_ENTRIES), 0,
		     0);
	is(&p, "CUDA_HOME", "/t", CUDAENV_SET, true);
	is(&p, "PATH", "/usr/bin", CUDAENV_KEPT, false);
	done(&p);

	/* One's own CUDA_HOME: nothing of it, PATH neither. */
	p = start_as(ENV("PATH=/usr/bin", "CUDA_HOME=/mine"),
		     snapshot(TOOLKIT("default", "/"), TOOLKIT_ENTRIES), USER, 0);
	is(&p, "CUDA_HOME", "/mine", CUDAENV_KEPT, false);
	is(&p, "CUDA_PATH", NULL, CUDAENV_KEPT, false);
	is(&p, "PATH", "/usr/bin", CUDAENV_KEPT, false);
	done(&p);

	p = start_as(ENV("PATH=/usr/bin", "CUDA_HOME=/mine"),
		     snapshot(TOOLKIT("force", "/"), TOOLKIT_ENTRIES), USER, 0);
	is(&p, "CUDA_HOME", "/t", CUDAENV_REPLACED, true);
	is(&p, "CUDA_PATH", "/t", CUDAENV_SET, true);
	is(&p, "PATH", "/t/bin:/usr/bin", CUDAENV_REPLACED, true);
	done(&p);
}

TEST(toolkit_that_is_not_here)
{
	struct process p =
		start_as(ENV("PATH=/usr/bin", "CUDA_PATH=/mine"),
			 snapshot(TOOLKIT("force", "/nonexistent/cuda"), TOOLKIT_ENTRIES), USER, 0);

	is(&p, "CUDA_HOME", NULL, CUDAENV_ABSENT_HERE, false);
	is(&p, "CUDA_PATH", "/mine", CUDAENV_ABSENT_HERE, false);
	is(&p, "PATH", "/usr/bin", CUDAENV_ABSENT_HERE, false);
	done(&p);
}

/* PATH has a line of the toolkit and lines of its own, which do not depend on it. */
TEST(toolkit_path_and_other_path)
{
	static const char entries[] = "together toolkit CUDA_HOME=/t\ntogether toolkit "
				      "PATH=/t/bin\nprepend PATH=/own\nappend PATH=/last\n";
	struct process p =
		start_as(ENV("PATH=/usr/bin"), snapshot(TOOLKIT("default", "/"), entries), USER, 0);

	is(&p, "PATH", "/t/bin:/own:/usr/bin:/last", CUDAENV_REPLACED, true);
	done(&p);
	p = start_as(ENV("PATH=/usr/bin"), snapshot(TOOLKIT("default", "/"), entries), 0, 0);
	is(&p, "PATH", "/own:/usr/bin:/last", CUDAENV_REPLACED, true);
	done(&p);
	p = start_as(ENV("PATH=/usr/bin"), snapshot(TOOLKIT("default", "/nonexistent"), entries),
		     USER, 0);
	is(&p, "PATH", "/own:/usr/bin:/last", CUDAENV_REPLACED, true);
	is(&p, "CUDA_HOME", NULL, CUDAENV_ABSENT_HERE, false);
	done(&p);
}

TEST(lists)
{
	static const char entries[] = "prepend P=/a:/b\nappend P=/z\n";
	static const struct {
		const char *before, *after;
	} cases[] = {
		{NULL, "/a:/b:/z"},
		{"P=", "/a:/b:/z"},
		{"P=/x", "/a:/b:/x:/z"},
		{"P=/x:/b", "/a:/x:/b:/z"}, /* what is there stays where it is */
		{"P=/z:/x", "/a:/b:/z:/x"},
		{"P=/bb", "/a:/b:/bb:/z"},
		{"P=:/x:", "/a:/b::/x::/z"}, /* one's own empty elements are one's own */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct process p = start(ENV((char *)cases[i].before), entries);

		is(&p, "P", cases[i].after, cases[i].before ? CUDAENV_REPLACED : CUDAENV_SET, true);
		done(&p);
	}
	struct process p = start(ENV("P=/z:/b:/x:/a"), entries);

	is(&p, "P", "/z:/b:/x:/a", CUDAENV_ALREADY, false);
	check_streq(value(&p, "CUDAENV_APPLIED"), "");
	done(&p);
	/* Doubled and empty elements of the profile. */
	p = start(ENV("P=/x"), "prepend P=:/a::/a:\nappend P=/a:/b:/b\n");
	is(&p, "P", "/a:/x:/b", CUDAENV_REPLACED, true);
	done(&p);
}

TEST(list_that_would_be_too_long)
{
	_cleanup_(freep) char *longest = malloc(SNAPSHOT_STRING_MAX + 1);
	struct process p;

	check(longest);
	memset(longest, 'x', SNAPSHOT_STRING_MAX);
	memcpy(longest, "P=", 2);
	longest[SNAPSHOT_STRING_MAX] = '\0';
	p = start(ENV(longest), "prepend P=/a\n");
	is(&p, "P", longest + 2, CUDAENV_KEPT, false);
	done(&p);
	longest[SNAPSHOT_STRING_MAX - 3] = '\0';
	p = start(ENV(longest), "prepend P=/a\n");
	check(change(&p, "P")->state == CUDAENV_REPLACED);
	check(strlen(value(&p, "P")) + 2 == SNAPSHOT_STRING_MAX);
	done(&p);
}

TEST(too_late_names)
{
	static const char entries[] =
		"default GLIBC_TUNABLES=x\nprepend LD_LIBRARY_PATH=/a\nforce MALLOC_ARENA_MAX=2\n"
		"unset PYTHONHASHSEED\ndefault PYTHONPATH=/p\n";
	struct process p =
		start(ENV("LD_LIBRARY_PATH=/u", "PYTHONHASHSEED=1", "PYTHONPATH=/p"), entries);

	is(&p, "GLIBC_TUNABLES", NULL, CUDAENV_TOO_LATE, false);
	is(&p, "LD_LIBRARY_PATH", "/u", CUDAENV_TOO_LATE, false);
	is(&p, "MALLOC_ARENA_MAX", NULL, CUDAENV_TOO_LATE, false);
	is(&p, "PYTHONHASHSEED", "1", CUDAENV_TOO_LATE, false);
	is(&p, "PYTHONPATH", "/p", CUDAENV_ALREADY, false);
	done(&p);
	p = start_as(ENV("LD_LIBRARY_PATH=/u", "PYTHONHASHSEED=1"), snapshot(HEAD, entries), USER,
		     APPLY_EXEC);
	is(&p, "GLIBC_TUNABLES", "x", CUDAENV_SET, true);
	is(&p, "LD_LIBRARY_PATH", "/a:/u", CUDAENV_REPLACED, true);
	is(&p, "MALLOC_ARENA_MAX", "2", CUDAENV_SET, true);
	is(&p, "PYTHONHASHSEED", NULL, CUDAENV_REMOVED, true);
	is(&p, "PYTHONPATH", "/p", CUDAENV_SET, true);
	done(&p);
}

/* --- below a process that had its snapshot */

TEST(keep_changes_nothing)
{
	static const char entries[] = "default A=a\nforce B=b\nforce C=c\nunset D\nprepend P=/a\n";
	struct process parent = start(ENV("P=/x", "D=1"), entries), child;
	char *env[16];
	size_t n = 0;

	for (char *const *e = parent.env; *e; e++)
		if (!startswith(*e, "A=") && !startswith(*e, "B="))
			env[n++] = *e;
	env[n++] = "B=program"; /* changed; A is deleted, D is set again */
	env[n++] = "D=again";
	env[n] = NULL;
	child = start(env, entries);
	check(!child.applied.env);
	is(&child, "A", NULL, CUDAENV_KEPT, false);
	is(&child, "B", "program", CUDAENV_KEPT, false);
	is(&child, "C", "c", CUDAENV_ALREADY, false);
	is(&child, "D", "again", CUDAENV_KEPT, false);
	is(&child, "P", "/a:/x", CUDAENV_ALREADY, false);
	is(&child, "CUDAENV_SNAPSHOT", parent.snapshot->digest, CUDAENV_ALREADY, false);
	check(child.applied.n_variables == 5 && child.applied.n_changes == 8);
	done(&child);
	done(&parent);
}

TEST(keep_with_an_exec_adds_what_was_too_late)
{
	static const char entries[] = "default A=a\ntogether g B=b\nprepend LD_LIBRARY_PATH=/l\n"
				      "together g LD_PRELOAD=x.so\n";
	struct process parent = start(ENV("H=1"), entries), child, grandchild;
	char *env[16];
	size_t n = 0;

	for (char *const *e = parent.env; *e; e++)
		if (!startswith(*e, "A="))
			env[n++] = *e;
	env[n] = NULL;
	child = start_as(env, snapshot(HEAD, entries), USER, APPLY_EXEC);
	is(&child, "A", NULL, CUDAENV_KEPT, false); /* deleted stays deleted */
	is(&child, "B", "b", CUDAENV_SET, true);
	is(&child, "LD_LIBRARY_PATH", "/l", CUDAENV_SET, true);
	is(&child, "LD_PRELOAD", "x.so", CUDAENV_SET, true);
	check(strstr(value(&child, "CUDAENV_APPLIED"), "LD_LIBRARY_PATH:"));
	check(startswith(value(&child, "CUDAENV_APPLIED"), "A:"));
	/* And the interpreter that was executed finds it standing. */
	grandchild = start(child.env, entries);
	check(!grandchild.applied.env);
	is(&grandchild, "LD_LIBRARY_PATH", "/l", CUDAENV_ALREADY, false);
	done(&grandchild);
	done(&child);
	done(&parent);
}

/* The hook set B because LD_PRELOAD stood; then the program deleted both. */
TEST(deleted_member_of_a_group_stays_deleted)
{
	static const char entries[] = "together g B=b\ntogether g LD_PRELOAD=x.so\n";
	struct process parent = start(ENV("LD_PRELOAD=x.so"), entries), child;
	char *env[16];
	size_t n = 0;

	is(&parent, "B", "b", CUDAENV_SET, true);
	for (char *const *e = parent.env; *e; e++)
		if (!startswith(*e, "B=") && !startswith(*e, "LD_PRELOAD="))
			env[n++] = *e;
	env[n] = NULL;
	child = start_as(env, snapshot(HEAD, entries), USER, APPLY_EXEC);
	is(&child, "B", NULL, CUDAENV_KEPT, false);
	is(&child, "LD_PRELOAD", NULL, CUDAENV_KEPT, false);
	done(&child);
	done(&parent);
}

TEST(cleaned_environment_is_set_again)
{
	struct process p = start(ENV("B=program"), "default A=a\nforce B=b\n");

	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "b", CUDAENV_REPLACED, true);
	done(&p);
}

TEST_MAIN
