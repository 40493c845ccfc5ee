/* SPDX-License-Identifier: MIT */
/*
 * The grammar of the published rules, and what they choose.
 */
#include "common/assign.h"

#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>

#include "common/util.h"
#include "tests/unit/test.h"

#define D1   "1111111111111111111111111111111111111111111111111111111111111111"
#define D2   "2222222222222222222222222222222222222222222222222222222222222222"
#define D3   "3333333333333333333333333333333333333333333333333333333333333333"
#define HEAD "cudaenv-assign 1\ngeneration 12\nmode on\ndefault " D1 "\n"

/* The result, and for -EBADMSG the line in *RET_LINE. */
static int parse(const char *text, unsigned *ret_line)
{
	_cleanup_(assign_freep) struct assign *a = NULL;
	int r = assign_parse(text, strlen(text), &a, ret_line);

	check((r == 0) == (a != NULL));
	return r;
}

static struct assign *must_parse(const char *text)
{
	struct assign *a = NULL;
	unsigned line = 0;
	int r = assign_parse(text, strlen(text), &a, &line);

	if (r < 0)
		fprintf(stderr, "line %u of: %s\n", line, text);
	check(r == 0);
	return a;
}

/* RULE "" for the default. */
static void check_choice(const struct assign *a, const struct assign_subject *s, const char *digest,
			 const char *rule)
{
	const char *chosen, *by;

	chosen = assign_choose(a, s, &by);
	check_streq(chosen, digest);
	check_streq(by ? by : "", rule);
}

TEST(modes)
{
	enum mode mode;

	check(mode_parse("off", &mode) == 0 && mode == MODE_OFF);
	check(mode_parse("observe", &mode) == 0 && mode == MODE_OBSERVE);
	check(mode_parse("on", &mode) == 0 && mode == MODE_ON);
	check(mode_parse("ON", &mode) == -EINVAL && mode == MODE_ON);
	check(mode_parse("", &mode) == -EINVAL);
	check(mode_parse("on ", &mode) == -EINVAL);
	check_streq(mode_name(MODE_OBSERVE), "observe");
}

TEST(header)
{
	_cleanup_(assign_freep) struct assign *a = must_parse(HEAD "end\n");
	_cleanup_(assign_freep) struct assign *none = must_parse(
		"cudaenv-assign 1\ngeneration 18446744073709551615\nmode off\ndefault none\nend\n");
	struct assign_subject s = {.uid = 0};

	_cleanup_(assign_freep) struct assign *fails = must_parse(HEAD "on_mismatch fail\nend\n");

	check(!a->mismatch_fails && fails->mismatch_fails);
	check_choice(fails, &s, D1, "");
	check(a->generation == 12 && a->mode == MODE_ON);
	check_streq(a->fallback, D1);
	check_choice(a, &s, D1, "");
	check(none->generation == UINT64_MAX && none->mode == MODE_OFF);
	check_streq(none->fallback, "");
	check_choice(none, &s, "", "");
}

