/* SPDX-License-Identifier: MIT */
#include "daemon/broker/request.h"

#include <limits.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/broker/operator.h"
#include "daemon/broker/pidfd.h"
#include "daemon/log.h"

#define GROUPS_MAX 1024 /* of a peer; the rest match no rule */

ssize_t request_error(void *reply, uint32_t id, int code, const char *format, ...)
{
	char text[WIRE_TEXT_MAX + 1];
	struct wire_error m = {.code = (uint32_t)code, .version = WIRE_VERSION};
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	m.text = (struct wire_bytes){text, strlen(text)};
	return wire_encode_error(reply, WIRE_DATAGRAM_MAX, id, &m);
}

/* What a peer can cause is said a few times a minute. */
static bool may_log(struct broker *b, unsigned *ret_suppressed)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return log_limit_pass(&b->log_limit, (uint64_t)now.tv_sec * 1000000, ret_suppressed);
}

/* --- FETCH --- */

struct question {
	struct job_subject subject;
	struct assign_subject match;
	char token[DIGEST_SIZE];
	char exe[WIRE_EXE_MAX + 1];
	gid_t gids[1 + GROUPS_MAX];
	bool same_pidns;
};

/* The namespace is the peer's word where it cannot be read. That it is ours needs no proof: then
 * pid and start time, by which it is known, are the kernel's. That it is another one is not
 * believed of a process that is numbered in ours alone. */
static void find_pidns(const struct broker *b, const struct wire_fetch *m, struct question *q)
{
	char path[64];
	struct stat st;
	unsigned depth;
	pid_t nspid;

	q->subject.pidns = m->pidns;
	if (m->pidns != b->own_pidns) {
		(void)snprintf(path, sizeof path, "%d/ns/pid", (int)q->subject.pid);
		if (fstatat(b->proc_fd, path, &st, 0) == 0)
			q->subject.pidns = st.st_ino;
		else if (procfs_nspid(b->proc_fd, q->subject.pid, &nspid, &depth) == 0 &&
			 depth == 1)
			q->subject.pidns = b->own_pidns;
	}
	q->same_pidns = q->subject.pidns == b->own_pidns;
}

static void find_groups(const struct peer *peer, struct question *q)
{
	socklen_t size = GROUPS_MAX * sizeof(gid_t);

	q->gids[0] = peer->gid;
	q->match.gids = q->gids;
	q->match.n_gids = 1;
	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERGROUPS, q->gids + 1, &size) == 0)
		q->match.n_gids += size / sizeof(gid_t);
}

static void make_question(const struct broker *b, const struct peer *peer,
			  const struct wire_fetch *m, struct question *q)
{
	q->subject = (struct job_subject){
		.pid = peer->pid, .uid = peer->uid, .cgroup_claim = m->cgroup_claim};
	q->match = (struct assign_subject){.uid = peer->uid};
	find_pidns(b, m, q);
	if (b->uses_gids)
		find_groups(peer, q);
	if (m->flags & FETCH_TOKEN) {
		memcpy(q->token, m->token, DIGEST_SIZE);
		q->subject.token = q->token;
		q->subject.token_required = m->flags & FETCH_REQUIRED;
	}
	if (m->exe.size > 0) {
		memcpy(q->exe, m->exe.ptr, m->exe.size);
		q->exe[m->exe.size] = '\0';
		q->match.exe = q->exe;
	}
}

/* A connection can outlive the process that made it, and its number be another's by now. */
static bool is_peer(const struct peer *peer, uint64_t start)
{
	if (peer->start != 0)
		return start == peer->start;
	return peer->since == 0 || start <= peer->since;
}

/* The link has the text of another job: the process has changed its uid since it was registered,
 * and begins a new one. What is another process's by our own knowledge stays. */
static int replace_link(struct broker *b, const struct peer *peer, const struct process_id *id,
			const struct decision *d)
{
	_cleanup_(closep) int pidfd = pidfd_of_peer(peer->fd, b->proc_fd, id->pid, id->start);
	const struct process *p =
		registry_find_named(&b->registry, id->pidns, id->nspid, id->start);

	if (pidfd == -ESRCH)
		return -ESRCH;
	if (p && p->pid != id->pid)
		return 0;
	broker_remove_link(b, id);
	(void)decide_register(&b->rt, id->pidns, d);
	return 0;
}

/* The link comes before the answer, the memory after it, by request_settle(): between the two no
 * other request is looked at. */
