/* SPDX-License-Identifier: MIT */
#include "common/pin.h"

#include "tests/unit/node.h"

#define KEY "unit-4242-7"

TEST(texts)
{
	static const char *const bad[] = {
		"",        " ",        "NONE",         "none ",       " none",    (A64 "a"),
		(" " A64), (A64 " "),  (A64 "  " B64), (A64 " none"), (A64 "\n"), (A64 "\t" B64),
		"none\n",  (A64 " x"),
	};
	char text[4096];
	struct pin pin = {.n_former = 77};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(pin_parse(bad[i], &pin) == -EBADMSG);
	check(pin.n_former == 77);
	check(pin_parse("none", &pin) == 0 && pin.digest[0] == '\0' && pin.n_former == 0);
	check(!pin_has(&pin, "") && !pin_has(&pin, A64));
	check(pin_parse("none " A64, &pin) == 0 && pin.n_former == 1 && pin_has(&pin, A64));
	check(pin_parse(A64 " " B64, &pin) == 0);
	check_streq(pin.digest, A64);
	check(pin_has(&pin, A64) && pin_has(&pin, B64) && !pin_has(&pin, C64));
	(void)strcpy(text, A64);
	for (unsigned i = 0; i < PIN_MAX_FORMER; i++)
		(void)strcat(text, " " B64);
	check(pin_parse(text, &pin) == 0 && pin.n_former == PIN_MAX_FORMER);
	(void)strcat(text, " " B64);
	check(pin_parse(text, &pin) == -EBADMSG);
}

TEST(made_once)
{
	struct pin pin;
	struct node n;

	node_init(&n);
	check(pin_read(&n.rt, KEY, geteuid(), &pin) == -ENOENT);
	check(pin_settle(&n.rt, KEY, geteuid(), A64, &pin) == 1 && pin.slot == 0);
	check_streq(pin.digest, A64);
	check(pin_settle(&n.rt, KEY, geteuid(), B64, &pin) == 0);
	check_streq(pin.digest, A64);
	check(pin_read(&n.rt, KEY, geteuid(), &pin) == 0 && pin.n_former == 0);
	check_streq(pin.digest, A64);
	check(pin_settle(&n.rt, "unit-4242-8", geteuid(), "", &pin) == 1);
	check(pin_read(&n.rt, "unit-4242-8", geteuid(), &pin) == 0);
	check_streq(pin.digest, "");
	check(pin_settle(&n.rt, "unit-4242-9", geteuid(), NULL, &pin) == 1);
	check_streq(pin.digest, "");
	node_done(&n);
}

TEST(without_a_place_to_make_them)
{
	struct node n;
	struct pin pin;
	int jobs;

	node_init(&n);
	jobs = n.rt.jobs_fd;
	n.rt.jobs_fd = -EBADF;
	check(pin_read(&n.rt, KEY, geteuid(), &pin) == -ENOENT);
	check(pin_settle(&n.rt, KEY, geteuid(), A64, &pin) == -EBADF);
	n.rt.jobs_fd = jobs;
	node_done(&n);
}

/* The view of somebody who can remove nothing of others. */
static struct runtime as_client(const struct node *n)
{
	struct runtime rt = n->rt;

	rt.self = 4242;
	return rt;
}

TEST(names_that_a_stranger_has_taken)
{
	struct runtime rt;
	struct pin pin;
	struct node n;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	rt = as_client(&n);
	node_link(&n, "jobs", KEY, B64, 1234);
	check(pin_read(&rt, KEY, 4242, &pin) == -ENOENT);
	check(pin_settle(&rt, KEY, 4242, A64, &pin) == 1 && pin.slot == 1);
	check(node_has_link(&n, "jobs", KEY "~1"));
	/* Whoever comes now, and also when the stranger has taken his away, finds the same. */
	check(pin_settle(&rt, KEY, 4242, C64, &pin) == 0 && pin.slot == 1);
	check_streq(pin.digest, A64);
	check(unlinkat(n.rt.jobs_fd, KEY, 0) == 0);
	check(pin_settle(&rt, KEY, 4242, C64, &pin) == 0 && pin.slot == 1);
	check_streq(pin.digest, A64);
	check(pin_read(&rt, KEY, 4242, &pin) == 0);
	check_streq(pin.digest, A64);
	check(!node_has_link(&n, "jobs", KEY));
	node_done(&n);
}

TEST(all_names_taken)
{
	static const char *const names[] = {KEY, (KEY "~1"), (KEY "~2"), (KEY "~3")};
	struct runtime rt;
	struct pin pin;
	struct node n;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	rt = as_client(&n);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		node_link(&n, "jobs", names[i], B64, 1234);
	check(pin_read(&rt, KEY, 4242, &pin) == -EPERM);
	check(pin_settle(&rt, KEY, 4242, A64, &pin) == -EPERM);
	/* Reading removes nothing, for whoever; making does, where it may. */
	check(pin_read(&n.rt, KEY, 4242, &pin) == -EPERM);
	check(pin_settle(&n.rt, KEY, 4242, A64, &pin) == 1 && pin.slot == 0);
	check(pin_read(&rt, KEY, 4242, &pin) == 0);
	check_streq(pin.digest, A64);
	node_done(&n);
}

