/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A snapshot in the words of other readers. Shells get the rules themselves (export-shell); files
 * of plain values get what they can hold, and say what they cannot (export-plain). Every value
 * reaches its reader byte for byte, or is left out and named.
 */

#include <stdbool.h>
#include <stdio.h>

#include "common/snapshot.h"

/* What a format could not say. */
struct export_left {
	const struct snapshot_entry *entry;
	const char *why; /* static, one pointer for each reason; NULL: it was said */
};

struct export
{
	const struct snapshot *snapshot;
	struct export_left *left; /* one for each entry of the snapshot */
	char *notes;              /* lines; fit to print */
	char *text;               /* the answer */
	size_t size;
};

struct export_format {
	const char *name;
	/* What follows is of plain formats: why a variable cannot stand there, NULL: it can. */
	const char *(*refuse)(const struct snapshot_entry *e);
	const char *reader; /* as in "READER cannot ..." */
	bool keeps_default; /* what the process has wins */
	bool comments;      /* lines that begin with # */
	int (*write)(FILE *f, const struct export *x);
};

/* NULL: no such format. */
const struct export_format *export_format_find(const char *name);
#define EXPORT_FORMATS "sh|fish|systemd|docker|k8s|json|nccl-conf"

/* Fills *ret. 0 or -ENOMEM. */
int export_make(const struct snapshot *s, const struct export_format *format, struct export *ret);
void export_done(struct export *x);

/* The shells' writers. */
int export_sh(FILE *f, const struct export *x);
int export_fish(FILE *f, const struct export *x);

/* Is E a list, which takes elements and has no value of its own? */
bool export_is_list(const struct snapshot_entry *e);
bool export_same_group(const struct snapshot_entry *a, const struct snapshot_entry *b);
bool export_in_toolkit(const struct snapshot_entry *e);
