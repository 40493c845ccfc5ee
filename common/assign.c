/* SPDX-License-Identifier: MIT */
/*
 * The published rules, parsed and asked. The text is cut in place; every line after the header
 * becomes one struct assign_line, a rule being followed by its conditions. Globs are matched byte
 * by byte and in bounded time by an own matcher: fnmatch(3) depends on the process's locale, so
 * that two processes could decide differently, and a pattern with many stars against a long path
 * takes it very long.
 */
#include "common/assign.h"

#include <time.h>

#include "common/snapshot.h"
#include "common/util.h"

#define HEADER        "cudaenv-assign "
#define MISMATCH_LINE "on_mismatch fail\n"
#define GLOB_MAX      4096

enum line_kind {
	LINE_RULE,
	LINE_UNTIL,
	LINE_WHEN_UNIT,
	LINE_WHEN_UID,
	LINE_WHEN_GID,
	LINE_WHEN_EXE,
	LINE_WHEN_CGROUP,
	LINE_BOUNDARY,
	LINE_SUPERVISOR,
};

struct assign_line {
	enum line_kind kind;
	const char *text;   /* rule's name, or glob */
	const char *digest; /* LINE_RULE: "" for none */
	uint32_t id;        /* LINE_WHEN_UID and _GID */
	int64_t until;      /* LINE_UNTIL */
};

static const char *const mode_names[] = {
	[MODE_OFF] = "off",
	[MODE_OBSERVE] = "observe",
	[MODE_ON] = "on",
};

const char *mode_name(enum mode mode)
{
	return mode_names[mode];
}

int mode_parse(const char *s, enum mode *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(mode_names); i++)
		if (streq(s, mode_names[i])) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

