/* SPDX-License-Identifier: MIT */
/*
 * The codec: golden bytes that other implementations can use, every message there and back, and
 * every way in which a datagram can be wrong.
 */
#include "common/snapshot.h"
#include "common/util.h"
#include "common/wire.h"
#include "tests/unit/test.h"

#define DIG "1f3c5b1bd1ec4ba9ae1e6a2b5c4bb06ad5b1b6f3e0a0cf0c2d5a6f3b6d9f1c2e"

static char buf[WIRE_DATAGRAM_MAX + 64], golden[4096];

static struct wire_bytes bytes(const char *s)
{
	return (struct wire_bytes){s, strlen(s)};
}

static bool same(struct wire_bytes b, const char *s)
{
	return b.size == strlen(s) && memcmp(b.ptr, s, b.size) == 0;
}

static size_t read_golden(const char *name)
{
	const char *src = getenv("SRCDIR");
	char path[4096];
	size_t n;
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/tests/data/wire/%s.bin", src ? src : ".", name);
	f = fopen(path, "re");
	check(f);
	n = fread(golden, 1, sizeof golden, f);
	check(n >= WIRE_HEADER_SIZE && n < sizeof golden);
	check(fclose(f) == 0);
	return n;
}

static void equals_golden(const char *name, ssize_t n)
{
	size_t size = read_golden(name);

	check(n == (ssize_t)size);
	check(memcmp(buf, golden, size) == 0);
}

static const char *digest_of(const char *s)
{
	static char digest[DIGEST_SIZE];

	digest_bytes(s, strlen(s), digest);
	return digest;
}

#define KEY      "tree-1000-4026531836-4242-123456"
#define SNAPSHOT "cudaenv-snapshot 1\nprofile p\nscope any\ndefault NCCL_ALGO=Ring\n"

TEST(golden_to_broker)
{
	struct wire_fetch f = {FETCH_TOKEN, 4243, 4026531836u, 0, "", bytes("/usr/bin/python3.12")};
	struct wire_fetch bare = {0, 7, 4026532200u, 4026532123u, "", {NULL, 0}};
	struct wire_report r = {REPORT_ALONE, 0,  0x7ffd12345678u, "",
				4243,         99, bytes(KEY),      {NULL, 0}};
	struct wire_get g = {"", 65536};
	ssize_t n;

	strcpy(f.token, digest_of("cudaenv"));
	strcpy(r.digest, f.token);
	strcpy(g.digest, f.token);
	equals_golden("fetch", wire_encode_fetch(buf, sizeof buf, 1, &f));
	f.flags |= FETCH_REQUIRED;
	equals_golden("fetch-required", wire_encode_fetch(buf, sizeof buf, 1, &f));
	bare.flags = FETCH_REQUIRED;
	check(wire_encode_fetch(buf, sizeof buf, 1, &bare) == -EINVAL);
	bare.flags = 0;
	equals_golden("fetch-bare", wire_encode_fetch(buf, sizeof buf, 1, &bare));
	n = wire_encode_report(buf, sizeof buf, 2, &r);
	check(n > 0);
	n = wire_report_add(buf, sizeof buf, (size_t)n, 1, "NCCL_PROTO");
	n = wire_report_add(buf, sizeof buf, (size_t)n, 3, "NCCL_ALGO");
	n = wire_report_add(buf, sizeof buf, (size_t)n, 4, "CUDA_HOME");
	equals_golden("report", n);
	equals_golden("get", wire_encode_get(buf, sizeof buf, 3, &g));
}

TEST(golden_to_broker_of_operators)
{
	struct wire_why w = {4026531836u, 4243, 123456};
	struct wire_release r = {"", bytes(KEY)};

	strcpy(r.digest, digest_of("cudaenv"));
	equals_golden("why", wire_encode_why(buf, sizeof buf, 4, &w));
	equals_golden("release", wire_encode_release(buf, sizeof buf, 5, &r));
}

/* The entries are those of the golden report. */
static struct wire_bytes golden_entries(char *ret, size_t size)
{
	struct wire_report m;
	size_t n = read_golden("report");

	check(wire_decode_report(golden, n, &m) == 0 && m.entries.size <= size);
	memcpy(ret, m.entries.ptr, m.entries.size);
	return (struct wire_bytes){ret, m.entries.size};
}

