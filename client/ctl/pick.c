/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pick.h"

#include "client/ctl/missing.h"
#include "common/util.h"

/* A profile that has errors is not published either, unless it had none before. */
static int no_such(struct ctl *ctl, const char *name)
{
	_cleanup_(freep) char *fix = missing_profile_fix(ctl, name);

	return ctl_error(CTL_BAD_NEWS, "no valid profile %s is published in %s; %s", name,
			 ctl->paths.runtime, fix ? fix : "out of memory");
}

int ctl_pick(struct ctl *ctl, const struct published *p, const char *name, char ret[DIGEST_SIZE])
{
	if (digest_valid(name))
		memcpy(ret, name, DIGEST_SIZE);
	else if (published_digest(p, name, ret) < 0)
		return no_such(ctl, name);
	return CTL_GOOD;
}

static int load_error(const struct published *p, const char *digest, int r)
{
	const char *why = strerror(-r);

	if (r == -EKEYREJECTED)
		return ctl_error(CTL_BAD_NEWS,
				 "root takes no snapshot with a path that others can write; "
				 "cudaenvctl check names the path");
	if (r == -EUCLEAN || r == -EBADMSG)
		why = "it is damaged; cudaenvd publishes it again when it is restarted";
	if (r == -ENOENT)
		why = "it is not published here";
	return ctl_error(CTL_FAILED, "cannot use %s/snapshots/%.12s...: %s", p->path, digest, why);
}

int ctl_pick_load(const struct published *p, const char *digest, struct snapshot **ret)
{
	int r = snapshot_load(&p->runtime, digest, ret);

	return r < 0 ? load_error(p, digest, r) : CTL_GOOD;
}

int ctl_pick_look(const struct published *p, const char *digest, struct snapshot **ret)
{
	int r = published_snapshot(p, digest, ret);

	return r < 0 ? load_error(p, digest, r) : CTL_GOOD;
}