/* A decimal number as printf would write it, at most MAX. */
static bool parse_number(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t n = 0;

	if (s[0] == '\0' || (s[0] == '0' && s[1] != '\0'))
		return false;
	for (; *s; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (*s < '0' || *s > '9' || n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*ret = n;
	return true;
}

/* DIGEST or "none"; NULL: neither. */
static const char *parse_digest(const char *s)
{
	if (streq(s, "none"))
		return "";
	return digest_valid(s) ? s : NULL;
}

static bool glob_valid(const char *s)
{
	if (*s == '\0' || strlen(s) > GLOB_MAX)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* A bracket expression at P, after its '[': is C in it? *RET_END is after the ']', NULL: there is
 * none, and the '[' is an ordinary character. */
static bool in_brackets(const char *p, unsigned char c, const char **ret_end)
{
	bool negated = *p == '!' || *p == '^', found = false;
	const char *first;

	*ret_end = NULL;
	p += negated;
	for (first = p; *p && (*p != ']' || p == first); p++) {
		unsigned char low = (unsigned char)*p, high = low;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			high = (unsigned char)p[2];
			p += 2;
		}
		if (c >= low && c <= high)
			found = true;
	}
	if (*p == '\0')
		return false;
	*ret_end = p + 1;
	return found != negated;
}

/* Does the one character C match the first element of the pattern P (not a star)? *RET_NEXT is
 * after that element. */
static bool match_one(const char *p, char c, const char **ret_next)
{
	const char *end;
	bool found;

	*ret_next = p + 1;
	if (*p == '?')
		return true;
	if (*p == '[') {
		found = in_brackets(p + 1, (unsigned char)c, &end);
		if (end) {
			*ret_next = end;
			return found;
		}
	}
	if (*p == '\\' && p[1]) {
		*ret_next = p + 2;
		return p[1] == c;
	}
	return *p == c;
}

/* Only the last star needs to be tried again. */
bool assign_glob_match(const char *pattern, const char *s)
{
	const char *star = NULL, *retry = NULL, *next;

	while (*s) {
		if (*pattern == '*') {
			star = ++pattern;
			retry = s;
		} else if (*pattern && match_one(pattern, *s, &next)) {
			pattern = next;
			s++;
		} else if (star) {
			pattern = star;
			s = ++retry;
		} else {
			return false;
		}
	}
	return pattern[strspn(pattern, "*")] == '\0';
}

/* The rest of a line that begins with WORD and a blank; NULL: it does not. */
static char *after_word(char *line, const char *word)
{
	size_t n = strlen(word);

	return line && strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

/* Where the parser stands. */
struct parser {
	struct assign *assign;
	char *cursor;
	unsigned line;
	unsigned count[LINE_SUPERVISOR + 1];
};

/* The next line, its LF made a NUL; NULL at the end. The text ends with LF and holds no NUL. */
static char *next_line(struct parser *p)
{
	char *line = p->cursor, *end;

	p->line++;
	if (*line == '\0')
		return NULL;
	end = strchrnul(line, '\n');
	*end = '\0';
	p->cursor = end + 1;
	return line;
}

static int parse_header(struct parser *p)
{
	struct assign *a = p->assign;
	char *line = next_line(p), *rest;
	const char *digest;

	if (!line || strncmp(line, HEADER, STRLEN(HEADER)) != 0)
		return -EBADMSG;
	line += STRLEN(HEADER);
	if (!streq(line, "1"))
		return *line && line[strspn(line, "0123456789")] == '\0' ? -EPROTONOSUPPORT
									 : -EBADMSG;

	rest = after_word(next_line(p), "generation");
	if (!rest || !parse_number(rest, UINT64_MAX, &a->generation))
		return -EBADMSG;

	rest = after_word(next_line(p), "mode");
	if (!rest || mode_parse(rest, &a->mode) < 0)
		return -EBADMSG;

	rest = after_word(next_line(p), "default");
	digest = rest ? parse_digest(rest) : NULL;
	if (!digest)
		return -EBADMSG;
	(void)strcpy(a->fallback, digest);
	a->mismatch_fails = startswith(p->cursor, MISMATCH_LINE);
	if (a->mismatch_fails)
		(void)next_line(p);
	return 0;
}

static int parse_rule(char *rest, struct assign_line *ret)
{
	char *blank = strchr(rest, ' ');

	if (!blank || !snapshot_label_valid(rest, (size_t)(blank - rest)))
		return -EBADMSG;
	*blank = '\0';
	*ret = (struct assign_line){
		.kind = LINE_RULE, .text = rest, .digest = parse_digest(blank + 1)};
	return ret->digest ? 0 : -EBADMSG;
}

static int parse_until(const char *s, struct assign_line *ret)
{
	uint64_t until;

	if (!parse_number(s, INT64_MAX, &until))
		return -EBADMSG;
	*ret = (struct assign_line){.kind = LINE_UNTIL, .until = (int64_t)until};
	return 0;
}

static int parse_id(const char *s, enum line_kind kind, struct assign_line *ret)
{
	uint64_t id;

	/* The largest is no id but "unchanged". */
	if (!parse_number(s, UINT32_MAX - 1, &id))
		return -EBADMSG;
	*ret = (struct assign_line){.kind = kind, .id = (uint32_t)id};
	return 0;
}

static int parse_glob(const char *s, enum line_kind kind, struct assign_line *ret)
{
	if (!glob_valid(s))
		return -EBADMSG;
	*ret = (struct assign_line){.kind = kind, .text = s};
	return 0;
}

static int parse_when(char *rest, struct assign_line *ret)
{
	char *value;

	if ((value = after_word(rest, "unit")))
		return parse_glob(value, LINE_WHEN_UNIT, ret);
	if ((value = after_word(rest, "uid")))
		return parse_id(value, LINE_WHEN_UID, ret);
	if ((value = after_word(rest, "gid")))
		return parse_id(value, LINE_WHEN_GID, ret);
	if ((value = after_word(rest, "exe")))
		return parse_glob(value, LINE_WHEN_EXE, ret);
	if ((value = after_word(rest, "cgroup")))
		return parse_glob(value, LINE_WHEN_CGROUP, ret);
	return -EBADMSG;
}

static bool is_when(enum line_kind kind)
{
	return kind >= LINE_WHEN_UNIT && kind <= LINE_WHEN_CGROUP;
}

static int parse_line(char *line, struct assign_line *ret)
{
	char *rest;

	if ((rest = after_word(line, "rule")))
		return parse_rule(rest, ret);
	if ((rest = after_word(line, "until")))
		return parse_until(rest, ret);
	if ((rest = after_word(line, "when")))
		return parse_when(rest, ret);
	if ((rest = after_word(line, "boundary")))
		return parse_glob(rest, LINE_BOUNDARY, ret);
	if ((rest = after_word(line, "supervisor")))
		return parse_glob(rest, LINE_SUPERVISOR, ret);
	return -EBADMSG;
}

/* Rules, then boundaries, then supervisors; end and conditions below a rule; nothing twice; not too
 * many. */
static bool fits(struct parser *p, const struct assign_line *new)
{
	const struct assign *a = p->assign;
	enum line_kind last = a->n_lines > 0 ? a->lines[a->n_lines - 1].kind : LINE_BOUNDARY;

	if (new->kind == LINE_UNTIL)
		return a->n_lines > 0 && last == LINE_RULE;
	if (is_when(new->kind))
		return a->n_lines > 0 && last <= LINE_WHEN_CGROUP;
	if (a->n_lines > 0 && (last <= LINE_WHEN_CGROUP ? LINE_RULE : last) > new->kind)
		return false;
	if (++p->count[new->kind] > ASSIGN_MAX_EACH)
		return false;
	for (size_t i = 0; i < a->n_lines; i++)
		if (a->lines[i].kind == new->kind && streq(a->lines[i].text, new->text))
			return false;
	return true;
}

static int parse_lines(struct parser *p)
{
	struct assign *a = p->assign;
	size_t lines = 0;
	char *line;
	int r;

	for (const char *s = p->cursor; (s = strchr(s, '\n')); s++)
		lines++;
	if (lines > ASSIGN_MAX_LINES)
		return -EFBIG;
	a->lines = calloc(lines > 0 ? lines : 1, sizeof *a->lines);
	if (!a->lines)
		return -ENOMEM;
	while ((line = next_line(p)) && !streq(line, "end")) {
		struct assign_line new;

		r = parse_line(line, &new);
		if (r < 0)
			return r;
		if (!fits(p, &new))
			return -EBADMSG;
		a->lines[a->n_lines++] = new;
	}
	return line && *p->cursor == '\0' ? 0 : -EBADMSG;
}

/* Takes TEXT (SIZE bytes and a NUL) in every case. */
static int parse_consume(char *text, size_t size, struct assign **ret, unsigned *ret_line)
{
	_cleanup_(assign_freep) struct assign *a = calloc(1, sizeof *a);
	struct parser p = {.assign = a, .cursor = text};
	int r;

	if (!a) {
		free(text);
		return -ENOMEM;
	}
	a->text = text;
	r = size > 0 && text[size - 1] == '\n' && !memchr(text, '\0', size) ? 0 : -EBADMSG;
	if (r == 0)
		r = parse_header(&p);
	if (r == 0)
		r = parse_lines(&p);
	if (r < 0) {
		if (ret_line)
			*ret_line = p.line;
		return r;
	}
	*ret = TAKE_PTR(a);
	return 0;
}

int assign_parse(const char *bytes, size_t size, struct assign **ret, unsigned *ret_line)
{
	char *text;

	if (size > ASSIGN_MAX_BYTES)
		return -EFBIG;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	if (size > 0)
		memcpy(text, bytes, size);
	text[size] = '\0';
	return parse_consume(text, size, ret, ret_line);
}

struct assign *assign_free(struct assign *a)
{
	if (!a)
		return NULL;
	free(a->lines);
	free(a->text);
	free(a);
	return NULL;
}

int assign_load(const struct runtime *rt, struct assign **ret)
{
	char *text;
	size_t size;
	int r;

	r = runtime_read(rt, rt->dir_fd, "assign", ASSIGN_MAX_BYTES, &text, &size);
	return r < 0 ? r : parse_consume(text, size, ret, NULL);
}

static bool has_gid(const struct assign_subject *subject, uint32_t gid)
{
	for (size_t i = 0; i < subject->n_gids; i++)
		if (subject->gids[i] == gid)
			return true;
	return false;
}

static bool condition_holds(const struct assign_line *l, const struct assign_subject *subject)
{
	switch (l->kind) {
	case LINE_WHEN_UNIT:
		return subject->unit && assign_glob_match(l->text, subject->unit);
	case LINE_WHEN_UID:
		return subject->uid == l->id;
	case LINE_WHEN_GID:
		return has_gid(subject, l->id);
	case LINE_WHEN_EXE:
		return subject->exe && assign_glob_match(l->text, subject->exe);
	case LINE_WHEN_CGROUP:
		return subject->cgroup && assign_glob_match(l->text, subject->cgroup);
	default:
		return false;
	}
}

static bool has_ended(int64_t until, const struct assign_subject *subject)
{
	struct timespec t;

	if (until < 0)
		return false;
	if (subject->now != 0)
		return subject->now >= until;
	return clock_gettime(CLOCK_REALTIME, &t) == 0 && t.tv_sec >= until;
}

static enum assign_kind kind_of(const struct assign_line *l)
{
	return (enum assign_kind)(l->kind - LINE_WHEN_UNIT);
}

int assign_explain(const struct assign *a, const struct assign_subject *subject, size_t *cursor,
		   struct assign_rule *ret)
{
	size_t i = *cursor;

	if (i == ASSIGN_END)
		return 0;
	if (i >= a->n_lines || a->lines[i].kind != LINE_RULE) {
		*ret = (struct assign_rule){.digest = a->fallback, .until = -1, .hit = true};
		*cursor = ASSIGN_END;
		return 1;
	}
	*ret = (struct assign_rule){
		.name = a->lines[i].text, .digest = a->lines[i].digest, .until = -1};
	i++;
	if (i < a->n_lines && a->lines[i].kind == LINE_UNTIL)
		ret->until = a->lines[i++].until;
	ret->ended = has_ended(ret->until, subject);
	ret->conditions = i;
	for (; i < a->n_lines && is_when(a->lines[i].kind); i++) {
		unsigned bit = 1u << kind_of(&a->lines[i]);

		ret->named |= bit;
		if (!(ret->held & bit) && condition_holds(&a->lines[i], subject))
			ret->held |= bit;
	}
	ret->n_conditions = i - ret->conditions;
	ret->hit = !ret->ended && ret->named == ret->held;
	*cursor = i;
	return 1;
}

void assign_condition(const struct assign *a, const struct assign_rule *rule, size_t i,
		      const struct assign_subject *subject, struct assign_condition *ret)
{
	const struct assign_line *l = &a->lines[rule->conditions + i];

	*ret = (struct assign_condition){.kind = kind_of(l),
					 .glob = l->text,
					 .id = l->id,
					 .holds = condition_holds(l, subject)};
}

const char *assign_kind_name(enum assign_kind kind)
{
	static const char *const names[] = {"unit", "uid", "gid", "exe", "cgroup"};

	return names[kind];
}

/* The default always is a hit. */
const char *assign_choose(const struct assign *a, const struct assign_subject *subject,
			  const char **ret_rule)
{
	struct assign_rule rule = {.digest = ""};
	size_t cursor = 0;

	while (!rule.hit && assign_explain(a, subject, &cursor, &rule) > 0)
		;
	*ret_rule = rule.name;
	return rule.digest;
}

bool assign_gives(const struct assign *a, const char *digest)
{
	bool found = streq(a->fallback, digest);

	for (size_t i = 0; i < a->n_lines && !found; i++)
		found = a->lines[i].kind == LINE_RULE && streq(a->lines[i].digest, digest);
	return found;
}

static bool any_glob(const struct assign *a, enum line_kind kind, const char *s)
{
	for (size_t i = 0; i < a->n_lines; i++)
		if (a->lines[i].kind == kind && assign_glob_match(a->lines[i].text, s))
			return true;
	return false;
}

bool assign_uses_gids(const struct assign *a)
{
	for (size_t i = 0; i < a->n_lines; i++)
		if (a->lines[i].kind == LINE_WHEN_GID)
			return true;
	return false;
}

bool assign_is_boundary(const struct assign *a, const char *comm)
{
	return any_glob(a, LINE_BOUNDARY, comm);
}

bool assign_is_supervisor(const struct assign *a, const char *unit)
{
	return any_glob(a, LINE_SUPERVISOR, unit);
}
