/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/why.h"

#include <ctype.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/rules.h"
#include "client/ctl/slurp.h"
#include "common/profile.h"
#include "common/util.h"

#define SHOW_USEC  ((uint64_t)1500 * 1000)
#define STATUS_MAX ((size_t)1024 * 1024) /* bytes of /proc/PID/status */

static void why_done(struct why *w)
{
	free(w->verdict);
	free(w->advice);
	free(w->variables);
	exec_block_done(&w->block);
	snapshot_freep(&w->reported);
	report_done(&w->report);
	(void)json_object_put(w->shown);
	snapshot_freep(&w->intended);
	subject_done(&w->subject);
	w->cgroup_fd = safe_close(w->cgroup_fd);
	w->proc_fd = safe_close(w->proc_fd);
	worker_done(&w->looked);
	workers_done(&w->workers);
	published_done(&w->published);
}

/* --- the process */

/* Links that only who may trace a process can read tell one namespace from another. */
static enum tri same_namespace(int proc_fd, pid_t pid, const char *name)
{
	struct stat own, its;
	char path[64];

	(void)snprintf(path, sizeof path, "self/ns/%s", name);
	if (fstatat(proc_fd, path, &own, 0) < 0)
		return TRI_UNKNOWN;
	(void)snprintf(path, sizeof path, "%d/ns/%s", (int)pid, name);
	if (fstatat(proc_fd, path, &its, 0) < 0)
		return TRI_UNKNOWN;
	return own.st_ino == its.st_ino ? TRI_YES : TRI_NO;
}

static const struct worker *find_listed(const struct why *w, pid_t pid)
{
	for (size_t i = 0; i < w->workers.n; i++)
		if (w->workers.items[i].pid == pid)
			return &w->workers.items[i];
	return NULL;
}

static const struct worker *find_above(const struct why *w)
{
	struct proc_facts facts = {.ppid = w->worker->ppid};

	for (unsigned depth = 0; depth < JOB_DEPTH_MAX && facts.ppid > 1; depth++) {
		const struct worker *found = find_listed(w, facts.ppid);

		if (found)
			return found;
		if (procfs_facts(w->proc_fd, facts.ppid, &facts) < 0)
			break;
	}
	return NULL;
}

/* The job that a process without a hook would be in: it may have been kept without variables. */
static void find_place(struct why *w)
{
	const struct worker *worker = w->worker;
	struct job_source source = {.proc_fd = w->proc_fd,
				    .cgroup_fd = w->cgroup_fd,
				    .rt = &w->published.runtime,
				    .assign = w->published.assign,
				    .same_pidns = worker->nspid == worker->pid};
	struct job_subject subject = {
		.pid = worker->pid, .uid = worker->uid, .pidns = worker->pidns};
	struct job_facts facts;
	struct pin pin;

	if (job_find(&source, &subject, &facts) < 0)
		return;
	(void)strcpy(w->place, facts.key);
	w->placed = pin_read(&w->published.runtime, facts.key, worker->uid, &pin) == 0;
	if (w->placed)
		memcpy(w->place_digest, pin.digest, sizeof w->place_digest);
}

/* CTL_GOOD or an exit status after an error line. */
static int find_process(struct why *w, pid_t pid)
{
	uid_t self = geteuid();
	int r;

	r = workers_collect(&w->published, WORKERS_EVERYONE, &w->workers);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot read /proc: %s", strerror(-r));
	w->worker = find_listed(w, pid);
	if (!w->worker) {
		r = workers_look(&w->published, pid, &w->looked);
		if (r == -ESRCH)
			return ctl_error(CTL_BAD_NEWS, "there is no process %d to be seen here",
					 (int)pid);
		if (r < 0)
			return ctl_error(CTL_FAILED, "cannot read /proc/%d: %s", (int)pid,
					 strerror(-r));
		w->worker = &w->looked;
	}
	if (self != 0 && w->worker->uid != self)
		return ctl_error(CTL_BAD_NEWS,
				 "process %d is of another user (uid %u): only root and that user "
				 "may ask about it",
				 (int)pid, (unsigned)w->worker->uid);
	w->job = workers_job(&w->workers, w->worker->key);
	if (!w->worker->key) {
		w->above = find_above(w);
		find_place(w);
	}
	w->same_mounts = same_namespace(w->proc_fd, pid, "mnt");
	return CTL_GOOD;
}

/* --- what is intended */