TEST(golden_to_client_of_operators)
{
	char entries[128];
	struct wire_reported r = {
		REPORT_ALONE, 0, "", 3, bytes(KEY), golden_entries(entries, sizeof entries)};
	struct wire_released d = {""};

	strcpy(r.digest, digest_of("cudaenv"));
	equals_golden("reported", wire_encode_reported(buf, sizeof buf, 4, &r));
	equals_golden("released", wire_encode_released(buf, sizeof buf, 5, &d));
}

TEST(golden_to_client)
{
	struct wire_answer a = {ANSWER_BELOW, 1, "", bytes(KEY)};
	struct wire_answer none = {0, 0, "", {NULL, 0}};
	struct wire_data d = {STRLEN(SNAPSHOT), 0, bytes(SNAPSHOT)};
	struct wire_error e = {ENOENT, WIRE_VERSION, bytes("no such snapshot")};

	strcpy(a.digest, digest_of("cudaenv"));
	equals_golden("answer", wire_encode_answer(buf, sizeof buf, 1, &a));
	equals_golden("answer-none", wire_encode_answer(buf, sizeof buf, 1, &none));
	equals_golden("data", wire_encode_data(buf, sizeof buf, 3, &d));
	equals_golden("error", wire_encode_error(buf, sizeof buf, 3, &e));
}

TEST(decode_to_broker)
{
	struct wire_header h;
	struct wire_fetch f;
	struct wire_report r;
	struct wire_get g;
	size_t cursor = 0, n = read_golden("fetch");
	struct wire_bytes name;
	uint8_t state;

	check(wire_decode_header(golden, n, TO_BROKER, &h) == 0);
	check(h.version == 1 && h.type == WIRE_FETCH && h.id == 1 && h.length == n - 16);
	check(wire_decode_fetch(golden, n, &f) == 0);
	check(f.flags == FETCH_TOKEN && f.nspid == 4243 && f.pidns == 4026531836u);
	check(f.cgroup_claim == 0 && same(f.exe, "/usr/bin/python3.12"));
	check_streq(f.token, digest_of("cudaenv"));
	n = read_golden("fetch-bare");
	check(wire_decode_fetch(golden, n, &f) == 0);
	check(f.flags == 0 && f.nspid == 7 && f.cgroup_claim == 4026532123u && f.exe.size == 0);
	check_streq(f.token, "");

	n = read_golden("report");
	check(wire_decode_report(golden, n, &r) == 0);
	check(r.flags == REPORT_ALONE && r.environ_address == 0x7ffd12345678u && r.nspid == 4243);
	check(r.count == 3 && same(r.key, KEY));
	check(wire_entry_next(&r.entries, &cursor, &state, &name) == 1);
	check(state == 1 && same(name, "NCCL_PROTO"));
	check(wire_entry_next(&r.entries, &cursor, &state, &name) == 1);
	check(state == 3 && same(name, "NCCL_ALGO"));
	check(wire_entry_next(&r.entries, &cursor, &state, &name) == 1);
	check(state == 4 && same(name, "CUDA_HOME"));
	check(wire_entry_next(&r.entries, &cursor, &state, &name) == 0);

	n = read_golden("get");
	check(wire_decode_get(golden, n, &g) == 0);
	check(g.offset == 65536);
	check_streq(g.digest, digest_of("cudaenv"));
}

TEST(decode_to_client)
{
	struct wire_answer a;
	struct wire_data d;
	struct wire_error e;
	size_t n = read_golden("answer");

	check(wire_decode_answer(golden, n, &a) == 0);
	check(a.flags == ANSWER_BELOW && a.reason == 1 && same(a.key, KEY));
	check_streq(a.digest, digest_of("cudaenv"));
	n = read_golden("answer-none");
	check(wire_decode_answer(golden, n, &a) == 0);
	check(a.flags == 0 && a.key.size == 0);
	check_streq(a.digest, "");
	n = read_golden("data");
	check(wire_decode_data(golden, n, &d) == 0);
	check(d.total == STRLEN(SNAPSHOT) && d.offset == 0 && same(d.bytes, SNAPSHOT));
	n = read_golden("error");
	check(wire_decode_error(golden, n, &e) == 0);
	check(e.code == ENOENT && e.version == 1 && same(e.text, "no such snapshot"));
}

