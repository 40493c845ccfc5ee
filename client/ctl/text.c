/* SPDX-License-Identifier: MIT */
/* Escaping into a buffer that is sized for the worst case, so that the walk needs no checks of its
 * own. */
#include "config.h"

#include "client/ctl/text.h"

#include <stdint.h>
#include <wchar.h>

#include "common/util.h"

#define ESCAPED_MAX 9 /* \u{10ffff} replaces at least 3 bytes, \xNN one: 4 a byte would do */

size_t text_utf8(const char *s, size_t size, unsigned *ret_code)
{
	static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s;
	unsigned code;
	size_t n;

	if (size == 0)
		return 0;
	if (p[0] < 0x80) {
		n = 1;
		code = p[0];
	} else if ((p[0] & 0xe0) == 0xc0) {
		n = 2;
		code = p[0] & 0x1f;
	} else if ((p[0] & 0xf0) == 0xe0) {
		n = 3;
		code = p[0] & 0x0f;
	} else if ((p[0] & 0xf8) == 0xf0) {
		n = 4;
		code = p[0] & 0x07;
	} else {
		return 0;
	}
	if (n > size)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	if (ret_code)
		*ret_code = code;
	return n;
}

/* Controls, line and paragraph separators, and what changes the direction of the text around it. */
static bool unfit(unsigned code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x061c ||
	       (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
	       (code >= 0xfff9 && code <= 0xfffb);
}

static char *put_escape(char *out, unsigned code)
{
	switch (code) {
	case '\t':
		return stpcpy(out, "\\t");
	case '\n':
		return stpcpy(out, "\\n");
	case '\r':
		return stpcpy(out, "\\r");
	default:
		return out + sprintf(out, code < 0x80 ? "\\x%02x" : "\\u{%04x}", code);
	}
}

static char *convert(const char *s, size_t size, bool escape)
{
	char *out, *p;

	if (size > SIZE_MAX / ESCAPED_MAX - 1)
		return NULL;
	p = out = malloc(size * ESCAPED_MAX + 1);
	if (!out)
		return NULL;
	for (size_t i = 0; i < size;) {
		unsigned code = 0;
		size_t n = text_utf8(s + i, size - i, &code);

		if (n == 0) {
			p += sprintf(p, "\\x%02x", (unsigned char)s[i++]);
			continue;
		}
		if (escape && unfit(code))
			p = put_escape(p, code);
		else
			p = mempcpy(p, s + i, n);
		i += n;
	}
	*p = '\0';
	return out;
}

char *text_escape(const char *s, size_t size)
{
	return convert(s, size, true);
}

char *text_to_utf8(const char *s, size_t size)
{
	return convert(s, size, false);
}

size_t text_width(const char *s)
{
	size_t size = strlen(s), width = 0;

	for (size_t i = 0; i < size;) {
		unsigned code = 0;
		size_t n = text_utf8(s + i, size - i, &code);
		int columns = n > 0 ? wcwidth((wchar_t)code) : 1;

		width += columns >= 0 ? (size_t)columns : 1;
		i += n > 0 ? n : 1;
	}
	return width;
}
