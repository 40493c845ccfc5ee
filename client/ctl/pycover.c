/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pycover.h"

#include "common/util.h"

const char *pycover_state_name(enum pycover_state state)
{
	static const char *const names[] = {
		[PYCOVER_ABSENT] = "absent",   [PYCOVER_GOOD] = "installed",
		[PYCOVER_OLDER] = "older",     [PYCOVER_DAMAGED] = "damaged",
		[PYCOVER_FOREIGN] = "foreign",
	};

	return names[state];
}

static enum pycover_state state_of(const struct pyplace *place, enum pyhook_method method)
{
	const struct pyhook_options now = {.source_dir = PYCOVER_SOURCE_DIR, .method = method};
	char header[PYHOOK_LINE_MAX];

	switch (place->state) {
	case PYPLACE_ABSENT:
		return PYCOVER_ABSENT;
	case PYPLACE_DAMAGED:
		return PYCOVER_DAMAGED;
	case PYPLACE_FOREIGN:
		return PYCOVER_FOREIGN;
	case PYPLACE_GOOD:
		break;
	}
	if (place->header && pyhook_header(&now, header) == 0 && !streq(place->header, header))
		return PYCOVER_OLDER;
	return PYCOVER_GOOD;
}

/* One place; absent with no parent where there is no such place. */
static int look(const struct pyexe *exe, enum pyhook_method method, struct pycover *c,
		char why[PYEXE_WHY_SIZE])
{
	_cleanup_(pyhook_done) struct pyhook hook = PYHOOK_NULL;
	int r = pyhook_locate(exe, method, &hook, why);

	c->state[method] = PYCOVER_ABSENT;
	if (r == -EOPNOTSUPP)
		return 0;
	if (r == 0)
		r = pyplace_look(hook.parent, hook.name, &c->place[method], why);
	if (r == 0)
		c->state[method] = state_of(&c->place[method], method);
	return r;
}

/* What says most of an interpreter comes first. */
static void choose(struct pycover *c)
{
	static const enum pycover_state order[] = {PYCOVER_DAMAGED, PYCOVER_OLDER, PYCOVER_GOOD,
						   PYCOVER_ABSENT};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		for (enum pyhook_method m = PYHOOK_DIRECTORY; m <= PYHOOK_IN_SITE; m++) {
			if (c->state[m] != order[i] || !c->place[m].parent)
				continue;
			c->own = order[i];
			c->method = m;
			return;
		}
	}
	/* All that is there is of others; or there is no place at all. */
	c->method = c->place[PYHOOK_DIRECTORY].parent ? PYHOOK_DIRECTORY : PYHOOK_IN_SITE;
	c->own = c->state[c->method];
}

int pycover_look(const struct pyexe *exe, struct pycover *ret, char why[PYEXE_WHY_SIZE])
{
	struct pycover c = PYCOVER_NULL;
	int r = look(exe, PYHOOK_DIRECTORY, &c, why);

	if (r == 0)
		r = look(exe, PYHOOK_IN_SITE, &c, why);
	if (r < 0) {
		pycover_done(&c);
		return r;
	}
	choose(&c);
	*ret = c;
	return 0;
}

void pycover_done(struct pycover *c)
{
	pyplace_done(&c->place[PYHOOK_DIRECTORY]);
	pyplace_done(&c->place[PYHOOK_IN_SITE]);
}

static bool good(enum pycover_state state)
{
	return state == PYCOVER_GOOD || state == PYCOVER_OLDER;
}

bool pycover_works(const struct pycover *c)
{
	return good(c->state[PYHOOK_DIRECTORY]) || good(c->state[PYHOOK_IN_SITE]);
}

bool pycover_serves(const struct pyexe *venv, const struct pycover *base)
{
	return good(base->state[PYHOOK_DIRECTORY]) ||
	       (venv->system_site && good(base->state[PYHOOK_IN_SITE]));
}

/* --- of all that was found */

static void judge(const struct pyfind *f, size_t i, struct pycover_item *item)
{
	_cleanup_(pycover_done) struct pycover own = PYCOVER_NULL, base = PYCOVER_NULL;
	const struct pyfind_item *found = &f->items[i];
	char why[PYEXE_WHY_SIZE];

	if (found->kind != PYFIND_BASE && found->kind != PYFIND_VENV)
		return;
	if (pycover_look(&found->exe, &own, why) < 0) {
		item->unknown = true;
		return;
	}
	item->state = own.own;
	if (found->kind == PYFIND_VENV && !pycover_works(&own) && found->base < f->n &&
	    pycover_look(&f->items[found->base].exe, &base, why) == 0)
		item->by_base = pycover_serves(&found->exe, &base);
}

int pycover_all(const struct pyfind *f, struct pycover_item **ret)
{
	struct pycover_item *items = calloc(f->n + 1, sizeof *items);

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++)
		judge(f, i, &items[i]);
	*ret = items;
	return 0;
}
