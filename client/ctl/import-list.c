/* SPDX-License-Identifier: MIT */
/* The list that readers feed: one item a name, in a hash so that a hostile file costs no more than
 * its size. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/ctl/import.h"
#include "common/util.h"

void import_done(struct import *im)
{
	for (size_t i = 0; i < im->n_items; i++) {
		free(im->items[i].name);
		free(im->items[i].value);
	}
	for (size_t i = 0; i < im->n_notes; i++) {
		free(im->notes[i].name);
		free(im->notes[i].reason);
	}
	for (size_t i = 0; i < im->n_files; i++)
		free(im->files[i]);
	for (size_t i = 0; i < im->n_refers; i++)
		free(im->refers[i]);
	free(im->items);
	free(im->notes);
	free(im->files);
	*im = (struct import){0};
}

int import_begin_file(struct import *im, const char *file)
{
	char **files = reallocarray(im->files, im->n_files + 1, sizeof *files), *copy;

	if (!files)
		return -ENOMEM;
	im->files = files;
	copy = strdup(file);
	if (!copy)
		return -ENOMEM;
	files[im->n_files++] = copy;
	im->file = copy;
	return 0;
}

static unsigned *bucket_of(const struct import *im, const char *name)
{
	unsigned hash = 5381;

	for (const char *p = name; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	return (unsigned *)&im->buckets[hash % IMPORT_BUCKETS];
}

struct import_item *import_find(const struct import *im, const char *name)
{
	for (unsigned i = *bucket_of(im, name); i > 0; i = im->items[i - 1].next)
		if (streq(im->items[i - 1].name, name))
			return &im->items[i - 1];
	return NULL;
}

static int _printf_(6, 0) note_v(struct import *im, const char *file, unsigned line,
				 const char *name, bool show_name, const char *format, va_list ap)
{
	struct import_note note = {.file = file, .line = line};

	if (im->n_notes >= IMPORT_NOTES_MAX) {
		im->more_notes++;
		return 0;
	}
	/* The capacity is the next power of two: it follows from the count. */
	if ((im->n_notes & (im->n_notes - 1)) == 0) {
		struct import_note *grown = reallocarray(
			im->notes, im->n_notes == 0 ? 1 : im->n_notes * 2, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		im->notes = grown;
	}
	if (name && show_name) {
		note.name = strdup(name);
		if (!note.name)
			return -ENOMEM;
	}
	if (vasprintf(&note.reason, format, ap) < 0) {
		free(note.name);
		return -ENOMEM;
	}
	im->notes[im->n_notes++] = note;
	return 0;
}

int import_note_item(struct import *im, const struct import_item *item, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = note_v(im, item->file, item->line, item->name, true, format, ap);
	va_end(ap);
	return r;
}

static bool name_valid(const char *name)
{
	return snapshot_name_valid(name, strlen(name));
}

int import_note(struct import *im, unsigned line, const char *name, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = note_v(im, im->file, line, name, name && name_valid(name), format, ap);
	va_end(ap);
	return r;
}

/* The item of NAME, made if absent. 1, 0: there is none, and a note says why. */
static int item_get(struct import *im, unsigned line, const char *name, struct import_item **ret)
{
	struct import_item *item = import_find(im, name);
	unsigned *bucket = bucket_of(im, name);

	if (item) {
		*ret = item;
		return 1;
	}
	if (!name_valid(name))
		return import_note(im, line, NULL, "its name is not one that a profile may have");
	if (im->n_items >= IMPORT_ITEMS_MAX)
		return import_note(im, line, name, "there are more than %u variables",
				   (unsigned)IMPORT_ITEMS_MAX);
	if ((im->n_items & (im->n_items - 1)) == 0) {
		item = reallocarray(im->items, im->n_items == 0 ? 1 : im->n_items * 2,
				    sizeof *item);
		if (!item)
			return -ENOMEM;
		im->items = item;
	}
	item = &im->items[im->n_items];
	*item = (struct import_item){.name = strdup(name), .value = strdup(""), .next = *bucket};
	*bucket = (unsigned)++im->n_items;
	*ret = item;
	return item->name && item->value ? 1 : -ENOMEM;
}

/* A value or a removal gives way to a later line. */
static int note_replaced(struct import *im, const struct import_item *item, unsigned line)
{
	if (!item->file || item->state == IMPORT_UNKNOWN)
		return 0;
	return import_note_item(im, item, "%s:%u says something else later, which counts", im->file,
				line);
}

static int put(struct import *im, struct import_item *item, enum import_state state, unsigned line,
	       const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(item->value);
	item->value = copy;
	item->state = state;
	item->file = im->file;
	item->line = line;
	return 0;
}

int import_set(struct import *im, enum import_op op, unsigned line, const char *name,
	       const char *value)
{
	enum import_state state =
		op == IMPORT_ASSIGN && im->assignments_force ? IMPORT_FORCE : IMPORT_DEFAULT;
	struct import_item *item;
	int r = item_get(im, line, name, &item);

	if (r <= 0)
		return r;
	if (op == IMPORT_SETDEFAULT && item->file && item->state != IMPORT_UNSET)
		return item->state == IMPORT_UNKNOWN || streq(item->value, value)
			       ? 0
			       : import_note(im, line, name,
					     "%s:%u says something else before, "
					     "which counts",
					     item->file, item->line);
	if (item->state == IMPORT_UNSET && item->file)
		state = IMPORT_FORCE; /* what the process had is gone at this point */
	else if (!streq(item->value, value) || item->state != state)
		r = note_replaced(im, item, line);
	return r < 0 ? r : put(im, item, state, line, value);
}

static int _printf_(5, 0) unknown(struct import *im, bool replaces, unsigned line, const char *name,
				  const char *format, va_list ap)
{
	struct import_item *item;
	int r = item_get(im, line, name, &item);

	if (r <= 0)
		return r;
	r = note_v(im, im->file, line, name, true, format, ap);
	if (r < 0 || (item->file && !replaces))
		return r;
	r = note_replaced(im, item, line);
	return r < 0 ? r : put(im, item, IMPORT_UNKNOWN, line, "");
}

int import_leave(struct import *im, enum import_op op, unsigned line, const char *name,
		 const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = unknown(im, op == IMPORT_ASSIGN, line, name, format, ap);
	va_end(ap);
	return r;
}

int import_maybe(struct import *im, unsigned line, const char *name, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = unknown(im, false, line, name, format, ap);
	va_end(ap);
	return r;
}

int import_unset(struct import *im, unsigned line, const char *name)
{
	struct import_item *item;
	int r = item_get(im, line, name, &item);

	if (r <= 0)
		return r;
	r = item->state == IMPORT_UNSET ? 0 : note_replaced(im, item, line);
	return r < 0 ? r : put(im, item, IMPORT_UNSET, line, "");
}

int import_forget(struct import *im, unsigned line)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < im->n_items; i++) {
		struct import_item *item = &im->items[i];

		if (!item->file || item->state == IMPORT_UNSET)
			continue;
		r = note_replaced(im, item, line);
		if (r == 0)
			r = put(im, item, IMPORT_UNKNOWN, line, "");
		item->file = NULL;
	}
	return r;
}

int import_refer(struct import *im, const char *path)
{
	if (im->n_refers == IMPORT_REFERS_MAX)
		return 0;
	im->refers[im->n_refers] = strdup(path);
	return im->refers[im->n_refers] ? (void)im->n_refers++, 0 : -ENOMEM;
}
