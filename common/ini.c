/* SPDX-License-Identifier: MIT */
#include "common/ini.h"

#include <ctype.h>
#include <ini.h>

#include "common/util.h"

/* What one line of the text is. Offsets are into the line's own bytes. */
enum line_kind {
	LINE_NOTHING, /* blank, a comment, or broken: libinih gets an empty line */
	LINE_SECTION,
	LINE_BROKEN_SECTION, /* what follows belongs to no section */
	LINE_KEY,
};

struct line {
	enum line_kind kind;
	const char *start;
	size_t size;
	size_t first, first_end; /* section name or key, without blanks around it */
	size_t value, value_end;
};

struct reading {
	struct line *lines;
	size_t n_lines;
	size_t next; /* line that libinih asks for next */
	struct ini *ini;
	struct findings *findings;
	size_t capacity; /* of ini->entries */
	size_t section_capacity;
	int error;
};

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Length of the UTF-8 sequence at P, 0: it is none. */
static size_t utf8_length(const unsigned char *p, size_t size)
{
	size_t n = p[0] < 0x80                   ? 1
		   : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		   : (p[0] & 0xf0) == 0xe0       ? 3
						 : 4;

	if (n == 1)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4 || size < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static unsigned column_of(const struct line *l, size_t offset)
{
	unsigned column = 1;

	for (size_t i = 0; i < offset && i < l->size; i++)
		if (((unsigned char)l->start[i] & 0xc0) != 0x80)
			column++;
	return column;
}

static int add(struct reading *rd, size_t line, size_t offset, enum finding_severity severity,
	       const char *rule, const char *fix, const char *message)
{
	return findings_add(rd->findings, severity, (unsigned)line + 1,
			    column_of(&rd->lines[line], offset), rule, NULL, fix, "%s", message);
}

/* The first byte that may not stand in a line becomes a finding. 1: the line is good. */
static int check_bytes(struct reading *rd, size_t line)
{
	const struct line *l = &rd->lines[line];
	const unsigned char *p = (const unsigned char *)l->start;

	if (l->size > INI_LINE_MAX)
		return add(rd, line, 0, FINDING_ERROR, "line-too-long", "split the value",
			   "the line is longer than 131072 bytes");
	for (size_t i = 0, n; i < l->size; i += n) {
		n = utf8_length(p + i, l->size - i);
		if (n == 0)
			return add(rd, line, i, FINDING_ERROR, "not-utf8", "save the file as UTF-8",
				   "this byte is not UTF-8");
		if (p[i] == '\0')
			return add(rd, line, i, FINDING_ERROR, "nul", "remove it",
				   "there is a NUL byte");
		if (p[i] == '\r')
			return add(rd, line, i, FINDING_ERROR, "lone-cr",
				   "end lines with LF or CR LF",
				   "there is a carriage return inside the line");
		if ((p[i] < 0x20 && p[i] != '\t') || p[i] == 0x7f ||
		    (n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0))
			return add(rd, line, i, FINDING_ERROR, "control-character", "remove it",
				   "there is a control character");
	}
	return 1;
}

static void trim(const struct line *l, size_t *start, size_t *end)
{
	while (*start < *end && blank(l->start[*start]))
		(*start)++;
	while (*end > *start && blank(l->start[*end - 1]))
		(*end)--;
}

static int classify_section(struct reading *rd, size_t line, size_t start, size_t end)
{
	struct line *l = &rd->lines[line];
	const char *close = memchr(l->start + start, ']', end - start);
	size_t inner = start + 1, inner_end, rest;

	l->kind = LINE_BROKEN_SECTION;
	if (!close)
		return add(rd, line, end, FINDING_ERROR, "missing-bracket",
			   "end the section line with ]", "the section has no ]");
	inner_end = (size_t)(close - l->start);
	rest = inner_end + 1;
	if (rest < end)
		return add(rd, line, rest, FINDING_ERROR, "text-after-section",
			   "put a comment on a line of its own", "there is text after the ]");
	trim(l, &inner, &inner_end);
	if (inner == inner_end)
		return add(rd, line, start, FINDING_ERROR, "empty-section",
			   "give the section a name", "the section has no name");
	if (inner != start + 1 || inner_end != rest - 1)
		return add(rd, line, start + 1, FINDING_ERROR, "blank-in-section",
			   "write no blanks around the name",
			   "there are blanks inside the brackets");
	l->kind = LINE_SECTION;
	l->first = inner;
	l->first_end = inner_end;
	return 0;
}

static int classify_key(struct reading *rd, size_t line, size_t start, size_t end)
{
	struct line *l = &rd->lines[line];
	const char *equals = memchr(l->start + start, '=', end - start);

	if (!equals)
		return add(rd, line, start, FINDING_ERROR, "no-equals",
			   "write NAME = value; a line is not continued by the next one",
			   "the line has no =");
	l->first = start;
	l->first_end = (size_t)(equals - l->start);
	trim(l, &l->first, &l->first_end);
	if (l->first == l->first_end)
		return add(rd, line, start, FINDING_ERROR, "no-name", "write NAME = value",
			   "there is no name before the =");
	l->value = (size_t)(equals - l->start) + 1;
	l->value_end = end;
	trim(l, &l->value, &l->value_end);
	l->kind = LINE_KEY;
	return 0;
}

static int classify(struct reading *rd, size_t line)
{
	struct line *l = &rd->lines[line];
	size_t start = 0, end = l->size;
	int r;

	trim(l, &start, &end);
	r = check_bytes(rd, line);
	if (r <= 0) {
		if (start < end && l->start[start] == '[')
			l->kind = LINE_BROKEN_SECTION;
		return r;
	}
	if (start == end)
		return 0;
	if (l->start[end - 1] == '\\') {
		r = add(rd, line, end - 1, FINDING_ADVICE, "backslash-at-end",
			"remove it if the next line was meant to belong to this one",
			"a backslash does not continue the line");
		if (r < 0)
			return r;
	}
	if (l->start[start] == '#' || l->start[start] == ';')
		return 0;
	if (l->start[start] == '[')
		return classify_section(rd, line, start, end);
	return classify_key(rd, line, start, end);
}

/* Cuts the text at LF; CR before it, or at the very end, goes with it. One UTF-8 BOM is skipped. */
static int split_lines(struct reading *rd, const char *bytes, size_t size)
{
	size_t n = 1, at = 0;

	if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	for (size_t i = at; i < size; i++)
		n += bytes[i] == '\n';
	rd->lines = calloc(n, sizeof *rd->lines);
	if (!rd->lines)
		return -ENOMEM;
	while (at < size) {
		const char *lf = memchr(bytes + at, '\n', size - at);
		size_t end = lf ? (size_t)(lf - bytes) : size;
		struct line *l = &rd->lines[rd->n_lines++];

		l->start = bytes + at;
		l->size = end - at;
		if (l->size > 0 && l->start[l->size - 1] == '\r')
			l->size--;
		at = end + 1;
	}
	return 0;
}

/* libinih asks for a line: it gets [N] for a section and N= for a key, N counted from 0 in the line
 * table. */
static char *on_read_line(char *buffer, int size, void *userdata)
{
	struct reading *rd = userdata;
	size_t line = rd->next;
	int n;

	if (line >= rd->n_lines || rd->error < 0)
		return NULL;
	rd->next++;
	switch (rd->lines[line].kind) {
	case LINE_SECTION:
	case LINE_BROKEN_SECTION:
		n = snprintf(buffer, (size_t)size, "[%zu]\n", line);
		break;
	case LINE_KEY:
		n = snprintf(buffer, (size_t)size, "%zu=\n", line);
		break;
	default:
		n = snprintf(buffer, (size_t)size, "\n");
		break;
	}
	if (n < 0 || n >= size) {
		rd->error = -EIO;
		return NULL;
	}
	return buffer;
}

static int add_section(struct reading *rd, size_t line)
{
	const struct line *l = &rd->lines[line];
	struct ini_section *s;

	if (rd->ini->n_sections == rd->section_capacity) {
		size_t capacity = rd->section_capacity == 0 ? 8 : rd->section_capacity * 2;

		s = reallocarray(rd->ini->sections, capacity, sizeof *s);
		if (!s)
			return -ENOMEM;
		rd->ini->sections = s;
		rd->section_capacity = capacity;
	}
	s = &rd->ini->sections[rd->ini->n_sections];
	s->name = strndup(l->start + l->first, l->first_end - l->first);
	s->line = (unsigned)line + 1;
	if (!s->name)
		return -ENOMEM;
	rd->ini->n_sections++;
	return 0;
}

static int add_entry(struct reading *rd, const struct ini_section *section, size_t line)
{
	const struct line *l = &rd->lines[line];
	struct ini_entry *e;

	if (rd->ini->n_entries == rd->capacity) {
		size_t capacity = rd->capacity == 0 ? 32 : rd->capacity * 2;

		e = reallocarray(rd->ini->entries, capacity, sizeof *e);
		if (!e)
			return -ENOMEM;
		rd->ini->entries = e;
		rd->capacity = capacity;
	}
	e = &rd->ini->entries[rd->ini->n_entries];
	*e = (struct ini_entry){
		.section = section->name,
		.section_line = section->line,
		.key = strndup(l->start + l->first, l->first_end - l->first),
		.value = strndup(l->start + l->value, l->value_end - l->value),
		.line = (unsigned)line + 1,
		.column = column_of(l, l->first),
		.value_column = column_of(l, l->value),
	};
	rd->ini->n_entries++; /* also a half-made one: ini_done() frees it */
	return e->key && e->value ? 0 : -ENOMEM;
}

/* The section whose header is line LINE; sections were added in the order of lines. */
static const struct ini_section *section_at(const struct ini *ini, size_t line)
{
	size_t low = 0, high = ini->n_sections;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ini->sections[middle].line <= line)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ini->n_sections && ini->sections[low].line == line + 1 ? &ini->sections[low]
									    : NULL;
}

