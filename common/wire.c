/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes the messages of common/wire.h, field by field, little-endian, whatever the
 * host is. Every decoder checks the header again itself, so that none reads beyond the datagram
 * whoever calls it; after the smallest length has been checked the fixed part is read without
 * further tests, and each variable part is measured against what is left, exactly: a byte too many
 * is as wrong as one too few.
 */

#include "common/wire.h"

#include "common/snapshot.h"
#include "common/util.h"

#define FETCH_FLAGS  (FETCH_TOKEN | FETCH_REQUIRED)
#define ANSWER_FLAGS ANSWER_BELOW
#define REPORT_FLAGS (REPORT_ALONE | REPORT_CUT)

#define LENGTH_AT  8                       /* of the header */
#define COUNT_AT   (WIRE_HEADER_SIZE + 82) /* of a report */
#define ENTRY_SIZE ((size_t)4)             /* of a report's entry, without its name */

static const struct message {
	const char *name;
	enum wire_direction direction;
	uint32_t min, max;
} messages[] = {
#define X(name, number, direction, min, max) [number] = {#name, direction, min, max},
	WIRE_MESSAGES(X)
#undef X
};

static const struct message *find_message(unsigned type)
{
	return type < ARRAY_SIZE(messages) && messages[type].name ? &messages[type] : NULL;
}

/* --- fields */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++, v >>= 8)
		*p++ = (uint8_t)v;
	return p;
}

static uint64_t get(const uint8_t **p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t) * (*p)++ << (8 * i);
	return v;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t size)
{
	if (size > 0)
		memcpy(p, data, size);
	return p + size;
}

/* "" is written as zeros. */
static uint8_t *put_digest(uint8_t *p, const char *digest)
{
	if (*digest)
		memcpy(p, digest, DIGEST_HEX);
	else
		memset(p, 0, DIGEST_HEX);
	return p + DIGEST_HEX;
}

/* Zeros are read as "". */
static int get_digest(const uint8_t **p, char ret[DIGEST_SIZE])
{
	static const char none[DIGEST_HEX];

	memcpy(ret, *p, DIGEST_HEX);
	ret[DIGEST_HEX] = '\0';
	*p += DIGEST_HEX;
	return memcmp(ret, none, DIGEST_HEX) == 0 || digest_valid(ret) ? 0 : -EBADMSG;
}

static bool digest_or_none(const char *digest)
{
	return !*digest || digest_valid(digest);
}

static bool pid_possible(uint32_t pid)
{
	return pid > 0 && pid <= INT32_MAX;
}

static bool has_nul(const void *data, size_t size)
{
	return size > 0 && memchr(data, '\0', size);
}

/* --- header */

int wire_decode_header(const void *datagram, size_t size, enum wire_direction direction,
		       struct wire_header *ret)
{
	const uint8_t *p = datagram;
	const struct message *m;