TEST(what_is_no_link)
{
	struct runtime rt;
	struct pin pin;
	struct node n;

	node_init(&n);
	rt = as_client(&n);
	node_write(&n, "run/jobs/" KEY, A64, 64);
	node_mkdir(&n, "run/jobs/" KEY "~1");
	node_mkdir(&n, "run/jobs/" KEY "~2/sub");
	node_link(&n, "jobs", KEY "~3", "garbage", 0);
	if (geteuid() == 0)
		check(pin_settle(&rt, KEY, 0, A64, &pin) == -EPERM);
	check(pin_settle(&n.rt, KEY, geteuid(), A64, &pin) == 1 && pin.slot == 0);
	check(pin_read(&rt, KEY, geteuid(), &pin) == 0);
	check_streq(pin.digest, A64);
	node_done(&n);
}

/* A directory with something in it cannot be removed by those who may remove its name. */
TEST(directories_that_are_not_empty)
{
	static const char *const names[] = {KEY, (KEY "~1"), (KEY "~2"), (KEY "~3")};
	struct pin pin;
	struct node n;

	node_init(&n);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		node_mkdir(&n, "run/jobs/%s/sub", names[i]);
	if (geteuid() == 0) {
		struct runtime rt = as_client(&n);

		check(pin_settle(&rt, KEY, 4242, A64, &pin) == -EPERM);
	}
	check(pin_settle(&n.rt, KEY, geteuid(), A64, &pin) == 1 && pin.slot == 0);
	check(pin_settle(&n.rt, KEY, geteuid(), B64, &pin) == 0);
	check_streq(pin.digest, A64);
	node_done(&n);
}

TEST(a_key_of_the_greatest_length)
{
	struct job_key k = {.kind = JOB_TREE,
			    .uid = UINT32_MAX,
			    .pidns = UINT64_MAX,
			    .pid = INT32_MAX,
			    .start = UINT64_MAX,
			    .digest = A64};
	char key[JOB_KEY_SIZE];
	struct pin pin;
	struct node n;

	node_init(&n);
	job_key_format(&k, key);
	check(pin_settle(&n.rt, key, geteuid(), A64, &pin) == 1);
	check(node_has_link(&n, "jobs", key));
	node_done(&n);
}

static void number_digest(unsigned i, char ret[DIGEST_SIZE])
{
	memset(ret, 'a', DIGEST_HEX);
	ret[DIGEST_HEX] = '\0';
	ret[0] = (char)('a' + i % 6);
	ret[1] = (char)('a' + i / 6);
}

/* Each digest that the job had stays in its pin, as long as there is room; then nothing changes. */
TEST(released)
{
	char digest[DIGEST_SIZE];
	struct pin pin;
	struct node n;

	node_init(&n);
	check(pin_release(&n.rt, KEY, geteuid(), A64, &pin) == -ENOENT);
	check(pin_settle(&n.rt, KEY, geteuid(), "", &pin) == 1);
	check(pin_release(&n.rt, KEY, geteuid(), "", &pin) == 0);
	for (unsigned i = 0; i <= PIN_MAX_FORMER; i++) {
		number_digest(i, digest);
		check(pin_release(&n.rt, KEY, geteuid(), digest, &pin) == 1);
		check(pin.n_former == (i > 0 ? i - 1 : 0));
	}
	check(pin_read(&n.rt, KEY, geteuid(), &pin) == 0 && pin.n_former == PIN_MAX_FORMER);
	for (unsigned i = 0; i <= PIN_MAX_FORMER; i++) {
		number_digest(i, digest);
		check(pin_has(&pin, digest));
	}
	number_digest(PIN_MAX_FORMER + 1, digest);
	check(pin_release(&n.rt, KEY, geteuid(), digest, &pin) == -E2BIG);
	check(pin_release(&n.rt, KEY, geteuid(), "", &pin) == -E2BIG);
	number_digest(3, digest); /* one that it had */
	check(pin_release(&n.rt, KEY, geteuid(), digest, &pin) == 1);
	check(pin_read(&n.rt, KEY, geteuid(), &pin) == 0 && streq(pin.digest, digest));
	check(pin.n_former == PIN_MAX_FORMER && !node_has_link(&n, "jobs", ".release"));
	node_done(&n);
}

/* Also the pin that its job's user made, under the name that a stranger left it; what lies where
 * the new one is made beside is moved away. */
TEST(released_beside_strangers)
{
	struct pin pin;
	struct node n;

	if (geteuid() != 0)
		skip("needs root");
	node_init(&n);
	node_link(&n, "jobs", KEY, B64, 1234);
	node_link(&n, "jobs", KEY "~1", A64, 4242);
	node_mkdir(&n, "run/jobs/.release/sub");
	check(pin_release(&n.rt, KEY, 4242, C64, &pin) == 1 && pin.slot == 1);
	check(pin_read(&n.rt, KEY, 4242, &pin) == 0 && pin.slot == 1 && pin.n_former == 1);
	check_streq(pin.digest, C64);
	check_streq(pin.former[0], A64);
	node_done(&n);
}

TEST_MAIN
