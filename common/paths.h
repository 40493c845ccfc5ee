/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the pieces find each other (DESIGN section 4). System: /run/cudaenv, /run/cudaenvd/control,
 * /etc/cudaenv, /var/lib/cudaenv. User: $XDG_RUNTIME_DIR/cudaenv (control inside it),
 * $XDG_CONFIG_HOME/cudaenv, $XDG_STATE_HOME/cudaenv. CUDAENV_RUNTIME_DIR overrides the runtime
 * directory of either; control then lies inside it.
 */

#include <stdbool.h>

struct paths {
	bool user;
	char *runtime;     /* /run/cudaenv */
	char *control;     /* /run/cudaenvd/control */
	char *config;      /* /etc/cudaenv: cudaenvd.conf */
	char *state;       /* /var/lib/cudaenv */
	char *drop_ins[4]; /* cudaenvd.conf.d/, as profiles */
	char *profiles[4]; /* highest precedence first, then NULL; user: only config/profiles.d */
};

/* The daemon's own: USER as told by --user or by not being root. 0, -ENOMEM, -ENXIO with no HOME
 * and no XDG variables. */
int paths_init(bool user, struct paths *ret);
/* A tool's: the system's unless CUDAENV_RUNTIME_DIR is set, --user was given, or the system's
 * runtime directory is absent and the user's is there. */
int paths_find(bool user, struct paths *ret);
/* Where P is a user's whose runtime directory cannot be because nobody logged in (no
 * XDG_RUNTIME_DIR, no /run/user/UID): what to do about it, malloc()ed. NULL: nothing to say. */
char *paths_no_session(const struct paths *p);
void paths_done(struct paths *p);