static void link_peer(struct broker *b, struct peer *peer, const struct question *q,
		      const struct decision *d)
{
	struct process_id id = {
		.pid = peer->pid, .start = d->start, .pidns = q->subject.pidns, .nspid = d->nspid};
	const struct process *p = registry_find(&b->registry, id.pid, id.start);

	peer->start = d->start;
	if (p && streq(p->job->key, d->key)) {
		(void)decide_register(&b->rt, id.pidns, d);
		return;
	}
	if (decide_register(&b->rt, id.pidns, d) == -EEXIST &&
	    replace_link(b, peer, &id, d) == -ESRCH)
		return;
	b->settle.id = id;
	memcpy(b->settle.key, d->key, sizeof b->settle.key);
	memcpy(b->settle.cgroup_dir, d->cgroup_dir, sizeof b->settle.cgroup_dir);
}

/* Limits and a full disk do not change the answer; such a process is taken up later, from its link.
 */
void request_settle(struct broker *b, const struct peer *peer)
{
	const struct process_id *id = &b->settle.id;
	struct process *p;
	int pidfd = -EBADF, r;

	broker_asked(b);
	if (b->settle.key[0] == '\0')
		return;
	if (!registry_find(&b->registry, id->pid, id->start))
		pidfd = pidfd_of_peer(peer->fd, b->proc_fd, id->pid, id->start);
	if (pidfd == -ESRCH) {
		broker_remove_link(b, id);
	} else {
		r = registry_add(&b->registry, id, b->settle.key, &pidfd, &p);
		if (r < 0)
			b->adopt.again = true;
		else
			roots_hint(p->job, b->settle.cgroup_dir);
	}
	(void)safe_close(pidfd);
	b->settle.key[0] = '\0';
}

static ssize_t refuse_process(struct broker *b, const struct peer *peer, uint32_t id, void *reply)
{
	unsigned suppressed;

	if (may_log(b, &suppressed))
		log_warning("Too many processes of uid %u, or of all: decisions are left to the "
			    "clients (%u more messages)",
			    (unsigned)peer->uid, suppressed);
	return request_error(reply, id, EDQUOT, "too many processes; decide by the files");
}

static ssize_t answer(const struct decision *d, uint32_t id, void *reply)
{
	struct wire_answer m = {.flags = d->below ? ANSWER_BELOW : 0,
				.reason = (uint32_t)d->reason,
				.key = {d->key, strlen(d->key)}};

	memcpy(m.digest, d->digest, sizeof m.digest);
	return wire_encode_answer(reply, WIRE_DATAGRAM_MAX, id, &m);
}

static ssize_t on_fetch(struct broker *b, struct peer *peer, const struct wire_fetch *m,
			uint32_t id, void *reply)
{
	struct job_source source;
	struct question q;
	struct decision d;
	int r;

	b->counters.fetches++;
	broker_refresh(b);
	/* Pid 0: it is in a namespace that this /proc does not show. */
	if (peer->pid <= 0)
		return request_error(reply, id, ESRCH,
				     "not to be seen from here; decide by the files");
	if (!b->assign)
		return request_error(reply, id, ENODATA, "no rules are published");
	if (account_full(&b->accounts, peer->uid, ACCOUNT_PROCESSES))
		return refuse_process(b, peer, id, reply);
	make_question(b, peer, m, &q);
	source = broker_source(b, peer->pid, q.same_pidns);
	r = decide(&source, &q.subject, &q.match, &d);
	if (r < 0) {
		b->counters.undecided++;
		return request_error(reply, id, -r, "cannot decide (%s); decide by the files",
				     strerrordesc_np(-r));
	}
	if (d.key[0] && !is_peer(peer, d.start))
		return request_error(reply, id, ESRCH, "who asks has exited");
	/* Without a namespace it has no name in procs/. */
	if (d.key[0] && q.subject.pidns != 0)
		link_peer(b, peer, &q, &d);
	b->counters.answers++;
	return answer(&d, id, reply);
}

/* --- REPORT --- */

/* Known by another uid it has become another user's since, and its FETCH, which would have begun a
 * new job, was not answered: who it was before may not learn what it reports. */
static struct process *known_as(struct process *p, const struct peer *peer)
{
	return p && p->uid == peer->uid ? p : NULL;
}

static struct process *find_reporter(struct broker *b, struct peer *peer)
{
	struct proc_facts facts;
	struct process *p;

	if (peer->pid <= 0)
		return NULL;
	if (peer->start == 0) {
		if (procfs_facts(b->proc_fd, peer->pid, &facts) < 0 || !is_peer(peer, facts.start))
			return NULL;
		peer->start = facts.start;
	}
	p = registry_find(&b->registry, peer->pid, peer->start);
	if (p)
		return known_as(p, peer);
	/* It decided alone, and its link has not been read yet. */
	adopt_read(&b->adopt, true);
	return known_as(registry_find(&b->registry, peer->pid, peer->start), peer);
}

