/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From an environment and a snapshot to a new environment and the list of what changed: DESIGN
 * sections 5 and 6. Pure: reads the given array, builds a new one, touches no global. libcudaenv
 * stores the new array to environ with one atomic store; `cudaenvctl exec` passes it to execve.
 *
 * Token: CUDAENV_SNAPSHOT=DIGEST, CUDAENV_PROFILE=name; set at a start, also if nothing changed.
 * Marks: CUDAENV_APPLIED=NAME:hhhh[:N:M],... sorted by name; hhhh is digest_mark() of the value as
 * four hex digits, N and M are the list elements that we put before and after. Names set, replaced
 * or extended by us are marked, nothing else. A mark that is not well-formed is passed over.
 *
 * Two cases:
 * - keep, where the token equals the snapshot's digest and the marks are there and well-formed. The
 *   environment is as the parent left it: what a program changed or deleted stays so, force
 *   included. Nothing is changed, the list only says what stands. APPLY_EXEC still sets what was
 *   too late for the hook, the names below without a mark.
 * - start, otherwise. First every marked variable whose value still has our hash is taken back (a
 *   list loses the elements we put in), then the rules are applied. Marks of another snapshot or of
 *   another host work the same.
 *
 * Rules at a start:
 * - default: set where absent. force: set whatever stands there. unset: removed.
 * - together: if no member has another value, all absent ones are set, else none. A member that is
 *   too late for the hook and does not stand already makes its whole group too late.
 * - the group named toolkit: as together, or as force where the snapshot says so; nothing where the
 *   toolkit's root does not exist. Its PATH is a prepend in nobody's way, and not for uid 0.
 * - prepend, append: each of our elements that the list does not hold already, wherever in it, goes
 *   before or after; the process's own bytes stay as they are. No empty element is added; an empty
 *   value counts as absent.
 * - No string grows beyond SNAPSHOT_STRING_MAX, or every execve(2) would fail: such a list stays as
 *   it is, and marks that do not fit are left out.
 *
 * Of a name that stands more than once in the array the first counts, as for getenv(3); when it is
 * changed the others go. Strings without '=' and all other variables are passed on as they are.
 * Names beginning with CUDAENV_ are never taken from the snapshot or from marks.
 */

#include "client/cudaenv.h"
#include "common/snapshot.h"

enum { APPLY_EXEC = 1u << 0 }; /* set LD_*, PYTHON* and the other too-late names as well */

struct apply_change {
	const char *name;  /* into the snapshot's text or the result's own memory */
	const char *value; /* value that now stands in the new environment; NULL: absent there */
	enum cudaenv_state state;
	bool changed; /* differs from the old environment: os.environ must follow */
};

struct applied {
	char **env;    /* the new array, NULL-terminated; NULL in case keep with nothing changed */
	char *strings; /* arena of the new strings; env points into it and into the old strings */
	/* Each name once: the snapshot's variables in order, then taken-back ones, then the
	 * CUDAENV_ names. */
	struct apply_change *changes;
	size_t n_changes;
	size_t n_variables; /* without the CUDAENV_ names */
};

#define APPLIED_NULL                                                                               \
	{                                                                                          \
		.env = NULL                                                                        \
	}

/* ENV: the old array, may be NULL. UID: 0 gets no PATH of the toolkit, whose root is looked for
 * here by access(2). SNAPSHOT must live as long as *RET. 0, -ENOMEM. */
int apply(char *const *env, const struct snapshot *snapshot, uid_t uid, unsigned flags,
	  struct applied *ret);
/* Frees everything; after a store to environ call applied_release() first, which gives up env and
 * strings. */
void applied_done(struct applied *a);
void applied_release(struct applied *a);
