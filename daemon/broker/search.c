/* SPDX-License-Identifier: MIT */
#include "daemon/broker/search.h"

#include "common/procfs.h"
#include "common/util.h"

#define WANTED_MAX 16384
#define SLICE      64

struct wanted {
	struct table_node node; /* search.wanted, by start */
	uint64_t start;
	pid_t nspid;
	unsigned pass; /* the first that can tell */
	bool link;
	char name[];
};

int search_init(struct search *s, int proc_fd)
{
	*s = (struct search){.proc_fd = proc_fd};
	return table_init(&s->wanted);
}

void search_done(struct search *s)
{
	struct table_node *n;

	while ((n = table_next(&s->wanted, NULL))) {
		table_remove(&s->wanted, n);
		free(TABLE_CONTAINER(n, struct wanted, node));
	}
	table_done(&s->wanted);
	if (s->dir)
		(void)closedir(s->dir);
	s->dir = NULL;
}

static bool wanted_match(const struct table_node *node, const void *key)
{
	const struct wanted *a = TABLE_CONTAINER(node, struct wanted, node), *b = key;

	return a->start == b->start && a->nspid == b->nspid && a->link == b->link &&
	       streq(a->name, b->name);
}

int search_add(struct search *s, pid_t nspid, uint64_t start, bool link, const char *name)
{
	uint64_t hash = table_hash(&s->wanted, &start, sizeof start);
	size_t size = strlen(name) + 1;
	_cleanup_(freep) struct wanted *w = NULL;

	if (s->wanted.n >= WANTED_MAX)
		return -ENOBUFS;
	w = malloc(sizeof *w + size);
	if (!w || table_reserve(&s->wanted) < 0)
		return -ENOMEM;
	*w = (struct wanted){.start = start, .nspid = nspid, .pass = s->pass + 1, .link = link};
	memcpy(w->name, name, size);
	if (table_find(&s->wanted, hash, wanted_match, w))
		return 0;
	table_add(&s->wanted, &w->node, hash);
	w = NULL;
	return 0;
}

bool search_running(const struct search *s)
{
	return s->dir;
}

void search_begin(struct search *s)
{
	int fd;

	if (s->dir || s->wanted.n == 0)
		return;
	fd = openat(s->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!s->dir)
		(void)safe_close(fd);
	else
		s->pass++;
}

static void report(struct search *s, struct wanted *w, pid_t pid, search_found_t found,
		   void *userdata)
{
	table_remove(&s->wanted, &w->node);
	found(userdata, w->link, w->name, pid);
	free(w);
}

/* Several may be wanted of one process: its link and the job that it is the root of. */
static void look_at(struct search *s, pid_t pid, search_found_t found, void *userdata)
{
	struct table_node *n, *next;
	struct proc_facts facts;
	unsigned levels;
	uint64_t hash;
	pid_t nspid = 0;

	if (s->wanted.n == 0 || procfs_facts(s->proc_fd, pid, &facts) < 0)
		return;
	hash = table_hash(&s->wanted, &facts.start, sizeof facts.start);
	for (n = s->wanted.buckets[hash & (s->wanted.n_buckets - 1)]; n; n = next) {
		struct wanted *w = TABLE_CONTAINER(n, struct wanted, node);

		next = n->next;
		if (w->start != facts.start)
			continue;
		if (nspid == 0 && procfs_nspid(s->proc_fd, pid, &nspid, &levels) < 0)
			return;
		if (w->nspid == nspid)
			report(s, w, pid, found, userdata);
	}
}

static void end_pass(struct search *s, search_found_t found, void *userdata)
{
	/* Where /proc hides processes, absence says nothing. */
	bool all_seen = faccessat(s->proc_fd, "1/stat", R_OK, 0) == 0;
	struct table_node *next;

	(void)closedir(s->dir);
	s->dir = NULL;
	for (struct table_node *n = table_next(&s->wanted, NULL); n; n = next) {
		struct wanted *w = TABLE_CONTAINER(n, struct wanted, node);

		next = table_next(&s->wanted, n);
		if (w->pass > s->pass)
			continue;
		if (all_seen)
			report(s, w, 0, found, userdata);
		else {
			table_remove(&s->wanted, n);
			free(w);
		}
	}
}

void search_step(struct search *s, search_found_t found, void *userdata)
{
	for (int i = 0; s->dir && i < SLICE; i++) {
		struct dirent *e = readdir(s->dir);
		char *end;
		long pid;

		if (!e) {
			end_pass(s, found, userdata);
			return;
		}
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		pid = strtol(e->d_name, &end, 10);
		if (*end == '\0')
			look_at(s, (pid_t)pid, found, userdata);
	}
}
