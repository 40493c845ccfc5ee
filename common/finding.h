/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Findings: what is wrong in a file, where, and the way out. Readers of files (common/ini,
 * common/profile) collect all of them instead of stopping at the first; who shows them (cudaenvctl
 * check, the manager's journal) decides how.
 *
 * No finding ever holds a value of a file: values may be secrets. Names, numbers and paths that
 * were judged may stand in it. Of more than FINDINGS_MAX findings the first are kept, with one more
 * that says so; the counts go on.
 */

#include <stddef.h>

#define FINDINGS_MAX 1000

enum finding_severity { FINDING_ERROR, FINDING_WARNING, FINDING_ADVICE };

/* LINE and COLUMN are 1-based, 0: the whole file. Columns count characters. */
struct finding {
	enum finding_severity severity;
	unsigned line;
	unsigned column;
	const char *rule; /* static id such as "duplicate-key" */
	char *variable;   /* NULL: none */
	char *message;    /* one sentence */
	char *fix;        /* the way out, one sentence, or NULL */
};

struct findings {
	struct finding *items;
	size_t n;
	size_t errors;
	size_t warnings;
	size_t advices;
};

/* "error", "warning", "advice" */
const char *finding_severity_name(enum finding_severity severity);

/* Appends; copies strings but RULE. 0 or -ENOMEM. */
int findings_add(struct findings *f, enum finding_severity severity, unsigned line, unsigned column,
		 const char *rule, const char *variable, const char *fix, const char *format, ...)
	__attribute__((format(printf, 8, 9)));
/* By line, then column; those of one place stay in their order. */
void findings_sort(struct findings *f);
void findings_done(struct findings *f);

/* "FILE:LINE:COL: error: message: fix", without LF; line and column are left out where they are 0.
 * 0 or -ENOMEM. */
int finding_format(const struct finding *f, const char *file, char **ret);
