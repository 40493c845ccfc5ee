/* SPDX-License-Identifier: MIT */
/*
 * The snapshot grammar, line by line what is accepted and what is refused, and loading under trust
 * and proof.
 */
#include "common/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/util.h"
#include "tests/unit/test.h"

#define HEAD "cudaenv-snapshot 1\nprofile p\nscope any\n"

static int parse(const char *text)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	int r = snapshot_parse(text, strlen(text), &s);

	check((r == 0) == (s != NULL));
	return r;
}

/* HEAD with the line or lines of ENTRIES. */
static int entries(const char *text)
{
	char *whole = malloc(STRLEN(HEAD) + strlen(text) + 1);
	int r;

	check(whole);
	strcpy(stpcpy(whole, HEAD), text);
	r = parse(whole);
	free(whole);
	return r;
}

/* A line of a table: says which text it was. */
static void check_each(const char *text, int r, int wanted)
{
	if (r != wanted)
		fprintf(stderr, "%d instead of %d for: %s\n", r, wanted, text);
	check(r == wanted);
}

static void check_entry(const struct snapshot_entry *e, enum snapshot_rule rule, const char *group,
			const char *name, const char *value)
{
	check(e->rule == rule);
	check(!e->group == !group);
	if (group)
		check_streq(e->group, group);
	check_streq(e->name, name);
	check_streq(e->value, value);
}

TEST(everything)
{
	static const char text[] = "cudaenv-snapshot 1\n"
				   "profile cuda13-pcie\n"
				   "scope user\n"
				   "toolkit force /usr/local/cuda-13.0\n"
				   "append A=\n"
				   "together toolkit CUDA_HOME=/usr/local/cuda-13.0\n"
				   "force EQUALS=a=b==\n"
				   "together nccl NCCL_ALGO=Ring\n"
				   "unset NCCL_MAX_NRINGS\n"
				   "default NCCL_PROTO= LL\t\"\302\265\" \n"
				   "prepend PATH=/a\n"
				   "append PATH=/z\n"
				   "default _x=\377\n";
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	char digest[DIGEST_SIZE];

	check(snapshot_parse(text, STRLEN(text), &s) == 0);
	digest_bytes(text, STRLEN(text), digest);
	check_streq(s->digest, digest);
	check_streq(s->profile, "cuda13-pcie");
	check(!s->scope_any);
	check_streq(s->toolkit_root, "/usr/local/cuda-13.0");
	check(s->toolkit_force);
	check(s->n_entries == 9);
	check_entry(&s->entries[0], SNAPSHOT_APPEND, NULL, "A", "");
	check_entry(&s->entries[1], SNAPSHOT_TOGETHER, "toolkit", "CUDA_HOME",
		    "/usr/local/cuda-13.0");
	check_entry(&s->entries[2], SNAPSHOT_FORCE, NULL, "EQUALS", "a=b==");
	check_entry(&s->entries[3], SNAPSHOT_TOGETHER, "nccl", "NCCL_ALGO", "Ring");
	check_entry(&s->entries[4], SNAPSHOT_UNSET, NULL, "NCCL_MAX_NRINGS", "");
	check_entry(&s->entries[5], SNAPSHOT_DEFAULT, NULL, "NCCL_PROTO", " LL\t\"\302\265\" ");
	check_entry(&s->entries[6], SNAPSHOT_PREPEND, NULL, "PATH", "/a");
	check_entry(&s->entries[7], SNAPSHOT_APPEND, NULL, "PATH", "/z");
	check_entry(&s->entries[8], SNAPSHOT_DEFAULT, NULL, "_x", "\377");
}

TEST(no_entries)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;

	check(snapshot_parse(HEAD, STRLEN(HEAD), &s) == 0);
	check(s->n_entries == 0 && s->scope_any && !s->toolkit_root);
}

