/* SPDX-License-Identifier: MIT */
/*
 * What a client can send: whatever the bytes, no read beyond them, and what is accepted is encoded
 * to the same bytes again, so that no two datagrams mean the same.
 */
#include "common/util.h"
#include "common/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const uint8_t *data, size_t size, const void *again, ssize_t n)
{
	if (n != (ssize_t)size || memcmp(data, again, size) != 0)
		abort();
}

static void walk(const uint8_t *data, size_t size, const struct wire_report *m, uint32_t id)
{
	static char again[WIRE_DATAGRAM_MAX];
	ssize_t n = wire_encode_report(again, sizeof again, id, m);
	struct wire_bytes b;
	size_t cursor = 0;
	uint8_t state;

	while (wire_entry_next(&m->entries, &cursor, &state, &b) == 1) {
		_cleanup_(freep) char *name = strndup(b.ptr, b.size);

		if (n < 0 || !name)
			abort();
		n = wire_report_add(again, sizeof again, (size_t)n, state, name);
	}
	same(data, size, again, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char again[WIRE_DATAGRAM_MAX];
	struct wire_header h = {0};
	struct wire_fetch f;
	struct wire_report r;
	struct wire_get g;
	struct wire_why why;
	struct wire_release release;

	(void)wire_decode_header(data, size, TO_BROKER, &h);
	if (wire_decode_fetch(data, size, &f) == 0)
		same(data, size, again, wire_encode_fetch(again, sizeof again, h.id, &f));
	if (wire_decode_report(data, size, &r) == 0)
		walk(data, size, &r, h.id);
	if (wire_decode_get(data, size, &g) == 0)
		same(data, size, again, wire_encode_get(again, sizeof again, h.id, &g));
	if (wire_decode_why(data, size, &why) == 0)
		same(data, size, again, wire_encode_why(again, sizeof again, h.id, &why));
	if (wire_decode_release(data, size, &release) == 0)
		same(data, size, again, wire_encode_release(again, sizeof again, h.id, &release));
	return 0;
}
