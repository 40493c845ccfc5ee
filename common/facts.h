/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The must-match table: the variables that all ranks of one communicator must have alike. An
 * installed data file with a version, so that the rank digests of two nodes can be compared knowing
 * that they mean the same:
 *
 *   # comment
 *   version 2.30.7-1       the release of NCCL whose source was read, and our revision of the table
 *   source NVIDIA/nccl ... free text
 *   NCCL_ALGO              one name a line
 */

#include <stdbool.h>
#include <stddef.h>

#define FACTS_MAX_BYTES ((size_t)1024 * 1024)

struct facts;

/* Reads the table in PATH. 0, -EBADMSG (not such a table), -EFBIG, or why it cannot be read. */
int facts_load(const char *path, struct facts **ret);
int facts_parse(const char *bytes, size_t size, struct facts **ret);
struct facts *facts_free(struct facts *f);
const char *facts_version(const struct facts *f);
bool facts_must_match(const struct facts *f, const char *name);

static inline void facts_freep(struct facts **f)
{
	if (*f)
		(void)facts_free(*f);
}
