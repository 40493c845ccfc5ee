/* SPDX-License-Identifier: MIT */
/* The state file "active" as text, both ways: one fact a line, "end" last, so that a cut file is
 * known as such. */
#include <config.h>

#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/manager/state.h"

#define ACTIVE_HEADER "cudaenv-active 1"

void active_done(struct active *a)
{
	free(a->applied);
	overrides_done(&a->overrides);
	*a = (struct active){0};
}

int active_copy(const struct active *from, struct active *ret)
{
	struct active a = *from;

	a.applied = NULL;
	if (overrides_copy(&from->overrides, &a.overrides) < 0)
		return -ENOMEM;
	if (from->n_applied > 0) {
		a.applied = calloc(from->n_applied, sizeof(*a.applied));
		if (!a.applied) {
			overrides_done(&a.overrides);
			return -ENOMEM;
		}
		memcpy(a.applied, from->applied, from->n_applied * sizeof(*a.applied));
	}
	*ret = a;
	return 0;
}

const char *active_applied(const struct active *a, const char *profile)
{
	for (size_t i = 0; i < a->n_applied; i++)
		if (streq(a->applied[i].profile, profile))
			return a->applied[i].digest;
	return NULL;
}

int active_set_applied(struct active *a, const char *profile, const char *digest)
{
	struct applied_version *v;

	if (strlen(profile) >= sizeof(v->profile) || !digest_valid(digest))
		return -EINVAL;
	for (size_t i = 0; i < a->n_applied; i++) {
		if (streq(a->applied[i].profile, profile)) {
			strcpy(a->applied[i].digest, digest);
			return 0;
		}
	}
	v = reallocarray(a->applied, a->n_applied + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	a->applied = v;
	v += a->n_applied++;
	strcpy(v->profile, profile);
	strcpy(v->digest, digest);
	return 0;
}

int active_format(const struct active *a, char **ret)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	fprintf(f, ACTIVE_HEADER "\ngeneration %llu\nmode %s\nchosen %s\nprofile %s\ndigest %s\n",
		(unsigned long long)a->generation, mode_name(a->mode), a->chosen ? "yes" : "no",
		a->profile[0] ? a->profile : "-", a->digest[0] ? a->digest : "none");
	for (size_t i = 0; i < a->n_applied; i++)
		fprintf(f, "applied %s %s\n", a->applied[i].profile, a->applied[i].digest);
	overrides_print(&a->overrides, f);
	fputs("end\n", f);
	if (fclose(f) != 0)
		return -ENOMEM;
	*ret = TAKE_PTR(text);
	return 0;
}

/* The value of the line "KEY value", which is cut out of *CURSOR; NULL if that is not the next
 * line. */
static char *next_value(char **cursor, const char *key)
{
	char *line = *cursor, *end = strchr(line, '\n');
	size_t n = strlen(key);

	if (!end || strncmp(line, key, n) != 0 || line[n] != ' ')
		return NULL;
	*end = '\0';
	*cursor = end + 1;
	return line + n + 1;
}

static bool parse_generation(const char *s, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(s, &end, 10);
	return s[0] >= '0' && s[0] <= '9' && *end == '\0' && errno == 0 && *ret < UINT64_MAX;
}

static int parse_head(char **cursor, struct active *a)
{
	const char *v;

	v = next_value(cursor, "cudaenv-active");
	if (!v || !streq(v, "1"))
		return -EBADMSG;
	v = next_value(cursor, "generation");
	if (!v || !parse_generation(v, &a->generation))
		return -EBADMSG;
	v = next_value(cursor, "mode");
	if (!v || mode_parse(v, &a->mode) < 0)
		return -EBADMSG;
	v = next_value(cursor, "chosen");
	if (!v || (!streq(v, "yes") && !streq(v, "no")))
		return -EBADMSG;
	a->chosen = streq(v, "yes");
	v = next_value(cursor, "profile");
	if (!v || (!streq(v, "-") && !snapshot_label_valid(v, strlen(v))))
		return -EBADMSG;
	if (!streq(v, "-"))
		strcpy(a->profile, v);
	v = next_value(cursor, "digest");
	if (!v || (!streq(v, "none") && !digest_valid(v)))
		return -EBADMSG;
	if (!streq(v, "none"))
		strcpy(a->digest, v);
	return 0;
}

static int parse_applied(char **cursor, struct active *a)
{
	char *v;

	while ((v = next_value(cursor, "applied"))) {
		char *digest = strchr(v, ' ');
		int r;

		if (!digest)
			return -EBADMSG;
		*digest++ = '\0';
		if (!snapshot_label_valid(v, strlen(v)) || !digest_valid(digest))
			return -EBADMSG;
		r = active_set_applied(a, v, digest);
		if (r < 0)
			return r;
	}
	return 0;
}

int active_parse(const char *text, size_t size, struct active *ret)
{
	_cleanup_(freep) char *copy = NULL;
	struct active a = {0};
	char *cursor;
	int r;

	if (memchr(text, '\0', size))
		return -EBADMSG;
	copy = strndup(text, size);
	if (!copy)
		return -ENOMEM;
	cursor = copy;
	r = parse_head(&cursor, &a);
	if (r == 0)
		r = parse_applied(&cursor, &a);
	if (r == 0)
		r = overrides_parse(&cursor, &a.overrides);
	if (r == 0 && !streq(cursor, "end\n"))
		r = -EBADMSG;
	if (r < 0) {
		active_done(&a);
		return r;
	}
	*ret = a;
	return 0;
}
