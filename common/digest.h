/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Digests: SHA-256 written as exactly 64 lower-case hex digits.
 *
 * This is the client's own SHA-256, because libcudaenv may use libc alone; it proves each snapshot
 * file that is read, so a truncated or damaged one is never applied. The daemon's pieces make their
 * digests with libcrypto (common/profile.c); a test holds the two against each other.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_HEX  64
#define DIGEST_SIZE (DIGEST_HEX + 1) /* with the terminating NUL */

/* Exactly 64 characters of [0-9a-f], then NUL. NULL is not a digest. */
bool digest_valid(const char *s);

/* SHA-256 of the bytes as hex with NUL. Cannot fail. */
void digest_bytes(const void *data, size_t size, char ret[DIGEST_SIZE]);

/* The 16-bit hash of a value in CUDAENV_APPLIED: FNV-1a of 32 bits, folded by xor. */
uint16_t digest_mark(const char *value, size_t size);
