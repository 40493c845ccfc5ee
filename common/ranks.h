/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which snapshots make equal ranks: ranks/ in the runtime tree, made by the publisher alone, has
 * two kinds of links, both with a digest as their text:
 *
 *   SNAPSHOT -> RANK     a published snapshot's rank digest
 *   RANK -> SNAPSHOT     one that has this rank digest: the node's own choice where it is one, else
 *                        what the first profile by name says now, else a former version
 *
 * CUDAENV_REQUIRE names either. libc only.
 */

#include "common/digest.h"
#include "common/runtime.h"

/* The text of ranks/NAME. 0, -ENOENT, -EPERM (not believed), -EBADMSG, other negative errno. */
int ranks_get(const struct runtime *rt, const char *name, char ret[DIGEST_SIZE]);

/* Is the snapshot DIGEST ("": none) what REQUIRED, any text, asks for? */
bool ranks_met(const struct runtime *rt, const char *required, const char *digest);
/* The published snapshot that REQUIRED stands for. 0 or -ENOENT. */
int ranks_resolve(const struct runtime *rt, const char *required, char ret[DIGEST_SIZE]);
