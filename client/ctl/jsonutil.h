/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * json-c as this tool uses it: parsing without trust, readers that answer NULL for what is not
 * there, strings that are UTF-8 whatever their bytes were, and one way to print. An unknown value
 * is null (a NULL pointer in json-c).
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL: no JSON object or array, or not all of the text. */
struct json_object *json_parse(const char *text, size_t size);

/* NULL becomes null; bytes that are no UTF-8 become \xNN. */
struct json_object *json_text(const char *s);

/* A negative number is one that is unknown: null. */
struct json_object *json_number_or_null(int64_t n);

/* Members of an object; NULL where O is no object, has no such member, or it is of another type. */
const char *json_string(struct json_object *o, const char *key);
struct json_object *json_array(struct json_object *o, const char *key);
/* A positive or zero integer; FALLBACK otherwise. */
int64_t json_number(struct json_object *o, const char *key, int64_t fallback);
bool json_true(struct json_object *o, const char *key);

/* Prints O and a newline to stdout. */
void json_print(struct json_object *o);

static inline void json_putp(struct json_object **o)
{
	if (*o)
		(void)json_object_put(*o);
}
