/* SPDX-License-Identifier: MIT */
/*
 * One profile at a time: every line of tests/data/grammar.tsv, the files of tests/data/profiles,
 * sections, toolkit, text and digests. Limits: test-profile-limits.c. Several files together:
 * test-profile-set.c.
 */
#include <sys/stat.h>

#include "common/profile-text.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define CANARY "hf_canary"

static struct facts *facts;

static struct profile *parse_bytes(const char *bytes, size_t size)
{
	struct profile *p;

	check(profile_parse("p", "/x/p.ini", bytes, size, facts, &p) == 0);
	check(p->valid == (p->findings.errors == 0));
	check(!p->snapshot_text == !p->valid);
	return p;
}

static struct profile *parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static const struct profile_variable *variable(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_variables; i++)
		if (streq(p->variables[i].name, name))
			return &p->variables[i];
	return NULL;
}

static const char *value(const struct profile *p, const char *name)
{
	const struct profile_variable *v = variable(p, name);

	return v ? v->value : NULL;
}

static const struct finding *finding(const struct profile *p, const char *rule)
{
	for (size_t i = 0; i < p->findings.n; i++)
		if (streq(p->findings.items[i].rule, rule))
			return &p->findings.items[i];
	return NULL;
}

/* All rules of a profile's findings, "-" for none. */
static void rules(const struct profile *p, char *ret, size_t size)
{
	size_t n = 0;

	snprintf(ret, size, "-");
	for (size_t i = 0; i < p->findings.n && n < size; i++)
		n += (size_t)snprintf(ret + n, size - n, "%s%s", n > 0 ? " " : "",
				      p->findings.items[i].rule);
}

/* Nothing that is shown holds the value of a secret. */
static void check_no_canary(const struct profile *p)
{
	for (size_t i = 0; i < p->findings.n; i++) {
		char *text;

		check(finding_format(&p->findings.items[i], p->path, &text) == 0);
		check(!strstr(text, CANARY));
		check(!p->findings.items[i].variable ||
		      !strstr(p->findings.items[i].variable, CANARY));
		free(text);
	}
	for (size_t i = 0; i < p->n_variables; i++)
		check(!strstr(p->variables[i].value, CANARY));
}

static size_t unescape(const char *s, char *out)
{
	char *start = out;

	for (; *s; s++) {
		if (*s != '\\') {
			*out++ = *s;
			continue;
		}
		switch (*++s) {
		case 'n':
			*out++ = '\n';
			break;
		case 'r':
			*out++ = '\r';
			break;
		case 't':
			*out++ = '\t';
			break;
		case 'x': {
			char hex[3] = {s[1], s[2], '\0'};

			*out++ = (char)strtoul(hex, NULL, 16);
			s += 2;
			break;
		}
		default:
			*out++ = *s;
			break;
		}
	}
	*out = '\0';
	return (size_t)(out - start);
}

static void check_grammar_line(const char *line, const char *meaning, const char *want,
			       const char *want_rules)
{
	char text[1024] = "[env]\n", name[256], plain[256], got[1024];
	size_t size = 6 + unescape(line, text + 6);
	struct profile *p;

	text[size++] = '\n';
	p = parse_bytes(text, size);
	rules(p, got, sizeof got);
	if (!streq(got, want_rules)) {
		fprintf(stderr, "%s\n", line);
		check_streq(got, want_rules);
	}
	check(p->valid == streq(meaning, "value"));
	check_no_canary(p);
	if (p->valid) {
		(void)unescape(want, plain);
		snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " ="), line);
		check_streq(value(p, variable(p, "A") ? "A" : name), plain);
	}
	profile_free(p);
}

TEST(facts)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/etc/facts/must-match", getenv("SRCDIR"));
	check(facts_load(path, &facts) == 0);
}

TEST(grammar)
{
	char path[4096], line[1024];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/grammar.tsv", getenv("SRCDIR"));
	f = fopen(path, "re");
	check(f);
	while (fgets(line, sizeof line, f)) {
		char *field[4], *at = line;

		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' && !strchr(line, '\t'))
			continue;
		for (size_t i = 0; i < 4; i++)
			check((field[i] = strsep(&at, "\t")));
		check(!at);
		check_grammar_line(field[0], field[1], field[2], field[3]);
		n++;
	}
	fclose(f);
	check(n > 80);
}

