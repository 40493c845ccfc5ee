/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A crash at any system call that changes files: linked with --wrap for each of them (CRASH_FLAGS
 * in daemon/manager/local.mk), the process ends in place of the call that is counted. A write is
 * done by half.
 */

#define CRASH_STATUS 86

/* From now on: the N-th call (from 0) does not happen, the process exits with CRASH_STATUS instead.
 * Negative: never. */
void crash_at(int n);
/* From now on: calls fail with ERROR instead, from the N-th on. 0: no longer. */
void fail_from(int n, int error);
