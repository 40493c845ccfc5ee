/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a cgroup path says about jobs (rule 2 of DESIGN section 6), and where its directories are:
 * the unified hierarchy alone, the v1 ones, or both (hybrid), below one descriptor of
 * /sys/fs/cgroup. Knows names, not processes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_PATH_SIZE 4096

enum cgroup_kind {
	CGROUP_NONE,   /* nothing that names a job */
	CGROUP_SHARED, /* holds jobs of several: user.slice, slurmstepd.scope, an interactive Slurm
			  step */
	CGROUP_SLURM,  /* a step */
	CGROUP_CONTAINER, /* a container, or a pod where the path ends at it */
	CGROUP_UNIT,      /* the outermost system .service or .scope (in the innermost container) */
};

struct cgroup_place {
	enum cgroup_kind kind;
	size_t length;  /* of the path's part that names the directory */
	bool service;   /* the innermost unit of the path is a .service: one that pid 1 or a user's
			   manager started */
	char unit[256]; /* outermost unit in the innermost container, also one under user.slice; ""
			   none */
};

/* Looks at PATH ("/...") alone. */
void cgroup_classify(const char *path, struct cgroup_place *ret);

/* A hierarchy's directory below CGROUP_FD by its CONTROLLERS as /proc/PID/cgroup writes them: "."
 * or "unified" for "", "systemd" for "name=systemd", else the same text. */
void cgroup_mount(int cgroup_fd, const char *controllers, char ret[64]);

/* Inode of the first LENGTH bytes of PATH in MOUNT; 0: not to be seen, or the root of the whole
 * hierarchy. */
uint64_t cgroup_inode(int cgroup_fd, const char *mount, const char *path, size_t length);

/* The shortest beginning of PATH in MOUNT that is the directory INODE; false: none. */
bool cgroup_find(int cgroup_fd, const char *mount, const char *path, uint64_t inode,
		 size_t *ret_length);
