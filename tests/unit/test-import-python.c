/* SPDX-License-Identifier: MIT */
/* What is read of Python programs; strings are held against a real interpreter in
 * tests/integration/test_import.py. */
#include "tests/unit/import-show.h"

static const char *py(const char *text)
{
	return import_show(IMPORT_PYTHON, text);
}

TEST(forms)
{
	check_streq(py("import os\nos.environ.setdefault(\"A\", \"b\")\n"), "2 default A=b\n");
	check_streq(py("os.environ['A'] = 'b'"), "1 force A=b\n");
	check_streq(py("os.putenv('A', 'b')"), "1 force A=b\n");
	check_streq(py("os.environ.setdefault(\n 'A',\n 'b',\n)"), "2 default A=b\n");
	check_streq(py("os.environ['A'] = os.environ['B'] = 'c'"), "1 force A=c\n1 force B=c\n");
	check_streq(py("os.environ.pop('A', None); del os.environ['B']; os.unsetenv('C')"),
		    "1 unset A=\n1 unset B=\n1 unset C=\n");
	check_streq(py("x = 1; os.environ['A'] = ('b'\n 'c')"), "1 force A=bc\n");
}

TEST(update)
{
	check_streq(py("os.environ.update({\n'A': 'b',\n\"C\": ('d' 'e'),\n})"),
		    "2 force A=b\n3 force C=de\n");
	check_streq(py("os.environ.update(A='b', C='d')"), "1 force A=b\n1 force C=d\n");
	check_streq(py("os.environ.update({'A': 'b'}, C='d')"), "1 force A=b\n1 force C=d\n");
	check_streq(py("os.environ.update(dict(A='b'))"), "1 force A=b\n");
	check_streq(py("os.environ |= {'A': 'b'}"), "1 force A=b\n");
	check_streq(py("os.environ.update({'A': f(1), **more, 'B': '1'})"),
		    "1 unknown A=\n1 force B=1\n1? A: it is computed (f)\n"
		    "1? -: an entry of the dictionary is not NAME: VALUE\n");
	check_streq(py("os.environ.update(settings)"),
		    "1? -: what it is updated with: settings is not bound in this file\n");
	check_streq(py("os.environ.update({k: v for k, v in x})"),
		    "1? -: what it is updated with: it is computed (a comprehension)\n");
}

TEST(names_of_os)
{
	check_streq(py("import os as o, sys\no.environ['A'] = 'b'"), "2 force A=b\n");
	check_streq(py("from os import environ\nenviron['A'] = 'b'"), "2 force A=b\n");
	check_streq(py("from os import (environ as e, putenv as p)\ne['A'] = 'b'\np('C', 'd')"),
		    "2 force A=b\n3 force C=d\n");
	check_streq(py("env = os.environ\nenv.setdefault('A', 'b')"), "2 default A=b\n");
	check_streq(py("put = os.environ.setdefault\nput('A', 'b')"), "2 default A=b\n");
	check_streq(py("__import__('os').environ['A'] = 'b'"), "1 force A=b\n");
	check_streq(py("self.environ['A'] = 'b'\nrequest.os.environ['A'] = 'b'"), "");
}

TEST(strings)
{
	check_streq(py("os.environ['A'] = r'a\\n' '''b''' \"\"\"c'\"\"\" u'd'"),
		    "1 force A=a\\nbc'd\n");
	check_streq(py("os.environ['A'] = 'a\\\nb'"), "1 force A=ab\n");
	check_streq(py("os.environ['A'] = 'a\\x41\\u00e9\\U0001F600\\101\\d\\''"),
		    "1 force A=aA\xc3\xa9\xf0\x9f\x98\x80"
		    "A\\d'\n");
	check_streq(py("os.environ['A'] = '\\udcff'"), "1 force A=\xff\n");
	check_streq(py("os.environ['A'] = 'a' # 'b'"), "1 force A=a\n");
	check_streq(py("os.environ['A'] = '#' '\"' \"'\""), "1 force A=#\"'\n");
	check_streq(py("os.environ['A'] = '''a\r\nb'''"), "1 force A=a\nb\n");
	check_streq(
		py("# -*- coding: latin-1 -*-\nos.environ['A'] = '\xe9'\nos.environ['B'] = 'b'"),
		"2 unknown A=\n3 force B=b\n2? A: the source's coding is not UTF-8\n");
}

