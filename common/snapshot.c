/* SPDX-License-Identifier: MIT */
/*
 * Parsing and loading of snapshots. The text is cut in place: one allocation for the bytes, one for
 * the entries. The parser accepts exactly what its grammar can write, so that a text and what was
 * read from it say the same.
 */
#include "common/snapshot.h"

#include <limits.h>

#include "common/util.h"

#define HEADER    "cudaenv-snapshot "
#define LABEL_MAX 128

static const char *const rule_names[SNAPSHOT_RULE_MAX_] = {
	[SNAPSHOT_DEFAULT] = "default", [SNAPSHOT_FORCE] = "force",
	[SNAPSHOT_UNSET] = "unset",     [SNAPSHOT_TOGETHER] = "together",
	[SNAPSHOT_PREPEND] = "prepend", [SNAPSHOT_APPEND] = "append",
};

const char *snapshot_rule_name(enum snapshot_rule rule)
{
	return rule_names[rule];
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool snapshot_name_late(const char *name, size_t size)
{
	static const char *const names[] = {"LD_*", "PYTHON*", "MALLOC_*", "GLIBC_TUNABLES"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strcspn(names[i], "*");

		if ((names[i][n] ? size >= n : size == n) && memcmp(name, names[i], n) == 0)
			return true;
	}
	return false;
}

bool snapshot_name_valid(const char *name, size_t size)
{
	if (size == 0 || size > SNAPSHOT_NAME_MAX || is_digit(name[0]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_letter(name[i]) && !is_digit(name[i]) && name[i] != '_')
			return false;
	return true;
}

bool snapshot_label_valid(const char *label, size_t size)
{
	if (size == 0 || size > LABEL_MAX || label[0] == '.' || label[0] == '-')
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_letter(label[i]) && !is_digit(label[i]) &&
		    (label[i] == '\0' || !strchr("_.@-", label[i])))
			return false;
	return true;
}

/* No control characters but TAB. */
static bool value_valid(const char *value)
{
	for (const unsigned char *p = (const unsigned char *)value; *p; p++)
		if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
			return false;
	return true;
}

/* The next line of *CURSOR, its LF made a NUL; NULL at the end. The text ends with LF and holds no
 * NUL. */
static char *next_line(char **cursor)
{
	char *line = *cursor, *end;

	if (*line == '\0')
		return NULL;
	end = strchrnul(line, '\n');
	*end = '\0';
	*cursor = end + 1;
	return line;
}

/* The rest of a line that begins with WORD and a blank; NULL: it does not. */
static char *after_word(char *line, const char *word)
{
	size_t n = strlen(word);

	return line && strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

static int parse_toolkit(struct snapshot *s, char *rest)
{
	char *path = after_word(rest, "force");

	s->toolkit_force = path;
	if (!path)
		path = after_word(rest, "default");
	if (!path || path[0] != '/' || strlen(path) >= PATH_MAX || !value_valid(path))
		return -EBADMSG;
	s->toolkit_root = path;
	return 0;
}

static int parse_header(struct snapshot *s, char **cursor)
{
	char *line = next_line(cursor), *rest;

	if (!line || strncmp(line, HEADER, STRLEN(HEADER)) != 0)
		return -EBADMSG;
	line += STRLEN(HEADER);
	if (!streq(line, "1"))
		return *line && line[strspn(line, "0123456789")] == '\0' ? -EPROTONOSUPPORT
									 : -EBADMSG;

	rest = after_word(next_line(cursor), "profile");
	if (!rest || !snapshot_label_valid(rest, strlen(rest)))
		return -EBADMSG;
	s->profile = rest;

	rest = after_word(next_line(cursor), "scope");
	if (!rest || (!streq(rest, "any") && !streq(rest, "user")))
		return -EBADMSG;
	s->scope_any = streq(rest, "any");

	if (strncmp(*cursor, "toolkit ", STRLEN("toolkit ")) == 0)
		return parse_toolkit(s, next_line(cursor) + STRLEN("toolkit "));
	return 0;
}

static int parse_rule(char **rest, enum snapshot_rule *ret)
{
	for (unsigned i = 0; i < SNAPSHOT_RULE_MAX_; i++) {
		char *after = after_word(*rest, rule_names[i]);

		if (!after)
			continue;
		*rest = after;
		*ret = i;
		return 0;
	}
	return -EBADMSG;
}

static int parse_entry(char *line, struct snapshot_entry *ret)
{
	struct snapshot_entry e = {.value = ""};
	char *name = line, *equals;
	int r;

	r = parse_rule(&name, &e.rule);
	if (r < 0)
		return r;
	if (e.rule == SNAPSHOT_TOGETHER) {
		char *blank = strchr(name, ' ');

		if (!blank || !snapshot_label_valid(name, (size_t)(blank - name)))
			return -EBADMSG;
		e.group = name;
		*blank = '\0';
		name = blank + 1;
	}
	e.name = name;
	equals = strchr(name, '=');
	if (!equals != (e.rule == SNAPSHOT_UNSET) || strlen(name) > SNAPSHOT_STRING_MAX)
		return -EBADMSG;
	if (equals) {
		*equals = '\0';
		e.value = equals + 1;
	}
	if (!snapshot_name_valid(name, strlen(name)) || !value_valid(e.value))
		return -EBADMSG;
	*ret = e;
	return 0;
}

/* Two lines of one name: prepend and then append, or either after PATH of the toolkit, which is a
 * prepend of its own. */
static bool may_share_name(const struct snapshot_entry *a, const struct snapshot_entry *b)
{
	if (b->rule <= a->rule)
		return false;
	return a->rule == SNAPSHOT_PREPEND ||
	       (a->rule == SNAPSHOT_TOGETHER && streq(a->name, "PATH") &&
		streq(a->group, "toolkit"));
}

static int parse_entries(struct snapshot *s, char *cursor)
{
	size_t lines = 0;
	char *line;

	for (const char *p = cursor; (p = strchr(p, '\n')); p++)
		lines++;
	if (lines > SNAPSHOT_ENTRIES_MAX)
		return -EFBIG;
	s->entries = calloc(lines > 0 ? lines : 1, sizeof *s->entries);
	if (!s->entries)
		return -ENOMEM;
	while ((line = next_line(&cursor))) {
		struct snapshot_entry *e = &s->entries[s->n_entries];
		int r = parse_entry(line, e);

		if (r < 0)
			return r;
		if (s->n_entries > 0) {
			int order = strcmp(e[-1].name, e->name);

			if (order > 0 || (order == 0 && !may_share_name(&e[-1], e)))
				return -EBADMSG;
		}
		s->n_entries++;
	}
	return 0;
}

/* Takes TEXT (SIZE bytes and a NUL) in every case. */
static int parse_consume(char *text, size_t size, const char *digest, struct snapshot **ret)
{
	_cleanup_(snapshot_freep) struct snapshot *s = calloc(1, sizeof *s);
	char *cursor = text;
	int r;

	if (!s) {
		free(text);
		return -ENOMEM;
	}
	s->text = text;
	memcpy(s->digest, digest, DIGEST_SIZE);
	r = size > 0 && text[size - 1] == '\n' && !memchr(text, '\0', size) ? 0 : -EBADMSG;
	if (r == 0)
		r = parse_header(s, &cursor);
	if (r == 0)
		r = parse_entries(s, cursor);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

int snapshot_parse(const char *bytes, size_t size, struct snapshot **ret)
{
	char digest[DIGEST_SIZE];
	char *text;

	if (size > SNAPSHOT_MAX_BYTES)
		return -EFBIG;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	if (size > 0)
		memcpy(text, bytes, size);
	text[size] = '\0';
	digest_bytes(text, size, digest);
	return parse_consume(text, size, digest, ret);
}

struct snapshot *snapshot_free(struct snapshot *s)
{
	if (!s)
		return NULL;
	free(s->entries);
	free(s->text);
	free(s);
	return NULL;
}

int snapshot_load(const struct runtime *rt, const char *digest, struct snapshot **ret)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *text = NULL;
	char proof[DIGEST_SIZE];
	size_t size;
	int r;

	if (!digest_valid(digest))
		return -EINVAL;
	r = runtime_read(rt, rt->snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &text, &size);
	if (r < 0)
		return r;
	digest_bytes(text, size, proof);
	if (!streq(proof, digest))
		return -EUCLEAN;
	r = parse_consume(TAKE_PTR(text), size, proof, &s);
	if (r < 0)
		return r;
	if (rt->self == 0 && !s->scope_any)
		return -EKEYREJECTED;
	*ret = TAKE_PTR(s);
	return 0;
}
