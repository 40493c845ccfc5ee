/* SPDX-License-Identifier: MIT */
#include "common/profile-derive.h"

#include <sys/stat.h>

#include "common/util.h"
#include "tests/unit/test.h"

#define HEAD "cudaenv-snapshot 1\nprofile p\nscope any\n"

static const char *const nothing[1];

/* The assignments in LIST, NULL-terminated, over BASE (NULL: nothing): the text. */
static const char *derive(const char *base, const char *const *list)
{
	static char text[1 << 16];
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(profile_freep) struct profile *p = NULL;
	char digest[DIGEST_SIZE], *fault = NULL;
	size_t n = 0;

	while (list[n])
		n++;
	check(!base || snapshot_parse(base, strlen(base), &s) == 0);
	check(derive_check(list, n, NULL, &fault) == 0 && !fault);
	check(derive_snapshot(s, list, n, NULL, &p) == 0);
	check(p->valid && p->snapshot_size < sizeof text);
	digest_bytes(p->snapshot_text, p->snapshot_size, digest);
	check_streq(digest, p->digest);
	strcpy(text, p->snapshot_text);
	return text;
}

#define DERIVE(base, ...) derive(base, (const char *const[]){__VA_ARGS__, NULL})

TEST(rules_are_kept)
{
	static const char base[] = HEAD "default A=1\nforce B=2\ntogether g C=3\nunset D\n"
					"prepend E=/x\nappend E=/y\nappend F=z\ndefault G=7\n";

	check_streq(derive(base, nothing), base);
	check_streq(DERIVE(base, "A=one", "B=two", "C=three"),
		    HEAD "default A=one\nforce B=two\ntogether g C=three\nunset D\n"
			 "prepend E=/x\nappend E=/y\nappend F=z\ndefault G=7\n");
	/* What is removed whatever the process has is set whatever it has; one list is left. */
	check_streq(DERIVE(base, "D=4", "E=/e", "F=f"),
		    HEAD "default A=1\nforce B=2\ntogether g C=3\nforce D=4\nprepend E=/e\n"
			 "append F=f\ndefault G=7\n");
	/* New ones, at their places; values may be empty. */
	check_streq(DERIVE(base, "AA=", "Z=x=y", "G="),
		    HEAD "default A=1\ndefault AA=\nforce B=2\ntogether g C=3\nunset D\n"
			 "prepend E=/x\nappend E=/y\nappend F=z\ndefault G=\ndefault Z=x=y\n");
	/* Nothing cannot be added to a list. */
	check_streq(DERIVE(base, "E=", "F="),
		    HEAD "default A=1\nforce B=2\ntogether g C=3\nunset D\ndefault E=\n"
			 "default F=\ndefault G=7\n");
}

TEST(over_nothing)
{
	check_streq(DERIVE(NULL, "B=2", "A=1"),
		    "cudaenv-snapshot 1\nprofile none\nscope any\ndefault A=1\ndefault B=2\n");
}

TEST(toolkit)
{
	static const char base[] = HEAD "toolkit force /usr\ntogether toolkit CUDA_HOME=/usr\n"
					"together toolkit PATH=/usr/bin\nprepend PATH=/usr/sbin\n";

	check_streq(DERIVE(base, "A=1"),
		    HEAD "toolkit force /usr\ndefault A=1\ntogether toolkit CUDA_HOME=/usr\n"
			 "together toolkit PATH=/usr/bin\nprepend PATH=/usr/sbin\n");
	check_streq(DERIVE(base, "CUDA_HOME=/bin", "PATH=/sbin"),
		    HEAD "toolkit force /usr\ntogether toolkit CUDA_HOME=/bin\n"
			 "together toolkit PATH=/sbin\n");
	check_streq(DERIVE(base, "PATH="),
		    HEAD "toolkit force /usr\ntogether toolkit CUDA_HOME=/usr\ndefault PATH=\n");
}

/* Root's processes get no path that others can change. */
TEST(scope)
{
	char place[] = "/tmp/test-derive-XXXXXX", assignment[64];

	check(mkdtemp(place) && chmod(place, 0777) == 0);
	(void)snprintf(assignment, sizeof assignment, "CUDA_HOME=%s/x", place);
	check(strstr(DERIVE(HEAD "default A=1\n", assignment), "\nscope user\n"));
	check(strstr(DERIVE(HEAD "default A=1\n", "CUDA_HOME=/usr"), "\nscope any\n"));
	check(rmdir(place) == 0);
}

TEST(refused)
{
	static const char *const bad[] = {
		"",
		"A",
		"=1",
		"1A=1",
		"A B=1",
		"A-B=1",
		"A=b\nB=c",
		"A=\001",
		"A= b",
		"A=b ",
		"A=\tb",
		"A=\377",
		"RANK=0",
		"CUDA_VISIBLE_DEVICES=0",
		"HOME=/x",
		"CUDAENV_DISABLE=1",
		"MY_TOKEN=secret-value",
		"DB_PASSWORD=secret-value",
		"PATH=/a::/b",
		"CUDA_HOME=/a:/b",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *const list[] = {"OK=1", bad[i]};
		char *fault = NULL;
		int r = derive_check(list, 2, NULL, &fault);

		if (r != -EINVAL)
			fprintf(stderr, "'%s' is taken\n", bad[i]);
		check(r == -EINVAL && fault && fault[0] && !strstr(fault, "secret-value"));
		free(fault);
	}
}

TEST(bounds)
{
	static char values[DERIVE_VARIABLES_MAX + 1][32], large[DERIVE_BYTES_MAX + 8];
	const char *list[DERIVE_VARIABLES_MAX + 1], *const twice[] = {"A=1", "A=2"};
	const char *const one[] = {large};
	char *fault = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		(void)snprintf(values[i], sizeof values[i], "V%zu=x", i);
		list[i] = values[i];
	}
	check(derive_check(list, DERIVE_VARIABLES_MAX, NULL, &fault) == 0);
	check(derive_check(list, DERIVE_VARIABLES_MAX + 1, NULL, &fault) == -EINVAL);
	free(fault);
	check(derive_check(twice, 2, NULL, &fault) == -EINVAL);
	free(fault);
	memset(large, 'x', sizeof large - 1);
	memcpy(large, "A=", 2);
	large[DERIVE_BYTES_MAX + 1] = '\0';
	check(derive_check(one, 1, NULL, &fault) == -EINVAL);
	free(fault);
	fault = NULL;
	large[DERIVE_BYTES_MAX] = '\0';
	check(derive_check(one, 1, NULL, &fault) == 0);
}

/* What is worth a word, but no refusal. */
TEST(slips)
{
	static const char *const list[] = {"NCCL_DEBGU=INFO", "NCCL_PROTO=LL"};
	static const char *const bad[] = {"NCCL_DEBGU=INFO", "DB_PASS=hidden"};
	_cleanup_(findings_done) struct findings findings = {0};
	_cleanup_(freep) char *fault = NULL;

	check(derive_check(list, 2, &findings, &fault) == 0 && !fault && findings.n == 1);
	check_streq(findings.items[0].rule, "unknown-name");
	check_streq(findings.items[0].variable, "NCCL_DEBGU");
	check_streq(findings.items[0].fix, "did you mean NCCL_DEBUG?");
	check(findings.items[0].line == 0 && findings.items[0].column == 0);
	findings_done(&findings);
	findings = (struct findings){0};
	check(derive_check(bad, 2, &findings, &fault) == -EINVAL && fault && findings.n == 0);
	check(!strstr(fault, "hidden"));
}

TEST_MAIN
