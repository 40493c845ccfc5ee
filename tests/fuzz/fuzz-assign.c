/* SPDX-License-Identifier: MIT */
/*
 * What parses as rules can be asked anything, gives what the text holds, and no shorter text gives
 * an answer.
 */
#undef NDEBUG
#include <assert.h>

#include "common/assign.h"
#include "common/snapshot.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_header(const struct assign *a, const uint8_t *data, size_t size)
{
	char head[256];
	int n = snprintf(head, sizeof head,
			 "cudaenv-assign 1\ngeneration %llu\nmode %s\ndefault %s\n",
			 (unsigned long long)a->generation, mode_name(a->mode),
			 *a->fallback ? a->fallback : "none");

	assert(n > 0 && (size_t)n < sizeof head && (size_t)n + 4 <= size);
	assert(memcmp(data, head, (size_t)n) == 0);
	assert(memcmp(data + size - 4, "end\n", 4) == 0);
}

/* The first rule that is a hit is the choice; whether one is, its conditions tell. */
static void check_explained(const struct assign *a, const struct assign_subject *subject,
			    const char *chosen, const char *digest)
{
	struct assign_condition c;
	struct assign_rule rule;
	size_t cursor = 0;
	bool found = false;

	while (assign_explain(a, subject, &cursor, &rule) > 0) {
		unsigned held = 0;

		for (size_t i = 0; i < rule.n_conditions; i++) {
			assign_condition(a, &rule, i, subject, &c);
			assert(assign_kind_name(c.kind));
			held |= c.holds ? 1u << c.kind : 0;
		}
		assert(held == rule.held && assign_gives(a, rule.digest));
		if (rule.hit && !found) {
			found = true;
			assert(rule.name == chosen && rule.digest == digest);
		}
	}
	assert(found && cursor == ASSIGN_END);
}

/* The choice is the text's own: "rule NAME DIGEST" stands in it. */
static void check_choice(const struct assign *a, const struct assign_subject *subject,
			 const uint8_t *data, size_t size)
{
	const char *rule = "unset", *digest = assign_choose(a, subject, &rule);
	char line[256];
	int n;

	assert(*digest == '\0' || digest_valid(digest));
	check_explained(a, subject, rule, digest);
	if (!rule) {
		assert(streq(digest, a->fallback));
		return;
	}
	assert(snapshot_label_valid(rule, strlen(rule)));
	n = snprintf(line, sizeof line, "\nrule %s %s\n", rule, *digest ? digest : "none");
	assert(n > 0 && (size_t)n < sizeof line);
	assert(memmem(data, size, line, (size_t)n));
}

static void ask(const struct assign *a, const uint8_t *data, size_t size)
{
	static const char *const texts[] = {
		NULL,
		"",
		"sshd",
		"vllm@1.service",
		"/system.slice/vllm@1.service",
		"]-[*?\\",
		"\377\200",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
	};
	const gid_t gids[] = {0, 7, 1000};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct assign_subject s = {.uid = (uid_t)(i * 500),
					   .gids = gids,
					   .n_gids = i % 4,
					   .unit = texts[i],
					   .exe = texts[(i + 1) % ARRAY_SIZE(texts)],
					   .cgroup = texts[(i + 2) % ARRAY_SIZE(texts)]};

		check_choice(a, &s, data, size);
		if (texts[i]) {
			(void)assign_is_boundary(a, texts[i]);
			(void)assign_is_supervisor(a, texts[i]);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(assign_freep) struct assign *a = NULL;
	struct assign *cut = NULL;
	unsigned line = 0, lines = 1;
	int r = assign_parse((const char *)data, size, &a, &line);

	if (r < 0) {
		assert(!a);
		assert(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EFBIG);
		for (size_t i = 0; i < size; i++)
			lines += data[i] == '\n';
		assert(line <= lines);
		return 0;
	}
	check_header(a, data, size);
	ask(a, data, size);
	assert(assign_parse((const char *)data, size - 1, &cut, NULL) == -EBADMSG && !cut);
	return 0;
}
