/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 (FIPS 180-4) over whole buffers, and the short hash of a mark. Full blocks are taken
 * straight from the caller's buffer; only the last one or two, with the padding, are built on the
 * stack. No state outlives a call.
 */
#include "common/digest.h"

#include <string.h>

#include "common/util.h"

#define BLOCK 64

static const uint32_t K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static inline uint32_t rotr(uint32_t x, unsigned n)
{
	return (x >> n) | (x << (32 - n));
}

static inline uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One round; the caller rotates the names of the eight words instead of moving their values. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
	do {                                                                                       \
		uint32_t t_ = (h) + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +                     \
			      ((g) ^ ((e) & ((f) ^ (g)))) + K[i] + w[(i)&15];                      \
		(d) += t_;                                                                         \
		(h) = t_ + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +                              \
		      (((a) & (b)) | ((c) & ((a) | (b))));                                         \
	} while (0)

static inline void eight_rounds(uint32_t v[8], const uint32_t w[16], unsigned i)
{
	uint32_t a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7];

	ROUND(a, b, c, d, e, f, g, h, i);
	ROUND(h, a, b, c, d, e, f, g, i + 1);
	ROUND(g, h, a, b, c, d, e, f, i + 2);
	ROUND(f, g, h, a, b, c, d, e, i + 3);
	ROUND(e, f, g, h, a, b, c, d, i + 4);
	ROUND(d, e, f, g, h, a, b, c, i + 5);
	ROUND(c, d, e, f, g, h, a, b, i + 6);
	ROUND(b, c, d, e, f, g, h, a, i + 7);
	v[0] = a, v[1] = b, v[2] = c, v[3] = d, v[4] = e, v[5] = f, v[6] = g, v[7] = h;
}

static void compress(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	for (; blocks > 0; blocks--, p += BLOCK) {
		uint32_t v[8], w[16];

		memcpy(v, state, sizeof v);
		for (unsigned i = 0; i < 16; i++)
			w[i] = load_be32(p + 4 * (size_t)i);
		eight_rounds(v, w, 0);
		eight_rounds(v, w, 8);
		for (unsigned i = 16; i < 64; i += 16) {
			for (unsigned j = 0; j < 16; j++) {
				uint32_t x = w[(j + 1) & 15], y = w[(j + 14) & 15];

				w[j] += (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) + w[(j + 9) & 15] +
					(rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10));
			}
			eight_rounds(v, w, i);
			eight_rounds(v, w, i + 8);
		}
		for (unsigned i = 0; i < 8; i++)
			state[i] += v[i];
	}
}

void digest_bytes(const void *data, size_t size, char ret[DIGEST_SIZE])
{
	static const char hex[] = "0123456789abcdef";
	uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	uint8_t tail[2 * BLOCK] = {0};
	size_t whole = size / BLOCK, rest = size % BLOCK;
	size_t tail_size = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
	uint64_t bits = (uint64_t)size * 8;

	compress(state, data, whole);
	if (rest > 0)
		memcpy(tail, (const uint8_t *)data + whole * BLOCK, rest);
	tail[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
	compress(state, tail, tail_size / BLOCK);

	for (unsigned i = 0; i < DIGEST_HEX; i++)
		ret[i] = hex[(state[i / 8] >> (28 - 4 * (i % 8))) & 15];
	ret[DIGEST_HEX] = '\0';
}

bool digest_valid(const char *s)
{
	size_t n = 0;

	if (!s)
		return false;
	while (n < DIGEST_HEX && ((s[n] >= '0' && s[n] <= '9') || (s[n] >= 'a' && s[n] <= 'f')))
		n++;
	return n == DIGEST_HEX && s[n] == '\0';
}

uint16_t digest_mark(const char *value, size_t size)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (uint8_t)value[i]) * 16777619u;
	return (uint16_t)(h >> 16 ^ h);
}
