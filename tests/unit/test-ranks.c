/* SPDX-License-Identifier: MIT */
#include "common/ranks.h"

#include "tests/unit/node.h"

#define R64 "1111111111111111111111111111111111111111111111111111111111111111"

/* A and B are published; A has rank digest R. */
static void start(struct node *n)
{
	node_init(n);
	node_mkdir(n, "run/ranks");
	node_link(n, "ranks", A64, R64, 0);
	node_link(n, "ranks", R64, A64, 0);
}

TEST(both_kinds_of_digest)
{
	char got[DIGEST_SIZE] = "as before";
	struct node n;

	start(&n);
	check(ranks_get(&n.rt, A64, got) == 0);
	check_streq(got, R64);
	check(ranks_resolve(&n.rt, R64, got) == 0);
	check_streq(got, A64);
	check(ranks_resolve(&n.rt, B64, got) == 0);
	check_streq(got, B64);
	check(ranks_met(&n.rt, A64, A64) && ranks_met(&n.rt, R64, A64));
	check(!ranks_met(&n.rt, R64, B64) && !ranks_met(&n.rt, B64, A64));
	node_done(&n);
}

TEST(what_is_none)
{
	static const char *const bad[] = {"", "none", "..", "../snapshots/" A64, A64 "a", "A" A64};
	char got[DIGEST_SIZE] = "as before";
	struct node n;

	start(&n);
	node_link(&n, "ranks", C64, R64, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		check(ranks_get(&n.rt, bad[i], got) == -ENOENT);
		check(ranks_resolve(&n.rt, bad[i], got) == -ENOENT);
		check(!ranks_met(&n.rt, bad[i], A64));
	}
	check(!ranks_met(&n.rt, R64, ""));
	check(ranks_get(&n.rt, B64, got) == -ENOENT);
	/* Not published, although ranks/ has its name; and R stands for a snapshot that is gone. */
	check(ranks_resolve(&n.rt, C64, got) == -ENOENT);
	check(unlinkat(n.rt.snapshots_fd, A64, 0) == 0);
	check(ranks_resolve(&n.rt, R64, got) == -ENOENT);
	check_streq(got, "as before");
	node_done(&n);
}

TEST(who_is_believed)
{
	char got[DIGEST_SIZE], path[128];
	struct node n;

	start(&n);
	node_link(&n, "ranks", B64, "../../etc/passwd", 0);
	check(ranks_get(&n.rt, B64, got) < 0);
	node_write(&n, "run/ranks/" C64, R64, DIGEST_HEX);
	check(ranks_get(&n.rt, C64, got) < 0);
	(void)snprintf(path, sizeof path, "%s/run/ranks", n.dir);
	check(chmod(path, 0777) == 0);
	check(ranks_get(&n.rt, A64, got) == -EPERM && !ranks_met(&n.rt, R64, A64));
	check(ranks_resolve(&n.rt, R64, got) == -ENOENT);
	check(chmod(path, 0755) == 0);
	if (geteuid() == 0) {
		check(unlinkat(n.rt.dir_fd, "ranks/" R64, 0) == 0);
		node_link(&n, "ranks", R64, B64, 4242);
		check(ranks_resolve(&n.rt, R64, got) == -ENOENT);
	}
	check(renameat(n.rt.dir_fd, "ranks", n.rt.dir_fd, "elsewhere") == 0);
	check(ranks_get(&n.rt, A64, got) == -ENOENT);
	check(symlinkat("elsewhere", n.rt.dir_fd, "ranks") == 0);
	check(ranks_get(&n.rt, A64, got) < 0);
	/* Unknown ranks take nothing from a snapshot's own digest. */
	check(ranks_met(&n.rt, A64, A64));
	node_done(&n);
}

TEST_MAIN