/* libinih found a key: the texts are numbers of lines of ours. */
static int on_entry(void *userdata, const char *section, const char *name, const char *value)
{
	struct reading *rd = userdata;
	size_t line, header;

	if (!name || !value)
		return 1; /* a build that announces sections */
	line = strtoul(name, NULL, 10);
	if (line >= rd->n_lines || rd->lines[line].kind != LINE_KEY) {
		rd->error = -EIO;
		return 0;
	}
	if (section[0] == '\0') {
		rd->error = add(rd, line, rd->lines[line].first, FINDING_ERROR, "no-section",
				"begin with a section such as [env]",
				"the line stands before any section");
		return rd->error == 0;
	}
	header = strtoul(section, NULL, 10);
	if (header >= rd->n_lines) {
		rd->error = -EIO;
		return 0;
	}
	if (rd->lines[header].kind == LINE_SECTION) {
		const struct ini_section *s = section_at(rd->ini, header);

		rd->error = s ? add_entry(rd, s, line) : -EIO;
	}
	return rd->error == 0;
}

static int compare_section(const void *a, const void *b)
{
	const struct ini_section *const *x = a, *const *y = b;
	int c = strcmp((*x)->name, (*y)->name);

	return c != 0 ? c : (*x)->line < (*y)->line ? -1 : 1;
}

