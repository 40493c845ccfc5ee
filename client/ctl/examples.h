/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Command lines that --help ends with, by verb. The manual page has the same ones and the tests run
 * them; each is written for a shell.
 */

#include <stddef.h>

/* The I-th example of the verb NAME, from 0; NULL after the last. */
const char *ctl_example(const char *name, size_t i);
