/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads an INI text for profiles and cudaenvd.conf: libinih finds which key belongs to which
 * section, on clean synthetic lines that we hand it, and the raw bytes come from our own line table
 * (DESIGN section 5: what libinih as shipped does to long lines, inline comments and colons must
 * not reach a user's value). The text may be hostile: any bytes, any size.
 */

#include <stddef.h>

#include "common/finding.h"

#define INI_LINE_MAX ((size_t)128 * 1024) /* without its line end */

struct ini_section {
	char *name; /* "env.force", "together nccl", "assign vllm" */
	unsigned line;
};

struct ini_entry {
	const char *section; /* the section's name, owned by the section */
	char *key; /* what stands before the first '=', blanks around it dropped: any characters */
	char *value; /* the rest of the line, blanks around it dropped, byte for byte */
	unsigned line;
	unsigned column; /* of the key */
	unsigned value_column;
	unsigned section_line;
};

struct ini {
	struct ini_entry *entries; /* in file order; of duplicates the first */
	size_t n_entries;
	struct ini_section *sections; /* in file order, empty ones included */
	size_t n_sections;
};

/* Parses SIZE bytes. Grammar faults (missing ], no =, control characters, invalid UTF-8, lone CR,
 * NUL, line too long, key before any section, duplicate key or section) become findings; entries
 * are what could be read, without those below a broken section line. RET and FINDINGS are the
 * caller's to end also on failure. 0, -ENOMEM, -EIO (libinih did not take our lines). */
int ini_read(const char *bytes, size_t size, struct ini *ret, struct findings *findings);
void ini_done(struct ini *ini);

/* KEY if it can be shown, NULL if it has other characters than letters, digits and _ . - (then it
 * may be anything that slipped before a '=', a secret too). */
const char *ini_plain_key(const char *key);
