/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The manager's one object: what is on disk (settings, profiles), what is in force (state->active),
 * what is published, and the event sources that keep them in step. manager.c builds and runs it;
 * switch.c changes what is in force; operations.c does what control calls ask,
 * override-operations.c that of overrides, and ends them in time; documents.c tells in JSON how
 * things stand.
 *
 * Invariants: state->active is what `assign` says, whatever the profile files say now; every digest
 * in it is in snapshots/, and in the state directory unless it is derived from others there;
 * whoever was answered finds the change after kill -9.
 */

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "common/facts.h"
#include "common/paths.h"
#include "common/profile.h"
#include "daemon/manager/compile.h"
#include "daemon/manager/config.h"
#include "daemon/manager/publish.h"
#include "daemon/manager/state.h"
#include "daemon/manager/watch.h"

struct control;
struct children;
struct release;

/* What is told of a snapshot that may no longer be what any file says. */
struct version {
	char digest[DIGEST_SIZE];
	const char *scope;
	char rank_digest[DIGEST_SIZE]; /* "" without facts */
};

/* Snapshots that are no profile's version: `set` makes them of one. */
struct derived {
	struct profile **items;
	size_t n;
};

struct manager {
	bool user;
	struct paths paths;
	sd_event *event;
	sd_event_source *signals[3];

	struct config *config;
	struct facts *facts; /* NULL: no table, no rank digests */
	struct profile_set profiles;
	struct words complained; /* about profiles, so that each fault is logged once */
	struct words missing;    /* of the settings' profiles: likewise */

	struct state *state;
	bool unsaved; /* what is in force could not be persisted: tried again with the next change
			 or call */
	struct publisher *publisher;
	char *assign; /* as published */
	size_t assign_size;
	struct rules rules;     /* those of `assign` */
	struct derived derived; /* snapshots of theirs */
	sd_event_source *ends;  /* when the first override ends */
	bool ranks_proven;      /* ranks/ is of the facts that we have */
	char *last_error;
	struct version *versions; /* a cache of documents.c */
	size_t n_versions;

	struct watch *sources;   /* profile directories */
	struct watch *published; /* the runtime tree */
	struct control *control;
	struct release *releases;  /* asked of the broker, not answered yet */
	struct children *children; /* NULL: systemd runs the others */
	int exit_status;
};

/* An exit status of manager_run(): the runtime tree was taken away, a new manager would make it
 * again. */
#define MANAGER_START_OVER 75

/* Everything up to a published tree and an open control socket. Logs. 0 or negative errno. */
int manager_new(bool user, struct manager **ret);
/* Until a signal ends it; children are ended too. Logs. The exit status, or negative errno. */
int manager_run(struct manager *m);
struct manager *manager_free(struct manager *m);

