/* SPDX-License-Identifier: MIT */
/*
 * The broker's requests from a connection that is made up: the input is a row of datagrams, each
 * behind two bytes of size (little-endian). The process that asks is this one. After each input
 * every reply must have been well-formed, and no process but this one be registered.
 */
#include "tests/unit/broker-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct node node;

static void stop(void)
{
	node_done(&node);
}

static void one(struct peer *peer, const uint8_t *datagram, size_t size)
{
	static char reply[WIRE_DATAGRAM_MAX];
	struct wire_header h;
	ssize_t n;

	n = request_handle(&node.broker, peer, datagram, size, reply);
	if (n > 0 && wire_decode_header(reply, (size_t)n, TO_CLIENT, &h) < 0)
		abort();
	request_settle(&node.broker, peer);
	broker_settle(&node.broker, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peer peer = {.fd = -EBADF, .pid = getpid(), .uid = size % 2 ? 0 : 54321};

	if (!node.path[0]) {
		node_init(&node, "on");
		if (atexit(stop) != 0)
			abort();
	}
	while (size >= 2) {
		size_t n = (size_t)data[0] | (size_t)data[1] << 8;
		uint8_t *datagram;

		data += 2;
		size -= 2;
		if (n > size)
			n = size;
		/* Of its own, so that a sanitizer sees a read beyond it. */
		datagram = malloc(n ? n : 1);
		if (!datagram)
			abort();
		memcpy(datagram, data, n);
		one(&peer, datagram, n);
		free(datagram);
		data += n;
		size -= n;
	}
	if (node.broker.registry.processes.n > 1)
		abort();
	return 0;
}
