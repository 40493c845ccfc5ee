/* SPDX-License-Identifier: MIT */
/* Snapshots that `set` derives from others: made for the rules that give them, and kept as long as
 * those rules are in force, so that a damaged one can be published again. */
#include <config.h>

#include "common/profile-derive.h"
#include "common/util.h"
#include "daemon/manager/manager.h"

void derived_done(struct derived *d)
{
	for (size_t i = 0; i < d->n; i++)
		(void)profile_free(d->items[i]);
	free(d->items);
	*d = (struct derived){0};
}

const struct profile *derived_find(const struct derived *d, const char *digest)
{
	for (size_t i = 0; i < d->n; i++)
		if (streq(d->items[i]->digest, digest))
			return d->items[i];
	return NULL;
}

static int fetch_base(struct manager *m, const char *digest, struct snapshot **ret)
{
	_cleanup_(freep) char *bytes = NULL;
	size_t size;
	int r;

	if (!digest[0])
		return 0;
	r = switch_fetch(m, digest, &bytes, &size);
	return r < 0 ? r : snapshot_parse(bytes, size, ret);
}

static int push_consume(struct derived *d, struct profile *p)
{
	struct profile **items = reallocarray(d->items, d->n + 1, sizeof(*items));

	if (!items) {
		(void)profile_free(p);
		return -ENOMEM;
	}
	d->items = items;
	items[d->n++] = p;
	return 0;
}

static int derive_one(struct manager *m, struct rule *rule, struct derived *ret)
{
	_cleanup_(snapshot_freep) struct snapshot *base = NULL;
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r;

	r = fetch_base(m, rule->base, &base);
	if (r == 0)
		r = derive_snapshot(base, (const char *const *)rule->variables.items,
				    rule->variables.n, m->facts, &p);
	if (r < 0)
		return r;
	if (!p->valid)
		return -EMSGSIZE;
	strcpy(rule->digest, p->digest);
	return derived_find(ret, p->digest) ? 0 : push_consume(ret, TAKE_PTR(p));
}

int derive_rules(struct manager *m, struct rules *rules, struct derived *ret)
{
	struct derived d = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < rules->n; i++)
		if (rules->items[i].variables.n > 0)
			r = derive_one(m, &rules->items[i], &d);
	if (r < 0) {
		derived_done(&d);
		return r;
	}
	*ret = d;
	return 0;
}
