/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * json-c with our conventions: NULL strings become null (unknown is null, never 0), failures are
 * -ENOMEM, output is compact.
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

int json_add_string(json_object *o, const char *key, const char *value);
int json_add_number(json_object *o, const char *key, int64_t value);
int json_add_bool(json_object *o, const char *key, bool value);
/* CHILD (may be NULL after a failed allocation: -ENOMEM) becomes O's in any case. */
int json_add_take(json_object *o, const char *key, json_object *child);
int json_append_take(json_object *array, json_object *child);
/* malloc()ed text. */
int json_print(json_object *o, char **ret);

static inline void json_putp(json_object **o)
{
	if (*o)
		(void)json_object_put(*o);
}