TEST(decode_of_operators)
{
	struct wire_bytes name;
	struct wire_reported r;
	struct wire_released d;
	struct wire_release e;
	struct wire_why w;
	size_t cursor = 0, n = read_golden("why");
	uint8_t state;

	check(wire_decode_why(golden, n, &w) == 0);
	check(w.pidns == 4026531836u && w.nspid == 4243 && w.start == 123456);
	n = read_golden("release");
	check(wire_decode_release(golden, n, &e) == 0 && same(e.key, KEY));
	check_streq(e.digest, digest_of("cudaenv"));
	n = read_golden("released");
	check(wire_decode_released(golden, n, &d) == 0);
	check_streq(d.from, "");
	n = read_golden("reported");
	check(wire_decode_reported(golden, n, &r) == 0);
	check(r.flags == REPORT_ALONE && r.result == 0 && r.count == 3 && same(r.key, KEY));
	check_streq(r.digest, digest_of("cudaenv"));
	check(wire_entry_next(&r.entries, &cursor, &state, &name) == 1);
	check(state == 1 && same(name, "NCCL_PROTO"));
}

TEST(header)
{
	struct wire_header h = {0};
	size_t n = read_golden("answer-none");

	check(wire_decode_header(golden, 0, TO_CLIENT, &h) == -EBADMSG);
	check(wire_decode_header(golden, 15, TO_CLIENT, &h) == -EBADMSG);
	check(wire_decode_header(golden, n, TO_BROKER, &h) == -EOPNOTSUPP);
	check(wire_decode_header(golden, n - 1, TO_CLIENT, &h) == -EBADMSG);
	check(wire_decode_header(golden, n + 1, TO_CLIENT, &h) == -EBADMSG);
	golden[4] = 2; /* the version is known before the length is judged */
	check(wire_decode_header(golden, 16, TO_CLIENT, &h) == -EPROTONOSUPPORT);
	check(h.version == 2 && h.type == WIRE_ANSWER && h.id == 1);
	golden[4] = 1;
	golden[6] = 0;
	check(wire_decode_header(golden, n, TO_CLIENT, &h) == -EOPNOTSUPP);
	golden[6] = (char)200;
	check(wire_decode_header(golden, n, TO_CLIENT, &h) == -EOPNOTSUPP);
	check(h.type == 200 && h.id == 1);
	golden[0] = 'c';
	memset(&h, 0, sizeof h);
	check(wire_decode_header(golden, n, TO_CLIENT, &h) == -EBADMSG);
	check(h.version == 0);
}

static int decode(const char *name, const char *datagram, size_t size)
{
	struct wire_fetch f;
	struct wire_answer a;
	struct wire_report r;
	struct wire_get g;
	struct wire_data d;
	struct wire_error e;
	struct wire_why w;
	struct wire_reported i;
	struct wire_release l;
	struct wire_released o;

	if (startswith(name, "fetch"))
		return wire_decode_fetch(datagram, size, &f);
	if (startswith(name, "answer"))
		return wire_decode_answer(datagram, size, &a);
	if (streq(name, "report"))
		return wire_decode_report(datagram, size, &r);
	if (streq(name, "get"))
		return wire_decode_get(datagram, size, &g);
	if (streq(name, "data"))
		return wire_decode_data(datagram, size, &d);
	if (streq(name, "why"))
		return wire_decode_why(datagram, size, &w);
	if (streq(name, "reported"))
		return wire_decode_reported(datagram, size, &i);
	if (streq(name, "release"))
		return wire_decode_release(datagram, size, &l);
	if (streq(name, "released"))
		return wire_decode_released(datagram, size, &o);
	return wire_decode_error(datagram, size, &e);
}

static const char *const all[] = {"fetch",  "fetch-bare", "answer",  "answer-none",
				  "report", "get",        "data",    "error",
				  "why",    "reported",   "release", "released"};

/* "fetch" and "fetch-bare" are one type. */
static bool same_type(const char *a, const char *b)
{
	size_t n = strcspn(a, "-");

	return n == strcspn(b, "-") && strncmp(a, b, n) == 0;
}

/* Cut or padded to any size, the header's length true or not: never accepted, and under a sanitizer
 * never read beyond its end. */