static void find_rule(struct why *w)
{
	const struct assign *a = w->published.assign;
	struct stat st = {0};
	struct subject_source source = {&w->published, w->proc_fd, w->cgroup_fd, 0};
	size_t cursor = 0;

	if (fstatat(w->proc_fd, "self/ns/pid", &st, 0) == 0)
		source.own_pidns = st.st_ino;
	subject_of(&source, w->worker, &w->subject);
	while (a && !w->rule.hit && assign_explain(a, &w->subject.match, &cursor, &w->rule) > 0)
		;
	if (w->rule.digest)
		w->rule_source = rules_source(&w->published, w->rule.name);
}

/* Not snapshot_load(): also what this user may not take is told. */
static struct snapshot *load(const struct why *w, const char *digest)
{
	const struct published *p = &w->published;
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;

	if (!digest || !digest_valid(digest) ||
	    runtime_read(&p->runtime, p->runtime.snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &bytes,
			 &size) < 0 ||
	    snapshot_parse(bytes, size, &s) < 0 || !streq(s->digest, digest))
		return NULL;
	return TAKE_PTR(s);
}

/* A manager that is gone is not called: systemd would start it. */
static void find_shown(struct why *w)
{
	const char *const arguments[] = {w->intended->profile, NULL};
	_cleanup_(control_result_done) struct control_result result = {0};
	pid_t pid = (pid_t)json_number(w->published.status, "manager_pid", 0);

	if (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH))
		return;
	if (control_call(w->ctl->paths.control, "Show", arguments, SHOW_USEC, &result) == 0)
		w->shown = json_parse(result.reply, strlen(result.reply));
}

/* What its job has; for a process without a hook, which is in none, what that would be. */
static void find_intended(struct why *w)
{
	const struct worker *worker = w->worker;
	const char *by_job =
		worker->key ? (worker->pin_known ? worker->snapshot : "") : w->place_digest;

	w->intended = load(w, by_job[0] ? by_job : w->rule.digest);
	w->intended_by_rules = !by_job[0];
	if (w->intended)
		find_shown(w);
}

/* --- what came of it */

/* A fork ran no start hook: it has what the process it was forked off had then. */
static void find_report(struct why *w)
{
	const struct worker *worker =
		w->worker->forked_off ? find_listed(w, w->worker->forked_off) : w->worker;

	w->report_error =
		worker && worker->key ? report_get(&w->published, worker, &w->report) : -ENOENT;
	if (w->report_error == 0 && w->report.digest[0] && w->intended &&
	    !streq(w->report.digest, w->intended->digest))
		w->reported = load(w, w->report.digest);
}

static void find_block(struct why *w)
{
	const char *disable, *token;

	exec_block_read(w->proc_fd, w->worker->pid, &w->block);
	disable = exec_block_find(&w->block, "CUDAENV_DISABLE");
	w->disabled = disable && streq(disable, "1");
	token = exec_block_find(&w->block, "CUDAENV_SNAPSHOT");
	w->token = token && digest_valid(token) ? token : NULL;
}

/* A process whose state cannot be read is taken for one without. */
static void find_filter(struct why *w)
{
	_cleanup_(freep) char *text = NULL;
	char path[64];
	const char *line;
	size_t size;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)w->worker->pid);
	if (slurp(SLURP_ROOT_HERE, path, STATUS_MAX, &text, &size) < 0)
		return;
	line = strstr(text, "\nSeccomp:\t");
	w->filtered = line && line[STRLEN("\nSeccomp:\t")] != '0';
}

static bool is_list(const struct snapshot_entry *e)
{
	return e->rule == SNAPSHOT_PREPEND || e->rule == SNAPSHOT_APPEND ||
	       (e->rule == SNAPSHOT_TOGETHER && streq(e->name, "PATH") &&
		streq(e->group, PROFILE_TOOLKIT_GROUP));
}

/* Does the list VALUE hold each element of OURS? */
static bool list_holds(const char *value, const char *ours)
{
	for (const char *s = ours, *end; *s; s = end + (*end == ':')) {
		size_t n;
		bool found = false;

		end = strchrnul(s, ':');
		n = (size_t)(end - s);
		for (const char *v = value; !found; v = strchr(v, ':') + 1) {
			found = strncmp(v, s, n) == 0 && (v[n] == ':' || v[n] == '\0');
			if (!strchr(v, ':'))
				break;
		}
		if (n > 0 && !found)
			return false;
	}
	return true;
}