/* Keeps TEXT (printf) for `status`; NULL clears it. */
void manager_set_error(struct manager *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads the settings; complains; settings that cannot be published leave the earlier ones, or the
 * defaults, in force. 0 or -ENOMEM. */
int manager_load_config(struct manager *m);
/* Complains about profiles that the settings name and that give nothing, each once as long as it is
 * so. After what is in force was found anew. */
void manager_say_missing(struct manager *m);

/* --- switch.c, adopt.c: log */

/* Who changes what is in force, and why: for the history. Strings are borrowed, NULL: unknown. */
struct change {
	const char *action; /* a mode's change is recorded under the mode's name */
	uid_t uid;
	const char *user;
	const char *reason;
};

/* Reads the profile directories again and publishes every valid profile. CHANGED (may be NULL) gets
 * the names whose valid text is not the one it was. 0 or -ENOMEM. */
int switch_load_profiles(struct manager *m, struct words *changed);

/* Fills in what NEXT must give to profiles that are in force: the default, unless somebody chose
 * one, and those of rules. A profile keeps its applied version unless REFRESH names it; a profile
 * without any gets the one in its file. 0 or -ENOMEM. */
int switch_resolve(struct manager *m, const struct words *refresh, struct active *next);

/* Puts NEXT in force: snapshots, then `assign` by rename, then `current`, then the state directory,
 * then `status`. On failure nothing has changed. That it could not be persisted is no failure: it
 * is in force, m->unsaved and last_error say so. NEXT is emptied. 0 or negative errno. */
int switch_commit(struct manager *m, struct active *next, const struct change *why);

/* What stands in the tree when we start, or was put there by another hand with the right to do so
 * (cudaenvctl off while we were dead): 1 and NEXT if it is newer than what we have, else 0. */
int switch_adopt(struct manager *m, struct active *ret);

/* One entry of the history; strings are borrowed, NULL or "": none. */
struct record {
	const char *action, *scope, *from, *to, *profile, *variables;
	int64_t until;
};

/* 0 or negative errno: then the entry is in memory only, and is written with the next state_save().
 */
int switch_record(struct manager *m, const struct change *why, const struct record *what);

/* History entries for what is in force and is not the history's last word. */
void switch_record_found(struct manager *m);
/* An entry, and a line in the journal, for each override that began, changed or ended. 0 or the
 * first failure. */
int switch_record_overrides(struct manager *m, const struct overrides *old,
			    const struct change *why);
/* The same for those that are, or are no longer, and of which the history does not know it. */
void switch_record_found_overrides(struct manager *m, const struct change *why);
/* Takes out overrides that have ended. */
void switch_end_overrides(struct manager *m);
/* That this is done when the next one ends. */
int switch_arm(struct manager *m);

/* Puts right what was damaged or removed in the runtime tree. 0, or -ESTALE when the tree itself is
 * gone. */
int switch_heal(struct manager *m);

/* Persists again if that failed before. */
void switch_save(struct manager *m);
/* Writes `status` if it would say something new. */
void switch_update_status(struct manager *m);
/* The bytes of DIGEST from the state directory, a profile or the tree. 0, -ENOENT, -ENOMEM. */
int switch_fetch(struct manager *m, const char *digest, char **ret, size_t *ret_size);

/* --- ranks.c */

/* Brings ranks/ up to what is in snapshots/; CHOICE, the node's own, stands for its rank digest. A
 * failure is logged: only what asks by rank digest misses it. */
void switch_publish_ranks(struct manager *m, const char *choice);

/* --- derive.c: does not log */

/* Fills in the digests of RULES that are to be derived, whose snapshots are RET's. 0, -EMSGSIZE:
 * one would be too large, -ENOENT: its base is lost, -ENOMEM, other. */
int derive_rules(struct manager *m, struct rules *rules, struct derived *ret);
const struct profile *derived_find(const struct derived *d, const char *digest);
void derived_done(struct derived *d);

/* --- operations.c, override-operations.c: log */

struct caller {
	uid_t uid;
	const char *user; /* NULL unknown */
};

/* Each answers with a JSON document, or fills ERROR and returns negative errno. The node's own
 * choice ends an override of it. */
int operation_use(struct manager *m, const struct caller *who, const char *profile,
		  const char *reason, char **ret, sd_bus_error *error);
/* SCOPE as scope_parse() reads it; SECONDS 0: without an end, which the node has for use alone. */
int operation_use_for(struct manager *m, const struct caller *who, const char *profile,
		      const char *scope, uint64_t seconds, const char *reason, char **ret,
		      sd_bus_error *error);
int operation_set(struct manager *m, const struct caller *who, const struct words *variables,
		  const char *scope, uint64_t seconds, const char *reason, char **ret,
		  sd_bus_error *error);
/* SCOPE "all": all overrides; "node": the node's own choice too. */
int operation_reset(struct manager *m, const struct caller *who, const char *scope,
		    const char *reason, char **ret, sd_bus_error *error);
int operation_rollback(struct manager *m, const struct caller *who, const char *reason, char **ret,
		       sd_bus_error *error);
int operation_set_mode(struct manager *m, const struct caller *who, const char *mode,
		       const char *reason, char **ret, sd_bus_error *error);
/* Reads settings and profiles anew; rules and `profile =` take the profiles' present versions. WHO
 * NULL: a signal. */
int operation_reload(struct manager *m, const struct caller *who, char **ret, sd_bus_error *error);

#define ERROR_NO_SUCH_PROFILE "org.cudaenv.Error.NoSuchProfile"
#define ERROR_INVALID         "org.cudaenv.Error.Invalid"
#define ERROR_FAILED          "org.cudaenv.Error.Failed"
#define ERROR_NOTHING_BEFORE  "org.cudaenv.Error.NothingBefore"
#define ERROR_TOO_MANY        "org.cudaenv.Error.TooMany"

/* Steps that operations have in common. */
int operation_fail(sd_bus_error *error, int r, const char *what);
int operation_check_reason(const char *reason, sd_bus_error *error);
/* What another hand put in force since we looked must be known before it is replaced. */
int operation_prepare(struct manager *m, struct active *ret, sd_bus_error *error);
int operation_find_profile(struct manager *m, const char *name, const struct profile **ret,
			   sd_bus_error *error);
int operation_commit(struct manager *m, struct active *next, const struct caller *who,
		     const char *action, const char *reason, sd_bus_error *error);
/* The fields that every answer has. */
int operation_outcome(const struct manager *m, json_object *o, const char *action, const char *from,
		      const char *to);

/* --- documents.c: does not log */

int document_status(struct manager *m, char **ret);
int document_list(struct manager *m, char **ret);
/* PROFILE "": the one in force. -ENOENT: no such profile; -EBADMSG: it has errors and no version in
 * force. */
int document_show(struct manager *m, const char *profile, char **ret);
int document_history(const struct manager *m, char **ret);
/* The first error of P as "FILE:LINE:COL: error: text". */
int document_fault(const struct profile *p, char **ret);

static inline void manager_freep(struct manager **m)
{
	if (*m)
		(void)manager_free(*m);
}