	if (size < WIRE_HEADER_SIZE || get(&p, 4) != WIRE_MAGIC)
		return -EBADMSG;
	ret->version = (uint16_t)get(&p, 2);
	ret->type = (uint16_t)get(&p, 2);
	ret->length = (uint32_t)get(&p, 4);
	ret->id = (uint32_t)get(&p, 4);
	if (ret->version != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	m = find_message(ret->type);
	if (!m || m->direction != direction)
		return -EOPNOTSUPP;
	if (ret->length != size - WIRE_HEADER_SIZE || ret->length < m->min || ret->length > m->max)
		return -EBADMSG;
	return 0;
}

/* Writes the header of a message of TYPE with a body of LENGTH bytes, and points *RET to where the
 * body goes. */
static int begin(void *buf, size_t size, enum wire_type type, uint32_t id, size_t length,
		 uint8_t **ret)
{
	const struct message *m = find_message(type);
	uint8_t *p = buf;

	if (length < m->min || length > m->max)
		return -EINVAL;
	if (size < WIRE_HEADER_SIZE + length)
		return -ENOBUFS;
	p = put(p, WIRE_MAGIC, 4);
	p = put(p, WIRE_VERSION, 2);
	p = put(p, type, 2);
	p = put(p, length, 4);
	*ret = put(p, id, 4);
	return 0;
}

/* The body of a datagram that must hold a message of TYPE; NULL if it does not. */
static const uint8_t *body(const void *datagram, size_t size, enum wire_type type, size_t *ret_size)
{
	struct wire_header h;

	if (wire_decode_header(datagram, size, find_message(type)->direction, &h) < 0 ||
	    h.type != type)
		return NULL;
	*ret_size = h.length;
	return (const uint8_t *)datagram + WIRE_HEADER_SIZE;
}

static ssize_t finish(const void *buf, const uint8_t *end)
{
	return end - (const uint8_t *)buf;
}

/* --- FETCH */

static bool fetch_flags_valid(uint32_t flags)
{
	return !(flags & ~FETCH_FLAGS) && (!(flags & FETCH_REQUIRED) || flags & FETCH_TOKEN);
}

ssize_t wire_encode_fetch(void *buf, size_t size, uint32_t id, const struct wire_fetch *m)
{
	bool token = m->flags & FETCH_TOKEN;
	uint8_t *p;
	int r;

	if (!fetch_flags_valid(m->flags) || !digest_or_none(m->token) ||
	    token != (*m->token != '\0') || !pid_possible(m->nspid) || m->exe.size > WIRE_EXE_MAX ||
	    has_nul(m->exe.ptr, m->exe.size))
		return -EINVAL;
	r = begin(buf, size, WIRE_FETCH, id, 94 + m->exe.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->flags, 4);
	p = put(p, m->nspid, 4);
	p = put(p, m->pidns, 8);
	p = put(p, m->cgroup_claim, 8);
	p = put_digest(p, m->token);
	p = put(p, m->exe.size, 2);
	p = put(p, 0, 4);
	return finish(buf, put_bytes(p, m->exe.ptr, m->exe.size));
}

int wire_decode_fetch(const void *datagram, size_t size, struct wire_fetch *ret)
{
	struct wire_fetch m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_FETCH, &length);

	if (!p)
		return -EBADMSG;
	m.flags = (uint32_t)get(&p, 4);
	m.nspid = (uint32_t)get(&p, 4);
	m.pidns = get(&p, 8);
	m.cgroup_claim = get(&p, 8);
	if (get_digest(&p, m.token) < 0)
		return -EBADMSG;
	m.exe.size = get(&p, 2);
	if (get(&p, 4) != 0 || !fetch_flags_valid(m.flags) || !pid_possible(m.nspid) ||
	    !!(m.flags & FETCH_TOKEN) != (*m.token != '\0'))
		return -EBADMSG;
	m.exe.ptr = (const char *)p;
	if (m.exe.size != length - 94 || has_nul(m.exe.ptr, m.exe.size))
		return -EBADMSG;
	*ret = m;
	return 0;
}

/* --- ANSWER */

ssize_t wire_encode_answer(void *buf, size_t size, uint32_t id, const struct wire_answer *m)
{
	uint8_t *p;
	int r;

	if (m->flags & ~ANSWER_FLAGS || !digest_or_none(m->digest) || m->key.size > JOB_KEY_MAX ||
	    has_nul(m->key.ptr, m->key.size))
		return -EINVAL;
	r = begin(buf, size, WIRE_ANSWER, id, 74 + m->key.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->flags, 4);
	p = put(p, m->reason, 4);
	p = put_digest(p, m->digest);
	p = put(p, m->key.size, 2);
	return finish(buf, put_bytes(p, m->key.ptr, m->key.size));
}

int wire_decode_answer(const void *datagram, size_t size, struct wire_answer *ret)
{
	struct wire_answer m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_ANSWER, &length);

	if (!p)
		return -EBADMSG;
	m.flags = (uint32_t)get(&p, 4);
	m.reason = (uint32_t)get(&p, 4);
	if (m.flags & ~ANSWER_FLAGS || get_digest(&p, m.digest) < 0)
		return -EBADMSG;
	m.key.size = get(&p, 2);
	m.key.ptr = (const char *)p;
	if (m.key.size != length - 74 || has_nul(m.key.ptr, m.key.size))
		return -EBADMSG;
	*ret = m;
	return 0;
}

