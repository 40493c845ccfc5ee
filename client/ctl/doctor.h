/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * doctor: the installation looked at, check by check. A check is one function in the table of
 * doctor.c; it adds findings, each with the way out, and changes nothing (but for the list of
 * interpreters that were seen). What it cannot tell is no finding: it says why it was skipped.
 *
 * It runs on strange machines and on images: files are read by client/ctl/slurp with small limits,
 * other programs are waited for with a deadline, no interpreter is run, no mount of the network is
 * entered.
 */

#include <stdint.h>

#include "client/ctl/mounts.h"
#include "client/ctl/published.h"
#include "client/ctl/pycover.h"
#include "common/finding.h"

#define DOCTOR_FILE_MAX      ((size_t)1024 * 1024)
#define DOCTOR_DEADLINE_MSEC 20000 /* for all checks; what is left then is skipped */

struct doctor_finding {
	const char *check;
	enum finding_severity severity;
	char *file; /* NULL: none */
	unsigned line;
	char *variable;
	char *message;
	char *fix;
};

struct doctor {
	struct ctl *ctl;
	const struct paths *paths; /* NULL with a root */
	const char *root;          /* NULL: this system */
	int root_fd;               /* SLURP_ROOT_HERE: this system */
	uint64_t deadline_usec;
	struct mounts mounts;
	struct published published;
	bool have_published;
	int published_error;
	struct pyfind found; /* interpreters, after doctor_interpreters() */
	struct pycover_item *covers;
	bool have_found;
	const char *check; /* that runs */
	char *skipped;     /* by it: why it could not be done, or not to the end */
	struct doctor_finding *findings;
	size_t n_findings;
};

/* The checks: 0 or -ENOMEM. */
int doctor_manager(struct doctor *d);
int doctor_broker(struct doctor *d);
int doctor_runtime(struct doctor *d);
int doctor_published(struct doctor *d);
int doctor_state(struct doctor *d);
int doctor_config(struct doctor *d);
int doctor_profiles(struct doctor *d);
int doctor_mode(struct doctor *d);
int doctor_systemd(struct doctor *d);
int doctor_versions(struct doctor *d);
int doctor_interpreters(struct doctor *d);
int doctor_new_interpreters(struct doctor *d);
int doctor_setters(struct doctor *d);

/* A finding of the check that runs; FILE, VARIABLE and FIX may be NULL and are copied. 0 or
 * -ENOMEM. */
int doctor_add(struct doctor *d, enum finding_severity severity, const char *file, unsigned line,
	       const char *variable, const char *fix, const char *format, ...)
	__attribute__((format(printf, 7, 8)));
/* The check that runs could not be done because. Always 0 or -ENOMEM. */
int doctor_skip(struct doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool doctor_late(const struct doctor *d);
/* Reads a file of this system or of the root, at most DOCTOR_FILE_MAX. As slurp(), and -EREMOTE: it
 * lies on a file system of the network, which is not entered. */
int doctor_read(struct doctor *d, const char *path, char **ret, size_t *ret_size);
bool doctor_exists(struct doctor *d, const char *path);
/* malloc()ed; NULL: out of memory. */
char *doctor_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* " --user" where commands in a fix need it. */
const char *doctor_user(const struct doctor *d);
