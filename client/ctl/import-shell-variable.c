/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-shell-variable.h"

#include "common/util.h"

void shell_variables_done(struct shell_variables *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->items[i].name);
		free(all->items[i].value);
		free(all->items[i].why);
	}
	free(all->items);
	*all = (struct shell_variables){0};
}

struct shell_variable *shell_variable_find(const struct shell_variables *all, const char *name,
					   size_t size)
{
	for (size_t i = 0; i < all->n; i++)
		if (strncmp(all->items[i].name, name, size) == 0 && !all->items[i].name[size])
			return &all->items[i];
	return NULL;
}

struct shell_variable *shell_variable_get(struct shell_variables *all, const char *name,
					  size_t size)
{
	struct shell_variable *v = shell_variable_find(all, name, size);

	if (v || all->n == SHELL_VARIABLES_MAX)
		return v;
	if ((all->n & (all->n - 1)) == 0) {
		v = reallocarray(all->items, all->n == 0 ? 1 : all->n * 2, sizeof *v);
		if (!v)
			return NULL;
		all->items = v;
	}
	v = &all->items[all->n];
	*v = (struct shell_variable){.name = strndup(name, size)};
	if (!v->name)
		return NULL;
	all->n++;
	return v;
}

void shell_variables_doubt(struct shell_variables *all, const char *doubt, unsigned line)
{
	for (size_t i = 0; i < all->n; i++) {
		if (all->items[i].doubt)
			continue;
		all->items[i].doubt = doubt;
		all->items[i].doubt_line = line;
	}
}
