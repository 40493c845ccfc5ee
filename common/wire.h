/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between clients and the broker: one table, from which the type enum, the length
 * check and the names come. One message is one SOCK_SEQPACKET datagram: a
 * 16-byte header and a body, little-endian, encoded field by field. docs/PROTOCOL.md gives the
 * bytes. This codec does no I/O and no allocation; decoded strings point into the datagram and are
 * NOT NUL-terminated (ptr and size).
 *
 * Header: u32 magic 'CENV' (bytes 43 45 4e 56), u16 version, u16 type, u32 body length, u32 request
 * id.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/digest.h"
#include "common/job.h"

#define WIRE_MAGIC       0x564e4543u /* "CENV" read as little-endian */
#define WIRE_VERSION     1
#define WIRE_HEADER_SIZE 16
#define WIRE_CHUNK_MAX   65536 /* snapshot bytes in one DATA */
#define WIRE_REPORT_MAX  65536 /* body of one REPORT */
#define WIRE_EXE_MAX     4095
#define WIRE_TEXT_MAX    512

/* name, number, direction, smallest body, largest body */
#define WIRE_MESSAGES(X)                                                                           \
	X(FETCH, 1, TO_BROKER, 94, 94 + WIRE_EXE_MAX)                                              \
	X(ANSWER, 2, TO_CLIENT, 74, 74 + JOB_KEY_MAX)                                              \
	X(REPORT, 3, TO_BROKER, 90, WIRE_REPORT_MAX)                                               \
	X(GET, 4, TO_BROKER, 68, 68)                                                               \
	X(DATA, 5, TO_CLIENT, 8, 8 + WIRE_CHUNK_MAX)                                               \
	X(ERROR, 6, TO_CLIENT, 8, 8 + WIRE_TEXT_MAX)                                               \
	X(WHY, 7, TO_BROKER, 20, 20)                                                               \
	X(REPORTED, 8, TO_CLIENT, 80, WIRE_REPORT_MAX)                                             \
	X(RELEASE, 9, TO_BROKER, 67, 66 + JOB_KEY_MAX)                                             \
	X(RELEASED, 10, TO_CLIENT, 64, 64)

enum wire_direction { TO_BROKER, TO_CLIENT };

enum wire_type {
#define X(name, number, direction, min, max) WIRE_##name = (number),
	WIRE_MESSAGES(X)
#undef X
};

#define WIRE_DATAGRAM_MAX (WIRE_HEADER_SIZE + 8 + WIRE_CHUNK_MAX)

struct wire_header {
	uint16_t version;
	uint16_t type;
	uint32_t length;
	uint32_t id;
};

struct wire_bytes {
	const char *ptr;
	size_t size;
};

/* Token is set; it is what CUDAENV_REQUIRE asks for. */
enum { FETCH_TOKEN = 1u << 0, FETCH_REQUIRED = 1u << 1 };

/* u32 flags, u32 nspid, u64 pidns, u64 cgroup_claim, char token[64] (zeros unless FETCH_TOKEN), u16
 * exe size (offset 88), u32 reserved 0, exe */
struct wire_fetch {
	uint32_t flags;
	uint32_t nspid;
	uint64_t pidns;
	uint64_t cgroup_claim;
	char token[DIGEST_SIZE]; /* "" without FETCH_TOKEN */
	struct wire_bytes exe;
};

enum { ANSWER_BELOW = 1u << 0 };

/* u32 flags, u32 reason (enum decision_reason), char digest[64] (zeros: nothing is applied), u16
 * key size, key */
struct wire_answer {
	uint32_t flags;
	uint32_t reason;
	char digest[DIGEST_SIZE];
	struct wire_bytes key;
};

enum { REPORT_ALONE = 1u << 0, REPORT_CUT = 1u << 1 };

/* u32 flags, u32 result (0 or positive errno of the client), u64 environ address, char digest[64],
 * u16 key size, u16 count, u32 pid-in-namespace, u16 reserved, key, then count times: u8 state
 * (enum cudaenv_state), u8 reserved, u16 name size, name */
struct wire_report {
	uint32_t flags;
	uint32_t result;
	uint64_t environ_address;
	char digest[DIGEST_SIZE];
	uint32_t nspid;
	uint16_t count;
	struct wire_bytes key;
	struct wire_bytes entries; /* walk with wire_entry_next() */
};

/* char digest[64], u32 offset */
struct wire_get {
	char digest[DIGEST_SIZE];
	uint32_t offset;
};