static struct profile *load(const char *name)
{
	struct profile *p = NULL;
	char path[4096];

	snprintf(path, sizeof path, "%s/tests/data/profiles/%s.ini", getenv("SRCDIR"), name);
	check(profile_load_file(path, NULL, facts, &p) == 0);
	check_streq(p->name, name);
	return p;
}

TEST(pcie8)
{
	_cleanup_(profile_freep) struct profile *p = load("pcie8"), *shipped = NULL;
	char path[4096];

	check(p->valid && p->findings.errors == 0);
	check(p->n_variables == 8);
	check_streq(value(p, "NCCL_BUFFSIZE"), "16777216");
	check(variable(p, "NCCL_PROTO")->line == 8);
	check_streq(p->description, "CUDA 13.0 on 8x RTX PRO 6000 Blackwell, PCIe only");
	check(digest_valid(p->digest) && digest_valid(p->rank_digest));
	snprintf(path, sizeof path, "%s/etc/examples/pcie8.ini", getenv("SRCDIR"));
	check(profile_load_file(path, NULL, facts, &shipped) == 0);
	check_streq(shipped->digest, p->digest);
}

TEST(torture)
{
	static const struct {
		unsigned line;
		const char *rule;
		enum finding_severity severity;
	} want[] = {
		{1, "backslash-at-end", FINDING_ADVICE}, {3, "unknown-key", FINDING_ERROR},
		{10, "quotes", FINDING_WARNING},         {14, "inline-comment", FINDING_WARNING},
		{15, "one-path", FINDING_ERROR},         {17, "empty-element", FINDING_ERROR},
		{17, "too-late", FINDING_ADVICE},        {18, "too-late", FINDING_ADVICE},
		{19, "reserved-name", FINDING_ERROR},    {21, "secret", FINDING_ERROR},
		{24, "quotes", FINDING_ADVICE},          {26, "case-twins", FINDING_WARNING},
		{27, "duplicate-key", FINDING_ERROR},
	};
	_cleanup_(profile_freep) struct profile *p = load("torture");

	check(!p->valid);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		bool found = false;

		for (size_t j = 0; j < p->findings.n; j++) {
			const struct finding *f = &p->findings.items[j];

			found = found || (f->line == want[i].line && streq(f->rule, want[i].rule) &&
					  f->severity == want[i].severity && f->column > 0);
		}
		if (!found)
			fprintf(stderr, "line %u: no %s\n", want[i].line, want[i].rule);
		check(found);
	}
	check_streq(value(p, "NCCL_SOCKET_IFNAME"), "=ens1f0");
	check_streq(value(p, "NCCL_IB_HCA"), "^=mlx5_3:1,mlx5_5:1");
	check_streq(value(p, "BS"), "C:\\new\\t");
	check_streq(value(p, "SEMI"), "a;b#c");
	check_streq(value(p, "EMPTY"), "");
	check_streq(value(p, "NCCL_P2P_LEVEL"), "sys");
	check(!variable(p, "HF_TOKEN"));
	for (size_t i = 0; i < p->findings.n; i++)
		check(!strstr(p->findings.items[i].message, "hf_not"));
}

TEST(unclosed)
{
	_cleanup_(profile_freep) struct profile *p = load("unclosed");

	check(!p->valid && p->findings.n == 1);
	check(p->findings.items[0].line == 4);
	check(p->n_variables == 1);
	check_streq(value(p, "NCCL_PROTO"), "LL");
}

TEST(longpath)
{
	_cleanup_(profile_freep) struct profile *p = load("longpath");

	check(p->valid);
	check(strlen(value(p, "LD_LIBRARY_PATH")) == 3119);
	check(strstr(p->snapshot_text, value(p, "LD_LIBRARY_PATH")));
}

