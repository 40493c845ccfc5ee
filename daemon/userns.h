/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Is a peer's uid 0 the root of our own user namespace? In a namespace below, made by root or by
 * nobody special, a process may be uid 0 and have none of root's rights here.
 */

#include <stdbool.h>
#include <sys/types.h>

/* Is PID in our own user namespace, by its maps? Where /proc hides the process (hidepid) its uid,
 * which the kernel gave as our namespace has it, must be enough. PID 0, one that is not to be seen
 * from here, is not. PROC_FD: a directory as /proc. */
bool userns_is_ours(pid_t pid, int proc_fd);
