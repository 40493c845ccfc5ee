/* SPDX-License-Identifier: MIT */
/*
 * The limits of one profile: line, name, variable, number of variables, marks, snapshot. Those of
 * joined profiles and of files: test-profile-set.c.
 */
#include "common/profile-text.h"
#include "common/util.h"
#include "tests/unit/test.h"

static struct profile *parse_bytes(const char *bytes, size_t size)
{
	struct profile *p;

	check(profile_parse("p", "/x/p.ini", bytes, size, NULL, &p) == 0);
	check(p->valid == (p->findings.errors == 0));
	check(!p->snapshot_text == !p->valid);
	return p;
}

static struct profile *parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static const struct finding *finding(const struct profile *p, const char *rule)
{
	for (size_t i = 0; i < p->findings.n; i++)
		if (streq(p->findings.items[i].rule, rule))
			return &p->findings.items[i];
	return NULL;
}

/* A text of HEAD and N bytes of filling. */
static struct profile *parse_filled(const char *head, size_t n)
{
	size_t size = strlen(head) + n;
	char *text = malloc(size);
	struct profile *p;

	check(text);
	memset(text, 'v', size);
	memcpy(text, head, strlen(head));
	p = parse_bytes(text, size);
	free(text);
	return p;
}

TEST(longest_variable)
{
	struct profile *p = parse_filled("[env]\nA=", SNAPSHOT_STRING_MAX - 2);

	check(p->valid);
	check(strlen(p->variables[0].value) == SNAPSHOT_STRING_MAX - 2);
	profile_free(p);
	p = parse_filled("[env]\nA=", SNAPSHOT_STRING_MAX - 1);
	check(!p->valid && finding(p, "too-long")->line == 2);
	profile_free(p);
	p = parse_filled("[env]\nA=", SNAPSHOT_STRING_MAX);
	check(!p->valid && finding(p, "line-too-long"));
	profile_free(p);
	p = parse_filled("[env]\nA=1\nB", SNAPSHOT_NAME_MAX);
	check(!p->valid);
	profile_free(p);
}

TEST(long_names)
{
	char text[SNAPSHOT_NAME_MAX + 32] = "[env]\n";
	struct profile *p;

	memset(text + 6, 'N', SNAPSHOT_NAME_MAX);
	strcpy(text + 6 + SNAPSHOT_NAME_MAX, "=1\n");
	p = parse(text);
	check(p->valid && p->n_variables == 1);
	profile_free(p);
	strcpy(text + 6 + SNAPSHOT_NAME_MAX, "N=1\n");
	p = parse(text);
	check(!p->valid && finding(p, "bad-name"));
	profile_free(p);
}

/* N variables with names of SIZE characters. */
static struct profile *parse_many(const char *section, unsigned n, unsigned size)
{
	size_t used = 0, room = strlen(section) + (size_t)n * (size + 3) + 1;
	char *text = malloc(room);
	struct profile *p;

	check(text);
	used += (size_t)snprintf(text, room, "%s", section);
	for (unsigned i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, room - used, "V%0*u=\n", (int)size - 1, i);
	p = parse_bytes(text, used);
	free(text);
	return p;
}

TEST(marks_must_fit)
{
	/* CUDAENV_APPLIED= and NAME:hhhh, each */
	struct profile *p = parse_many("[env]\n", 1, 10);

	check(profile_marks_size(p) == 16 + 16);
	profile_free(p);
	p = parse_many("[env]\n", 7000, 10);
	check(p->valid && profile_marks_size(p) == 16 + 7000 * 16);
	profile_free(p);
	p = parse_many("[env]\n", 9000, 10);
	check(!p->valid && finding(p, "too-many"));
	profile_free(p);
	p = parse("[env.prepend]\nL=/usr/a:/usr/b\n");
	check(profile_marks_size(p) == strlen("CUDAENV_APPLIED=L:hhhh:2:0,"));
	profile_free(p);
	/* removed variables have no mark, but there is a limit on lines */
	p = parse_many("[env.unset]\n", SNAPSHOT_ENTRIES_MAX, 10);
	check(p->valid);
	profile_free(p);
	p = parse_many("[env.unset]\n", SNAPSHOT_ENTRIES_MAX + 1, 10);
	check(!p->valid && finding(p, "too-many"));
	profile_free(p);
}

TEST(snapshot_must_fit)
{
	char section[256];
	struct profile *p;

	snprintf(section, sizeof section, "[together %0100d]\n", 0);
	p = parse_many(section, 6500, 10);
	check(!p->valid && finding(p, "too-large"));
	check(!p->snapshot_text && p->digest[0] == '\0');
	profile_free(p);
}

TEST_MAIN
