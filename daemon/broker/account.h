/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What each uid holds of the broker, and the limits: no user can grow it beyond a user's share, and
 * all of them together not beyond the total. Callers charge before they take and release when they
 * give back; a refusal is counted.
 */

#include <sys/types.h>

#include "daemon/broker/table.h"

enum account_kind {
	ACCOUNT_CONNECTIONS,
	ACCOUNT_PROCESSES,
	ACCOUNT_JOBS,
	ACCOUNT_BYTES, /* of reports */
	ACCOUNT_KIND_MAX_,
};

struct account_limits {
	size_t user[ACCOUNT_KIND_MAX_];
	size_t total[ACCOUNT_KIND_MAX_];
};

extern const struct account_limits account_limits_default;

struct accounts {
	struct account_limits limits;
	size_t used[ACCOUNT_KIND_MAX_];
	uint64_t refused[ACCOUNT_KIND_MAX_];
	struct table users;
};

const char *account_kind_name(enum account_kind kind);

int accounts_init(struct accounts *a, const struct account_limits *limits);
void accounts_done(struct accounts *a);

/* 0, -EDQUOT (the user's share is full), -EUSERS (the total is), -ENOMEM. */
int account_charge(struct accounts *a, uid_t uid, enum account_kind kind, size_t n);
/* Gives back at most what was charged. */
void account_release(struct accounts *a, uid_t uid, enum account_kind kind, size_t n);
/* Is the user's share, or the total, full? A yes is counted as a refusal. */
bool account_full(struct accounts *a, uid_t uid, enum account_kind kind);
size_t account_used(const struct accounts *a, uid_t uid, enum account_kind kind);
