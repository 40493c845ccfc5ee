/* SPDX-License-Identifier: MIT */
/*
 * What a broker, or who poses as one, can send to a client: whatever the bytes, no read beyond
 * them, and what is accepted is encoded to the same bytes again.
 */
#include "common/util.h"
#include "common/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const uint8_t *data, size_t size, const void *again, ssize_t n)
{
	if (n != (ssize_t)size || memcmp(data, again, size) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char again[WIRE_DATAGRAM_MAX];
	struct wire_header h = {0};
	struct wire_answer a;
	struct wire_data d;
	struct wire_error e;
	struct wire_reported reported;
	struct wire_released released;

	(void)wire_decode_header(data, size, TO_CLIENT, &h);
	if (wire_decode_answer(data, size, &a) == 0)
		same(data, size, again, wire_encode_answer(again, sizeof again, h.id, &a));
	if (wire_decode_data(data, size, &d) == 0)
		same(data, size, again, wire_encode_data(again, sizeof again, h.id, &d));
	if (wire_decode_error(data, size, &e) == 0)
		same(data, size, again, wire_encode_error(again, sizeof again, h.id, &e));
	if (wire_decode_reported(data, size, &reported) == 0)
		same(data, size, again, wire_encode_reported(again, sizeof again, h.id, &reported));
	if (wire_decode_released(data, size, &released) == 0)
		same(data, size, again, wire_encode_released(again, sizeof again, h.id, &released));
	return 0;
}
