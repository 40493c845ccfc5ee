/* SPDX-License-Identifier: MIT */
#include "common/profile-text.h"

#include <openssl/evp.h>

#include "common/profile-internal.h"
#include "common/profile-list.h"
#include "common/util.h"

static void to_hex(const unsigned char *bytes, size_t size, char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		ret[2 * i] = digits[bytes[i] >> 4];
		ret[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret[2 * size] = '\0';
}

int profile_digest(const void *data, size_t size, char ret[DIGEST_SIZE])
{
	unsigned char bytes[DIGEST_HEX / 2];
	unsigned n = 0;

	if (EVP_Digest(data, size, bytes, &n, EVP_sha256(), NULL) != 1 || n != sizeof bytes)
		return -EIO;
	to_hex(bytes, sizeof bytes, ret);
	return 0;
}

static int compare_line(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void lines_done(char ***lines)
{
	for (size_t i = 0; *lines && (*lines)[i]; i++)
		free((*lines)[i]);
	free(*lines);
}

int profile_rank_digest(const struct snapshot *s, const struct facts *facts, char ret[DIGEST_SIZE])
{
	_cleanup_(lines_done) char **lines = calloc(s->n_entries + 1, sizeof *lines);
	_cleanup_(freep) char *text = NULL;
	size_t n = 0, size = 0, used = 0;

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct snapshot_entry *e = &s->entries[i];

		if (e->rule == SNAPSHOT_UNSET || !facts_must_match(facts, e->name))
			continue;
		if (asprintf(&lines[n], "%s=%s\n", e->name, e->value) < 0) {
			lines[n] = NULL;
			return -ENOMEM;
		}
		size += strlen(lines[n++]);
	}
	if (n > 0)
		qsort(lines, n, sizeof *lines, compare_line);
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(lines[i]);

		memcpy(text + used, lines[i], length);
		used += length;
	}
	return profile_digest(text, used, ret);
}

static bool has_toolkit(const struct profile *p)
{
	for (size_t i = 0; i < p->n_variables; i++)
		if (profile_variable_in_toolkit(&p->variables[i]))
			return true;
	return false;
}

/* Where the text is written, or only counted: then TEXT is NULL. */
struct sink {
	char *text;
	size_t size;
};

static void put(struct sink *sink, const char *s)
{
	size_t n = strlen(s);

	if (sink->text)
		memcpy(sink->text + sink->size, s, n);
	sink->size += n;
}

static void put_variable(struct sink *sink, const struct profile_variable *v)
{
	put(sink, snapshot_rule_name(v->rule));
	put(sink, " ");
	if (v->group) {
		put(sink, v->group);
		put(sink, " ");
	}
	put(sink, v->name);
	if (v->rule != SNAPSHOT_UNSET)
		put(sink, "=");
	put(sink, v->value);
	put(sink, "\n");
}

/* Returns the size. */
static size_t put_text(const struct profile *p, char *text)
{
	struct sink sink = {.text = text};

	put(&sink, "cudaenv-snapshot 1\nprofile ");
	put(&sink, p->name);
	put(&sink, p->scope_any ? "\nscope any\n" : "\nscope user\n");
	if (has_toolkit(p)) {
		put(&sink, p->toolkit_force ? "toolkit force " : "toolkit default ");
		put(&sink, p->toolkit_root);
		put(&sink, "\n");
	}
	for (size_t i = 0; i < p->n_variables; i++)
		put_variable(&sink, &p->variables[i]);
	return sink.size;
}

int profile_make_text(struct profile *p, const struct facts *facts)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *text = NULL;
	size_t size = put_text(p, NULL);
	int r;

	if (size > SNAPSHOT_MAX_BYTES) {
		p->valid = false;
		return findings_add(&p->findings, FINDING_ERROR, 0, 0, "too-large", NULL,
				    "set fewer variables, or use shorter names of groups",
				    "the snapshot is larger than 640 KiB");
	}
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	(void)put_text(p, text);
	text[size] = '\0';
	r = snapshot_parse(text, size, &s);
	if (r < 0)
		return r;
	r = profile_digest(text, size, p->digest);
	if (r < 0)
		return r;
	if (facts) {
		r = profile_rank_digest(s, facts, p->rank_digest);
		if (r < 0)
			return r;
	}
	p->snapshot_text = TAKE_PTR(text);
	p->snapshot_size = size;
	return 0;
}

static size_t count_digits(size_t n)
{
	size_t digits = 1;

	while (n >= 10) {
		n /= 10;
		digits++;
	}
	return digits;
}

size_t profile_marks_size(const struct profile *p)
{
	size_t size = STRLEN("CUDAENV_APPLIED=");

	for (size_t i = 0; i < p->n_variables; i++) {
		const struct profile_variable *v = &p->variables[i];

		if (v->rule == SNAPSHOT_UNSET)
			continue;
		/* NAME:hhhh, and of a list :N:M; a name with two lists is counted twice, which is
		 * more than it takes. */
		size += strlen(v->name) + STRLEN(":hhhh,");
		if (profile_rule_is_list(v->rule) || streq(v->name, "PATH"))
			size += STRLEN("::0") + count_digits(profile_list_count(v->value));
	}
	return size;
}
