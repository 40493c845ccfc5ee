/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * cudaenvd.conf and its drop-ins. One table says every section, key, parser, place and default
 * text; it also prints the shipped file, so the two cannot drift apart. A fault in the file never
 * stops the manager: an unknown key or a bad value is a complaint with FILE:LINE and the default
 * stays; an [assign] rule that cannot be kept whole is left out, because half a rule would match
 * other processes. (C files of this directory take the build's own config.h as <config.h>.)
 */

#include <stdio.h>

#include "common/paths.h"
#include "daemon/manager/words.h"

#define CONFIG_OVERRIDE "override." /* rules of overrides are named so, and no [assign NAME] */

/* [assign NAME]. All kinds that are named must hold, of one kind any one. */
struct config_rule {
	char *name;
	char *file;
	unsigned line;
	char *profile; /* or "none" */
	unsigned profile_line;
	struct words unit;
	struct words user;  /* as written */
	struct words group; /* as written */
	struct words exe;
	struct words cgroup;
	struct words uid; /* user and group as numbers */
	struct words gid;
	bool refused; /* has a bad value: never compiled */
};

struct config {
	char *profile;      /* "none", "auto" or a name */
	char *profile_file; /* where it stands; NULL: the default */
	unsigned profile_line;
	bool apply_on_change;
	bool mismatch_fails; /* on_mismatch = fail */
	struct words boundaries;
	struct words supervisors;
	struct config_rule *rules; /* in file order */
	size_t n_rules;
};

/* The defaults. 0 or -ENOMEM. */
int config_new(struct config **ret);
struct config *config_free(struct config *c);

/* Reads cudaenvd.conf of PATHS' config, then NAME.conf of its drop_ins by name, over the defaults;
 * of one name the first directory's, one that is /dev/null hides the others. Absent files are fine.
 * User and group names are looked up here, and only here. COMPLAINTS: "FILE:LINE: ...", LINE 0 for
 * a file that cannot be read. 0 or -ENOMEM. */
int config_load(const struct paths *paths, struct config **ret, struct words *complaints);

/* Bytes that are said to be FILE, over what C has. 0 or -ENOMEM. */
int config_parse(struct config *c, const char *file, const char *bytes, size_t size,
		 struct words *complaints);
/* Looks up names and leaves out rules that cannot be kept whole; after the last file. 0 or -ENOMEM.
 */
int config_finish(struct config *c, struct words *complaints);

/* The shipped cudaenvd.conf: every key commented, with its default. */
void config_print(FILE *out);

static inline void config_freep(struct config **c)
{
	if (*c)
		(void)config_free(*c);
}
