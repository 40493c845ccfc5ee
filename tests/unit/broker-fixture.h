/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A runtime directory of its own for tests and fuzzers of the broker: one snapshot, an `assign`
 * with it, and what broker_open() makes. Failures end the program.
 */
#include <ftw.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "common/util.h"
#include "daemon/broker/request.h"

static const char fixture_snapshot[] = "cudaenv-snapshot 1\n"
				       "profile p\n"
				       "scope any\n"
				       "default NCCL_ALGO=Ring\n";

struct node {
	char path[64];
	char digest[DIGEST_SIZE];
	struct broker broker;
};

static void node_write(const struct node *n, const char *name, const char *text)
{
	char path[256], temporary[256];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", n->path, name);
	snprintf(temporary, sizeof temporary, "%s/.new", n->path);
	f = fopen(temporary, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0 || chmod(temporary, 0444) < 0 ||
	    rename(temporary, path) < 0) {
		perror(path);
		exit(1);
	}
}

static void node_assign(const struct node *n, const char *mode, const char *more)
{
	char text[1024];

	snprintf(text, sizeof text, "cudaenv-assign 1\ngeneration 1\nmode %s\ndefault %s\n%send\n",
		 mode, n->digest, more);
	node_write(n, "assign", text);
}

static void node_open(struct node *n, const struct account_limits *limits)
{
	int r = broker_open(&n->broker, n->path, true, limits);

	if (r < 0) {
		fprintf(stderr, "broker_open: %s\n", strerror(-r));
		exit(1);
	}
}

static void node_init(struct node *n, const char *mode)
{
	char path[128], name[128];

	*n = (struct node){.path = "/tmp/cudaenv-test-XXXXXX"};
	if (!mkdtemp(n->path) || chmod(n->path, 0755) < 0) {
		perror(n->path);
		exit(1);
	}
	snprintf(path, sizeof path, "%s/snapshots", n->path);
	(void)mkdir(path, 0755);
	digest_bytes(fixture_snapshot, sizeof fixture_snapshot - 1, n->digest);
	snprintf(name, sizeof name, "snapshots/%s", n->digest);
	node_write(n, name, fixture_snapshot);
	node_assign(n, mode, "");
	node_open(n, &account_limits_default);
}

static int node_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void node_done(struct node *n)
{
	broker_done(&n->broker);
	(void)nftw(n->path, node_remove, 16, FTW_DEPTH | FTW_PHYS);
}
