/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/published.h"

#include <sys/stat.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "common/util.h"

#define STATUS_FILE "status"

static void load_status(struct published *p)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	struct stat st;

	if (runtime_read(&p->runtime, p->runtime.dir_fd, STATUS_FILE, RUNTIME_FILE_MAX, &text,
			 &size) < 0)
		return;
	p->status = json_parse(text, size);
	if (p->status && fstatat(p->runtime.dir_fd, STATUS_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		p->status_time = st.st_mtime;
}

int published_open(const char *path, struct published *ret)
{
	struct published p = PUBLISHED_NULL;
	int r;

	p.path = path;
	r = runtime_open(path, geteuid(), &p.runtime);
	if (r < 0)
		return r;
	p.assign_error = assign_load(&p.runtime, &p.assign);
	load_status(&p);
	*ret = p;
	return 0;
}

void published_done(struct published *p)
{
	runtime_done(&p->runtime);
	p->assign = p->assign ? assign_free(p->assign) : NULL;
	(void)json_object_put(p->status);
	p->status = NULL;
}

int ctl_published(struct ctl *ctl, struct published *ret)
{
	_cleanup_(freep) char *advice = NULL;
	const struct paths *paths = ctl_paths(ctl);
	int r;

	if (!paths)
		return CTL_FAILED;
	r = published_open(paths->runtime, ret);
	advice = r == -ENOENT ? ctl_start_advice(ctl) : NULL;
	if (r == -ENOENT)
		return ctl_error(CTL_FAILED, "nothing is published in %s: cudaenvd has not run; %s",
				 paths->runtime, advice ? advice : "out of memory");
	if (r == -EPERM)
		return ctl_error(CTL_FAILED,
				 "%s is not believed: it must belong to root%s and be writable by "
				 "its owner alone",
				 paths->runtime, geteuid() == 0 ? "" : " or to you");
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot read %s: %s", paths->runtime, strerror(-r));
	return CTL_GOOD;
}

int ctl_published_assign(struct ctl *ctl, struct published *ret)
{
	int status = ctl_published(ctl, ret);
	_cleanup_(freep) char *advice = NULL;

	if (status != CTL_GOOD || ret->assign)
		return status;
	advice = ctl_start_advice(ctl);
	return ctl_error(CTL_FAILED, "cannot use %s/assign: %s; cudaenvd writes a new one: %s",
			 ret->path,
			 ret->assign_error == -ENOENT    ? "it does not exist"
			 : ret->assign_error == -EBADMSG ? "it is damaged"
							 : strerror(-ret->assign_error),
			 advice ? advice : "out of memory");
}

/* An element of the status file's profiles, by one of its strings. */
static struct json_object *status_profile(const struct published *p, const char *key,
					  const char *value)
{
	struct json_object *profiles = json_array(p->status, "profiles");

	for (size_t i = 0; profiles && i < json_object_array_length(profiles); i++) {
		struct json_object *o = json_object_array_get_idx(profiles, i);
		const char *s = json_string(o, key);

		if (s && streq(s, value))
			return o;
	}
	return NULL;
}

int published_snapshot(const struct published *p, const char *digest, struct snapshot **ret)
{
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size = 0;
	int r;

	if (!digest_valid(digest))
		return -EINVAL;
	r = runtime_read(&p->runtime, p->runtime.snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &bytes,
			 &size);
	if (r < 0)
		return r;
	r = snapshot_parse(bytes, size, &snapshot);
	if (r < 0)
		return r;
	if (!streq(snapshot->digest, digest))
		return -EUCLEAN;
	*ret = TAKE_PTR(snapshot);
	return 0;
}

const char *published_in_force(const struct published *p)
{
	/* No rule with a condition speaks of nobody. */
	const struct assign_subject nobody = {.uid = (uid_t)-1};
	const char *rule;

	return assign_choose(p->assign, &nobody, &rule);
}

bool published_gives(const struct published *p)
{
	static const struct assign_subject nobody;
	struct assign_rule rule;
	size_t cursor = 0;

	while (p->assign && assign_explain(p->assign, &nobody, &cursor, &rule) > 0)
		if (rule.digest[0] && !rule.ended)
			return true;
	return false;
}

char *published_profile(const struct published *p, const char *digest)
{
	const char *name = json_string(status_profile(p, "digest", digest), "name");
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;

	if (name)
		return strdup(name);
	return published_snapshot(p, digest, &snapshot) == 0 ? strdup(snapshot->profile) : NULL;
}

int published_digest(const struct published *p, const char *name, char ret[DIGEST_SIZE])
{
	const char *digest = json_string(status_profile(p, "name", name), "digest");

	if (!digest || !digest_valid(digest))
		return -ENOENT;
	memcpy(ret, digest, DIGEST_SIZE);
	return 0;
}

const char *published_names_find(struct published_names *n, const char *digest)
{
	if (!digest[0])
		return NULL;
	if (!streq(n->digest, digest)) {
		free(n->name);
		n->name = published_profile(n->published, digest);
		memcpy(n->digest, digest, DIGEST_SIZE);
	}
	return n->name;
}

void published_names_done(struct published_names *n)
{
	free(n->name);
	n->name = NULL;
}
