/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has an interpreter a start hook, and of which state: both places where one can be (the directory
 * pythonXY.zip of a base, the package in site-packages) and, for a venv, the hook of its base.
 */

#include "client/ctl/pyfind.h"
#include "client/ctl/pyplace.h"

#define PYCOVER_SOURCE_DIR PKGLIBDIR "/python"

enum pycover_state {
	PYCOVER_ABSENT,
	PYCOVER_GOOD,
	PYCOVER_OLDER,   /* works, made by or for another version: install again */
	PYCOVER_DAMAGED, /* ours, but not as installed: install again */
	PYCOVER_FOREIGN, /* not ours */
};

/* "absent", "installed", "older", "damaged", "foreign" */
const char *pycover_state_name(enum pycover_state state);

struct pycover {
	enum pycover_state state[2]; /* by enum pyhook_method */
	struct pyplace place[2];     /* parent NULL: no such place for that interpreter */
	enum pycover_state own;      /* the one that says most: DAMAGED, OLDER, GOOD, then ABSENT */
	enum pyhook_method method;   /* of that one */
};

#define PYCOVER_NULL                                                                               \
	{                                                                                          \
		.place = { PYPLACE_NULL, PYPLACE_NULL }                                            \
	}

/* 0, or negative errno with WHY (a place that cannot be looked into). */
int pycover_look(const struct pyexe *exe, struct pycover *ret, char why[PYEXE_WHY_SIZE]);
void pycover_done(struct pycover *c);
/* Does a start of that interpreter run a hook of ours? */
bool pycover_works(const struct pycover *c);
/* Does the hook of its base run in that venv, too? */
bool pycover_serves(const struct pyexe *venv, const struct pycover *base);

/* Of all that was found: who runs a hook. */
struct pycover_item {
	enum pycover_state state; /* of its own hook; ABSENT for what is no interpreter */
	bool by_base;             /* no own one, but its base's directory works */
	bool unknown;             /* could not be looked at: state is ABSENT */
};

/* One for each item of F, malloc()ed. 0 or -ENOMEM. An interpreter is uncovered if its kind is
 * PYFIND_BASE or PYFIND_VENV, state is ABSENT, DAMAGED or FOREIGN, and by_base is false. */
int pycover_all(const struct pyfind *f, struct pycover_item **ret);