/* Does VALUE, NULL for none, say what E wants? */
static bool as_intended(const struct snapshot_entry *e, const char *value)
{
	if (e->rule == SNAPSHOT_UNSET)
		return !value;
	if (!value)
		return false;
	return is_list(e) ? list_holds(value, e->value) : streq(value, e->value);
}

/* By the environment it was executed with alone. A process that registered ran the hook after
 * that, so what is absent there, or an earlier snapshot's, it may have all the same. */
static enum why_verdict judge_block(const struct why *w, const struct snapshot_entry *e,
				    const char *value)
{
	bool hooked = w->worker->key && !w->worker->forked_off;
	bool own = e->rule == SNAPSHOT_DEFAULT || e->rule == SNAPSHOT_TOGETHER;

	if (w->worker->key && !streq(w->worker->answered, w->intended->digest))
		return WHY_STALE;
	if ((value || exec_block_known(&w->block)) && as_intended(e, value))
		return WHY_OK;
	if (w->token && !streq(w->token, w->intended->digest))
		return hooked ? WHY_UNKNOWN : WHY_STALE;
	if (value && own && !is_list(e))
		return WHY_OVERRIDDEN;
	if (hooked || !exec_block_known(&w->block))
		return WHY_UNKNOWN;
	return value ? WHY_OVERRIDDEN : WHY_MISSING;
}

/* Is what was applied at its start the same as what is intended now? */
static bool same_as_applied(const struct why *w, const struct snapshot_entry *e)
{
	if (streq(w->report.digest, w->intended->digest))
		return true;
	for (size_t i = 0; w->reported && i < w->reported->n_entries; i++) {
		const struct snapshot_entry *old = &w->reported->entries[i];

		if (old->rule == e->rule && streq(old->name, e->name) &&
		    streq(old->value, e->value))
			return true;
	}
	return false;
}

static enum why_verdict judge_report(const struct why *w, const struct why_variable *v)
{
	if (!w->report.digest[0])
		return WHY_MISSING;
	if (!same_as_applied(w, v->entry))
		return WHY_STALE;
	switch (v->reported) {
	case CUDAENV_SET:
	case CUDAENV_ALREADY:
	case CUDAENV_REPLACED:
	case CUDAENV_REMOVED:
		return WHY_OK;
	case CUDAENV_KEPT:
		return WHY_OVERRIDDEN;
	case CUDAENV_ABSENT_HERE:
		return WHY_MISSING;
	case CUDAENV_TOO_LATE:
		return v->exec_block && as_intended(v->entry, v->exec_block) ? WHY_OK
									     : WHY_TOO_LATE;
	default:
		return WHY_UNKNOWN;
	}
}

/* Does O say NAME and VALUE, and, where RULE is not NULL, that too? */
static bool says(struct json_object *o, const char *rule, const struct snapshot_entry *e)
{
	const char *name = json_string(o, "name"), *its_rule = json_string(o, "rule"),
		   *value = json_string(o, "value");

	return name && streq(name, e->name) && streq(value ? value : "", e->value) &&
	       (!rule || (its_rule && streq(its_rule, rule)));
}

static struct json_object *find_said(struct json_object *list, const char *rule,
				     const struct snapshot_entry *e)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (says(json_object_array_get_idx(list, i), rule, e))
			return json_object_array_get_idx(list, i);
	return NULL;
}

/* By `cudaenvctl set`, for whom. */
static const char *find_override(const struct why *w, const struct snapshot_entry *e)
{
	struct json_object *overrides = json_array(w->published.status, "overrides");

	for (size_t i = 0; overrides && i < json_object_array_length(overrides); i++) {
		struct json_object *o = json_object_array_get_idx(overrides, i);

		if (find_said(json_array(o, "variables"), NULL, e))
			return json_string(o, "scope");
	}
	return NULL;
}

static void find_source(const struct why *w, struct why_variable *v)
{
	struct json_object *o = find_said(json_array(w->shown, "variables"),
					  snapshot_rule_name(v->entry->rule), v->entry);

	v->file = json_string(o, "file");
	v->line = json_number(o, "line", 0);
	if (!v->file)
		v->override = find_override(w, v->entry);
}

