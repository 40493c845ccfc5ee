/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/text.h"

#include <locale.h>

#include "common/util.h"
#include "tests/unit/test.h"

static void escapes(const char *in, size_t size, const char *want)
{
	_cleanup_(freep) char *got = text_escape(in, size);

	check_streq(got, want);
}

#define ESCAPES(in, want) escapes(in, sizeof(in) - 1, want)

TEST(plain_text_stays)
{
	ESCAPES("", "");
	ESCAPES("LL", "LL");
	ESCAPES("C:\\new\\t", "C:\\new\\t");
	ESCAPES("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(controls_are_escaped)
{
	ESCAPES("a\tb\nc\rd", "a\\tb\\nc\\rd");
	ESCAPES("\x1b[31mred", "\\x1b[31mred");
	ESCAPES("a\0b\x7f", "a\\x00b\\x7f");
	/* CSI as one C1 character, and marks that turn the rest of the line round. */
	ESCAPES("\xc2\x9b"
		"31m",
		"\\u{009b}31m");
	ESCAPES("x\xe2\x80\xaey", "x\\u{202e}y");
	ESCAPES("x\xe2\x81\xa6y", "x\\u{2066}y");
	ESCAPES("x\xe2\x80\xa8y", "x\\u{2028}y");
}

TEST(what_is_no_utf8_is_escaped)
{
	ESCAPES("\xff", "\\xff");
	ESCAPES("a\xc3", "a\\xc3");
	ESCAPES("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
	ESCAPES("\xe0\x80\xaf", "\\xe0\\x80\\xaf");          /* overlong */
	ESCAPES("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* surrogate */
	ESCAPES("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond U+10FFFF */
	ESCAPES("\x80\xc3\xbc", "\\x80\xc3\xbc");
}

TEST(json_text_keeps_what_is_utf8)
{
	_cleanup_(freep) char *got = text_to_utf8("a\x1b\n\xff\xc3\xbc", 6);

	check_streq(got, "a\x1b\n\\xff\xc3\xbc");
}

TEST(every_byte_pair_becomes_printable_utf8)
{
	for (unsigned a = 0; a < 256; a++) {
		for (unsigned b = 0; b < 256; b++) {
			char in[2] = {(char)a, (char)b};
			_cleanup_(freep) char *got = text_escape(in, 2);
			size_t size = strlen(got);

			check(size >= 1);
			for (size_t i = 0; i < size;) {
				unsigned code = 0;
				size_t n = text_utf8(got + i, size - i, &code);

				check(n > 0);
				check(code >= 0x20 && code != 0x7f &&
				      !(code >= 0x80 && code < 0xa0));
				i += n;
			}
		}
	}
}

TEST(width_counts_columns)
{
	check(text_width("") == 0);
	check(text_width("abc") == 3);
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		skip("no C.UTF-8");
	check(text_width("gr\xc3\xbc\xc3\x9f") == 4);
	check(text_width("\xe6\xbc\xa2") == 2);
}

TEST_MAIN