TEST(header_refused)
{
	static const char *const bad[] = {
		"",
		"\n",
		"cudaenv-snapshot",
		"cudaenv-snapshot 1",
		"cudaenv-snapshot \n",
		"cudaenv-snapshot 1\n",
		"cudaenv-snapshot 1\nprofile p\n",
		"cudaenv-snapshot 1\nprofile p\nscope any",
		"cudaenv-assign 1\nprofile p\nscope any\n",
		" " HEAD,
		"\n" HEAD,
		"cudaenv-snapshot 1\nscope any\nprofile p\n",
		"cudaenv-snapshot 1\nprofile p\nscope\n",
		"cudaenv-snapshot 1\nprofile p\nscope all\n",
		"cudaenv-snapshot 1\nprofile \nscope any\n",
		"cudaenv-snapshot 1\nprofile -p\nscope any\n",
		"cudaenv-snapshot 1\nprofile .p\nscope any\n",
		"cudaenv-snapshot 1\nprofile a b\nscope any\n",
		"cudaenv-snapshot 1\nprofile a/b\nscope any\n",
		"cudaenv-snapshot 1\nprofile p\nscope any \n",
		"cudaenv-snapshot 1\r\nprofile p\r\nscope any\r\n",
		HEAD "scope any\n",
		HEAD "toolkit\n",
		HEAD "toolkit \n",
		HEAD "toolkit default\n",
		HEAD "toolkit default \n",
		HEAD "toolkit default cuda\n",
		HEAD "toolkit maybe /cuda\n",
		HEAD "toolkit default /a\001b\n",
		HEAD "toolkit default /a\ntoolkit default /a\n",
		HEAD "default A=1\ntoolkit default /a\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_each(bad[i], parse(bad[i]), -EBADMSG);
	check(parse("cudaenv-snapshot 2\n") == -EPROTONOSUPPORT);
	check(parse("cudaenv-snapshot 10\nprofile p\nscope any\n") == -EPROTONOSUPPORT);
}

TEST(entries_refused)
{
	static const char *const bad[] = {
		"\n",
		"#\n",
		"default\n",
		"default \n",
		"default A\n",
		"default =1\n",
		"default A=1",
		"default  A=1\n",
		"default A =1\n",
		"default 1A=1\n",
		"default A-B=1\n",
		"default A.B=1\n",
		"default \303\244=1\n",
		"Default A=1\n",
		"export A=1\n",
		"A=1\n",
		" default A=1\n",
		"unset A=1\n",
		"unset A=\n",
		"unset\n",
		"unset \n",
		"unset A B\n",
		"unset 1\n",
		"together A=1\n",
		"together g A\n",
		"together  A=1\n",
		"together -g A=1\n",
		"together g h A=1\n",
		"together g =1\n",
		"together g=h A=1\n",
		"default A=\001\n",
		"default A=\r\n",
		"default A=\033[0m\n",
		"default A=\177\n",
		"default A=\v\n",
		"defaultA=1\n",
		"default\tA=1\n",
		/* order and repetition */
		"default B=1\ndefault A=1\n",
		"default A=1\ndefault A=1\n",
		"default A=1\nforce A=1\n",
		"default A=1\nprepend A=1\n",
		"unset A\nappend A=1\n",
		"force A=1\nunset A\n",
		"together g A=1\nprepend A=1\n",
		"together g PATH=1\nprepend PATH=1\n",
		"together toolkit A=1\nprepend A=1\n",
		"append A=1\nprepend A=1\n",
		"prepend A=1\nprepend A=2\n",
		"append A=1\nappend A=1\n",
		"prepend A=1\ndefault A=1\n",
		"together toolkit PATH=1\ntogether toolkit PATH=1\n",
		"together toolkit PATH=1\nprepend PATH=1\nprepend PATH=2\n",
		"together toolkit PATH=1\ndefault PATH=1\n",
		"default a=1\ndefault B=1\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_each(bad[i], entries(bad[i]), -EBADMSG);
}

TEST(entries_accepted)
{
	static const char *const good[] = {
		"default A=1\ndefault AB=1\ndefault A_=1\ndefault B=1\n",
		"default A=x\ty\n",
		"default A==\n",
		"default A=# not a comment ; nor this\n",
		"prepend A=1\nappend A=2\n",
		"together toolkit PATH=1\nprepend PATH=2\nappend PATH=3\n",
		"together toolkit PATH=1\nappend PATH=3\n",
		"together a.b@c-d_1 A=1\n",
		"default A=1\ndefault a=1\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		check_each(good[i], entries(good[i]), 0);
}

TEST(nul_refused)
{
	static const char inside[] = HEAD "default A=1\0\ndefault B=1\n";
	static const char last[] = HEAD "default A=1\n\0";
	static const char after[] = HEAD "default A=1\n\0\n";
	struct snapshot *s = NULL;

	check(snapshot_parse(inside, STRLEN(inside), &s) == -EBADMSG);
	check(snapshot_parse(last, STRLEN(last), &s) == -EBADMSG);
	check(snapshot_parse(after, STRLEN(after), &s) == -EBADMSG);
	check(snapshot_parse(NULL, 0, &s) == -EBADMSG);
	check(!s);
}

/* PREFIX, then N times C, then SUFFIX. */
static int repeated(const char *prefix, size_t n, char c, const char *suffix)
{
	char *text = malloc(strlen(prefix) + n + strlen(suffix) + 1), *p;
	int r;

	check(text);
	p = stpcpy(text, prefix);
	memset(p, c, n);
	strcpy(p + n, suffix);
	r = parse(text);
	free(text);
	return r;
}

TEST(limits)
{
	char *many, *p;

	check(repeated(HEAD "default ", SNAPSHOT_NAME_MAX, 'A', "=\n") == 0);
	check(repeated(HEAD "default ", SNAPSHOT_NAME_MAX + 1, 'A', "=\n") == -EBADMSG);
	check(repeated(HEAD "default A=", SNAPSHOT_STRING_MAX - 2, 'x', "\n") == 0);
	check(repeated(HEAD "default A=", SNAPSHOT_STRING_MAX - 1, 'x', "\n") == -EBADMSG);
	check(repeated(HEAD "together g A=", SNAPSHOT_STRING_MAX - 2, 'x', "\n") == 0);
	check(repeated(HEAD "together g A=", SNAPSHOT_STRING_MAX - 1, 'x', "\n") == -EBADMSG);
	check(repeated("cudaenv-snapshot 1\nprofile ", 128, 'p', "\nscope any\n") == 0);
	check(repeated("cudaenv-snapshot 1\nprofile ", 129, 'p', "\nscope any\n") == -EBADMSG);
	check(repeated(HEAD "together ", 129, 'g', " A=\n") == -EBADMSG);
	check(repeated(HEAD "toolkit default /", 4094, 'c', "\n") == 0);
	check(repeated(HEAD "toolkit default /", 4095, 'c', "\n") == -EBADMSG);
	check(repeated(HEAD, SNAPSHOT_MAX_BYTES, 'x', "\n") == -EFBIG);

	many = malloc((SNAPSHOT_ENTRIES_MAX + 1) * STRLEN("unset A12345\n") + STRLEN(HEAD) + 1);
	check(many);
	p = stpcpy(many, HEAD);
	for (unsigned i = 0; i < SNAPSHOT_ENTRIES_MAX; i++)
		p += sprintf(p, "unset A%05u\n", i);
	check(parse(many) == 0);
	strcpy(p, "unset B\n");
	check(parse(many) == -EFBIG);
	free(many);
}

TEST(names)
{
	check(snapshot_name_valid("A=1", 1));
	check(snapshot_name_valid("_", 1));
	check(snapshot_name_valid("a9_Z", 4));
	check(!snapshot_name_valid("", 0));
	check(!snapshot_name_valid("9", 1));
	check(!snapshot_name_valid("A=1", 2));
	check(!snapshot_name_valid("A\0B", 3));
	check(snapshot_label_valid("vllm@1.b-c_D", 12));
	check(snapshot_label_valid("9", 1));
	check(snapshot_label_valid("_", 1));
	check(snapshot_label_valid("@", 1));
	check(!snapshot_label_valid("", 0));
	check(!snapshot_label_valid("..", 2));
	check(!snapshot_label_valid("a\0b", 3));
	check(!snapshot_label_valid("a/b", 3));
	check(!snapshot_label_valid("a b", 3));
	check_streq(snapshot_rule_name(SNAPSHOT_DEFAULT), "default");
	check_streq(snapshot_rule_name(SNAPSHOT_APPEND), "append");
}

/* --- loading */

static char base[] = "/tmp/test-snapshot-XXXXXX";

static void put(const char *name, const char *text, mode_t mode)
{
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/snapshots/%s", base, name);
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0);
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	check(fchmod(fd, mode) == 0);
	close(fd);
}

TEST(load)
{
	static const char text[] = HEAD "default A=1\n", user[] = "cudaenv-snapshot 1\nprofile p\n"
								  "scope user\n";
	struct runtime rt = RUNTIME_NULL;
	char digest[DIGEST_SIZE], path[512];
	struct snapshot *s = NULL;

	check(mkdtemp(base));
	snprintf(path, sizeof path, "%s/snapshots", base);
	check(mkdir(path, 0755) == 0);
	check(runtime_open(base, geteuid(), &rt) == 0);

	digest_bytes(text, STRLEN(text), digest);
	check(snapshot_load(&rt, digest, &s) == -ENOENT);
	put(digest, text, 0444);
	check(snapshot_load(&rt, digest, &s) == 0);
	check_streq(s->digest, digest);
	check(s->n_entries == 1);
	s = snapshot_free(s);

	/* cut, changed, grown; writable by others; not a digest */
	put(digest, HEAD, 0444);
	check(snapshot_load(&rt, digest, &s) == -EUCLEAN);
	put(digest, HEAD "default A=2\n", 0444);
	check(snapshot_load(&rt, digest, &s) == -EUCLEAN);
	put(digest, "", 0444);
	check(snapshot_load(&rt, digest, &s) == -EUCLEAN);
	put(digest, text, 0464);
	check(snapshot_load(&rt, digest, &s) == -EPERM);
	put("none", text, 0444);
	check(snapshot_load(&rt, "none", &s) == -EINVAL);
	check(snapshot_load(&rt, "../snapshots", &s) == -EINVAL);
	check(snapshot_load(&rt, "", &s) == -EINVAL);
	check(snapshot_load(&rt, NULL, &s) == -EINVAL);

	/* the right digest of something that is no snapshot */
	digest_bytes("hello\n", 6, digest);
	put(digest, "hello\n", 0444);
	check(snapshot_load(&rt, digest, &s) == -EBADMSG);

	/* root takes only what is for any */
	digest_bytes(user, STRLEN(user), digest);
	put(digest, user, 0444);
	rt.self = 0;
	check(snapshot_load(&rt, digest, &s) == -EKEYREJECTED);
	rt.self = 12345;
	check(snapshot_load(&rt, digest, &s) == 0);
	s = snapshot_free(s);
	runtime_done(&rt);

	rt = (struct runtime)RUNTIME_NULL;
	check(snapshot_load(&rt, digest, &s) == -ENOENT);
	check(!s);
	snprintf(path, sizeof path, "rm -r %s", base);
	check(system(path) == 0);
}

TEST(late_names)
{
	static const char *const late[] = {
		"LD_LIBRARY_PATH",  "LD_PRELOAD", "PYTHONHASHSEED", "PYTHONPATH", "GLIBC_TUNABLES",
		"MALLOC_ARENA_MAX", "LD_"};
	static const char *const others[] = {
		"GLIBC_TUNABLES_X",        "PATH",  "CUDA_HOME", "LDFLAGS",
		"PYTORCH_CUDA_ALLOC_CONF", "PYTHO", "LD",        ""};

	for (size_t i = 0; i < ARRAY_SIZE(late); i++)
		check(snapshot_name_late(late[i], strlen(late[i])));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		check(!snapshot_name_late(others[i], strlen(others[i])));
}

TEST_MAIN