TEST(no_literals)
{
	check_streq(py("os.environ['A'] = f'{b!r}'"),
		    "1 unknown A=\n1? A: it is computed (an f-string)\n");
	check_streq(py("os.environ['A'] = b'b'"), "1 unknown A=\n1? A: it is a string of bytes\n");
	check_streq(py("os.environ['A'] = 'b' + c"),
		    "1 unknown A=\n1? A: c is not bound in this file\n");
	check_streq(py("os.environ['A'] = '\\N{BULLET}'"),
		    "1 unknown A=\n1? A: it has a character by its name (\\N)\n");
	check_streq(py("os.environ['A'] = 'b\\0'"), "1 unknown A=\n1? A: there is a NUL in it\n");
	check_streq(py("os.environ['A'] = '\\x4'"),
		    "1 unknown A=\n1? A: an escape in it is not one of Python's\n");
	check_streq(py("os.environ[name] = 'b'"),
		    "1? -: the name of a variable: name is not bound in this file\n");
	check_streq(py("os.environ['A b'] = 'b'"),
		    "1? -: its name is not one that a profile may have\n");
	check_streq(py("os.environ.setdefault('A')"), "1? -: a call that is not NAME, VALUE\n");
	check_streq(
		py("os.environ['A'] +="
		   " ':b'\n"),
		"1 unknown A=\n1? A: the environment is changed in a way that is not read here\n");
	check_streq(
		py("x = os.environ.setdefault('A', 'b')"),
		"1 unknown A=\n1? A: the environment is changed in a way that is not read here\n");
	check_streq(py("os.environ.clear()"),
		    "1? -: the environment is changed in a way that is not read here\n");
}

TEST(reading_is_no_change)
{
	check_streq(py("x = os.environ['A']\nprint(os.environ.get('A'), os.environ == y)\n"
		       "if os.environ['A'] == 'b': pass\nfor k in os.environ: print(k)\n"
		       "subprocess.run(x, env=dict(os.environ))"),
		    "");
}

TEST(guards)
{
	check_streq(py("if 'A' not in os.environ:\n    os.environ['A'] = 'b'\n"
		       "if \"C\" not in os.environ: os.environ['C'] = 'd'\n"
		       "if os.environ.get('E') is None:\n\tos.environ['E'] = 'f'\n"),
		    "2 default A=b\n3 default C=d\n5 default E=f\n");
	check_streq(
		py("if 'A' not in os.environ:\n    os.environ['B'] = 'b'\nos.environ['C'] = 'd'"),
		"2 unknown B=\n3 force C=d\n"
		"2? B: it depends on another variable's absence (if, line 1)\n");
	check_streq(py("if 'A' not in os.environ and x:\n    os.environ['A'] = 'b'\n"),
		    "2 unknown A=\n2? A: it depends on a condition (if, line 1)\n");
	check_streq(py("if 'A' not in os.environ:\n  os.environ['A'] = 'b'\nelse:\n"
		       "  os.environ['A'] = 'c'\n"),
		    "2 default A=b\n4? A: it depends on a condition (else, line 3)\n");
}

