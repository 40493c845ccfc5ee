/* SPDX-License-Identifier: MIT */
#include "daemon/broker/registry.h"

#include <sys/epoll.h>

#include "common/util.h"

int registry_init(struct registry *r, struct accounts *accounts, int hub_fd)
{
	int q;

	*r = (struct registry){.accounts = accounts, .hub_fd = hub_fd};
	q = table_init(&r->processes);
	if (q >= 0)
		q = table_init(&r->jobs);
	if (q >= 0)
		q = table_init(&r->reports);
	return q;
}

static void list_add(struct job_list *l, struct job *j)
{
	j->next = NULL;
	j->prev = l->last;
	if (l->last)
		l->last->next = j;
	else
		l->first = j;
	l->last = j;
}

static void list_remove(struct job_list *l, struct job *j)
{
	if (j->prev)
		j->prev->next = j->next;
	else
		l->first = j->next;
	if (j->next)
		j->next->prev = j->prev;
	else
		l->last = j->prev;
	j->next = j->prev = NULL;
}

static void set_fresh(struct registry *r, struct job *j, bool fresh)
{
	if (j->is_fresh == fresh)
		return;
	j->is_fresh = fresh;
	(fresh ? list_add : list_remove)(&r->fresh, j);
}

static void set_empty(struct registry *r, struct job *j, bool empty, uint64_t now_usec)
{
	if (j->is_empty == empty)
		return;
	j->is_empty = empty;
	j->empty_usec = now_usec;
	(empty ? list_add : list_remove)(&r->empty, j);
}

/* --- jobs --- */

static bool job_match(const struct table_node *node, const void *key)
{
	return streq(TABLE_CONTAINER(node, struct job, node)->key, key);
}

struct job *registry_job(const struct registry *r, const char *key)
{
	struct table_node *n =
		table_find(&r->jobs, table_hash(&r->jobs, key, strlen(key)), job_match, key);

	return n ? TABLE_CONTAINER(n, struct job, node) : NULL;
}

int registry_job_make(struct registry *r, const char *key, struct job **ret)
{
	size_t size = strlen(key) + 1;
	struct job_key parsed;
	struct job *j;
	int q;

	j = registry_job(r, key);
	if (j) {
		*ret = j;
		return 0;
	}
	if (job_key_parse(key, &parsed) < 0 || parsed.slot > 0)
		return -EINVAL;
	q = table_reserve(&r->jobs);
	if (q < 0)
		return q;
	q = account_charge(r->accounts, parsed.uid, ACCOUNT_JOBS, 1);
	if (q < 0)
		return q;
	j = malloc(sizeof *j + size);
	if (!j) {
		account_release(r->accounts, parsed.uid, ACCOUNT_JOBS, 1);
		return -ENOMEM;
	}
	*j = (struct job){.watched = WATCHED_ROOT,
			  .root = ROOT_NEW,
			  .root_fd = -EBADF,
			  .cgroup_wd = -1,
			  .parsed = parsed};
	memcpy(j->key, key, size);
	table_add(&r->jobs, &j->node, table_hash(&r->jobs, key, size - 1));
	set_fresh(r, j, true);
	*ret = j;
	return 0;
}

void registry_job_settle(struct registry *r, struct job *j, uint64_t now_usec)
{
	bool root = j->root != ROOT_MEMBER && j->root != ROOT_GONE;

	if (j->root == ROOT_NEW)
		set_fresh(r, j, true);
	set_empty(r, j, j->n_members == 0 && !root, now_usec);
}

struct job *registry_take_fresh(struct registry *r)
{
	struct job *j = r->fresh.first;

	if (j)
		set_fresh(r, j, false);
	return j;
}

void registry_forget(struct registry *r, struct job *j)
{
	set_fresh(r, j, false);
	set_empty(r, j, false, 0);
	table_remove(&r->jobs, &j->node);
	account_release(r->accounts, j->parsed.uid, ACCOUNT_JOBS, 1);
	(void)safe_close(j->root_fd);
	free(j->cgroup);
	free(j);
}

/* --- reports --- */

struct report_key {
	const struct wire_report *m;
};