/* --- REPORT */

ssize_t wire_encode_report(void *buf, size_t size, uint32_t id, const struct wire_report *m)
{
	uint8_t *p;
	int r;

	if (m->flags & ~REPORT_FLAGS || m->result > INT32_MAX || !digest_or_none(m->digest) ||
	    !pid_possible(m->nspid) || m->key.size > JOB_KEY_MAX ||
	    has_nul(m->key.ptr, m->key.size))
		return -EINVAL;
	r = begin(buf, size, WIRE_REPORT, id, 90 + m->key.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->flags, 4);
	p = put(p, m->result, 4);
	p = put(p, m->environ_address, 8);
	p = put_digest(p, m->digest);
	p = put(p, m->key.size, 2);
	p = put(p, 0, 2);
	p = put(p, m->nspid, 4);
	p = put(p, 0, 2);
	return finish(buf, put_bytes(p, m->key.ptr, m->key.size));
}

ssize_t wire_report_add(void *buf, size_t size, size_t used, uint8_t state, const char *name)
{
	size_t n = strlen(name);
	uint8_t *base = buf;
	const uint8_t *at = base + COUNT_AT;
	uint64_t count;
	uint8_t *p = base + used;

	if (n == 0 || n > SNAPSHOT_NAME_MAX || used < WIRE_HEADER_SIZE + 90)
		return -EINVAL;
	count = get(&at, 2);
	if (used + ENTRY_SIZE + n > size || count == UINT16_MAX ||
	    used + ENTRY_SIZE + n > WIRE_HEADER_SIZE + WIRE_REPORT_MAX)
		return -ENOBUFS;
	p = put(p, state, 1);
	p = put(p, 0, 1);
	p = put(p, n, 2);
	p = put_bytes(p, name, n);
	(void)put(base + COUNT_AT, count + 1, 2);
	(void)put(base + LENGTH_AT, (uint64_t)(p - base) - WIRE_HEADER_SIZE, 4);
	return finish(buf, p);
}

/* As in wire.h, and -EBADMSG. */
int wire_entry_next(const struct wire_bytes *entries, size_t *cursor, uint8_t *ret_state,
		    struct wire_bytes *ret_name)
{
	const uint8_t *p = (const uint8_t *)entries->ptr + *cursor;
	size_t left = entries->size - *cursor, n;
	uint8_t state;

	if (left == 0)
		return 0;
	if (left < ENTRY_SIZE)
		return -EBADMSG;
	state = (uint8_t)get(&p, 1);
	if (get(&p, 1) != 0)
		return -EBADMSG;
	n = get(&p, 2);
	if (n == 0 || n > SNAPSHOT_NAME_MAX || n > left - ENTRY_SIZE || has_nul(p, n))
		return -EBADMSG;
	*ret_state = state;
	*ret_name = (struct wire_bytes){(const char *)p, n};
	*cursor += ENTRY_SIZE + n;
	return 1;
}

/* Are these COUNT entries, and nothing else? */
static bool entries_valid(const struct wire_bytes *entries, unsigned count)
{
	struct wire_bytes name;
	size_t cursor = 0;
	unsigned n = 0;
	uint8_t state;
	int r;

	while ((r = wire_entry_next(entries, &cursor, &state, &name)) > 0)
		n++;
	return r == 0 && n == count;
}

int wire_decode_report(const void *datagram, size_t size, struct wire_report *ret)
{
	struct wire_report m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_REPORT, &length);

	if (!p)
		return -EBADMSG;
	m.flags = (uint32_t)get(&p, 4);
	m.result = (uint32_t)get(&p, 4);
	m.environ_address = get(&p, 8);
	if (m.flags & ~REPORT_FLAGS || m.result > INT32_MAX || get_digest(&p, m.digest) < 0)
		return -EBADMSG;
	m.key.size = get(&p, 2);
	m.count = (uint16_t)get(&p, 2);
	m.nspid = (uint32_t)get(&p, 4);
	if (get(&p, 2) != 0 || !pid_possible(m.nspid) || m.key.size > JOB_KEY_MAX ||
	    m.key.size > length - 90 || has_nul(p, m.key.size))
		return -EBADMSG;
	m.key.ptr = (const char *)p;
	m.entries = (struct wire_bytes){m.key.ptr + m.key.size, length - 90 - m.key.size};
	if (!entries_valid(&m.entries, m.count))
		return -EBADMSG;
	*ret = m;
	return 0;
}

