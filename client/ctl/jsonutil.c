/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/jsonutil.h"

#include "client/ctl/text.h"
#include "common/util.h"

#define DEPTH_MAX 16

struct json_object *json_parse(const char *text, size_t size)
{
	struct json_tokener *tokener;
	struct json_object *o;

	if (size > INT32_MAX)
		return NULL;
	tokener = json_tokener_new_ex(DEPTH_MAX);
	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	o = json_tokener_parse_ex(tokener, text, (int)size);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    strspn(text + json_tokener_get_parse_end(tokener), " \t\r\n") !=
		    size - json_tokener_get_parse_end(tokener) ||
	    (!json_object_is_type(o, json_type_object) &&
	     !json_object_is_type(o, json_type_array))) {
		(void)json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tokener);
	return o;
}

struct json_object *json_text(const char *s)
{
	_cleanup_(freep) char *utf8 = s ? text_to_utf8(s, strlen(s)) : NULL;

	return utf8 ? json_object_new_string(utf8) : NULL;
}

struct json_object *json_number_or_null(int64_t n)
{
	return n >= 0 ? json_object_new_int64(n) : NULL;
}

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *value = NULL;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, key, &value) || !json_object_is_type(value, type))
		return NULL;
	return value;
}

const char *json_string(struct json_object *o, const char *key)
{
	struct json_object *value = member(o, key, json_type_string);

	return value ? json_object_get_string(value) : NULL;
}

struct json_object *json_array(struct json_object *o, const char *key)
{
	return member(o, key, json_type_array);
}

int64_t json_number(struct json_object *o, const char *key, int64_t fallback)
{
	struct json_object *value = member(o, key, json_type_int);
	int64_t n = value ? json_object_get_int64(value) : -1;

	return n >= 0 ? n : fallback;
}

bool json_true(struct json_object *o, const char *key)
{
	struct json_object *value = member(o, key, json_type_boolean);

	return value && json_object_get_boolean(value);
}

void json_print(struct json_object *o)
{
	const char *text = json_object_to_json_string_ext(
		o,
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	/* What came from a file may hold bytes that json-c does not look at. */
	_cleanup_(freep) char *utf8 = text ? text_to_utf8(text, strlen(text)) : NULL;

	if (utf8)
		puts(utf8);
}