static bool report_match(const struct table_node *node, const void *key)
{
	const struct report *p = TABLE_CONTAINER(node, struct report, node);
	const struct wire_report *m = ((const struct report_key *)key)->m;

	return p->flags == m->flags && p->result == m->result && p->count == m->count &&
	       p->size == m->entries.size && streq(p->digest, m->digest) &&
	       memcmp(p->entries, m->entries.ptr, p->size) == 0;
}

static size_t report_bytes(const struct report *p)
{
	return sizeof *p + p->size;
}

static void report_drop(struct registry *r, struct process *p)
{
	struct report *report = TAKE_PTR(p->report);

	if (!report)
		return;
	account_release(r->accounts, p->job->parsed.uid, ACCOUNT_BYTES, report_bytes(report));
	if (--report->refs > 0)
		return;
	table_remove(&r->reports, &report->node);
	free(report);
}

static struct report *report_make(struct registry *r, const struct wire_report *m, uint64_t hash)
{
	struct report *p;

	if (table_reserve(&r->reports) < 0)
		return NULL;
	p = malloc(sizeof *p + m->entries.size);
	if (!p)
		return NULL;
	*p = (struct report){
		.flags = m->flags, .result = m->result, .count = m->count, .size = m->entries.size};
	memcpy(p->digest, m->digest, sizeof p->digest);
	if (p->size > 0)
		memcpy(p->entries, m->entries.ptr, p->size);
	table_add(&r->reports, &p->node, hash);
	return p;
}

/* Each process is charged the whole, also where several share it: so the limit holds whatever the
 * others do. */
int registry_report(struct registry *r, struct process *p, const struct wire_report *m)
{
	uint64_t hash = table_hash(&r->reports, m->entries.ptr, m->entries.size);
	struct report_key key = {m};
	struct table_node *n;
	struct report *report;
	int q;

	report_drop(r, p);
	p->environ_address = m->environ_address;
	q = account_charge(r->accounts, p->job->parsed.uid, ACCOUNT_BYTES,
			   sizeof *report + m->entries.size);
	if (q < 0)
		return q;
	n = table_find(&r->reports, hash, report_match, &key);
	report = n ? TABLE_CONTAINER(n, struct report, node) : report_make(r, m, hash);
	if (!report) {
		account_release(r->accounts, p->job->parsed.uid, ACCOUNT_BYTES,
				sizeof *report + m->entries.size);
		return -ENOMEM;
	}
	report->refs++;
	p->report = report;
	return 0;
}

/* --- processes --- */

static uint64_t start_hash(const struct registry *r, uint64_t start)
{
	return table_hash(&r->processes, &start, sizeof start);
}

static bool process_match(const struct table_node *node, const void *key)
{
	const struct process *p = TABLE_CONTAINER(node, struct process, node);
	const struct process_id *id = key;

	return p->pid == id->pid && p->start == id->start;
}

static bool process_match_name(const struct table_node *node, const void *key)
{
	const struct process *p = TABLE_CONTAINER(node, struct process, node);
	const struct process_id *id = key;

	return p->pidns == id->pidns && p->nspid == id->nspid && p->start == id->start;
}

struct process *registry_find(const struct registry *r, pid_t pid, uint64_t start)
{
	struct process_id id = {.pid = pid, .start = start};
	struct table_node *n = table_find(&r->processes, start_hash(r, start), process_match, &id);

	return n ? TABLE_CONTAINER(n, struct process, node) : NULL;
}

struct process *registry_find_named(const struct registry *r, uint64_t pidns, pid_t nspid,
				    uint64_t start)
{
	struct process_id id = {.pidns = pidns, .nspid = nspid, .start = start};
	struct table_node *n =
		table_find(&r->processes, start_hash(r, start), process_match_name, &id);

	return n ? TABLE_CONTAINER(n, struct process, node) : NULL;
}

static void join(struct registry *r, struct process *p, struct job *j)
{
	p->job = j;
	p->uid = j->parsed.uid;
	j->n_members++;
	if (j->root == ROOT_NEW)
		j->root_pid = p->pid;
	registry_job_settle(r, j, 0);
}