/* Of a group of which nothing was set: the member that the process had another value for. */
static const char *find_because(const struct why *w, const struct snapshot_entry *e)
{
	for (size_t i = 0; i < w->intended->n_entries; i++) {
		const struct snapshot_entry *other = &w->intended->entries[i];
		const char *value = exec_block_find(&w->block, other->name);

		if (other->rule == SNAPSHOT_TOGETHER && streq(other->group, e->group) &&
		    !is_list(other) && value && !streq(value, other->value))
			return streq(other->name, e->name) ? NULL : other->name;
	}
	return NULL;
}

static int find_variables(struct why *w)
{
	size_t n = w->intended ? w->intended->n_entries : 0;

	w->variables = calloc(n + 1, sizeof *w->variables);
	if (!w->variables)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct snapshot_entry *e = &w->intended->entries[i];
		struct why_variable *v = &w->variables[w->n_variables];

		if (w->only && !streq(w->only, e->name))
			continue;
		*v = (struct why_variable){.entry = e,
					   .exec_block = exec_block_find(&w->block, e->name)};
		find_source(w, v);
		if (w->report_error == 0)
			v->reported = report_state(&w->report, e->name);
		v->verdict = w->report_error == 0 ? judge_report(w, v)
						  : judge_block(w, e, v->exec_block);
		if (v->verdict == WHY_OVERRIDDEN && e->rule == SNAPSHOT_TOGETHER &&
		    (!v->exec_block || as_intended(e, v->exec_block)))
			v->because = find_because(w, e);
		w->counts[v->verdict]++;
		w->n_variables++;
	}
	return 0;
}

/* --- the verb */

/* A number can be given to another process while its files are read: nothing is told then. */
static bool still_the_same(const struct why *w)
{
	struct proc_facts facts;

	return procfs_facts(w->proc_fd, w->worker->pid, &facts) == 0 &&
	       facts.start == w->worker->start;
}

static int find_all(struct why *w, pid_t pid)
{
	int r;

	r = ctl_published_assign(w->ctl, &w->published);
	if (r == CTL_GOOD)
		r = find_process(w, pid);
	if (r != CTL_GOOD)
		return r;
	find_rule(w);
	find_intended(w);
	find_block(w);
	find_filter(w);
	find_report(w);
	if (!still_the_same(w))
		return ctl_error(CTL_BAD_NEWS, "process %d has ended meanwhile", (int)pid);
	if (find_variables(w) < 0 || why_judge(w) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	if (w->only && w->n_variables == 0)
		return ctl_error(CTL_BAD_NEWS, "%s is not in %s%s: cudaenv does not set it there",
				 w->only, w->intended ? "profile " : "any profile of this process",
				 w->intended ? w->intended->profile : "");
	return CTL_GOOD;
}

static int run_why(struct ctl *ctl, int argc, char *argv[])
{
	_cleanup_(why_done) struct why w = {.ctl = ctl,
					    .only = argc > 1 ? argv[1] : NULL,
					    .published = PUBLISHED_NULL,
					    .cgroup_fd = -EBADF,
					    .report_error = -ENOENT,
					    .block = {.state = EXEC_BLOCK_DENIED}};
	const char *s = argv[0];
	uint64_t pid;
	int r;

	if (procfs_number(&s, INT_MAX, &pid) < 0 || *s != '\0' || pid == 0)
		return ctl_error(CTL_USAGE, "'%s' is no process number", argv[0]);
	if (w.only && !snapshot_name_valid(w.only, strlen(w.only)))
		return ctl_error(CTL_USAGE, "'%s' is no name of a variable", w.only);
	w.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	w.cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = find_all(&w, (pid_t)pid);
	if (r != CTL_GOOD)
		return r;
	if (ctl->json) {
		_cleanup_(json_putp) struct json_object *o = why_json(&w);

		json_print(o);
	} else if (why_print(&w) < 0) {
		return ctl_error(CTL_FAILED, "out of memory");
	}
	return (int)w.status;
}

const struct verb verb_why = {
	.name = "why",
	.arguments = "PID [VARIABLE]",
	.summary = "Why a process has the variables it has, and what to do.",
	.help = "Its job, pin and snapshot, the rule that gives it now, and each variable: what\n"
		"is intended and the file and line it stands in, what the process reported at\n"
		"its start, and the value in the environment it was executed with. What it has\n"
		"changed since does not show. Status 0 only if all is as intended. Root may ask\n"
		"about all processes, others about their own. Works without cudaenvd; then file\n"
		"and line are not known.",
	.min_arguments = 1,
	.max_arguments = 2,
	.run = run_why,
};