static void any_other_length(const char *name)
{
	size_t n = read_golden(name);

	check(decode(name, golden, n) == 0);
	for (size_t size = 0; size <= n + 1; size++) {
		_cleanup_(freep) char *copy = calloc(1, size ? size : 1);

		if (size == n)
			continue;
		check(copy);
		memcpy(copy, golden, size < n ? size : n);
		check(decode(name, copy, size) == -EBADMSG);
		/* A DATA may hold fewer bytes than there are: the others come with another offset.
		 */
		if (size < WIRE_HEADER_SIZE || (streq(name, "data") && size >= 24 && size < n))
			continue;
		copy[8] = (char)((size - 16) & 0xff);
		copy[9] = (char)((size - 16) >> 8);
		check(decode(name, copy, size) == -EBADMSG);
	}
}

TEST(other_lengths_and_types)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		any_other_length(all[i]);
		for (size_t j = 0; j < ARRAY_SIZE(all); j++) {
			size_t n = read_golden(all[i]);

			check((decode(all[j], golden, n) == 0) == same_type(all[i], all[j]));
		}
	}
}

/* One byte of a good message made wrong. */
static void wrong(const char *name, size_t at, char byte)
{
	size_t n = read_golden(name);

	check(at < n && golden[at] != byte);
	golden[at] = byte;
	check(decode(name, golden, n) == -EBADMSG);
}

TEST(wrong_fields)
{
	wrong("fetch", 16, 0);   /* a token without its flag */
	wrong("fetch", 16, 2);   /* required without a token */
	wrong("fetch", 16, 5);   /* unknown flag */
	wrong("fetch", 19, 1);   /* unknown flag */
	wrong("fetch", 23, -1);  /* pid beyond 31 bits */
	wrong("fetch", 40, 'A'); /* upper-case digit */
	wrong("fetch", 40, 'g');
	wrong("fetch", 60, 0);  /* NUL inside the digest */
	wrong("fetch", 104, 1); /* exe size */
	wrong("fetch", 105, 1);
	wrong("fetch", 106, 1);     /* reserved */
	wrong("fetch", 112, 0);     /* NUL in exe */
	wrong("fetch-bare", 16, 1); /* flag without a token */
	wrong("fetch-bare", 20, 0); /* pid 0 */
	wrong("fetch-bare", 50, '0');
	wrong("answer", 16, 2);
	wrong("answer", 24, 'x');
	wrong("answer", 88, 1);
	wrong("answer", 89, 1);
	wrong("answer", 95, 0);
	wrong("report", 16, 4);
	wrong("report", 23, (char)0x80); /* no errno */
	wrong("report", 33, 'x');
	wrong("report", 96, 0); /* key size */
	wrong("report", 97, 1);
	wrong("report", 98, 2); /* count */
	wrong("report", 99, 1);
	wrong("report", 104, 1);          /* reserved */
	wrong("report", 106, 0);          /* NUL in key */
	wrong("report", 106 + 32 + 1, 1); /* reserved of the first entry */
	wrong("report", 106 + 32 + 2, 0); /* name size */
	wrong("report", 106 + 32 + 3, 1);
	wrong("report", 106 + 32 + 4, 0); /* NUL in the name */
	wrong("get", 16, 'x');
	wrong("get", 79, 0);
	wrong("data", 16, 1);  /* total below what is here */
	wrong("data", 20, 1);  /* offset moves the end beyond total */
	wrong("data", 23, -1); /* offset beyond total */
	wrong("error", 16, 0); /* no error */
	wrong("error", 19, -1);
	wrong("error", 22, 1);
	wrong("error", 30, 0);
	wrong("why", 27, -1); /* pid beyond 31 bits */
	wrong("reported", 16, 4);
	wrong("reported", 23, (char)0x80);
	wrong("reported", 24, 'x');
	wrong("reported", 88, 0); /* key size */
	wrong("reported", 89, 1);
	wrong("reported", 90, 2); /* count */
	wrong("reported", 92, 1); /* reserved */
	wrong("reported", 96, 0); /* NUL in key */
	wrong("reported", 96 + 32 + 1, 1);
	wrong("reported", 96 + 32 + 2, 0);
	wrong("release", 16, 'x');
	wrong("release", 80, 0); /* key size */
	wrong("release", 81, 1);
	wrong("release", 82, 0); /* NUL in key */
	wrong("released", 16, '0');
}

