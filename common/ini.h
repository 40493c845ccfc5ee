/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads an INI text for profiles and cudaenvd.conf: libinih finds sections and keys, on clean synthetic lines that we hand
 * it, and the raw bytes of each value come from our own line table (DESIGN section 5: what libinih as shipped does to long
 * lines, inline comments and colons must not reach a user's value). The text may be hostile: any bytes, any size up to the limit.
 */

#include <stddef.h>

#define INI_LINE_MAX ((size_t)128 * 1024)

enum ini_severity { INI_ERROR, INI_WARNING, INI_ADVICE };

/* One finding: FILE:LINE:COL: severity: message. LINE and COL are 1-based, 0: the whole file. */
struct finding {
	enum ini_severity severity;
	unsigned line;
	unsigned column;
	const char *rule; /* static id such as "duplicate-key" */
	char *variable;   /* NULL: none */
	char *message;    /* one sentence; never contains a secret's value */
	char *fix;        /* the way out, one sentence, or NULL */
};

struct findings {
	struct finding *items;
	size_t n;
	size_t errors;
	size_t warnings;
};

/* Appends; copies strings. 0 or -ENOMEM. */
int findings_add(struct findings *f, enum ini_severity severity, unsigned line, unsigned column,
		 const char *rule, const char *variable, const char *fix, const char *format, ...)
	__attribute__((format(printf, 8, 9)));
void findings_done(struct findings *f);

struct ini_entry {
	char *section; /* "env.force", "together nccl", "assign vllm" */
	char *key;
	char *value; /* the rest of the line after the first '=', blanks around it dropped, byte for byte */
	unsigned line;
	unsigned column; /* of the key */
	unsigned value_column;
	unsigned section_line;
};

struct ini_section {
	char *name;
	unsigned line;
};

struct ini {
	struct ini_entry *entries;
	size_t n_entries;
	struct ini_section *sections; /* in file order, empty ones included */
	size_t n_sections;
};

/* Parses SIZE bytes. Grammar faults (missing ], no =, control characters, invalid UTF-8, lone CR, NUL, line too long, key
 * before any section, duplicate key or section) become findings; entries are what could be read. 0 or -ENOMEM. */
int ini_parse(const char *bytes, size_t size, struct ini *ret, struct findings *findings);
void ini_done(struct ini *ini);