TEST(refused)
{
	static const struct {
		unsigned line;
		const char *text;
	} bad[] = {
		{5, HEAD "on_mismatch mark\nend\n"},
		{6, HEAD "on_mismatch fail\non_mismatch fail\nend\n"},
		{0, ""},
		{0, "end"},
		{0, HEAD "end"},
		{1, "end\n"},
		{1, "cudaenv-assign\n"},
		{1, "cudaenv-assign \n"},
		{1, "cudaenv-assign 1 \n"},
		{1, "cudaenv-assign 1\r\n"},
		{1, "cudaenv-snapshot 1\n"},
		{2, "cudaenv-assign 1\n"},
		{2, "cudaenv-assign 1\nmode on\n"},
		{2, "cudaenv-assign 1\ngeneration \n"},
		{2, "cudaenv-assign 1\ngeneration -1\n"},
		{2, "cudaenv-assign 1\ngeneration 01\n"},
		{2, "cudaenv-assign 1\ngeneration 1x\n"},
		{2, "cudaenv-assign 1\ngeneration 18446744073709551616\n"},
		{2, "cudaenv-assign 1\ngeneration 99999999999999999999\n"},
		{3, "cudaenv-assign 1\ngeneration 1\nmode maybe\n"},
		{3, "cudaenv-assign 1\ngeneration 1\ndefault none\n"},
		{4, "cudaenv-assign 1\ngeneration 1\nmode on\ndefault\n"},
		{4, "cudaenv-assign 1\ngeneration 1\nmode on\ndefault 12\n"},
		{4, "cudaenv-assign 1\ngeneration 1\nmode on\ndefault NONE\n"},
		{4, "cudaenv-assign 1\ngeneration 1\nmode on\nend\n"},
		{5, HEAD},
		{5, HEAD "\nend\n"},
		{5, HEAD "# comment\nend\n"},
		{5, HEAD "mode on\nend\n"},
		{5, HEAD "end \n"},
		{5, HEAD "end\nend\n"},
		{5, HEAD "end\n\n"},
		{5, HEAD "rule\nend\n"},
		{5, HEAD "rule a\nend\n"},
		{5, HEAD "rule a \nend\n"},
		{5, HEAD "rule a  none\nend\n"},
		{5, HEAD "rule a 123\nend\n"},
		{5, HEAD "rule a none none\nend\n"},
		{5, HEAD "rule -a none\nend\n"},
		{5, HEAD "rule a/b none\nend\n"},
		{5, HEAD "when uid 1\nend\n"},
		{6, HEAD "rule a none\n when uid 1\nend\n"},
		{6, HEAD "rule a none\nwhen uid\nend\n"},
		{6, HEAD "rule a none\nwhen uid \nend\n"},
		{6, HEAD "rule a none\nwhen uid alice\nend\n"},
		{6, HEAD "rule a none\nwhen uid 4294967295\nend\n"},
		{6, HEAD "rule a none\nwhen gid +1\nend\n"},
		{6, HEAD "rule a none\nwhen pid 1\nend\n"},
		{6, HEAD "rule a none\nwhen unit \nend\n"},
		{6, HEAD "rule a none\nwhen exe \001\nend\n"},
		{6, HEAD "rule a none\nwhen cgroup a\tb\nend\n"},
		{5, HEAD "until 1\nend\n"},
		{6, HEAD "rule a none\nuntil\nend\n"},
		{6, HEAD "rule a none\nuntil \nend\n"},
		{6, HEAD "rule a none\nuntil -1\nend\n"},
		{6, HEAD "rule a none\nuntil 01\nend\n"},
		{6, HEAD "rule a none\nuntil 1.5\nend\n"},
		{6, HEAD "rule a none\nuntil 9223372036854775808\nend\n"},
		{7, HEAD "rule a none\nuntil 1\nuntil 2\nend\n"},
		{7, HEAD "rule a none\nwhen uid 1\nuntil 2\nend\n"},
		{6, HEAD "boundary a\nuntil 1\nend\n"},
		{8, HEAD "rule a none\nuntil 1\nrule b none\nrule a none\nend\n"},
		{6, HEAD "boundary a\nwhen uid 1\nend\n"},
		{6, HEAD "boundary a\nrule a none\nend\n"},
		{6, HEAD "supervisor a\nboundary a\nend\n"},
		{6, HEAD "supervisor a\nrule a none\nend\n"},
		{7, HEAD "rule a none\nwhen uid 1\nrule a none\nend\n"},
		{7, HEAD "boundary a\nboundary b\nboundary a\nend\n"},
		{6, HEAD "supervisor a\nsupervisor a\nend\n"},
		{5, HEAD "boundary \nend\n"},
		{5, HEAD "boundary \177\nend\n"},
		{5, HEAD "supervisor\nend\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		unsigned line = 0;
		int r = parse(bad[i].text, &line);

		if (r != -EBADMSG || line != bad[i].line)
			fprintf(stderr, "%d in line %u for: %s\n", r, line, bad[i].text);
		check(r == -EBADMSG && line == bad[i].line);
	}
	check(parse("cudaenv-assign 2\n", NULL) == -EPROTONOSUPPORT);
}

/* A published file is cut at any byte: it is never believed. */
TEST(every_cut_refused)
{
	static const char text[] = HEAD
		"rule a none\nuntil 12\nwhen uid 1\nboundary sshd\nsupervisor s.service\nend\n";
	struct assign *a = NULL;

	for (size_t n = 0; n < STRLEN(text); n++)
		check(assign_parse(text, n, &a, NULL) == -EBADMSG);
	check(!a);
	check(assign_parse(text, STRLEN(text), &a, NULL) == 0);
	assign_free(a);
}

TEST(nul_refused)
{
	static const char text[] = HEAD "boundary a\0b\nend\n", last[] = HEAD "end\n\0";
	struct assign *a = NULL;

	check(assign_parse(text, STRLEN(text), &a, NULL) == -EBADMSG);
	check(assign_parse(last, STRLEN(last), &a, NULL) == -EBADMSG);
	check(!a);
}

TEST(first_rule_wins)
{
	_cleanup_(assign_freep) struct assign *a = must_parse(
		HEAD "rule first " D2 "\nwhen unit vllm@*.service\nwhen uid 1000\nwhen uid 1001\n"
		     "rule second none\nwhen uid 1000\n"
		     "rule third " D3 "\nwhen gid 7\n"
		     "rule exe " D2 "\nwhen exe */python3*\nwhen cgroup */jobs/*\nend\n");
	gid_t gids[] = {5, 7};
	struct assign_subject s = {.uid = 1001, .unit = "vllm@1.service"};

	check_choice(a, &s, D2, "first");
	s.unit = "vllm.service";
	check_choice(a, &s, D1, "");
	s.uid = 1000;
	check_choice(a, &s, "", "second");
	check(assign_uses_gids(a));
	s = (struct assign_subject){.uid = 1, .gids = gids, .n_gids = 1};
	check_choice(a, &s, D1, "");
	s.n_gids = 2;
	check_choice(a, &s, D3, "third");
	s = (struct assign_subject){.uid = 1, .exe = "/opt/venv/bin/python3.12"};
	check_choice(a, &s, D1, "");
	s.cgroup = "/x/jobs/1";
	check_choice(a, &s, D2, "exe");
	s.exe = NULL;
	check_choice(a, &s, D1, "");
}

/* A rule is passed over from its end on, whatever else would hold. */
TEST(a_rule_ends)
{
	_cleanup_(assign_freep) struct assign *a =
		must_parse(HEAD "rule first " D2 "\nuntil 1000\nwhen uid 7\nrule second " D3
				"\nuntil 2000\nrule third none\nuntil 9223372036854775807\nend\n");
	_cleanup_(assign_freep) struct assign *last =
		must_parse(HEAD "rule a none\nuntil 1\nboundary x\nend\n");
	_cleanup_(assign_freep) struct assign *never =
		must_parse(HEAD "rule a none\nuntil 0\nend\n");
	struct assign_subject s = {.uid = 7, .now = 999};

	check_choice(a, &s, D2, "first");
	s.now = 1000;
	check_choice(a, &s, D3, "second");
	s.uid = 8;
	s.now = 1;
	check_choice(a, &s, D3, "second");
	s.now = 1999;
	check_choice(a, &s, D3, "second");
	s.now = 2000;
	check_choice(a, &s, "", "third");
	/* By the clock: both ends are long ago. */
	s.now = 0;
	check_choice(a, &s, "", "third");
	check_choice(last, &s, D1, "");
	check(assign_is_boundary(last, "x"));
	check_choice(never, &s, D1, "");
}

/* Rule by rule, with each condition; the first hit is the choice. */
TEST(explained)
{
	_cleanup_(assign_freep) struct assign *a = must_parse(
		HEAD "rule first " D2 "\nuntil 1000\nwhen uid 7\nwhen unit a*\nwhen unit b*\n"
		     "rule second none\nwhen gid 5\nwhen exe /x\nrule third " D3
		     "\nsupervisor x\nend\n");
	const gid_t gid = 5;
	struct assign_subject s = {.now = 999, .uid = 7, .unit = "bb", .gids = &gid, .n_gids = 1};
	struct assign_condition c;
	struct assign_rule r;
	size_t cursor = 0;

	check(assign_explain(a, &s, &cursor, &r) == 1);
	check_streq(r.name, "first");
	check_streq(r.digest, D2);
	check(r.until == 1000 && r.hit && !r.ended && r.n_conditions == 3);
	assign_condition(a, &r, 0, &s, &c);
	check(c.kind == ASSIGN_UID && c.id == 7 && !c.glob && c.holds);
	assign_condition(a, &r, 1, &s, &c);
	check(c.kind == ASSIGN_UNIT && streq(c.glob, "a*") && !c.holds);
	assign_condition(a, &r, 2, &s, &c);
	check(c.kind == ASSIGN_UNIT && streq(c.glob, "b*") && c.holds);
	check(assign_explain(a, &s, &cursor, &r) == 1);
	check_streq(r.name, "second");
	check_streq(r.digest, "");
	check(!r.hit && r.until < 0 && r.named == (1u << ASSIGN_GID | 1u << ASSIGN_EXE));
	check(r.held == 1u << ASSIGN_GID);
	check(assign_explain(a, &s, &cursor, &r) == 1 && r.hit && r.n_conditions == 0);
	check_streq(r.digest, D3);
	check(assign_explain(a, &s, &cursor, &r) == 1 && r.hit && !r.name);
	check_streq(r.digest, D1);
	check(assign_explain(a, &s, &cursor, &r) == 0);
	s.now = 1000;
	cursor = 0;
	check(assign_explain(a, &s, &cursor, &r) == 1 && r.ended && !r.hit && r.named == r.held);
	check(assign_gives(a, D1) && assign_gives(a, D2) && assign_gives(a, D3));
	check(assign_gives(a, "") && !assign_gives(a, "x"));
	check_streq(assign_kind_name(ASSIGN_CGROUP), "cgroup");
}

/* A rule without conditions is everybody's. */
TEST(rule_without_conditions)
{
	_cleanup_(assign_freep) struct assign *a = must_parse(
		HEAD "rule some " D2 "\nwhen uid 7\nrule all " D3 "\nrule never none\nend\n");
	struct assign_subject s = {.uid = 7};

	check_choice(a, &s, D2, "some");
	s.uid = 8;
	check_choice(a, &s, D3, "all");
}

TEST(boundaries_and_supervisors)
{
	_cleanup_(assign_freep) struct assign *a = must_parse(
		HEAD "boundary sshd\nboundary tmux*\nsupervisor slurm[ds]*.service\nend\n");

	check(assign_is_boundary(a, "sshd"));
	check(assign_is_boundary(a, "tmux: server"));
	check(!assign_is_boundary(a, "sshd2"));
	check(!assign_is_boundary(a, ""));
	check(!assign_is_boundary(a, "slurmd.service"));
	check(assign_is_supervisor(a, "slurmd.service"));
	check(!assign_is_supervisor(a, "slurmx.service"));
	check(!assign_is_supervisor(a, "sshd"));
}

static bool matches(const char *glob, const char *s)
{
	_cleanup_(assign_freep) struct assign *a = NULL;
	char text[1024];

	snprintf(text, sizeof text, HEAD "boundary %s\nend\n", glob);
	a = must_parse(text);
	return assign_is_boundary(a, s);
}

TEST(globs)
{
	static const struct {
		const char *glob, *yes, *no;
	} cases[] = {
		{"abc", "abc", "abcd"},
		{"abc", "abc", "ab"},
		{"*", "", NULL},
		{"*", "/a/b", NULL},
		{"a*", "a", "ba"},
		{"*a", "ba", "ab"},
		{"*.service", "a.service", "a.services"},
		{"a*b*c", "aXbXbXc", "aXcXb"},
		{"**a**", "xax", "x"},
		{"?", "a", ""},
		{"a?c", "a/c", "ac"},
		{"[abc]", "b", "d"},
		{"[a-c]x", "bx", "dx"},
		{"[!a-c]", "d", "b"},
		{"[^a-c]", "d", "b"},
		{"[]]", "]", "["},
		{"[!]]", "a", "]"},
		{"[a-]", "-", "b"},
		{"[-a]", "-", "b"},
		{"[", "[", "a"},
		{"[a", "[a", "a"},
		{"a[", "a[", "a"},
		{"[!", "[!", "a"},
		{"[]", "[]", "]"},
		{"[a-", "[a-", "a"},
		{"\\*", "*", "a"},
		{"\\[a]", "[a]", "a"},
		{"a\\", "a\\", "a"},
		{"\\\\", "\\", "\\\\"},
		{"[z-a]", NULL, "m"},
		{"*[0-9]", "a1b2", "a1b"},
		{"sd-pam)*", "sd-pam)", "(sd-pam)"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *glob = cases[i].glob, *yes = cases[i].yes, *no = cases[i].no;

		if (yes && !matches(glob, yes))
			fprintf(stderr, "%s does not match %s\n", glob, yes);
		check(!yes || matches(glob, yes));
		if (no && matches(glob, no))
			fprintf(stderr, "%s matches %s\n", glob, no);
		check(!no || !matches(glob, no));
	}
}

/* One answer in every locale. */
TEST(globs_are_bytes)
{
	static const char *const locales[] = {"C", "C.UTF-8", ""};

	for (size_t i = 0; i < ARRAY_SIZE(locales); i++) {
		(void)setlocale(LC_ALL, locales[i]);
		check(!matches("?", "\303\244"));
		check(matches("??", "\303\244"));
		check(matches("*", "\377\376"));
		check(matches("\303\244*", "\303\244\377"));
		check(!matches("[a-z]", "B"));
	}
	(void)setlocale(LC_ALL, "C");
}

TEST(limits)
{
	char *text = malloc(ASSIGN_MAX_BYTES + 2), *p;
	struct assign *a = NULL;

	check(text);
	memset(text, '\n', ASSIGN_MAX_BYTES + 1);
	check(assign_parse(text, ASSIGN_MAX_BYTES + 1, &a, NULL) == -EFBIG);
	check(assign_parse(text, ASSIGN_MAX_BYTES, &a, NULL) == -EBADMSG);

	p = stpcpy(text, HEAD);
	for (unsigned i = 0; i < ASSIGN_MAX_EACH; i++)
		p += sprintf(p, "boundary b%u\n", i);
	strcpy(p, "end\n");
	check(parse(text, NULL) == 0);
	strcpy(p, "boundary x\nend\n");
	check(parse(text, NULL) == -EBADMSG);

	p = stpcpy(text, HEAD "rule a none\n");
	for (unsigned i = 0; i < ASSIGN_MAX_LINES - 2; i++)
		p += sprintf(p, "when uid %u\n", i);
	strcpy(p, "end\n");
	check(parse(text, NULL) == 0);
	strcpy(p, "when uid 1\nend\n");
	check(parse(text, NULL) == -EFBIG);

	p = stpcpy(text, HEAD "boundary ");
	memset(p, 'x', 4096);
	strcpy(p + 4096, "\nend\n");
	check(parse(text, NULL) == 0);
	strcpy(p + 4096, "x\nend\n");
	check(parse(text, NULL) == -EBADMSG);
	free(text);
	check(!a);
}

TEST(load)
{
	char base[] = "/tmp/test-assign-XXXXXX", path[512];
	struct runtime rt = RUNTIME_NULL;
	struct assign *a = NULL;
	int fd;

	check(mkdtemp(base));
	check(runtime_open(base, geteuid(), &rt) == 0);
	check(assign_load(&rt, &a) == -ENOENT);
	snprintf(path, sizeof path, "%s/assign", base);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	check(fd >= 0);
	check(write(fd, HEAD, STRLEN(HEAD)) == (ssize_t)STRLEN(HEAD));
	check(assign_load(&rt, &a) == -EBADMSG);
	check(write(fd, "end\n", 4) == 4);
	check(assign_load(&rt, &a) == 0);
	check(a->generation == 12);
	a = assign_free(a);
	check(fchmod(fd, 0446) == 0);
	check(assign_load(&rt, &a) == -EPERM);
	check(!a);
	close(fd);
	runtime_done(&rt);
	check(unlink(path) == 0 && rmdir(base) == 0);
}

TEST_MAIN
