/* SPDX-License-Identifier: MIT */
/*
 * /etc/nccl.conf and ~/.nccl.conf as NCCL reads them: NAME=VALUE, split at the first '=', no blank
 * trimmed, no quotes, a comment only in the first column, name and value cut at 1023 bytes; the
 * process's own value and an earlier line win.
 */
#include "config.h"

#include "client/ctl/import.h"
#include "common/util.h"

#define NCCL_STRING_MAX 1023

static int read_line(struct import *im, unsigned line, const char *start, size_t size)
{
	const char *equals = memchr(start, '=', size);
	_cleanup_(freep) char *name = NULL, *value = NULL;
	size_t name_size = equals ? (size_t)(equals - start) : 0;

	if (size == 0 || start[0] == '#')
		return 0;
	if (!equals)
		return import_note(im, line, NULL, "the line has no =: NCCL ignores it");
	name = strndup(start, name_size);
	value = strndup(equals + 1, size - name_size - 1);
	if (!name || !value)
		return -ENOMEM;
	if (memchr(start, '\0', size))
		return import_leave(im, IMPORT_SETDEFAULT, line, name, "there is a NUL byte");
	if (strpbrk(name, " \t"))
		return import_note(
			im, line, NULL,
			"a blank before the = is part of the name: NCCL never asks for it");
	if (name_size > NCCL_STRING_MAX || strlen(value) > NCCL_STRING_MAX)
		return import_leave(im, IMPORT_SETDEFAULT, line, name, "NCCL cuts it at %d bytes",
				    NCCL_STRING_MAX);
	return import_set(im, IMPORT_SETDEFAULT, line, name, value);
}

int import_nccl_conf(struct import *im, const char *bytes, size_t size)
{
	bool told = false;
	unsigned line = 0;
	int r = 0;

	for (size_t at = 0; r == 0 && at < size;) {
		const char *lf = memchr(bytes + at, '\n', size - at);
		size_t end = lf ? (size_t)(lf - bytes) : size, next = end + 1;

		line++;
		if (end > at && bytes[end - 1] == '\r') {
			end--;
			if (!told)
				r = import_note(im, line, NULL,
						"lines end in CR LF: NCCL before 2.30 takes the CR "
						"for a part of the value, here it is not");
			told = true;
		}
		if (r == 0)
			r = read_line(im, line, bytes + at, end - at);
		at = next;
	}
	return r;
}
