/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The roots of jobs: the process or cgroup that a key names, found and watched, so that a pin stays
 * as long as it lives. A process is watched by its pidfd in the hub, a cgroup by inotify on the
 * directory that holds it (cgroup file systems report a removal only there). What cannot be watched
 * is looked at by roots_sweep(). This module changes a job's root state and queues it as empty; it
 * removes no file.
 */

#include "daemon/broker/registry.h"

struct roots {
	struct registry *registry;
	int proc_fd;
	int cgroup_fd; /* -EBADF: no cgroup can be found */
	int hub_fd;
	int inotify_fd;
	uint64_t own_pidns;
	struct job *jobs;   /* of ROOT_CGROUP */
	size_t n_unwatched; /* ROOT_PROCESS and ROOT_CGROUP without a watch */
	size_t n_lost;      /* ROOT_UNKNOWN of a cgroup: roots_sweep() walks the tree for them */
	bool cannot_walk;   /* the tree is not visible, or too large: they stay unknown */
};

/* Descriptors and REGISTRY are borrowed. 0 or negative errno. */
int roots_init(struct roots *roots, struct registry *registry, int proc_fd, int cgroup_fd,
	       int hub_fd, uint64_t own_pidns);
void roots_done(struct roots *roots);

/* Whoever found the key saw its cgroup there (below cgroup_fd); "": not known. */
void roots_hint(struct job *j, const char *path);

/* Looks for the root of J, in state ROOT_NEW; job->root_pid is a member, 0: none. */
void roots_look(struct roots *roots, struct job *j, uint64_t now_usec);
/* The root of J was found as process PID (verified here by its start time). */
void roots_set_process(struct roots *roots, struct job *j, pid_t pid, uint64_t now_usec);
/* Its watch fired, or it was not found. */
void roots_set_gone(struct roots *roots, struct job *j, uint64_t now_usec);
/* Before a job is freed, or looked for anew: ends the watch. */
void roots_release(struct roots *roots, struct job *j);

/* Cgroups were removed: reads inotify_fd. */
void roots_read(struct roots *roots, uint64_t now_usec);
bool roots_needs_sweep(const struct roots *roots);
void roots_sweep(struct roots *roots, uint64_t now_usec);
