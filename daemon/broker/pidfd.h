/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes by pidfd, never by number alone: a pid with its start time becomes a descriptor that is
 * that process or nothing. Where the kernel has no pidfd (or a filter denies it) callers fall back
 * on looking at /proc from time to time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* pidfd of the process PID that began at START. -ESRCH: it is gone; other negative errno (-ENOSYS,
 * -EPERM, -EMFILE): it is there, but no pidfd can be had.  Where /proc hides the process, the start
 * time is taken for right. */
int pidfd_of(int proc_fd, pid_t pid, uint64_t start);

/* By /proc: does PID run and did it begin at START? */
bool pidfd_alive(int proc_fd, pid_t pid, uint64_t start);

/* The process at the other end of a socket: SO_PEERPIDFD, or, where the kernel does not have that,
 * the process PID that began at START. Errors as above, and -ESRCH for a peer that is gone. */
int pidfd_of_peer(int socket_fd, int proc_fd, pid_t pid, uint64_t start);
