/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the manager has published, read without it: the runtime directory, `assign`, the status file
 * and the snapshots' headers, all under the trust rules of common/runtime. Verbs that work with the
 * daemon dead stand on this.
 */

#include "client/ctl/ctl.h"
#include "common/assign.h"
#include "common/runtime.h"
#include "common/snapshot.h"

struct json_object;

struct published {
	const char *path;
	struct runtime runtime;
	struct assign *assign; /* NULL: assign_error tells why */
	int assign_error;
	struct json_object *status; /* NULL: absent, not believed or no JSON */
	int64_t status_time;        /* seconds since 1970 when it was written */
};

#define PUBLISHED_NULL                                                                             \
	{                                                                                          \
		.runtime = RUNTIME_NULL                                                            \
	}

/* Opens PATH's runtime directory for the calling user. 0 or the errors of runtime_open(). */
int published_open(const char *path, struct published *ret);
void published_done(struct published *p);

/* The same for a verb, with an error line: CTL_GOOD or an exit status. */
int ctl_published(struct ctl *ctl, struct published *ret);
/* Needs `assign` as well. */
int ctl_published_assign(struct ctl *ctl, struct published *ret);

/* Does `assign` give any job a snapshot, by a rule that has not ended or by default? */
bool published_gives(const struct published *p);
/* Name of the profile of DIGEST: from the status file, else from the snapshot's header. malloc()ed;
 * NULL: unknown. */
char *published_profile(const struct published *p, const char *digest);
/* Digest of the published profile NAME. 0 or -ENOENT. */
int published_digest(const struct published *p, const char *name, char ret[DIGEST_SIZE]);

/* The snapshot of DIGEST, to look at: also one that this user may not take (snapshot_load() asks
 * for that). 0, -EUCLEAN where its bytes are not those of DIGEST, other errors of runtime_read()
 * and snapshot_parse(). */
int published_snapshot(const struct published *p, const char *digest, struct snapshot **ret);
/* What a new job gets of which no rule says anything: an override for the whole node, else the
 * default. "" for none. P has an assign. */
const char *published_in_force(const struct published *p);

/* Names of many snapshots in a row: those beside each other are mostly one, so the last is kept. */
struct published_names {
	const struct published *published;
	char digest[DIGEST_SIZE];
	char *name;
};

/* NULL: unknown, or DIGEST is "". Good until the next call. */
const char *published_names_find(struct published_names *n, const char *digest);
void published_names_done(struct published_names *n);
