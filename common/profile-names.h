/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a variable's name, or value, alone says: whether a profile may have it, and whether a process that has
 * started already can still be given it. Tables, no state.
 */

#include <stdbool.h>

/* Looks like a secret (..._TOKEN, ..._SECRET, ..._PASS, ..._API_KEY, ..._CREDENTIALS, ...): refused,
 * value never shown. */
bool profile_name_is_secret(const char *name);
/* Has a password in it, as in scheme://user:password@host: refused, never shown. */
bool profile_value_is_secret(const char *value);
/* Belongs to the scheduler, the rank, the login or the service manager (CUDA_VISIBLE_DEVICES, RANK,
 * MASTER_ADDR, SLURM_*, HOME, ...): refused. */
bool profile_name_is_reserved(const char *name);
/* cudaenv's own (CUDAENV_*): refused. */
bool profile_name_is_own(const char *name);
/* A list of directories in which an empty element means the working directory (PATH,
 * LD_LIBRARY_PATH, ...). */
bool profile_name_is_search_path(const char *name);
/* Exactly one path (CUDA_HOME, TRITON_PTXAS_PATH, ...). */
bool profile_name_is_one_path(const char *name);
