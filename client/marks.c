/* SPDX-License-Identifier: MIT */
/* Marks and lists of client/marks.h. */

#include "client/marks.h"

#include "common/snapshot.h"

bool slice_same(struct slice a, struct slice b)
{
	if (!a.ptr || !b.ptr)
		return !a.ptr && !b.ptr;
	return a.size == b.size && memcmp(a.ptr, b.ptr, a.size) == 0;
}

bool slice_begins(struct slice s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.size >= n && memcmp(s.ptr, prefix, n) == 0;
}

/* Takes what stands before the next SEPARATOR off *REST, which becomes absent with the last piece.
 */
static bool next_piece(struct slice *rest, char separator, struct slice *ret)
{
	const char *end;

	if (!rest->ptr)
		return false;
	end = memchr(rest->ptr, separator, rest->size);
	if (!end) {
		*ret = *rest;
		*rest = SLICE_NULL;
		return true;
	}
	*ret = (struct slice){rest->ptr, (size_t)(end - rest->ptr)};
	*rest = (struct slice){end + 1, rest->size - ret->size - 1};
	return true;
}

static bool parse_hash(struct slice s, uint16_t *ret)
{
	unsigned v = 0;

	if (s.size != 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		char c = s.ptr[i];

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (unsigned)(c - 'a' + 10);
		else
			return false;
	}
	*ret = (uint16_t)v;
	return true;
}

static bool parse_count(struct slice s, unsigned *ret)
{
	unsigned v = 0;

	if (s.size < 1 || s.size > 5)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		if (s.ptr[i] < '0' || s.ptr[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s.ptr[i] - '0');
	}
	*ret = v;
	return v <= MARK_COUNT_MAX;
}

int mark_next(struct slice *rest, struct slice *ret_name, struct mark *ret)
{
	struct slice entry, name, hash, before, after;
	struct mark m = {.there = true};

	if (!next_piece(rest, ',', &entry))
		return 0;
	if (!next_piece(&entry, ':', &name) || !snapshot_name_valid(name.ptr, name.size) ||
	    !next_piece(&entry, ':', &hash) || !parse_hash(hash, &m.hash))
		return -EBADMSG;
	if (next_piece(&entry, ':', &before)) {
		m.list = true;
		if (!parse_count(before, &m.before) || !next_piece(&entry, ':', &after) ||
		    !parse_count(after, &m.after) || entry.ptr)
			return -EBADMSG;
	}
	*ret_name = name;
	*ret = m;
	return 1;
}

static size_t format_count(unsigned v, char *ret)
{
	char digits[10];
	size_t n = 0, i = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	ret[i++] = ':';
	while (n > 0)
		ret[i++] = digits[--n];
	return i;
}

size_t mark_format(const struct mark *m, char ret[MARK_TEXT_MAX])
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 0;

	ret[n++] = ':';
	for (int shift = 12; shift >= 0; shift -= 4)
		ret[n++] = hex[m->hash >> shift & 15];
	if (m->list) {
		n += format_count(m->before, ret + n);
		n += format_count(m->after, ret + n);
	}
	ret[n] = '\0';
	return n;
}

bool list_next(struct slice *rest, struct slice *ret)
{
	return next_piece(rest, ':', ret);
}

bool list_has(struct slice list, struct slice element)
{
	struct slice e;

	while (list_next(&list, &e))
		if (slice_same(e, element))
			return true;
	return false;
}

bool list_has_all(struct slice list, struct slice want)
{
	struct slice e;

	while (list_next(&want, &e))
		if (e.size > 0 && !list_has(list, e))
			return false;
	return true;
}

struct slice list_cut(struct slice list, unsigned before, unsigned after)
{
	struct slice e;

	while (before > 0 && list_next(&list, &e))
		before--;
	for (; after > 0 && list.ptr; after--) {
		const char *colon = memrchr(list.ptr, ':', list.size);

		if (!colon)
			return SLICE_NULL;
		list.size = (size_t)(colon - list.ptr);
	}
	return list;
}