static int find_duplicate_sections(const struct ini *ini, struct findings *findings)
{
	_cleanup_(freep) const struct ini_section **sorted = NULL;
	const struct ini_section *first;

	if (ini->n_sections < 2)
		return 0;
	sorted = calloc(ini->n_sections, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < ini->n_sections; i++)
		sorted[i] = &ini->sections[i];
	qsort(sorted, ini->n_sections, sizeof *sorted, compare_section);
	first = sorted[0];
	for (size_t i = 1; i < ini->n_sections; i++) {
		if (!streq(sorted[i]->name, first->name)) {
			first = sorted[i];
			continue;
		}
		int r = findings_add(findings, FINDING_ERROR, sorted[i]->line, 1,
				     "duplicate-section", NULL, "put both into one section",
				     "this section stands in line %u already", first->line);
		if (r < 0)
			return r;
	}
	return 0;
}

static int compare_entry(const void *a, const void *b)
{
	const struct ini_entry *const *x = a, *const *y = b;
	int c = strcmp((*x)->section, (*y)->section);

	if (c == 0)
		c = strcmp((*x)->key, (*y)->key);
	return c != 0 ? c : (*x)->line < (*y)->line ? -1 : 1;
}

static void entry_done(struct ini_entry *e)
{
	free(e->key);
	free(e->value);
	*e = (struct ini_entry){0};
}

