/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The answers of the verbs that give new jobs another snapshot (use, set, rollback): what was done
 * or would be, and who stays on the older one.
 */

#include "client/ctl/override.h"
#include "client/ctl/published.h"

/* Prints the document of a change. What every one has stands in it: "dry_run", "scope" (the node
 * where it has none), and "until", "warning", "stays", "own_job", null where there is none. */
void change_print_json(const struct ctl *ctl, struct json_object *o);

/* The manager's answer O, to which who stays is added, as JSON or for people. TARGET NULL: the
 * node's own choice. An exit status. */
int change_finish(struct ctl *ctl, struct json_object *o, const struct target *target);

/* The document and the lines of a change of the node's choice that is not made. TO: NULL for none.
 * ENDED: the overrides of SCOPE that would end with it; NULL: that is not asked. */
int change_dry_node(struct ctl *ctl, const struct published *p, const char *action,
		    struct json_object *status, const char *profile, const char *to,
		    const char *scope, struct json_object *ended);
/* The fields that every answer about an override has; a verb's own follow. */
void change_dry_fields(struct json_object *o, const char *action, struct json_object *status,
		       const struct target *target);
void change_print_override(const struct ctl *ctl, struct json_object *o,
			   const struct target *target, bool dry_run);
/* SCOPE, "all" for every one, is said where nothing ended. */
void change_print_ended(struct json_object *ended, const char *scope, bool dry_run);
