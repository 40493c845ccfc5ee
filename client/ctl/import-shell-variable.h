/* SPDX-License-Identifier: MIT */
#pragma once

/* The variables of a shell file, exported or not, in the order in which its commands set them. */

#include <stdbool.h>
#include <stddef.h>

#define SHELL_VARIABLES_MAX 1024

struct shell_variable {
	char *name;
	char *value;
	char *why; /* cannot be told; or NULL */
	unsigned line;
	unsigned block;    /* stands in a block of this line; 0: none */
	const char *maybe; /* why it may not be set, otherwise; static or NULL */
	const char *doubt; /* why a later line cannot count on it; static or NULL */
	unsigned doubt_line;
	bool keeps; /* VALUE is only for who has none before */
	bool set;
	bool exported;
};

struct shell_variables {
	struct shell_variable *items;
	size_t n;
};

void shell_variables_done(struct shell_variables *all);
struct shell_variable *shell_variable_find(const struct shell_variables *all, const char *name,
					   size_t size);
/* Made if absent. NULL: there are too many, or no memory. */
struct shell_variable *shell_variable_get(struct shell_variables *all, const char *name,
					  size_t size);
/* Another file, or a command that is not read, may have set each of them. */
void shell_variables_doubt(struct shell_variables *all, const char *doubt, unsigned line);