static void on_report(struct broker *b, struct peer *peer, const struct wire_report *m)
{
	struct process *p = find_reporter(b, peer);

	b->counters.reports++;
	if (!p) {
		b->counters.reports_lost++;
		return;
	}
	if (m->key.size != strlen(p->job->key) || memcmp(m->key.ptr, p->job->key, m->key.size) != 0)
		b->counters.reports_differ++;
	if (registry_report(&b->registry, p, m) < 0)
		b->counters.reports_lost++;
}

/* --- GET --- */

/* Snapshots do not change, so the bytes of the last one are kept while somebody reads it in pieces.
 */
static int load_published(struct broker *b, const char *digest)
{
	char *bytes;
	size_t size;
	int r;

	if (b->published_bytes && streq(b->published, digest))
		return 0;
	r = runtime_read(&b->rt, b->rt.snapshots_fd, digest, SNAPSHOT_MAX_BYTES, &bytes, &size);
	if (r < 0)
		return r;
	free(b->published_bytes);
	b->published_bytes = bytes;
	b->published_size = size;
	memcpy(b->published, digest, sizeof b->published);
	return 0;
}

static ssize_t on_get(struct broker *b, const struct peer *peer, const struct wire_get *m,
		      uint32_t id, void *reply)
{
	struct wire_data data;
	size_t left;
	int r;

	b->counters.gets++;
	if (peer->uid == 0)
		return request_error(reply, id, EACCES,
				     "processes of uid 0 take snapshots from the files alone");
	r = load_published(b, m->digest);
	if (r < 0)
		return request_error(reply, id, -r, "no such snapshot");
	if (m->offset > b->published_size)
		return request_error(reply, id, ERANGE, "the snapshot ends before that");
	left = b->published_size - m->offset;
	data = (struct wire_data){.total = (uint32_t)b->published_size,
				  .offset = m->offset,
				  .bytes = {b->published_bytes + m->offset,
					    left < WIRE_CHUNK_MAX ? left : WIRE_CHUNK_MAX}};
	return wire_encode_data(reply, WIRE_DATAGRAM_MAX, id, &data);
}

/* --- any --- */

static ssize_t dispatch(struct broker *b, struct peer *peer, const struct wire_header *h,
			const void *datagram, size_t size, void *reply)
{
	union {
		struct wire_fetch fetch;
		struct wire_report report;
		struct wire_get get;
		struct wire_why why;
		struct wire_release release;
	} m;

	switch ((enum wire_type)h->type) {
	case WIRE_FETCH:
		if (wire_decode_fetch(datagram, size, &m.fetch) < 0)
			return -EBADMSG;
		return on_fetch(b, peer, &m.fetch, h->id, reply);
	case WIRE_REPORT:
		if (wire_decode_report(datagram, size, &m.report) < 0)
			return -EBADMSG;
		on_report(b, peer, &m.report);
		return 0;
	case WIRE_GET:
		if (wire_decode_get(datagram, size, &m.get) < 0)
			return -EBADMSG;
		return on_get(b, peer, &m.get, h->id, reply);
	case WIRE_WHY:
		if (wire_decode_why(datagram, size, &m.why) < 0)
			return -EBADMSG;
		return operator_why(b, peer, &m.why, h->id, reply);
	case WIRE_RELEASE:
		if (wire_decode_release(datagram, size, &m.release) < 0)
			return -EBADMSG;
		return operator_release(b, peer, &m.release, h->id, reply);
	case WIRE_ANSWER:
	case WIRE_DATA:
	case WIRE_ERROR:
	case WIRE_REPORTED:
	case WIRE_RELEASED:
		break;
	}
	return -EBADMSG;
}

ssize_t request_handle(struct broker *b, struct peer *peer, const void *datagram, size_t size,
		       void *reply)
{
	struct wire_header h = {0};
	ssize_t n;

	switch (wire_decode_header(datagram, size, TO_BROKER, &h)) {
	case 0:
		n = dispatch(b, peer, &h, datagram, size, reply);
		break;
	case -EPROTONOSUPPORT:
		b->counters.wrong_versions++;
		return request_error(reply, h.id, EPROTONOSUPPORT,
				     "this cudaenv-broker speaks version %d of the protocol, not "
				     "%u: client and broker are of different releases",
				     WIRE_VERSION, h.version);
	case -EOPNOTSUPP:
		b->counters.unknown_types++;
		return request_error(reply, h.id, EOPNOTSUPP, "message type %u is not a request",
				     h.type);
	default:
		n = -EBADMSG;
		break;
	}
	if (n == -EBADMSG)
		b->counters.malformed++;
	return n;
}
