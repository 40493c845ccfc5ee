/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/expect.h"

#include "client/ctl/jsonutil.h"
#include "client/ctl/published.h"
#include "client/ctl/table.h"
#include "common/profile-text.h"
#include "common/util.h"

struct expected {
	const char *digest;
	struct published published;
	struct snapshot *snapshot; /* in force; NULL: none, or it cannot be read */
	struct facts *facts;       /* NULL: no rank digest is known */
	char rank_digest[DIGEST_SIZE];
	bool good;
	char *line; /* the answer */
	const char *fix;
};

static void expected_done(struct expected *e)
{
	published_done(&e->published);
	e->snapshot = e->snapshot ? snapshot_free(e->snapshot) : NULL;
	e->facts = e->facts ? facts_free(e->facts) : NULL;
	free(e->line);
}

/* Bytes that do not prove themselves are applied by no client, so they are not in force. */
static int look(struct expected *e)
{
	int r = published_snapshot(&e->published, published_in_force(&e->published), &e->snapshot);

	if (r == 0 && facts_load(CTL_FACTS, &e->facts) == 0 &&
	    profile_rank_digest(e->snapshot, e->facts, e->rank_digest) < 0)
		r = -ENOMEM;
	return r;
}

static int answer(struct expected *e)
{
	const char *now = published_in_force(&e->published);
	enum mode mode = e->published.assign->mode;
	int r = now[0] ? look(e) : 0;
	bool match = e->snapshot && (streq(now, e->digest) || streq(e->rank_digest, e->digest));

	if (r == -ENOMEM)
		return r;
	e->good = match && mode == MODE_ON;
	if (!now[0])
		r = asprintf(&e->line, "not in force: no profile is in use, mode %s",
			     mode_name(mode));
	else if (r < 0)
		r = asprintf(&e->line,
			     "not in force: the snapshot in use, %.*s, cannot be read: %s",
			     DIGEST_SHOWN, now,
			     r == -EUCLEAN || r == -EBADMSG ? "it is damaged" : strerror(-r));
	else if (!match)
		r = asprintf(&e->line, "not in force: %s %.*s is, mode %s", e->snapshot->profile,
			     DIGEST_SHOWN, now, mode_name(mode));
	else
		r = asprintf(&e->line, "%s: %s %.*s%s, mode %s",
			     e->good ? "in force" : "nothing is set, would be in force",
			     e->snapshot->profile, DIGEST_SHOWN, now,
			     streq(now, e->digest) ? "" : " by its rank digest", mode_name(mode));
	if (r < 0)
		return -ENOMEM;
	e->fix = e->good ? NULL : match ? "cudaenvctl on" : "cudaenvctl use";
	return 0;
}

/* The document of check, with one finding where the answer is no. */
static void print_json(const struct expected *e)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *findings = json_object_new_array(), *f;
	const struct snapshot *s = e->snapshot;

	json_object_object_add(o, "errors", json_object_new_int64(!e->good));
	json_object_object_add(o, "warnings", json_object_new_int64(0));
	json_object_object_add(o, "advices", json_object_new_int64(0));
	json_object_object_add(o, "findings", findings);
	if (!e->good) {
		f = json_object_new_object();
		json_object_object_add(f, "file", json_text(e->published.path));
		json_object_object_add(f, "line", NULL);
		json_object_object_add(f, "column", NULL);
		json_object_object_add(f, "severity", json_text("error"));
		json_object_object_add(f, "rule", json_text("expect"));
		json_object_object_add(f, "variable", NULL);
		json_object_object_add(f, "message", json_text(e->line));
		json_object_object_add(f, "fix", json_text(e->fix));
		json_object_array_add(findings, f);
	}
	json_object_object_add(o, "expected", json_text(e->digest));
	json_object_object_add(o, "in_force", json_object_new_boolean(e->good));
	json_object_object_add(o, "mode", json_text(mode_name(e->published.assign->mode)));
	json_object_object_add(o, "profile", json_text(s ? s->profile : NULL));
	json_object_object_add(o, "digest", json_text(s ? s->digest : NULL));
	json_object_object_add(o, "rank_digest",
			       json_text(e->rank_digest[0] ? e->rank_digest : NULL));
	json_object_object_add(o, "facts_version",
			       json_text(e->facts ? facts_version(e->facts) : NULL));
	json_print(o);
}

int check_expected(struct ctl *ctl, const char *digest)
{
	_cleanup_(expected_done) struct expected e = {.digest = digest,
						      .published = PUBLISHED_NULL};
	int r;

	if (!digest_valid(digest))
		return ctl_error(CTL_USAGE,
				 "--expect=%s: a snapshot or rank digest has 64 digits "
				 "0-9a-f",
				 digest);
	r = ctl_published_assign(ctl, &e.published);
	if (r != CTL_GOOD)
		return r;
	if (answer(&e) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (ctl->json) {
		print_json(&e);
	} else {
		print_escaped(e.line);
		printf("\n");
	}
	return e.good ? CTL_GOOD : CTL_BAD_NEWS;
}
