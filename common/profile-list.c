/* SPDX-License-Identifier: MIT */
#include "common/profile-list.h"

#include "common/util.h"

struct element {
	const char *start;
	size_t size;
	size_t index; /* place in base and then more */
	bool dropped;
};

const char *profile_list_next(const char **cursor, size_t *ret_size)
{
	const char *start = *cursor, *colon;

	if (!start)
		return NULL;
	colon = strchr(start, ':');
	*ret_size = colon ? (size_t)(colon - start) : strlen(start);
	*cursor = colon ? colon + 1 : NULL;
	return start;
}

size_t profile_list_count(const char *value)
{
	size_t n = 0, size;

	for (const char *cursor = value; profile_list_next(&cursor, &size);)
		n++;
	return n;
}

bool profile_list_has_empty(const char *value)
{
	size_t size;

	for (const char *cursor = value; profile_list_next(&cursor, &size);)
		if (size == 0)
			return true;
	return false;
}

static size_t collect(const char *value, struct element *elements, size_t n)
{
	const char *start;
	size_t size;

	for (const char *cursor = value; (start = profile_list_next(&cursor, &size));) {
		elements[n] = (struct element){.start = start, .size = size, .index = n};
		n++;
	}
	return n;
}

static int compare_element(const void *a, const void *b)
{
	const struct element *const *x = a, *const *y = b;
	size_t n = (*x)->size < (*y)->size ? (*x)->size : (*y)->size;
	int c = memcmp((*x)->start, (*y)->start, n);

	if (c != 0)
		return c;
	if ((*x)->size != (*y)->size)
		return (*x)->size < (*y)->size ? -1 : 1;
	return (*x)->index < (*y)->index ? -1 : 1;
}

/* Drops every element that stands before in the order of index. */
static int drop_repeated(struct element *elements, size_t n)
{
	_cleanup_(freep) struct element **sorted = calloc(n, sizeof *sorted);

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &elements[i];
	qsort(sorted, n, sizeof *sorted, compare_element);
	for (size_t i = 1; i < n; i++)
		sorted[i]->dropped =
			sorted[i]->size == sorted[i - 1]->size &&
			memcmp(sorted[i]->start, sorted[i - 1]->start, sorted[i]->size) == 0;
	return 0;
}

int profile_list_without(const char *more, const char *base, char **ret)
{
	_cleanup_(freep) struct element *elements = NULL;
	_cleanup_(freep) char *list = NULL;
	size_t n_base = base ? profile_list_count(base) : 0, n, used = 0;
	int r;

	elements = calloc(n_base + profile_list_count(more), sizeof *elements);
	if (!elements)
		return -ENOMEM;
	if (base)
		(void)collect(base, elements, 0);
	n = collect(more, elements, n_base);
	r = drop_repeated(elements, n);
	if (r < 0)
		return r;
	list = malloc(strlen(more) + 1);
	if (!list)
		return -ENOMEM;
	for (size_t i = n_base; i < n; i++) {
		if (elements[i].dropped)
			continue;
		if (used > 0)
			list[used++] = ':';
		memcpy(list + used, elements[i].start, elements[i].size);
		used += elements[i].size;
	}
	list[used] = '\0';
	*ret = TAKE_PTR(list);
	return 0;
}

int profile_list_concat(const char *first, const char *second, char **ret)
{
	const char *between = first[0] != '\0' && second[0] != '\0' ? ":" : "";
	char *list;

	if (asprintf(&list, "%s%s%s", first, between, second) < 0)
		return -ENOMEM;
	*ret = list;
	return 0;
}
