/* SPDX-License-Identifier: MIT */
#include <sys/stat.h>

#include "common/facts.h"
#include "common/util.h"
#include "tests/unit/test.h"

static int parse(const char *text)
{
	_cleanup_(facts_freep) struct facts *f = NULL;

	return facts_parse(text, strlen(text), &f);
}

TEST(shipped_table)
{
	_cleanup_(facts_freep) struct facts *f = NULL;
	char path[4096];

	snprintf(path, sizeof path, "%s/etc/facts/must-match", getenv("SRCDIR"));
	check(facts_load(path, &f) == 0);
	check_streq(facts_version(f), "2.30.7-1");
	check(facts_must_match(f, "NCCL_PROTO"));
	check(facts_must_match(f, "NCCL_ALGO"));
	check(facts_must_match(f, "NCCL_BUFFSIZE"));
	check(facts_must_match(f, "NCCL_MAX_NCHANNELS"));
	check(!facts_must_match(f, "NCCL_SOCKET_IFNAME"));
	check(!facts_must_match(f, "NCCL_DEBUG"));
	check(!facts_must_match(f, "CUDA_HOME"));
	check(!facts_must_match(f, "NCCL_PROT"));
	check(!facts_must_match(f, "NCCL_PROTOX"));
}

TEST(grammar)
{
	static const char good[] = "# c\nB\nversion 1\n\nsource x y\nA";
	_cleanup_(facts_freep) struct facts *f = NULL;

	check(parse("version 1\n") == 0);
	check(parse("version 1") == 0);
	check(parse("") == -EBADMSG);
	check(parse("A\n") == -EBADMSG);
	check(parse("version \n") == -EBADMSG);
	check(parse("version 1\nversion 1\n") == -EBADMSG);
	check(parse("version 1\nA B\n") == -EBADMSG);
	check(parse("version 1\nA\r\n") == -EBADMSG);
	check(parse("version 1 2\n") == -EBADMSG);
	check(facts_parse("version 1\nA\0B\n", 14, &f) == -EBADMSG);
	check(facts_parse(good, strlen(good), &f) == 0);
	check(facts_must_match(f, "A") && facts_must_match(f, "B") && !facts_must_match(f, "x"));
}

TEST(not_files)
{
	_cleanup_(facts_freep) struct facts *f = NULL;
	char dir[] = "/tmp/test-facts-XXXXXX", path[64];

	check(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/fifo", dir);
	check(mkfifo(path, 0600) == 0);
	check(facts_load(path, &f) == -EBADMSG);
	check(unlink(path) == 0);
	check(facts_load(path, &f) == -ENOENT);
	check(facts_load(dir, &f) == -EBADMSG);
	check(rmdir(dir) == 0);
}

TEST_MAIN
