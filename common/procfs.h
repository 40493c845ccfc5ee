/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Readers of /proc, relative to a directory descriptor so that tests use a fixture tree. Entries may be
 * hostile or gone: a process chooses its own comm (blanks, parentheses and newlines included), and anything
 * may vanish between two reads. No allocation, fixed buffers, libc only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_facts {
	pid_t pid; /* in the pid namespace of this /proc */
	pid_t ppid;
	pid_t session;
	int tty_nr;     /* 0: no controlling terminal */
	uint64_t start; /* field 22 of stat: clock ticks since boot */
	uid_t uid;      /* effective */
	char comm[32];  /* cut, NUL-terminated */
};

/* Reads PID's stat and effective uid (owner of the stat file; where that is root and WANT_UID is not, the Uid: line of
 * status tells, since files of non-dumpable processes belong to root). 0, -ESRCH gone, -EBADMSG not understood. */
int procfs_facts(int proc_fd, pid_t pid, uid_t want_uid, struct proc_facts *ret);

/* The innermost number of the NSpid: line of status and how many numbers it has. 0 or negative errno. */
int procfs_nspid(int proc_fd, pid_t pid, pid_t *ret_nspid, unsigned *ret_depth);

/* The path in the hierarchy that names units and containers: the 0:: line where a cgroup2 mount is in use, else
 * name=systemd. Copies the path ("/..."), and says which in *ret_v2. 0, -ESRCH, -ENODATA (neither), -ENAMETOOLONG. */
int procfs_cgroup(int proc_fd, pid_t pid, char *ret, size_t ret_size, bool *ret_v2);
