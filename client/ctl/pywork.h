/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One interpreter's hook put there or taken away, without a word: which method, then pyhook and
 * pyplace. What `cudaenvctl python` does with one interpreter and with all of them.
 */

#include <limits.h>

#include "client/ctl/pycover.h"

struct pywork_options {
	const char *method;      /* --method, NULL: as it is there, else what is best */
	const char *runtime_dir; /* recorded in the hook; NULL: none */
	const char *reason;      /* for the journal; "" none */
	bool dry_run;
};

/* COVER is what pycover_look() says of that interpreter. */
enum pyhook_method pywork_method(const struct pyexe *exe, const struct pycover *cover,
				 const char *asked);

/* 1: done (or would be), 0: the same was there; as pyplace_install() with its errors. RET is what
 * was made. */
int pywork_install(const struct pyexe *exe, const struct pywork_options *options,
		   struct pyhook *ret, char why[PYEXE_WHY_SIZE]);

/* Takes away the hook of METHOD: 1: done (or would be) and RET its path; 0: none of ours is there
 * (ASKED: what is not ours is an error then); as pyplace_remove() with its errors. */
int pywork_remove(const struct pyexe *exe, enum pyhook_method method, bool asked, bool dry_run,
		  char ret[PATH_MAX], char why[PYEXE_WHY_SIZE]);

/* Was it refused (an answer, bad news), or did the system fail? */
bool pywork_refused(int r);