const char *ini_plain_key(const char *key)
{
	for (const char *p = key; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("_.-", *p))
			return NULL;
	return key;
}

/* Of entries with the same section and key the first stays. */
static int drop_duplicate_entries(struct ini *ini, struct findings *findings)
{
	_cleanup_(freep) struct ini_entry **sorted = NULL;
	struct ini_entry *first;
	size_t kept = 0;

	if (ini->n_entries < 2)
		return 0;
	sorted = calloc(ini->n_entries, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < ini->n_entries; i++)
		sorted[i] = &ini->entries[i];
	qsort(sorted, ini->n_entries, sizeof *sorted, compare_entry);
	first = sorted[0];
	for (size_t i = 1; i < ini->n_entries; i++) {
		if (!streq(sorted[i]->key, first->key) ||
		    !streq(sorted[i]->section, first->section)) {
			first = sorted[i];
			continue;
		}
		const char *key = ini_plain_key(first->key);
		int r = findings_add(findings, FINDING_ERROR, sorted[i]->line, sorted[i]->column,
				     "duplicate-key", key, "remove one of the two",
				     "%s stands in line %u already", key ? key : "this name",
				     first->line);
		if (r < 0)
			return r;
		entry_done(sorted[i]);
	}
	for (size_t i = 0; i < ini->n_entries; i++)
		if (ini->entries[i].key)
			ini->entries[kept++] = ini->entries[i];
	ini->n_entries = kept;
	return 0;
}

int ini_read(const char *bytes, size_t size, struct ini *ret, struct findings *findings)
{
	struct reading rd = {.ini = ret, .findings = findings};
	_cleanup_(freep) struct line *lines = NULL;
	int r;

	*ret = (struct ini){0};
	r = split_lines(&rd, bytes, size);
	lines = rd.lines;
	for (size_t i = 0; r >= 0 && i < rd.n_lines; i++) {
		r = classify(&rd, i);
		if (r >= 0 && rd.lines[i].kind == LINE_SECTION)
			r = add_section(&rd, i);
	}
	if (r < 0)
		return r;
	r = ini_parse_stream(on_read_line, &rd, on_entry, &rd);
	if (rd.error < 0)
		return rd.error;
	if (r != 0)
		return r == -2 ? -ENOMEM : -EIO;
	r = find_duplicate_sections(ret, findings);
	if (r < 0)
		return r;
	return drop_duplicate_entries(ret, findings);
}

void ini_done(struct ini *ini)
{
	for (size_t i = 0; i < ini->n_entries; i++)
		entry_done(&ini->entries[i]);
	for (size_t i = 0; i < ini->n_sections; i++)
		free(ini->sections[i].name);
	free(ini->entries);
	free(ini->sections);
	*ini = (struct ini){0};
}