/* One byte more than the table allows, consistent in itself. */
TEST(too_long)
{
	static const char exe[WIRE_EXE_MAX + 1] = "/";
	struct wire_fetch f = {0, 1, 0, 0, "", {exe, 1}}, got;
	ssize_t n = wire_encode_fetch(buf, sizeof buf, 1, &f);
	size_t size = 16 + 94 + WIRE_EXE_MAX;

	check(n == 16 + 94 + 1);
	memset(buf + n, 'x', WIRE_EXE_MAX);
	for (size_t extra = 0; extra < 2; extra++) {
		buf[8] = (char)((94 + WIRE_EXE_MAX + extra) & 0xff);
		buf[9] = (char)((94 + WIRE_EXE_MAX + extra) >> 8);
		buf[104] = (char)((WIRE_EXE_MAX + extra) & 0xff);
		buf[105] = (char)((WIRE_EXE_MAX + extra) >> 8);
		check(wire_decode_fetch(buf, size + extra, &got) == (extra ? -EBADMSG : 0));
	}
}

TEST(get_needs_a_digest)
{
	size_t n = read_golden("get");

	memset(golden + 16, 0, DIGEST_HEX);
	check(decode("get", golden, n) == -EBADMSG);
}

TEST(encoders_refuse)
{
	char longest[WIRE_EXE_MAX + 1];
	struct wire_fetch f = {0, 1, 0, 0, "", {longest, WIRE_EXE_MAX}};
	struct wire_answer a = {0, 0, DIG, {longest, JOB_KEY_MAX}};
	struct wire_get g = {"", 0};
	struct wire_error e = {1, 1, {longest, WIRE_TEXT_MAX}};

	memset(longest, 'x', sizeof longest);
	check(wire_encode_fetch(buf, sizeof buf, 1, &f) == 16 + 94 + WIRE_EXE_MAX);
	check(wire_encode_fetch(buf, 16 + 94 + WIRE_EXE_MAX - 1, 1, &f) == -ENOBUFS);
	f.exe.size++;
	check(wire_encode_fetch(buf, sizeof buf, 1, &f) == -EINVAL);
	f = (struct wire_fetch){FETCH_TOKEN, 1, 0, 0, "", {NULL, 0}};
	check(wire_encode_fetch(buf, sizeof buf, 1, &f) == -EINVAL);
	f = (struct wire_fetch){0, 0, 0, 0, "", {NULL, 0}};
	check(wire_encode_fetch(buf, sizeof buf, 1, &f) == -EINVAL);
	f = (struct wire_fetch){0, 1, 0, 0, "", {"a\0b", 3}};
	check(wire_encode_fetch(buf, sizeof buf, 1, &f) == -EINVAL);
	check(wire_encode_answer(buf, sizeof buf, 1, &a) == 16 + 74 + JOB_KEY_MAX);
	a.key.size++;
	check(wire_encode_answer(buf, sizeof buf, 1, &a) == -EINVAL);
	a = (struct wire_answer){0, 0, "nothing", {NULL, 0}};
	check(wire_encode_answer(buf, sizeof buf, 1, &a) == -EINVAL);
	check(wire_encode_get(buf, sizeof buf, 1, &g) == -EINVAL);
	check(wire_encode_error(buf, sizeof buf, 1, &e) == 16 + 8 + WIRE_TEXT_MAX);
	e.text.size++;
	check(wire_encode_error(buf, sizeof buf, 1, &e) == -EINVAL);
	e = (struct wire_error){0, 1, {NULL, 0}};
	check(wire_encode_error(buf, sizeof buf, 1, &e) == -EINVAL);
}

TEST(encoders_of_operators_refuse)
{
	char entry[] = {1, 0, 1, 0, 'A'};
	struct wire_why w = {0, 0, 0};
	struct wire_release l = {"", {NULL, 0}};
	struct wire_released o = {"nothing"};
	struct wire_reported r = {0, 0, DIG, 1, bytes(KEY), {entry, sizeof entry}}, got;
	ssize_t n = wire_encode_reported(buf, sizeof buf, 1, &r);

	check(n > 0 && wire_decode_reported(buf, (size_t)n, &got) == 0 && got.count == 1);
	check(wire_encode_reported(buf, (size_t)n - 1, 1, &r) == -ENOBUFS);
	r.count = 2;
	check(wire_encode_reported(buf, sizeof buf, 1, &r) == -EINVAL);
	check(wire_encode_why(buf, sizeof buf, 1, &w) == -EINVAL);
	check(wire_encode_release(buf, sizeof buf, 1, &l) == -EINVAL);
	check(wire_encode_released(buf, sizeof buf, 1, &o) == -EINVAL);
}