/* --- GET, DATA, ERROR */

ssize_t wire_encode_get(void *buf, size_t size, uint32_t id, const struct wire_get *m)
{
	uint8_t *p;
	int r;

	if (!digest_valid(m->digest))
		return -EINVAL;
	r = begin(buf, size, WIRE_GET, id, 68, &p);
	if (r < 0)
		return r;
	p = put_digest(p, m->digest);
	return finish(buf, put(p, m->offset, 4));
}

int wire_decode_get(const void *datagram, size_t size, struct wire_get *ret)
{
	struct wire_get m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_GET, &length);

	if (!p || get_digest(&p, m.digest) < 0 || !*m.digest)
		return -EBADMSG;
	m.offset = (uint32_t)get(&p, 4);
	*ret = m;
	return 0;
}

ssize_t wire_encode_data(void *buf, size_t size, uint32_t id, const struct wire_data *m)
{
	uint8_t *p;
	int r;

	if (m->offset > m->total || m->bytes.size > m->total - m->offset)
		return -EINVAL;
	r = begin(buf, size, WIRE_DATA, id, 8 + m->bytes.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->total, 4);
	p = put(p, m->offset, 4);
	return finish(buf, put_bytes(p, m->bytes.ptr, m->bytes.size));
}

int wire_decode_data(const void *datagram, size_t size, struct wire_data *ret)
{
	struct wire_data m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_DATA, &length);

	if (!p)
		return -EBADMSG;
	m.total = (uint32_t)get(&p, 4);
	m.offset = (uint32_t)get(&p, 4);
	m.bytes = (struct wire_bytes){(const char *)p, length - 8};
	if (m.offset > m.total || m.bytes.size > m.total - m.offset)
		return -EBADMSG;
	*ret = m;
	return 0;
}

ssize_t wire_encode_error(void *buf, size_t size, uint32_t id, const struct wire_error *m)
{
	uint8_t *p;
	int r;

	if (m->code == 0 || m->code > INT32_MAX || m->text.size > WIRE_TEXT_MAX ||
	    has_nul(m->text.ptr, m->text.size))
		return -EINVAL;
	r = begin(buf, size, WIRE_ERROR, id, 8 + m->text.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->code, 4);
	p = put(p, m->version, 2);
	p = put(p, m->text.size, 2);
	return finish(buf, put_bytes(p, m->text.ptr, m->text.size));
}

int wire_decode_error(const void *datagram, size_t size, struct wire_error *ret)
{
	struct wire_error m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_ERROR, &length);

	if (!p)
		return -EBADMSG;
	m.code = (uint32_t)get(&p, 4);
	m.version = (uint16_t)get(&p, 2);
	m.text.size = get(&p, 2);
	m.text.ptr = (const char *)p;
	if (m.code == 0 || m.code > INT32_MAX || m.text.size != length - 8 ||
	    has_nul(m.text.ptr, m.text.size))
		return -EBADMSG;
	*ret = m;
	return 0;
}

/* --- WHY, REPORTED, RELEASE, RELEASED */

ssize_t wire_encode_why(void *buf, size_t size, uint32_t id, const struct wire_why *m)
{
	uint8_t *p;
	int r;

	if (!pid_possible(m->nspid))
		return -EINVAL;
	r = begin(buf, size, WIRE_WHY, id, 20, &p);
	if (r < 0)
		return r;
	p = put(p, m->pidns, 8);
	p = put(p, m->nspid, 4);
	return finish(buf, put(p, m->start, 8));
}