TEST(blocks)
{
	check_streq(py("try:\n  import os\n  os.environ['A'] = 'b'\nexcept Exception:\n"
		       "  os.environ['C'] = 'd'\n"),
		    "3 force A=b\n5 unknown C=\n"
		    "5? C: it depends on a condition (except, line 4)\n");
	check_streq(py("def f():\n  os.environ['A'] = 'b'\n\n# x\nos.environ['C'] = 'd'\n"),
		    "2 unknown A=\n5 force C=d\n2? A: it stands in a function or class (def, line "
		    "1)\n");
	check_streq(py("for k, v in x:\n  os.environ[k] = v\n"),
		    "2? -: the name of a variable: k is not bound to a constant (line 1)\n");
	check_streq(
		py("if os.environ.setdefault('A', 'b'): pass"),
		"1 unknown A=\n1? A: the environment is changed in a way that is not read here\n");
}

TEST(order)
{
	check_streq(py("os.environ['A'] = 'b'\nos.environ['A'] = 'c'\n"),
		    "2 force A=c\n1? A: F:2 says something else later, which counts\n");
	check_streq(py("os.environ.setdefault('A', 'b')\nos.environ.setdefault('A', 'c')\n"),
		    "1 default A=b\n2? A: F:1 says something else before, which counts\n");
	check_streq(py("os.environ.setdefault('A', x)\nos.environ.setdefault('A', 'c')\n"),
		    "1 unknown A=\n1? A: x is not bound in this file\n");
	check_streq(py("os.environ['A'] = 'b'\nos.environ['A'] = x\n"),
		    "2 unknown A=\n2? A: x is not bound in this file\n"
		    "1? A: F:2 says something else later, which counts\n");
	check_streq(py("os.environ.pop('A')\nos.environ.setdefault('A', 'c')\n"), "2 force A=c\n");
}

TEST(no_python)
{
	check_streq(py("x = 1\ny = 'a\n"), "2? -: a string is not closed\nbroken\n");
	check_streq(py("x = (1,\n"), "1? -: a bracket is not closed\nbroken\n");
	check_streq(py("x)\n"), "1? -: a bracket is closed that was not opened\nbroken\n");
	check_streq(py("os.environ['A'] = 'b'\nexport A=$B\n"),
		    "1 force A=b\n2? -: this is no Python\nbroken\n");
	check_streq(import_show_bytes(IMPORT_PYTHON, "a\0b", 3),
		    "1? -: this is no Python\nbroken\n");
	check_streq(py("\xef\xbb\xbfos.environ['A'] = 'b'\r\nos.environ['C'] = \\\r\n'd'\r\n"),
		    "1 force A=b\n2 force C=d\n");
}

TEST(pth)
{
	static const char text[] = "/some/where's\nimport os; os.environ.setdefault('A', 'b')\n";
	struct import im = {0};

	check(import_begin_file(&im, "F") == 0);
	check(import_pth(&im, text, strlen(text)) == 0);
	check(im.n_items == 1 && im.items[0].line == 2 && im.n_notes == 0);
	check_streq(im.items[0].value, "b");
	import_done(&im);
}

/* Deep and wide ones end, and in time that grows with their size. */
TEST(hostile)
{
	enum { SIZE = 512 * 1024 };
	static const char *const units[] = {"(",
					    "os.environ[",
					    "os.environ['A']=",
					    "'a' ",
					    "{'A':",
					    "if x:\n ",
					    "os.environ.pop ",
					    "not ",
					    "\\\n",
					    "X=",
					    "for a in 'b':\n ",
					    "def f():\n ",
					    "(1+",
					    "f'{a}' ",
					    "-",
					    "{**",
					    "x.y;",
					    "f();",
					    "1**",
					    "import a\n",
					    "X=X+X\n",
					    "os.environ.update({'A':'b'})\n",
					    "if x: X=[(\"a\",1)]\n"};
	static char text[SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		struct import im = {0};
		size_t n = strlen(units[i]);

		for (size_t at = 0; at + n <= SIZE; at += n)
			memcpy(text + at, units[i], n);
		check(import_begin_file(&im, "F") == 0);
		(void)import_python(&im, text, SIZE);
		import_done(&im);
	}
}

TEST_MAIN
