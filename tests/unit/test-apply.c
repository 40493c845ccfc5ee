/* SPDX-License-Identifier: MIT */
/*
 * Every rule of client/apply.h: what a start sets, keeps, takes back and lists, with the
 * environments that people and hostile parents make.
 */
#include "client/apply.h"

#include "client/marks.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define HEAD "cudaenv-snapshot 1\nprofile p\nscope any\n"
#define USER 1000

static struct snapshot *snapshot(const char *header, const char *entries)
{
	struct snapshot *s = NULL;
	char *text;
	int r;

	check(asprintf(&text, "%s%s", header, entries) > 0);
	r = snapshot_parse(text, strlen(text), &s);
	if (r < 0)
		fprintf(stderr, "%s\n", text);
	check(r == 0);
	free(text);
	return s;
}

/* A process: the environment it was started with, and what apply makes of it. */
struct process {
	struct snapshot *snapshot;
	struct applied applied;
	char *const *env; /* the one it goes on with */
};

static struct process start_as(char *const *env, struct snapshot *s_take, uid_t uid, unsigned flags)
{
	struct process p = {.snapshot = s_take, .applied = APPLIED_NULL};

	check(apply(env, s_take, uid, flags, &p.applied) == 0);
	p.env = p.applied.env ? p.applied.env : env;
	return p;
}

static struct process start(char *const *env, const char *entries)
{
	return start_as(env, snapshot(HEAD, entries), USER, 0);
}

static void done(struct process *p)
{
	applied_done(&p->applied);
	snapshot_freep(&p->snapshot);
}

static const char *value(const struct process *p, const char *name)
{
	size_t n = strlen(name);

	for (char *const *e = p->env; e && *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

static unsigned occurrences(const struct process *p, const char *name)
{
	unsigned count = 0;

	for (char *const *e = p->env; *e; e++)
		count += strncmp(*e, name, strlen(name)) == 0 && (*e)[strlen(name)] == '=';
	return count;
}

static const struct apply_change *change(const struct process *p, const char *name)
{
	const struct apply_change *found = NULL;

	for (size_t i = 0; i < p->applied.n_changes; i++) {
		const struct apply_change *c = &p->applied.changes[i];
		const char *stands = value(p, c->name);

		/* Whatever the case: the list says what stands, and names nothing twice. */
		check(!!c->value == !!stands);
		if (stands)
			check_streq(c->value, stands);
		if (streq(c->name, name)) {
			check(!found);
			found = c;
		}
	}
	return found;
}

/* NAME has VALUE (NULL: is absent), in STATE, and was CHANGED or not. */
#define is(p, name, want, want_state, want_changed)                                                \
	do {                                                                                       \
		const struct apply_change *c_ = change(p, name);                                   \
		const char *want_ = (want);                                                        \
		check(c_ && c_->state == (want_state) && c_->changed == (want_changed));           \
		if (want_)                                                                         \
			check_streq(value(p, name), want_);                                        \
		else                                                                               \
			check(!value(p, name));                                                    \
	} while (0)

#define ENV(...) ((char *[]){__VA_ARGS__, NULL})

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
		{NULL,      "/a:/b:/z"     },
		{"P=",      "/a:/b:/z"     },
		{"P=/x",    "/a:/b:/x:/z"  },
		{"P=/x:/b", "/a:/x:/b:/z"  }, /* what is there stays where it is */
		{"P=/z:/x", "/a:/b:/z:/x"  },
		{"P=/bb",   "/a:/b:/bb:/z" },
		{"P=:/x:",  "/a:/b::/x::/z"}, /* one's own empty elements are one's own */
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
	check(apply_too_late("LD_PRELOAD") && apply_too_late("PYTHONPATH"));
	check(!apply_too_late("PYTORCH_CUDA_ALLOC_CONF") && !apply_too_late("LDFLAGS"));
	check(!apply_too_late("GLIBC_TUNABLES_X") && !apply_too_late(""));
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

TEST(cleaned_environment_is_set_again)
{
	struct process p = start(ENV("B=program"), "default A=a\nforce B=b\n");

	is(&p, "A", "a", CUDAENV_SET, true);
	is(&p, "B", "b", CUDAENV_REPLACED, true);
	done(&p);
}

/* --- another snapshot */

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
		{"P=/x",   "prepend P=/a:/b\nappend P=/z\n", "prepend P=/c\n", "/c:/x"  },
		{"P=/x",   "prepend P=/a\n",                 "append P=/a\n",  "/x:/a"  },
		{"P=:/x:", "prepend P=/a\nappend P=/z\n",    "prepend P=/c\n", "/c::/x:"},
		{"P=/x",   "prepend P=/a\n",                 "default Q=q\n",  "/x"     },
		{NULL,     "prepend P=/a\n",                 "default Q=q\n",  NULL     },
		{NULL,     "prepend P=/a\n",                 "default P=p\n",  "p"      },
		{"P=/x",   "prepend P=/a\n",                 "default P=p\n",  "/x"     },
		{"P=/x",   "prepend P=/a\n",                 "force P=p\n",    "p"      },
		{"P=/x",   "prepend P=/a\n",                 "unset P\n",      NULL     },
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
