/* SPDX-License-Identifier: MIT */
#include "daemon/broker/account.h"

#include "common/util.h"

/* A user's share holds a thousand starts at once and every worker of a large node; the totals keep
 * the broker's memory and descriptors within bounds when several users reach theirs. */
const struct account_limits account_limits_default = {
	.user = {[ACCOUNT_CONNECTIONS] = 2048,
		 [ACCOUNT_PROCESSES] = 16384,
		 [ACCOUNT_JOBS] = 16384,
		 [ACCOUNT_BYTES] = (size_t)4 << 20},
	.total = {[ACCOUNT_CONNECTIONS] = 8192,
		  [ACCOUNT_PROCESSES] = 65536,
		  [ACCOUNT_JOBS] = 65536,
		  [ACCOUNT_BYTES] = (size_t)16 << 20},
};

struct account {
	struct table_node node; /* accounts.users */
	uid_t uid;
	size_t used[ACCOUNT_KIND_MAX_];
};

const char *account_kind_name(enum account_kind kind)
{
	static const char *const names[] = {
		[ACCOUNT_CONNECTIONS] = "connections",
		[ACCOUNT_PROCESSES] = "processes",
		[ACCOUNT_JOBS] = "jobs",
		[ACCOUNT_BYTES] = "bytes",
	};

	return kind < ACCOUNT_KIND_MAX_ ? names[kind] : NULL;
}

int accounts_init(struct accounts *a, const struct account_limits *limits)
{
	*a = (struct accounts){.limits = *limits};
	return table_init(&a->users);
}

void accounts_done(struct accounts *a)
{
	struct table_node *next;

	for (struct table_node *n = table_next(&a->users, NULL); n; n = next) {
		next = table_next(&a->users, n);
		free(TABLE_CONTAINER(n, struct account, node));
	}
	table_done(&a->users);
}

static bool account_match(const struct table_node *node, const void *key)
{
	return TABLE_CONTAINER(node, const struct account, node)->uid == *(const uid_t *)key;
}

static struct account *account_find(const struct accounts *a, uid_t uid)
{
	struct table_node *n =
		table_find(&a->users, table_hash(&a->users, &uid, sizeof uid), account_match, &uid);

	return n ? TABLE_CONTAINER(n, struct account, node) : NULL;
}

static struct account *account_make(struct accounts *a, uid_t uid)
{
	struct account *u;

	if (table_reserve(&a->users) < 0)
		return NULL;
	u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->uid = uid;
	table_add(&a->users, &u->node, table_hash(&a->users, &uid, sizeof uid));
	return u;
}

int account_charge(struct accounts *a, uid_t uid, enum account_kind kind, size_t n)
{
	struct account *u = account_find(a, uid);
	size_t used = u ? u->used[kind] : 0;
	int r = 0;

	if (n > a->limits.user[kind] - used)
		r = -EDQUOT;
	else if (n > a->limits.total[kind] - a->used[kind])
		r = -EUSERS;
	else if (n > 0 && !u && !(u = account_make(a, uid)))
		r = -ENOMEM;
	if (r < 0) {
		a->refused[kind]++;
		return r;
	}
	if (n > 0) {
		u->used[kind] += n;
		a->used[kind] += n;
	}
	return 0;
}

void account_release(struct accounts *a, uid_t uid, enum account_kind kind, size_t n)
{
	struct account *u = account_find(a, uid);

	if (!u)
		return;
	if (n > u->used[kind])
		n = u->used[kind];
	u->used[kind] -= n;
	a->used[kind] -= n;
	for (size_t i = 0; i < ACCOUNT_KIND_MAX_; i++)
		if (u->used[i] > 0)
			return;
	table_remove(&a->users, &u->node);
	free(u);
}

size_t account_used(const struct accounts *a, uid_t uid, enum account_kind kind)
{
	const struct account *u = account_find(a, uid);

	return u ? u->used[kind] : 0;
}

bool account_full(struct accounts *a, uid_t uid, enum account_kind kind)
{
	bool full = account_used(a, uid, kind) >= a->limits.user[kind] ||
		    a->used[kind] >= a->limits.total[kind];

	a->refused[kind] += full;
	return full;
}
