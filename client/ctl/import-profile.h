/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From an import list to the text of a profile. Every variable is judged by the code that reads
 * profiles, and the whole text is parsed before it is given out: it has no errors, and each
 * variable in it has the very value of the source. What may not stand in a profile becomes a note.
 */

#include "client/ctl/import.h"
#include "common/facts.h"

struct import_profile_options {
	const char *name;   /* of the profile, for the hint at its head */
	const char *source; /* what was imported, for people */
	enum import_kind kind;
	bool process;              /* a process: only the known families */
	const struct facts *facts; /* NULL: no [together nccl] */
};

struct import_chosen {
	const struct import_item *item; /* the list's */
	enum snapshot_rule rule;
	const char *group; /* NULL unless together; static */
	unsigned line;     /* in TEXT */
};

struct import_profile {
	char *text;
	struct import_chosen *chosen;
	size_t n_chosen;
	char *toolkit_root; /* NULL: no [toolkit] */
	size_t n_others;    /* variables of a process that are of no known family */
};

/* 0, -ENOMEM, -EIO. Adds notes to IM. */
int import_profile_make(struct import *im, const struct import_profile_options *options,
			struct import_profile *ret);
void import_profile_done(struct import_profile *p);

/* CUDA_*, NCCL_*, TORCH_NCCL_*, TRITON_*, and what FACTS (may be NULL) knows. */
bool import_known_family(const char *name, const struct facts *facts);
