/* SPDX-License-Identifier: MIT */
#pragma once

/* The interpreters of this machine: those in the usual places, each base and venv once, none of
 * them run. */

#include <stddef.h>

#include "client/ctl/pyexe.h"

struct pyplan {
	struct pyexe *items;
	size_t n;
};

/* Bases of the distribution, /usr/local, /opt, conda and pyenv, and the venv or conda environment
 * that is active. 0 or -ENOMEM. */
int pyplan_find(struct pyplan *ret);
void pyplan_done(struct pyplan *p);