static void leave(struct registry *r, struct process *p, uint64_t now_usec)
{
	struct job *j = p->job;

	report_drop(r, p);
	account_release(r->accounts, p->uid, ACCOUNT_PROCESSES, 1);
	p->job = NULL;
	j->n_members--;
	registry_job_settle(r, j, now_usec);
}

/* The process began another job, as by a change of uid before an exec: where it was the old job's
 * root, it is so still. */
static int move(struct registry *r, struct process *p, struct job *j)
{
	struct job *old = p->job;
	int q;

	q = account_charge(r->accounts, j->parsed.uid, ACCOUNT_PROCESSES, 1);
	if (q < 0)
		return q;
	if (old->root == ROOT_MEMBER) {
		old->root = ROOT_NEW;
		old->root_pid = p->pid;
	}
	leave(r, p, 0);
	join(r, p, j);
	return 0;
}

static int watch(struct registry *r, struct process *p)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};

	if (p->pidfd < 0) {
		r->n_without_pidfd++;
		return 0;
	}
	if (r->hub_fd >= 0 && epoll_ctl(r->hub_fd, EPOLL_CTL_ADD, p->pidfd, &e) < 0)
		return -errno;
	return 0;
}

static int add_new(struct registry *r, const struct process_id *id, struct job *j, int *pidfd,
		   struct process **ret)
{
	struct process *p;
	int q;

	q = table_reserve(&r->processes);
	if (q < 0)
		return q;
	q = account_charge(r->accounts, j->parsed.uid, ACCOUNT_PROCESSES, 1);
	if (q < 0)
		return q;
	p = malloc(sizeof *p);
	if (p) {
		*p = (struct process){.watched = WATCHED_PROCESS,
				      .pid = id->pid,
				      .start = id->start,
				      .pidns = id->pidns,
				      .nspid = id->nspid,
				      .pidfd = *pidfd};
		q = watch(r, p);
	} else
		q = -ENOMEM;
	if (q < 0) {
		account_release(r->accounts, j->parsed.uid, ACCOUNT_PROCESSES, 1);
		free(p);
		return q;
	}
	*pidfd = -EBADF;
	table_add(&r->processes, &p->node, start_hash(r, p->start));
	join(r, p, j);
	*ret = p;
	return 1;
}

int registry_add(struct registry *r, const struct process_id *id, const char *key, int *pidfd,
		 struct process **ret)
{
	struct process *p = registry_find(r, id->pid, id->start);
	struct job *j;
	int q;

	if (p && streq(p->job->key, key)) {
		*ret = p;
		return 0;
	}
	q = registry_job_make(r, key, &j);
	if (q < 0)
		return q;
	q = p ? move(r, p, j) : add_new(r, id, j, pidfd, ret);
	if (q < 0)
		registry_job_settle(r, j, 0); /* a job that was made for it is empty */
	else if (p)
		*ret = p;
	return q;
}

void registry_remove(struct registry *r, struct process *p, uint64_t now_usec)
{
	leave(r, p, now_usec);
	table_remove(&r->processes, &p->node);
	if (p->pidfd < 0)
		r->n_without_pidfd--;
	(void)safe_close(p->pidfd);
	free(p);
}

struct process *registry_sweep(const struct registry *r, const struct process *previous)
{
	const struct table_node *n = previous ? &previous->node : NULL;

	while (r->n_without_pidfd > 0 && (n = table_next(&r->processes, n))) {
		struct process *p = TABLE_CONTAINER(n, struct process, node);

		if (p->pidfd < 0)
			return p;
	}
	return NULL;
}

void registry_done(struct registry *r)
{
	struct table_node *n;

	while ((n = table_next(&r->processes, NULL)))
		registry_remove(r, TABLE_CONTAINER(n, struct process, node), 0);
	while ((n = table_next(&r->jobs, NULL)))
		registry_forget(r, TABLE_CONTAINER(n, struct job, node));
	table_done(&r->processes);
	table_done(&r->jobs);
	table_done(&r->reports);
	*r = (struct registry){.hub_fd = -EBADF};
}
