/* SPDX-License-Identifier: MIT */
#include "common/near.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

#define WORD_MAX   48 /* longer words are like none */
#define PREFIX_MIN 3

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* How many slips of one character, or exchanges of two neighbours, lie between A and B (both at
 * most WORD_MAX long), without regard to case. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	size_t n = strlen(a), m = strlen(b);

	for (size_t j = 0; j <= m; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *spare = before;
		int x = tolower((unsigned char)a[i - 1]);

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			int y = tolower((unsigned char)b[j - 1]);

			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[m];
}

/* One begins with the other. */
static bool is_prefix(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m;

	return shorter >= PREFIX_MIN && strncasecmp(a, b, shorter) == 0;
}

const char *near_slip(const char *word, const char *const *names, size_t n)
{
	size_t size = strlen(word);
	const char *best = NULL;
	unsigned least = UINT_MAX;

	if (size == 0 || size > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		unsigned d = strlen(names[i]) <= WORD_MAX ? distance(word, names[i]) : UINT_MAX;

		if (d <= 2 && d * 3 <= size && d < least) {
			best = names[i];
			least = d;
		}
	}
	return best;
}

const char *near_match(const char *word, const char *const *names, size_t n)
{
	const char *best = near_slip(word, names, n);

	for (size_t i = 0; !best && strlen(word) <= WORD_MAX && i < n; i++)
		if (is_prefix(word, names[i]))
			best = names[i];
	return best;
}
