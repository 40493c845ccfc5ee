/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 against the published vectors of FIPS 180 and against libcrypto for every size around a
 * block, and the marks.
 */
#include "common/digest.h"

#include <openssl/evp.h>

#include "tests/unit/test.h"

static void reference(const void *data, size_t size, char ret[DIGEST_SIZE])
{
	unsigned char md[EVP_MAX_MD_SIZE];

	check(EVP_Digest(data, size, md, NULL, EVP_sha256(), NULL) == 1);
	for (unsigned i = 0; i < DIGEST_HEX / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", md[i]);
}

TEST(published_vectors)
{
	static const struct {
		const char *text, *digest;
	} vectors[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		 "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	char digest[DIGEST_SIZE];

	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
		digest_bytes(vectors[i].text, strlen(vectors[i].text), digest);
		check_streq(digest, vectors[i].digest);
	}
	digest_bytes(NULL, 0, digest);
	check_streq(digest, vectors[0].digest);
}

TEST(a_million_times_a)
{
	size_t size = 1000000;
	char digest[DIGEST_SIZE], *data = malloc(size);

	check(data);
	memset(data, 'a', size);
	digest_bytes(data, size, digest);
	check_streq(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(data);
}

TEST(same_as_libcrypto)
{
	uint32_t seed = 1;

	for (size_t size = 0; size < 1100; size++) {
		char ours[DIGEST_SIZE], theirs[DIGEST_SIZE];
		/* Exactly as long as the data, so that a sanitizer sees a read beyond it. */
		unsigned char *data = malloc(size > 0 ? size : 1);

		check(data);
		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			data[i] = (unsigned char)(seed >> 24);
		}
		digest_bytes(data, size, ours);
		reference(data, size, theirs);
		check_streq(ours, theirs);
		free(data);
	}
}

TEST(unaligned_data)
{
	char ours[DIGEST_SIZE], theirs[DIGEST_SIZE], data[512];

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 7);
	for (size_t offset = 0; offset < 16; offset++) {
		digest_bytes(data + offset, 300, ours);
		reference(data + offset, 300, theirs);
		check_streq(ours, theirs);
	}
}

TEST(valid)
{
	const char *good = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
	char s[80];

	check(digest_valid(good));
	check(!digest_valid(NULL));
	check(!digest_valid(""));
	check(!digest_valid("none"));
	check(!digest_valid(good + 1));
	snprintf(s, sizeof s, "%s0", good);
	check(!digest_valid(s));
	for (int i = 0; i < DIGEST_HEX; i += 21)
		for (const char *bad = "AFg/:`@ \n\377"; *bad; bad++) {
			snprintf(s, sizeof s, "%s", good);
			s[i] = *bad;
			check(!digest_valid(s));
		}
}

/* FNV-1a's published 32-bit values, folded. */
TEST(marks)
{
	check(digest_mark("", 0) == (0x811c ^ 0x9dc5));
	check(digest_mark("a", 1) == (0xe40c ^ 0x292c));
	check(digest_mark("foobar", 6) == (0xbf9c ^ 0xf968));
	check(digest_mark("foobarX", 6) == digest_mark("foobar", 6));
	check(digest_mark("\377", 1) != digest_mark("\177", 1));
}

TEST_MAIN