int wire_decode_why(const void *datagram, size_t size, struct wire_why *ret)
{
	struct wire_why m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_WHY, &length);

	if (!p)
		return -EBADMSG;
	m.pidns = get(&p, 8);
	m.nspid = (uint32_t)get(&p, 4);
	m.start = get(&p, 8);
	if (!pid_possible(m.nspid))
		return -EBADMSG;
	*ret = m;
	return 0;
}

ssize_t wire_encode_reported(void *buf, size_t size, uint32_t id, const struct wire_reported *m)
{
	uint8_t *p;
	int r;

	if (m->flags & ~REPORT_FLAGS || m->result > INT32_MAX || !digest_or_none(m->digest) ||
	    m->key.size > JOB_KEY_MAX || has_nul(m->key.ptr, m->key.size) ||
	    !entries_valid(&m->entries, m->count))
		return -EINVAL;
	r = begin(buf, size, WIRE_REPORTED, id, 80 + m->key.size + m->entries.size, &p);
	if (r < 0)
		return r;
	p = put(p, m->flags, 4);
	p = put(p, m->result, 4);
	p = put_digest(p, m->digest);
	p = put(p, m->key.size, 2);
	p = put(p, m->count, 2);
	p = put(p, 0, 4);
	p = put_bytes(p, m->key.ptr, m->key.size);
	return finish(buf, put_bytes(p, m->entries.ptr, m->entries.size));
}

int wire_decode_reported(const void *datagram, size_t size, struct wire_reported *ret)
{
	struct wire_reported m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_REPORTED, &length);

	if (!p)
		return -EBADMSG;
	m.flags = (uint32_t)get(&p, 4);
	m.result = (uint32_t)get(&p, 4);
	if (m.flags & ~REPORT_FLAGS || m.result > INT32_MAX || get_digest(&p, m.digest) < 0)
		return -EBADMSG;
	m.key.size = get(&p, 2);
	m.count = (uint16_t)get(&p, 2);
	if (get(&p, 4) != 0 || m.key.size > JOB_KEY_MAX || m.key.size > length - 80 ||
	    has_nul(p, m.key.size))
		return -EBADMSG;
	m.key.ptr = (const char *)p;
	m.entries = (struct wire_bytes){m.key.ptr + m.key.size, length - 80 - m.key.size};
	if (!entries_valid(&m.entries, m.count))
		return -EBADMSG;
	*ret = m;
	return 0;
}

ssize_t wire_encode_release(void *buf, size_t size, uint32_t id, const struct wire_release *m)
{
	uint8_t *p;
	int r;

	if (!digest_or_none(m->digest) || m->key.size == 0 || m->key.size > JOB_KEY_MAX ||
	    has_nul(m->key.ptr, m->key.size))
		return -EINVAL;
	r = begin(buf, size, WIRE_RELEASE, id, 66 + m->key.size, &p);
	if (r < 0)
		return r;
	p = put_digest(p, m->digest);
	p = put(p, m->key.size, 2);
	return finish(buf, put_bytes(p, m->key.ptr, m->key.size));
}

int wire_decode_release(const void *datagram, size_t size, struct wire_release *ret)
{
	struct wire_release m = {0};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_RELEASE, &length);

	if (!p || get_digest(&p, m.digest) < 0)
		return -EBADMSG;
	m.key.size = get(&p, 2);
	m.key.ptr = (const char *)p;
	if (m.key.size != length - 66 || has_nul(m.key.ptr, m.key.size))
		return -EBADMSG;
	*ret = m;
	return 0;
}

ssize_t wire_encode_released(void *buf, size_t size, uint32_t id, const struct wire_released *m)
{
	uint8_t *p = buf;
	int r = digest_or_none(m->from) ? 0 : -EINVAL;

	if (r == 0)
		r = begin(buf, size, WIRE_RELEASED, id, 64, &p);
	return r < 0 ? r : finish(buf, put_digest(p, m->from));
}

int wire_decode_released(const void *datagram, size_t size, struct wire_released *ret)
{
	struct wire_released m = {""};
	size_t length;
	const uint8_t *p = body(datagram, size, WIRE_RELEASED, &length);

	if (!p || get_digest(&p, m.from) < 0)
		return -EBADMSG;
	*ret = m;
	return 0;
}
