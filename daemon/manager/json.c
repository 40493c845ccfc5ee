/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <string.h>

#include "daemon/manager/json.h"

int json_add_take(json_object *o, const char *key, json_object *child)
{
	if (child && json_object_object_add(o, key, child) == 0)
		return 0;
	(void)json_object_put(child);
	return -ENOMEM;
}

int json_append_take(json_object *array, json_object *child)
{
	if (child && json_object_array_add(array, child) == 0)
		return 0;
	(void)json_object_put(child);
	return -ENOMEM;
}

int json_add_string(json_object *o, const char *key, const char *value)
{
	if (value)
		return json_add_take(o, key, json_object_new_string(value));
	return json_object_object_add(o, key, NULL) == 0 ? 0 : -ENOMEM;
}

int json_add_number(json_object *o, const char *key, int64_t value)
{
	return json_add_take(o, key, json_object_new_int64(value));
}

int json_add_bool(json_object *o, const char *key, bool value)
{
	return json_add_take(o, key, json_object_new_boolean(value));
}

int json_print(json_object *o, char **ret)
{
	const char *text = json_object_to_json_string_ext(
		o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *copy = text ? strdup(text) : NULL;

	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}