TEST(text)
{
	_cleanup_(profile_freep) struct profile *p =
		parse("[profile]\ndescription = d\n[match]\ngpu.name = *RTX*\ndriver = >=580\n"
		      "[require]\nnccl = >=2.28\n[env]\nNCCL_NTHREADS = 512\nA=\n"
		      "[together nccl]\nNCCL_PROTO = LL\n[env.force]\nF=1\n[env.unset]\nU=\n"
		      "[env.prepend]\nL=/usr/a:/usr/b\n[env.append]\nL=/usr/c\n");
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;

	check(p->valid && p->findings.n == 0);
	check_streq(p->snapshot_text, "cudaenv-snapshot 1\n"
				      "profile p\n"
				      "scope any\n"
				      "default A=\n"
				      "force F=1\n"
				      "prepend L=/usr/a:/usr/b\n"
				      "append L=/usr/c\n"
				      "default NCCL_NTHREADS=512\n"
				      "together nccl NCCL_PROTO=LL\n"
				      "unset U\n");
	check(p->n_match == 2 && p->n_require == 1);
	check_streq(p->match[1].key, "driver");
	check_streq(p->match[1].value, ">=580");
	check(p->match[1].line == 5);
	check_streq(variable(p, "NCCL_PROTO")->group, "nccl");
	/* what the client reads, with its own SHA-256 */
	check(snapshot_parse(p->snapshot_text, p->snapshot_size, &s) == 0);
	check_streq(s->digest, p->digest);
	check(s->n_entries == p->n_variables);
}

/* printf 'NCCL_NTHREADS=512\nNCCL_PROTO=LL\n' | sha256sum */
TEST(rank_digest)
{
	_cleanup_(profile_freep) struct profile *p = parse(
		"[together x]\nNCCL_PROTO=LL\n[env]\nNCCL_NTHREADS=512\nNCCL_SOCKET_IFNAME=eth0\n"
		"[env.unset]\nNCCL_ALGO=\n");
	_cleanup_(profile_freep) struct profile *q =
		parse("[env.force]\nNCCL_NTHREADS=512\nNCCL_PROTO=LL\nNCCL_SOCKET_IFNAME=eth1\n");
	_cleanup_(profile_freep) struct profile *r =
		parse("[env.force]\nNCCL_NTHREADS=512\nNCCL_PROTO=Simple\n");
	char want[DIGEST_SIZE];

	check(profile_digest("NCCL_NTHREADS=512\nNCCL_PROTO=LL\n", 32, want) == 0);
	check_streq(p->rank_digest, want);
	check_streq(q->rank_digest, want);
	check(!streq(p->digest, q->digest));
	check(!streq(r->rank_digest, want));
}

