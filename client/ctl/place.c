/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/place.h"

#include <grp.h>
#include <limits.h>
#include <unistd.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/util.h"

#define GROUPS_MAX 256

int place_init(const struct published *p, const char *token, struct place *ret)
{
	ret->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret->cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret->subject = (struct job_subject){.uid = geteuid(), .token = token};
	ret->source = (struct job_source){.proc_fd = ret->proc_fd,
					  .cgroup_fd = ret->cgroup_fd,
					  .rt = &p->runtime,
					  .assign = p->assign};
	return job_subject_self(&p->runtime, ret->proc_fd, ret->cgroup_fd, token, &ret->subject,
				&ret->source.same_pidns);
}

void place_done(struct place *place)
{
	place->proc_fd = safe_close(place->proc_fd);
	place->cgroup_fd = safe_close(place->cgroup_fd);
}

void place_choose(const struct published *p, struct place *place, const char *exe,
		  const char *fallback, char ret[DIGEST_SIZE])
{
	struct assign_subject subject = {.uid = place->subject.uid, .exe = exe};
	struct job_facts facts = {0};
	gid_t groups[GROUPS_MAX];
	const char *rule = NULL, *digest;
	int n;

	(void)job_place(&place->source, &place->subject, &facts);
	if (place->subject.has_key_uid)
		subject.uid = place->subject.key_uid;
	groups[0] = getegid();
	n = getgroups(GROUPS_MAX - 1, groups + 1);
	subject.gids = groups;
	subject.n_gids = 1 + (n > 0 ? (size_t)n : 0);
	subject.unit = facts.unit[0] ? facts.unit : NULL;
	subject.cgroup = facts.cgroup[0] ? facts.cgroup : NULL;
	digest = assign_choose(p->assign, &subject, &rule);
	(void)snprintf(ret, DIGEST_SIZE, "%s", rule ? digest : fallback);
}

bool place_is_above(pid_t pid)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_facts facts = {.ppid = getpid()};

	for (unsigned depth = 0; depth < JOB_DEPTH_MAX && facts.ppid > 1; depth++) {
		if (facts.ppid == pid)
			return true;
		if (procfs_facts(proc_fd, facts.ppid, &facts) < 0)
			return false;
	}
	return false;
}

void place_comm(pid_t pid, char ret[PLACE_COMM_SIZE])
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_facts facts;

	ret[0] = '\0';
	if (pid > 0 && procfs_facts(proc_fd, pid, &facts) == 0)
		(void)snprintf(ret, PLACE_COMM_SIZE, "%s", facts.comm);
}

/* The pin of the job that a process started here would be in. A token that this job never had names
 * another one (common/decide). */
static int find_pin(const struct published *p, struct place *place, const char *token,
		    struct own_job *job)
{
	struct job_facts facts;
	struct job_key parts;
	struct pin pin;
	int r;

	r = job_find(&place->source, &place->subject, &facts);
	if (r < 0)
		return r;
	(void)stpcpy(job->key, facts.key);
	r = pin_read(&p->runtime, job->key, place->subject.uid, &pin);
	if (token && !facts.ignore_token && (r < 0 || !pin_has(&pin, token))) {
		if (job_key_parse(job->key, &parts) < 0)
			return -EINVAL;
		memcpy(parts.digest, token, DIGEST_SIZE);
		job_key_format(&parts, job->key);
		r = pin_read(&p->runtime, job->key, place->subject.uid, &pin);
	}
	if (r == 0)
		memcpy(job->snapshot, pin.digest, DIGEST_SIZE);
	return r;
}

/* The process that a tree's key names, where it is one of this /proc and still there. */
static void find_root(const struct place *place, struct own_job *job, char exe[PATH_MAX])
{
	struct proc_facts facts;
	struct job_key parts;
	char path[64];
	ssize_t n;

	if (job_key_parse(job->key, &parts) < 0 || parts.kind != JOB_TREE ||
	    !place->source.same_pidns || parts.pidns != place->subject.pidns ||
	    procfs_facts(place->proc_fd, parts.pid, &facts) < 0 || facts.start != parts.start)
		return;
	job->root_pid = facts.pid;
	(void)snprintf(job->comm, sizeof job->comm, "%s", facts.comm);
	(void)snprintf(path, sizeof path, "%d/exe", (int)facts.pid);
	n = readlinkat(place->proc_fd, path, exe, PATH_MAX - 1);
	exe[n > 0 ? n : 0] = '\0';
}

/* A token that is not published here counts for nobody. */
static const char *own_token(const struct published *p)
{
	const char *token = getenv("CUDAENV_SNAPSHOT");

	if (!digest_valid(token) || p->runtime.snapshots_fd < 0 ||
	    faccessat(p->runtime.snapshots_fd, token, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	return token;
}

void own_job_find(const struct published *p, enum mode mode, const char *fallback,
		  struct own_job *ret)
{
	_cleanup_(place_done) struct place place = PLACE_NULL;
	const char *token = own_token(p);
	char now[DIGEST_SIZE], exe[PATH_MAX] = "";

	*ret = (struct own_job){0};
	if (!p->assign || mode != MODE_ON || place_init(p, token, &place) < 0 ||
	    find_pin(p, &place, token, ret) < 0)
		return;
	find_root(&place, ret, exe);
	place_choose(p, &place, exe[0] ? exe : NULL, fallback, now);
	/* A job that is this process alone ends with it. */
	ret->stays = !streq(now, ret->snapshot) && ret->root_pid != getpid();
	if (ret->stays && ret->snapshot[0])
		ret->profile = published_profile(p, ret->snapshot);
}

void own_job_done(struct own_job *job)
{
	free(job->profile);
	*job = (struct own_job){0};
}

struct json_object *own_job_json(const struct own_job *job)
{
	struct json_object *o;

	if (!job->stays)
		return NULL;
	o = json_object_new_object();
	json_object_object_add(o, "id", json_text(job->key));
	json_object_object_add(o, "snapshot", json_text(job->snapshot[0] ? job->snapshot : NULL));
	json_object_object_add(o, "profile", json_text(job->profile));
	return o;
}

void own_job_print(const struct own_job *job, bool dry_run)
{
	struct job_key parts;

	if (!job->stays)
		return;
	printf("This shell's own job (");
	if (job->root_pid > 0) {
		printf("below ");
		print_escaped(job->comm);
		printf(", process %d", (int)job->root_pid);
	} else {
		printf("%.60s", job->key);
	}
	printf(") %s on ", dry_run ? "would stay" : "stays");
	print_escaped(!job->snapshot[0] ? "nothing" : job->profile ? job->profile : "a snapshot");
	if (job->snapshot[0])
		printf(" %.*s", DIGEST_SHOWN, job->snapshot);
	printf(": %sstart commands with cudaenvctl exec --.\n",
	       job_key_parse(job->key, &parts) == 0 && parts.kind == JOB_TREE
		       ? "open a new login, or "
		       : "");
}
