/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From a profile's variables to the text that is published, and the digests: by libcrypto, where
 * the client has its own SHA-256 (common/digest).
 */

#include "common/profile.h"

/* SHA-256 by libcrypto. 0 or -EIO. */
int profile_digest(const void *data, size_t size, char ret[DIGEST_SIZE]);

/* The rank digest of a parsed snapshot: SHA-256 of its must-match NAME=VALUE lines, each with its
 * LF, in byte order (LC_ALL=C sort | sha256sum gives the same). Removed variables have no line. 0
 * or -EIO/-ENOMEM. */
int profile_rank_digest(const struct snapshot *s, const struct facts *facts, char ret[DIGEST_SIZE]);

/* Makes P's snapshot text and digests from its sorted variables. Sizes were checked. FACTS may be
 * NULL. 0 or -ENOMEM/-EIO. */
int profile_make_text(struct profile *p, const struct facts *facts);

/* The longest that CUDAENV_APPLIED=... can become for P: see client/apply.h for its format. */
size_t profile_marks_size(const struct profile *p);