/* u32 total size, u32 offset, bytes */
struct wire_data {
	uint32_t total;
	uint32_t offset;
	struct wire_bytes bytes;
};

/* u32 errno (positive), u16 the broker's version, u16 text size, text */
struct wire_error {
	uint32_t code;
	uint16_t version;
	struct wire_bytes text;
};

/* u64 pidns, u32 pid, u64 start: the name of a process in procs/ */
struct wire_why {
	uint64_t pidns;
	uint32_t nspid;
	uint64_t start;
};

/* u32 flags (as of a report), u32 result, char digest[64], u16 key size, u16 count, u32 reserved,
 * key, then the entries of a report. Its address of environ is not passed on. */
struct wire_reported {
	uint32_t flags;
	uint32_t result;
	char digest[DIGEST_SIZE];
	uint16_t count;
	struct wire_bytes key;
	struct wire_bytes entries; /* walk with wire_entry_next() */
};

/* char digest[64] (zeros: none), u16 key size, key */
struct wire_release {
	char digest[DIGEST_SIZE];
	struct wire_bytes key;
};

/* char from[64] (zeros: none): what the job had. */
struct wire_released {
	char from[DIGEST_SIZE];
};

/* Checks magic, then version, type and direction, then length against the table and SIZE exactly;
 * fills *ret as soon as the magic is right. 0, -EBADMSG (no header or wrong length),
 * -EPROTONOSUPPORT (version), -EOPNOTSUPP (type or direction). */
int wire_decode_header(const void *datagram, size_t size, enum wire_direction direction,
		       struct wire_header *ret);

/* Encoders write a whole datagram and return its size, or -ENOBUFS, or -EINVAL for what a decoder
 * would refuse. Decoders check the header again themselves; 0 or -EBADMSG (another type,
 * inconsistent sizes, reserved fields or flags that are not 0, a digest that is not one, a pid that
 * cannot be, NUL in a string). */
ssize_t wire_encode_fetch(void *buf, size_t size, uint32_t id, const struct wire_fetch *m);
ssize_t wire_encode_answer(void *buf, size_t size, uint32_t id, const struct wire_answer *m);
/* Of a report only the fixed part and the key; entries are appended by wire_report_add(). */
ssize_t wire_encode_report(void *buf, size_t size, uint32_t id, const struct wire_report *m);
/* Appends one entry and mends length and count in the header; returns the new size, -ENOBUFS when
 * it is full. */
ssize_t wire_report_add(void *buf, size_t size, size_t used, uint8_t state, const char *name);
ssize_t wire_encode_get(void *buf, size_t size, uint32_t id, const struct wire_get *m);
ssize_t wire_encode_data(void *buf, size_t size, uint32_t id, const struct wire_data *m);
ssize_t wire_encode_error(void *buf, size_t size, uint32_t id, const struct wire_error *m);
ssize_t wire_encode_why(void *buf, size_t size, uint32_t id, const struct wire_why *m);
/* With its entries, which are COUNT well-formed ones. */
ssize_t wire_encode_reported(void *buf, size_t size, uint32_t id, const struct wire_reported *m);
ssize_t wire_encode_release(void *buf, size_t size, uint32_t id, const struct wire_release *m);
ssize_t wire_encode_released(void *buf, size_t size, uint32_t id, const struct wire_released *m);

int wire_decode_fetch(const void *datagram, size_t size, struct wire_fetch *ret);
int wire_decode_answer(const void *datagram, size_t size, struct wire_answer *ret);
int wire_decode_report(const void *datagram, size_t size, struct wire_report *ret);
int wire_decode_get(const void *datagram, size_t size, struct wire_get *ret);
int wire_decode_data(const void *datagram, size_t size, struct wire_data *ret);
int wire_decode_error(const void *datagram, size_t size, struct wire_error *ret);
int wire_decode_why(const void *datagram, size_t size, struct wire_why *ret);
int wire_decode_reported(const void *datagram, size_t size, struct wire_reported *ret);
int wire_decode_release(const void *datagram, size_t size, struct wire_release *ret);
int wire_decode_released(const void *datagram, size_t size, struct wire_released *ret);

/* 1 and the next entry of a report or of what was reported, 0 at the end. The decoder has checked
 * all sizes. *CURSOR starts at 0. */
int wire_entry_next(const struct wire_bytes *entries, size_t *cursor, uint8_t *ret_state,
		    struct wire_bytes *ret_name);
