/* SPDX-License-Identifier: MIT */
#include "daemon/broker/operator.h"

#include <poll.h>

#include "common/util.h"
#include "daemon/userns.h"

static bool is_root(const struct broker *b, const struct peer *peer)
{
	return peer->uid == 0 && userns_is_ours(peer->pid, b->proc_fd);
}

/* --- WHY --- */

static ssize_t reported(const struct process *p, uint32_t id, void *reply)
{
	const struct report *report = p->report;
	struct wire_reported m = {.flags = report->flags,
				  .result = report->result,
				  .count = report->count,
				  .key = {p->job->key, strlen(p->job->key)},
				  .entries = {report->entries, report->size}};
	ssize_t n;

	memcpy(m.digest, report->digest, sizeof m.digest);
	n = wire_encode_reported(reply, WIRE_DATAGRAM_MAX, id, &m);
	/* Its key is not the one it reported but ours, which may be longer. */
	return n > 0 ? n : request_error(reply, id, EMSGSIZE, "its report is too long");
}

ssize_t operator_why(struct broker *b, const struct peer *peer, const struct wire_why *m,
		     uint32_t id, void *reply)
{
	const struct process *p;

	b->counters.whys++;
	/* One that decided alone is known by its link. */
	adopt_read(&b->adopt, true);
	p = registry_find_named(&b->registry, m->pidns, (pid_t)m->nspid, m->start);
	if (!p)
		return request_error(reply, id, ENOENT, "no such process is registered");
	if (p->uid != peer->uid && !is_root(b, peer))
		return request_error(reply, id, EPERM, "it is a process of another user");
	if (!p->report)
		return request_error(reply, id, ENODATA, "it has not reported");
	return reported(p, id, reply);
}

/* --- RELEASE --- */

/* Who stopped waiting has been told that nothing came of it: so nothing may. */
static bool still_waits(const struct peer *peer)
{
	struct pollfd p = {.fd = peer->fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLRDHUP));
}

static ssize_t refuse(uint32_t id, int r, void *reply)
{
	switch (r) {
	case -ENOENT:
		return request_error(reply, id, ENOENT, "no job of that name has a snapshot");
	case -E2BIG:
		return request_error(reply, id, E2BIG,
				     "the job has had %d snapshots, there is no room for another",
				     1 + PIN_MAX_FORMER);
	default:
		return request_error(reply, id, -r, "its pin cannot be replaced: %s",
				     strerrordesc_np(-r));
	}
}

ssize_t operator_release(struct broker *b, const struct peer *peer, const struct wire_release *m,
			 uint32_t id, void *reply)
{
	struct wire_released answer;
	char key[JOB_KEY_SIZE];
	struct job_key parsed;
	struct pin pin;
	int r;

	b->counters.releases++;
	if (peer->uid != geteuid() && !is_root(b, peer))
		return request_error(reply, id, EPERM, "only root may release a job");
	memcpy(key, m->key.ptr, m->key.size);
	key[m->key.size] = '\0';
	if (job_key_parse(key, &parsed) < 0 || parsed.slot > 0)
		return request_error(reply, id, EINVAL, "that is no name of a job");
	if (m->digest[0] && !decide_published(&b->rt, m->digest))
		return request_error(reply, id, ENOENT, "that snapshot is not published");
	if (!still_waits(peer))
		return request_error(reply, id, ECANCELED, "nobody waits for it");
	r = pin_release(&b->rt, key, parsed.uid, m->digest, &pin);
	if (r < 0)
		return refuse(id, r, reply);
	if (r > 0)
		log_notice("Job %s is released: its next processes get %.12s, not %.12s", key,
			   m->digest[0] ? m->digest : "nothing",
			   pin.digest[0] ? pin.digest : "nothing");
	memcpy(answer.from, pin.digest, sizeof answer.from);
	return wire_encode_released(reply, WIRE_DATAGRAM_MAX, id, &answer);
}
