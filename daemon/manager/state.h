/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What must survive a reboot: the choice in force, its history, and the last 64 snapshots.
 *
 *   active                   text, ends with "end": generation, mode, chosen, profile, digest,
 *                            applied lines, overrides
 *   history                  JSON lines, bounded, oldest first
 *   snapshots/DIGEST         as published
 *
 * Each file is replaced whole (history grows by one line at a time); a cut last line of history is
 * dropped, any other damage is moved aside to NAME.damaged and told in COMPLAINTS. This module does
 * not log.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/assign.h"
#include "daemon/manager/json.h"
#include "daemon/manager/override.h"
#include "daemon/manager/words.h"

#define STATE_NAME_SIZE     129 /* a profile's name with NUL */
#define STATE_SNAPSHOTS_MAX 64
#define STATE_HISTORY_MAX   1000 /* entries; then the older half goes */
#define STATE_REASON_MAX    1024
#define STATE_UID_UNKNOWN   ((uid_t)-1)

/* The version of a profile that new jobs get, whatever its file says now. */
struct applied_version {
	char profile[STATE_NAME_SIZE];
	char digest[DIGEST_SIZE];
};

struct active {
	uint64_t generation;
	enum mode mode;
	bool chosen; /* somebody said use or rollback; else profile = of cudaenvd.conf decides */
	char profile[STATE_NAME_SIZE];   /* "" none */
	char digest[DIGEST_SIZE];        /* "" none */
	struct applied_version *applied; /* of every profile in force, the default's included */
	size_t n_applied;
	struct overrides overrides;
};

void active_done(struct active *a);
int active_copy(const struct active *from, struct active *ret);
/* The applied digest of PROFILE, or NULL. */
const char *active_applied(const struct active *a, const char *profile);
int active_set_applied(struct active *a, const char *profile, const char *digest);
/* malloc()ed text of the file; active_parse() reads exactly that: 0, -EBADMSG, -ENOMEM. */
int active_format(const struct active *a, char **ret);
int active_parse(const char *text, size_t size, struct active *ret);
/* What the state directory PATH says is in force, with nothing opened for writing or put right. 0 or
 * negative errno. */
int state_peek(const char *path, struct active *ret);

/* One change. Strings are owned; NULL: none or unknown. */
struct history_entry {
	time_t time;
	uint64_t generation;
	uid_t uid; /* STATE_UID_UNKNOWN */
	char *user;
	char *action; /* use, rollback, off, observe, on, apply, config, adopt, set, reset, expired
		       */
	char *scope;  /* "node", "rules", "unit NAME", "user NAME" */
	char *variables; /* of set */
	int64_t until;   /* of an override; 0: no end, or none */
	char *from;      /* digests, or modes */
	char *to;
	char *profile;
	char *reason;
};

void history_entry_done(struct history_entry *e);
/* The fields of O, an empty object. 0, -ENOMEM, -EBADMSG (no such time). */
int history_to_json(const struct history_entry *e, json_object *o);
/* Did this change what the node's jobs get by its own choice: use, rollback and the like, but no
 * mode and no override? */
bool history_is_choice(const struct history_entry *e);
/* One JSON object, compact, without LF. 0 or -ENOMEM / -EBADMSG. */
int history_format(const struct history_entry *e, char **ret);
int history_parse(const char *line, struct history_entry *ret);

struct state {
	char *path;
	int dir_fd;
	int snapshots_fd;
	int lock_fd;
	bool found;   /* there was a readable active file */
	bool rebuilt; /* from the history, which does not know all */
	struct active active;
	struct history_entry *history;
	size_t n_history;
	bool history_unsaved; /* has entries that are in memory only: written with the next
				 state_save() */
};

/* Opens PATH, which is made if absent, and reads what is there. 0, -EBUSY with *ret_pid: another
 * manager has it, other negative errno. */
int state_open(const char *path, struct state **ret, struct words *complaints, pid_t *ret_pid);
struct state *state_free(struct state *s);

/* Persists A and takes it over as s->active. On failure s->active is A all the same: the caller has
 * published it. */
int state_save(struct state *s, const struct active *a);
/* Takes E over (emptied) and appends it. On failure it is in memory only. */
int state_record(struct state *s, struct history_entry *e);

/* Keeps a snapshot. */
int state_store(struct state *s, const char *digest, const char *bytes, size_t size);
/* When there are more than 64 the oldest go, never one of KEEP. Once after several were kept: it
 * looks at all. */
int state_prune(struct state *s, const struct words *keep);
/* 0, -ENOENT, -EUCLEAN (damaged: removed). */
int state_fetch(struct state *s, const char *digest, char **ret, size_t *ret_size);

/* The digest in force before the one that is: walks the node's history, in which a rollback undoes
 * a use. 1 and *ret ("" none), or 0: there is no earlier one. */
int state_previous(const struct state *s, char ret[DIGEST_SIZE]);

static inline void state_freep(struct state **s)
{
	if (*s)
		(void)state_free(*s);
}
