/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names that NCCL, PyTorch's NCCL backend, Triton and the CUDA driver are known to read, of the
 * families NCCL_, TORCH_NCCL_, TRITON_ and CUDA_, and what a value of each can do: for "did you
 * mean", and for what a member of cudaenv-admin may set for others. NCCL's are those of all its
 * releases to 2.30.7, by its source; the others by the source of PyTorch and Triton and the CUDA
 * programming guide. A newer release has names that are not here. A table, no state.
 */

#include <stdbool.h>
#include <stddef.h>

enum known_kind {
	KNOWN_NOT,     /* is not in the table */
	KNOWN_PLAIN,   /* a number, a word or a list of such */
	KNOWN_PATH,    /* a file or directory: loaded, run, read or written over */
	KNOWN_CODE,    /* names code that is loaded */
	KNOWN_ADDRESS, /* of the network */
	KNOWN_DUMP,    /* makes the process write its memory to a file */
};

enum known_kind known_kind(const char *name);
/* For printf(), with a name: why a member of cudaenv-admin may not set it. */
#define KNOWN_PLAIN_ONLY                                                                           \
	"%.128s is not known as a plain setting: what may name code, files or addresses is set "   \
	"by root, or stands in a profile"
/* Does it begin as those of a family do? */
bool known_family(const char *name);
/* The known one that NAME, which is not, is a slip or two away from, in its family; NULL: none. */
const char *known_near(const char *name);
/* The I-th of the table; NULL: there are fewer. */
const char *known_name(size_t i);
