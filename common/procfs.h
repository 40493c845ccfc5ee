/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Readers of /proc, relative to a directory descriptor so that tests use a fixture tree. Entries
 * may be hostile or gone: a process chooses its own comm (blanks, parentheses and newlines
 * included), and anything may vanish between two reads. No allocation, fixed buffers, libc only.
 * The parsers are apart from the reading, for the fuzzer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_facts {
	pid_t pid; /* all numbers as the pid namespace of this /proc has them */
	pid_t ppid;
	pid_t pgrp;
	pid_t session;
	int tty_nr;     /* 0: no controlling terminal */
	uint64_t start; /* field 22 of stat: clock ticks since boot */
	uid_t uid;      /* effective */
	char comm[32];  /* cut, NUL-terminated */
};

/* Reads PID's stat. The uid is the owner of the directory /proc/PID, which is the effective uid
 * also where the process is not dumpable (its files then belong to root); both are of one process:
 * the number cannot have been given to another one between. 0, -ESRCH gone (or hidden by hidepid),
 * -EACCES, -EBADMSG not understood, other negative errno. */
int procfs_facts(int proc_fd, pid_t pid, struct proc_facts *ret);

/* The same in two steps, for who asks about one process often: a descriptor of its stat, and what
 * that says now; -ESRCH when the process has gone, whoever has its number then. PROC_FD negative:
 * without the uid, which is (uid_t)-1 then. */
int procfs_open(int proc_fd, pid_t pid);
int procfs_read(int proc_fd, int stat_fd, pid_t pid, struct proc_facts *ret);

/* Numbers of a process in its own, innermost pid namespace. */
struct proc_ns {
	pid_t pid;
	pid_t pgrp;     /* 0: led from outside of it */
	pid_t session;  /* likewise */
	unsigned depth; /* namespaces from that of this /proc (1) inwards */
};

/* From the NSpid:, NSpgid: and NSsid: lines of status. 0, -ESRCH, -ENODATA (a kernel without them),
 * other negative errno. */
int procfs_ns(int proc_fd, pid_t pid, struct proc_ns *ret);
/* The first two of these only. */
int procfs_nspid(int proc_fd, pid_t pid, pid_t *ret_nspid, unsigned *ret_depth);

#define PROC_CGROUP_MAX   8192
#define PROC_CGROUP_LINES 24

/* Where a process is in each cgroup hierarchy. */
struct proc_cgroups {
	char text[PROC_CGROUP_MAX];
	unsigned n;
	struct {
		const char *controllers; /* "" for 0::, "name=systemd", "freezer", "cpu,cpuacct" */
		const char *path;        /* "/..." */
	} lines[PROC_CGROUP_LINES];
};

/* 0, -ESRCH, -ENAMETOOLONG (longer than fits: nothing of it is believed), -EBADMSG, other negative
 * errno. */
int procfs_cgroups(int proc_fd, pid_t pid, struct proc_cgroups *ret);

/* UID as the user namespace around that of PID numbers it ("self" with 0), by uid_map; where /proc
 * is that of an outer user namespace, this is the number there. 0, -ENOENT (not mapped), other
 * negative errno. */
int procfs_outer_uid(int proc_fd, pid_t pid, uid_t uid, uid_t *ret);

/* The parsers: TEXT is NUL-terminated; what they leave out stays as it was. 0 or -EBADMSG,
 * -ENODATA, -ENOENT. */
int procfs_parse_stat(const char *text, struct proc_facts *ret);
int procfs_parse_ns(const char *text, struct proc_ns *ret);
int procfs_parse_cgroups(struct proc_cgroups *cgroups); /* cuts its text */
int procfs_parse_uid_map(const char *text, uid_t uid, uid_t *ret);

/* A decimal number as the kernel writes it (no sign, no blank, no leading zero), at most MAX; *S
 * then stands behind it. 0 or -EBADMSG. */
int procfs_number(const char **s, uint64_t max, uint64_t *ret);