TEST(data_chunks)
{
	static char chunk[WIRE_CHUNK_MAX + 1];
	struct wire_data d = {200000, 131072, {chunk, WIRE_CHUNK_MAX}}, got;
	ssize_t n = wire_encode_data(buf, sizeof buf, 9, &d);

	check(n == (ssize_t)WIRE_DATAGRAM_MAX);
	check(wire_decode_data(buf, (size_t)n, &got) == 0);
	check(got.bytes.size == WIRE_CHUNK_MAX && got.offset == 131072);
	d.bytes.size++;
	check(wire_encode_data(buf, sizeof buf, 9, &d) == -EINVAL);
	d = (struct wire_data){10, 8, {chunk, 3}};
	check(wire_encode_data(buf, sizeof buf, 9, &d) == -EINVAL);
	d = (struct wire_data){10, 11, {chunk, 0}};
	check(wire_encode_data(buf, sizeof buf, 9, &d) == -EINVAL);
	d = (struct wire_data){10, 10, {NULL, 0}};
	n = wire_encode_data(buf, sizeof buf, 9, &d);
	check(n == 24);
	check(wire_decode_data(buf, (size_t)n, &got) == 0);
}

TEST(report_fills_up)
{
	struct wire_report r = {0, 0, 0, DIG, 1, 0, bytes(KEY), {NULL, 0}}, got;
	char name[SNAPSHOT_NAME_MAX + 2];
	size_t used, added = 0, cursor = 0, walked = 0;
	struct wire_bytes b;
	uint8_t state;
	ssize_t n = wire_encode_report(buf, sizeof buf, 1, &r);

	check(n == 16 + 90 + (ssize_t)strlen(KEY));
	used = (size_t)n;
	memset(name, 'N', sizeof name);
	name[SNAPSHOT_NAME_MAX + 1] = '\0';
	check(wire_report_add(buf, sizeof buf, used, 1, name) == -EINVAL);
	check(wire_report_add(buf, sizeof buf, used, 1, "") == -EINVAL);
	name[SNAPSHOT_NAME_MAX] = '\0';
	while ((n = wire_report_add(buf, sizeof buf, used, 1, name)) > 0) {
		used = (size_t)n;
		added++;
	}
	check(n == -ENOBUFS && added == (WIRE_REPORT_MAX - 90 - strlen(KEY)) / (4 + 1024));
	check(wire_report_add(buf, used + 4, used, 2, "A") == -ENOBUFS);
	n = wire_report_add(buf, used + 5, used, 2, "A");
	check(n == (ssize_t)used + 5);
	check(wire_decode_report(buf, (size_t)n, &got) == 0);
	check(got.count == added + 1);
	while (wire_entry_next(&got.entries, &cursor, &state, &b) == 1)
		walked++;
	check(walked == added + 1 && state == 2 && same(b, "A"));
}

/* The bytes of one indented line of hex; what stands behind two blanks is a remark. */
static size_t hex_line(const char *s, uint8_t ret[64])
{
	size_t n = 0;
	unsigned byte;

	while (n < 64 && sscanf(s, "%2x", &byte) == 1) {
		ret[n++] = (uint8_t)byte;
		s += 2;
		if (s[0] != ' ' || s[1] == ' ')
			break;
		s++;
	}
	return n;
}

/* docs/PROTOCOL.md shows each message in hex, indented below a line "`tests/data/wire/NAME.bin`":
 * the very bytes. */
TEST(documented_bytes)
{
	_cleanup_(fclosep) FILE *f = NULL;
	const char *src = getenv("SRCDIR");
	char line[512], path[4096], name[64];
	size_t shown = 0, at = 0, n = 0;
	uint8_t row[64];

	(void)snprintf(path, sizeof path, "%s/docs/PROTOCOL.md", src ? src : ".");
	f = fopen(path, "re");
	check(f);
	while (fgets(line, sizeof line, f)) {
		const char *s = startswith(line, "    ");
		size_t k;

		if (sscanf(line, "`tests/data/wire/%63[a-z-].bin`", name) == 1) {
			check(at == n); /* the one before was complete */
			n = read_golden(name);
			at = 0;
		} else if (s && at < n) {
			k = hex_line(s, row);
			check(k > 0 && k <= n - at && memcmp(row, golden + at, k) == 0);
			at += k;
			shown += at == n;
		}
	}
	check(at == n && shown == ARRAY_SIZE(all));
}

TEST_MAIN
