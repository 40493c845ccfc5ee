/* SPDX-License-Identifier: MIT */
#pragma once

/* Whole numbers of 64 bits, for the readers of programs: a result that leaves them is none. */

#include <stdbool.h>
#include <stddef.h>

/* A OP B for + - * ** // and <<. False: too large, negative where that differs between languages, or
 * no such operator. */
bool number_calculate(const char *op, long long a, long long b, long long *ret);
/* 0, 16, 0x10, 0b1, 0o7, from S to its end. No leading zeros. */
bool number_parse(const char *s, long long *ret);
/* The SIZE bytes at S, of a shell's $((...)): numbers with + - * / << and brackets. */
bool number_of_shell(const char *s, size_t size, long long *ret);
