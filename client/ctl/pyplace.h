/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A start hook on a disk: what stands at its place, bringing it there, taking it away.
 *
 * Installing builds the directory beside its place, syncs it, and renames it without replacing (an
 * older hook is exchanged), so that an interpreter that starts meanwhile sees the old state or the
 * new one. Removing deletes a file only if the manifest beside it names it with the hash that it
 * has, or if it is the cache that an interpreter made of such a file. All steps are relative to
 * directories opened component by component without following links. Those were followed when the
 * place was found: root changes nothing of others where a user's interpreter leads.
 */

#include "client/ctl/pyhook.h"

enum pyplace_state {
	PYPLACE_ABSENT,
	PYPLACE_GOOD,    /* every file as it was installed */
	PYPLACE_DAMAGED, /* ours, but files are missing or changed, or the manifest is not whole */
	PYPLACE_FOREIGN, /* something that is not cudaenv's */
};

enum pyplace_entry_state { ENTRY_GOOD, ENTRY_CHANGED, ENTRY_MISSING, ENTRY_CACHE, ENTRY_FOREIGN };
const char *pyplace_entry_state_name(enum pyplace_entry_state state);

struct pyplace_entry {
	char *path; /* relative to the parent */
	char digest[DIGEST_SIZE];
	enum pyplace_entry_state state;
};

#define PYPLACE_ENTRIES_MAX 64

struct pyplace {
	enum pyplace_state state;
	char *parent;
	char *name;
	char *version; /* the manifest's; NULL: not known */
	char *runtime; /* NULL: none */
	char *header;  /* the manifest's lines version, method, extension, for pyhook_header(); NULL
			*/
	char *manifest_text;
	struct pyplace_entry entries[PYPLACE_ENTRIES_MAX]; /* without the manifest itself */
	size_t n_entries;
	bool more_foreign; /* more than fit */
};

#define PYPLACE_NULL                                                                               \
	{                                                                                          \
		.parent = NULL                                                                     \
	}

/* Looks at NAME in PARENT. 0 or negative errno with WHY. */
int pyplace_look(const char *parent, const char *name, struct pyplace *ret,
		 char why[PYEXE_WHY_SIZE]);
void pyplace_done(struct pyplace *p);

/* Parses a manifest into version, runtime, header and entries (state ENTRY_GOOD). For
 * pyplace_look() and tests. 0, -EBADMSG, -ENOMEM. */
int pyplace_parse(const char *text, struct pyplace *ret);

/* Brings HOOK to its place. 1: done, 0: the same is there already. Negative errno with WHY: -EEXIST
 * something of others stands there, -EREMOTE a network file system, other. */
int pyplace_install(const struct pyhook *hook, char why[PYEXE_WHY_SIZE]);

/* Takes away the hook NAME in PARENT. 1: all of it, 0: nothing was there. Negative errno with WHY:
 * -EEXIST it is not ours; -EUCLEAN: what could be proven ours is gone, the rest is named in WHY;
 * other. */
int pyplace_remove(const char *parent, const char *name, uid_t owner, char why[PYEXE_WHY_SIZE]);