TEST(digests_agree)
{
	char ours[DIGEST_SIZE], theirs[DIGEST_SIZE], data[300];

	for (size_t i = 0; i < sizeof data; i++) {
		data[i] = (char)(i * 7);
		digest_bytes(data, i, ours);
		check(profile_digest(data, i, theirs) == 0);
		check_streq(ours, theirs);
	}
	check(profile_digest("abc", 3, theirs) == 0);
	check_streq(theirs, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(no_variables)
{
	_cleanup_(profile_freep) struct profile *p = parse("[profile]\ndescription = x\n[env]\n");

	check(p->valid && p->findings.n == 1);
	check(finding(p, "no-variables")->severity == FINDING_WARNING);
	check_streq(p->snapshot_text, "cudaenv-snapshot 1\nprofile p\nscope any\n");
}

TEST(duplicates_name_both_lines)
{
	_cleanup_(profile_freep) struct profile *p =
		parse("[env]\nA=1\n[env.force]\nB=1\nA=2\n[together x]\nA=3\n");
	unsigned n = 0;

	for (size_t i = 0; i < p->findings.n; i++) {
		const struct finding *f = &p->findings.items[i];

		check_streq(f->rule, "duplicate-variable");
		check(f->line == (n == 0 ? 5 : 7));
		check(strstr(f->message, "line 2"));
		n++;
	}
	check(n == 2);
}

TEST(lists_of_one_name)
{
	_cleanup_(profile_freep) struct profile *p =
		parse("[env.prepend]\nL=/usr/a\n[env.append]\nL=/usr/b\n");
	_cleanup_(profile_freep) struct profile *q =
		parse("[env.prepend]\nL=/usr/a\n[env.append]\nL=/usr/b:/usr/a\n");
	_cleanup_(profile_freep) struct profile *r =
		parse("[env]\nL=/usr/c\n[env.append]\nL=/usr/b\n");

	check(p->valid && p->findings.n == 0);
	check(q->valid && finding(q, "repeated-element")->line == 4);
	check(!r->valid && finding(r, "duplicate-variable")->line == 4);
}

TEST(unknown_keys)
{
	_cleanup_(profile_freep) struct profile *p =
		parse("[profile]\ncolour=blue\n[match]\ngpu.nmae=x\n[require]\nx=1\n"
		      "[toolkit]\nroot=/usr\npath=/usr\n[match.x]\ny=1\n");
	static const unsigned lines[] = {2, 4, 6, 9};
	unsigned n = 0;

	for (size_t i = 0; i < p->findings.n; i++) {
		if (!streq(p->findings.items[i].rule, "unknown-key"))
			continue;
		check(n < 4 && p->findings.items[i].line == lines[n]);
		n++;
	}
	check(n == 4);
	check_streq(finding(p, "unknown-key")->message, "[profile] has no key colour");
	check(finding(p, "unknown-section")->line == 10);
}

TEST(near_misses)
{
	_cleanup_(profile_freep) struct profile *p = parse("[evn]\nA=b\n");
	_cleanup_(profile_freep) struct profile *q = parse("[ENV]\n[pass word]\n");
	_cleanup_(profile_freep) struct profile *r = parse("[zzz]\n[profile]\nInherits=x\n");
	_cleanup_(profile_freep) struct profile *s = parse("[toolkit]\nroots=/usr\n");
	_cleanup_(profile_freep) struct profile *t = parse("[match]\ngpu.nmae=x\n");

	check_streq(finding(p, "unknown-section")->message,
		    "there is no section [evn]; did you mean [env]?");
	check_streq(finding(q, "unknown-section")->message,
		    "there is no section [ENV]; did you mean [env]?");
	check_streq(q->findings.items[1].message, "there is no such section");
	check_streq(finding(r, "unknown-section")->message, "there is no section [zzz]");
	check_streq(finding(r, "unknown-key")->message,
		    "[profile] has no key Inherits; did you mean inherits?");
	check_streq(finding(s, "unknown-key")->message,
		    "[toolkit] has no key roots; did you mean root?");
	check_streq(finding(t, "unknown-key")->message,
		    "[match] has no key gpu.nmae; did you mean gpu.name?");
}

/* A toolkit in a temporary directory, with the given tools. */
static char toolkit[] = "/tmp/test-profile-XXXXXX";

static void make_tool(const char *name)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/bin/%s", toolkit, name);
	f = fopen(path, "we");
	check(f && fclose(f) == 0 && chmod(path, 0755) == 0);
}

static struct profile *parse_toolkit(const char *rest)
{
	char text[512];

	snprintf(text, sizeof text, "[toolkit]\nroot = %s/\n%s", toolkit, rest);
	return parse(text);
}

TEST(toolkit)
{
	char path[128];
	struct profile *p;

	check(mkdtemp(toolkit));
	snprintf(path, sizeof path, "%s/bin", toolkit);
	check(mkdir(path, 0755) == 0);
	make_tool("nvdisasm");
	p = parse_toolkit("");
	check(p->valid);
	check_streq(p->toolkit_root, toolkit); /* without the slash at its end */
	check_streq(value(p, "CUDA_HOME"), toolkit);
	check_streq(value(p, "CUDA_PATH"), toolkit);
	check_streq(value(p, "PATH"), path);
	check(value(p, "TRITON_NVDISASM_PATH") && !value(p, "TRITON_CUOBJDUMP_PATH"));
	check(!value(p, "TRITON_PTXAS_PATH"));
	check_streq(finding(p, "toolkit-incomplete")->variable, "TRITON_PTXAS_PATH");
	check(variable(p, "CUDA_HOME")->rule == SNAPSHOT_TOGETHER);
	check_streq(variable(p, "CUDA_HOME")->group, "toolkit");
	check(variable(p, "CUDA_HOME")->line == 2);
	check(strstr(p->snapshot_text, "\ntoolkit default /tmp/"));
	check(strstr(p->snapshot_text, "\ntogether toolkit CUDA_HOME=/tmp/"));
	check(!p->scope_any && finding(p, "scope-user")); /* /tmp is everybody's */
	profile_free(p);

	make_tool("ptxas");
	p = parse_toolkit("rule = force\n");
	check(p->valid && !finding(p, "toolkit-incomplete"));
	check(value(p, "TRITON_PTXAS_PATH") && value(p, "TRITON_PTXAS_BLACKWELL_PATH"));
	check(strstr(p->snapshot_text, "\ntoolkit force /tmp/"));
	profile_free(p);

	p = parse_toolkit("rule = sometimes\n");
	check(!p->valid && finding(p, "toolkit-rule")->line == 3);
	profile_free(p);
}

TEST(toolkit_and_own_variables)
{
	struct profile *p = parse_toolkit("[env]\nCUDA_HOME=/usr\n");

	check(!p->valid);
	check(finding(p, "duplicate-variable")->line == 4);
	check(strstr(finding(p, "duplicate-variable")->message, "line 2"));
	profile_free(p);

	/* lists of PATH add up */
	p = parse_toolkit("[env.prepend]\nPATH=/usr/x\n[env.append]\nPATH=/usr/y\n");
	check(p->valid && !finding(p, "toolkit-path"));
	check(strstr(p->snapshot_text, "together toolkit PATH="));
	check(strstr(p->snapshot_text, "prepend PATH=/usr/x\nappend PATH=/usr/y\n"));
	profile_free(p);

	/* a PATH that is set whole wins */
	p = parse_toolkit("[env]\nPATH=/usr/bin\n");
	check(p->valid && finding(p, "toolkit-path")->severity == FINDING_WARNING);
	check(!strstr(p->snapshot_text, "toolkit PATH="));
	check_streq(value(p, "PATH"), "/usr/bin");
	profile_free(p);
}

TEST(toolkit_faults)
{
	_cleanup_(profile_freep) struct profile *missing =
		parse("[toolkit]\nroot=/usr/not/there\n");
	_cleanup_(profile_freep) struct profile *relative = parse("[toolkit]\nroot=cuda\n");
	_cleanup_(profile_freep) struct profile *slash = parse("[toolkit]\nroot=//\n");
	_cleanup_(profile_freep) struct profile *list = parse("[toolkit]\nroot=/usr:/opt\n");
	_cleanup_(profile_freep) struct profile *none =
		parse("[env]\nA=1\n[toolkit]\nrule=force\n");
	_cleanup_(profile_freep) struct profile *file = parse("[toolkit]\nroot=/etc/passwd\n");

	check(missing->valid && finding(missing, "toolkit-root")->severity == FINDING_WARNING);
	check_streq(value(missing, "CUDA_HOME"), "/usr/not/there");
	check_streq(value(missing, "TRITON_PTXAS_PATH"), "/usr/not/there/bin/ptxas");
	check(value(missing, "TRITON_PTXAS_BLACKWELL_PATH"));
	check(!value(missing, "TRITON_NVDISASM_PATH"));
	check(!relative->valid && finding(relative, "toolkit-root")->line == 2);
	check(relative->findings.errors == 1);
	check(!slash->valid);
	check(!list->valid);
	check(!none->valid && finding(none, "toolkit-root")->line == 3);
	check(!file->valid && finding(file, "toolkit-root"));
}

TEST(case_twins)
{
	_cleanup_(profile_freep) struct profile *p =
		parse("[env]\nhttp_proxy=a\nHTTP_PROXY=a\nab=1\naB=1\nAB=1\n");
	unsigned n = 0;

	check(p->valid);
	for (size_t i = 0; i < p->findings.n; i++)
		if (streq(p->findings.items[i].rule, "case-twins")) {
			check(p->findings.items[i].line > 3); /* the proxies agree */
			n++;
		}
	check(n == 2);
}

TEST(clean_up)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", toolkit);
	check(system(command) == 0);
	facts = facts_free(facts);
}

TEST_MAIN
