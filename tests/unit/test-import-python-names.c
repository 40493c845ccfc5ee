/* SPDX-License-Identifier: MIT */
/* Of a Python program: what names, numbers, loops and functions of constants come to, and that what
 * is not certain is named. */
#include "tests/unit/import-show.h"

static const char *py(const char *text)
{
	return import_show(IMPORT_PYTHON, text);
}

/* A name that is bound once, at the top, to a constant. */
TEST(names)
{
	check_streq(py("X = 'b'\nos.environ.setdefault('A', X)\nN = 'C'\nos.environ[N] = X"),
		    "2 default A=b\n4 force C=b\n");
	check_streq(py("X: str = 'b'\nY = X + '/c'\nos.environ['A'] = Y"), "3 force A=b/c\n");
	check_streq(py("try:\n  X = 'b'\nfinally:\n  pass\nos.environ['A'] = X"), "5 force A=b\n");
	check_streq(py("X = 'b'\ndef f(X='d'):\n  X = 'c'\nos.environ['A'] = X"), "4 force A=b\n");
	check_streq(py("A = 'b'\nos.environ.update(A=A)"), "2 force A=b\n");
}

TEST(not_certain)
{
	static const char *const unsure[] = {
		"X = 'b'\nX = 'c'\nos.environ['A'] = X",
		"if y: X = 'b'\nos.environ['A'] = X",
		"os.environ['A'] = X\nX = 'b'",
		"X = 'b'\nfor X in y: pass\nos.environ['A'] = X",
		"X = 'b'\nwith y as X: pass\nos.environ['A'] = X",
		"X = 'b'\nfrom y import X\nos.environ['A'] = X",
		"X = 'b'\nfrom y import *\nos.environ['A'] = X",
		"X = 'b'\nX += 'c'\nos.environ['A'] = X",
		"X, y = 'b', 'c'\nos.environ['A'] = X",
		"X = 'b'\n(y, [X]) = z\nos.environ['A'] = X",
		"X = 'b'\nif (X := 'c'): pass\nos.environ['A'] = X",
		"X = 'b'\ndel X\nos.environ['A'] = X",
		"X = 'b'\ndef f():\n  global X\n  X = 'c'\nf()\nos.environ['A'] = X",
		"X = 'b'\nglobals()['X'] = 'c'\nos.environ['A'] = X",
		"for i in (1, 2):\n  X = 'b'\nos.environ['A'] = X",
		"X = 'b'\ndef X(): pass\nos.environ['A'] = X",
		"def f():\n  X = 'b'\nos.environ['A'] = X",
		"X = 'b'\ndef f():\n  X = g()\n  os.environ['A'] = X\nf()",
		"X = 'b'\ndef f(X):\n  X = X + g()\n  os.environ['A'] = X\nf('c')",
		"str = g\nos.environ['A'] = str(1)",
		"X = {'K': 'b'}\nX['K'] = 'c'\nos.environ['A'] = X['K']",
		"X = {'K': 'b'}\ndef f():\n  X['K'] = 'c'\nf()\nos.environ['A'] = X['K']",
		"X = {'K': 'b'}\nX.update(K='c')\nos.environ['A'] = X['K']",
		"X = {'K': 'b'}\nf(X)\nos.environ['A'] = X['K']",
		"X = {'K': 'b'}\nY = X\nos.environ['A'] = X['K']",
		"X = Y = {'K': 'b'}\nos.environ['A'] = X['K']",
		"X = {'K': 'b', **y}\nos.environ['A'] = X['K']",
	};
	for (size_t i = 0; i < ARRAY_SIZE(unsure); i++) {
		const char *shown = py(unsure[i]);

		if (!strstr(shown, " unknown A=\n") || !strstr(shown, "? A: "))
			fprintf(stderr, "%s\n->\n%s", unsure[i], shown);
		check(strstr(shown, " unknown A=\n") && strstr(shown, "? A: "));
	}
}

TEST(reasons)
{
	check_streq(py("X = 'b'\nX = 'c'\nos.environ['A'] = X"),
		    "3 unknown A=\n3? A: X is bound more than once (lines 1 and 2)\n");
	check_streq(py("if y:\n  X = 'b'\nos.environ['A'] = X"),
		    "3 unknown A=\n3? A: X is bound in a block (line 1)\n");
	check_streq(py("os.environ['A'] = os.environ.get('B', 'c')"),
		    "1 unknown A=\n1? A: it depends on what the environment has\n");
	check_streq(py("os.environ['A'] = 1"),
		    "1 unknown A=\n1? A: it is a number, which os.environ refuses without str()\n");
	check_streq(py("f(os.environ)"),
		    "1? -: os.environ is handed to a call, which may change it\n");
	check_streq(py("with mock.patch.dict(os.environ, {'A': 'b'}): pass"),
		    "1? -: os.environ is handed to a call, which may change it\n");
	check_streq(py("os.environb[b'A'] = b'b'\nlibc.setenv(b'A', b'b', 1)"),
		    "1? -: the environment is changed in a way that is not read here\n"
		    "2? -: the environment is changed in a way that is not read here\n");
	check_streq(py("e = os.environ\ne = f()\ne['A'] = 'b'"),
		    "1? -: os.environ gets a name that is bound again: what is done by that name "
		    "is not read\n");
	check_streq(py("environ = dict(os.environ)\nenviron['A'] = 'b'"),
		    "1? -: a copy of os.environ, for what is started with it: what is set in it is "
		    "not read\n");
	check_streq(py("exec(\"os.environ['A'] = 'b'\")"),
		    "1? -: a text is run as a program, which is not read\n");
}

TEST(numbers)
{
	check_streq(py("G = 1 << 30\nos.environ['A'] = str(16 * 1024 * 1024)\n"
		       "os.environ['B'] = str((2 + 3) * 4 - 1)\nos.environ['C'] = str(2 ** 24)\n"
		       "os.environ['D'] = str(-0x_10 + 1_0)\nos.environ['E'] = str(G // 4)\n"
		       "os.environ['F'] = str(1 + 2 << 3)\nos.environ['H'] = str(-2 ** 2)"),
		    "2 force A=16777216\n3 force B=19\n4 force C=16777216\n5 force D=-6\n"
		    "6 force E=268435456\n7 force F=24\n8 force H=-4\n");
	static const char *const none[] = {"9223372036854775807 + 1",
					   "9223372036854775808",
					   "1 << 63",
					   "1 << -1",
					   "3 << 62",
					   "2 ** 64",
					   "4 * 4611686018427387904",
					   "1.5",
					   "010",
					   "1 / 2",
					   "1 // 0",
					   "-7 // 2",
					   "1 if x else 2",
					   "1, 2",
					   "'a' * 3",
					   "x"};
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		char text[128];

		(void)snprintf(text, sizeof text, "os.environ['A'] = str(%s)", none[i]);
		check(strstr(py(text), "1 unknown A=\n1? A: "));
	}
}

TEST(texts)
{
	check_streq(py("B = '/c'\nos.environ['A'] = f'{B}/{2 * 8}{{x}}\\x41' 'y'\n"
		       "os.environ['C'] = rf'{B}\\d'\nos.environ['D'] = f'''{ B + \"\" }'''"),
		    "2 force A=/c/16{x}Ay\n3 force C=/c\\d\n4 unknown D=\n"
		    "4? D: it is computed (an f-string)\n");
	check_streq(py("import os.path as p\nfrom os.path import join\nB = '/c'\n"
		       "os.environ['A'] = os.path.join(B, 'd', 'e/', 'f')\n"
		       "os.environ['C'] = p.join(B, '/g') + join('', 'h')\n"
		       "os.environ['D'] = os.path.join(B, x)"),
		    "4 force A=/c/d/e/f\n5 force C=/gh\n6 unknown D=\n"
		    "6? D: x is not bound in this file\n");
	check_streq(py("os.environ['A'] = os.environ.get('A', 'b')\n"
		       "os.environ['C'] = os.getenv('C', 'd')\n"
		       "os.environ['E'] = os.getenv('E')"),
		    "1 default A=b\n2 default C=d\n3 unknown E=\n"
		    "3? E: it depends on what the environment has\n");
}

TEST(loops)
{
	check_streq(py("for k, v in {'A': 'b', 'C': str(4)}.items():\n"
		       "  os.environ.setdefault(k, v)"),
		    "1 default A=b\n1 default C=4\n");
	check_streq(py("D = {\n'A': 1,\n'C': 'd'}\nfor k, v in sorted(D.items()):\n"
		       "  if k not in os.environ:\n    os.environ[k] = str(v)"),
		    "2 default A=1\n3 default C=d\n");
	check_streq(py("D = dict(A='b')\nfor k in D: os.environ[k] = D[k]"), "1 force A=b\n");
	check_streq(py("for (k, v) in [('A', 'b'), ['C', 'd']]: os.environ[k] = v"),
		    "1 force A=b\n1 force C=d\n");
	check_streq(py("for k in 'A', 'C':\n  os.environ[k] = 'd'"), "1 force A=d\n1 force C=d\n");
	check_streq(py("for k in ('A', 'C'):\n  os.environ[k] = 'd'\n  os.environ[f'{k}_X'] = '1'"),
		    "1 force A=d\n3 force A_X=1\n1 force C=d\n3 force C_X=1\n");
	/* Two entries of one name: the later one is the dictionary's. */
	check_streq(py("for k, v in {'A': 'b', 'A': 'c'}.items(): os.environ.setdefault(k, v)"),
		    "1 default A=c\n");
	check_streq(py("for k, v in {'A': f(), 'C': 'd'}.items():\n  os.environ[k] = v"),
		    "1 unknown A=\n1 force C=d\n1? A: it is computed (f)\n");
}

TEST(loops_not_certain)
{
	/* What may leave a turn is a condition, and so is what is not known. */
	check_streq(py("for k, v in {'A': 'b'}.items():\n  if k in os.environ: continue\n"
		       "  os.environ[k] = v"),
		    "1 unknown A=\n1? A: it depends on a condition (for, line 1)\n");
	check_streq(py("for k, v in {'A': 'b'}.items():\n  v = g(v)\n  os.environ[k] = v"),
		    "1 unknown A=\n1? A: a name in it is bound in that body\n");
	check_streq(py("for k, v in load().items():\n  os.environ['A'] = 'b'"),
		    "2 unknown A=\n2? A: it depends on a condition (for, line 1)\n");
	check_streq(py("if x:\n  for k, v in {'A': 'b'}.items():\n    os.environ[k] = v"),
		    "2 unknown A=\n2? A: it depends on a condition (if, line 1)\n");
	check_streq(py("for k, v in [('A', 'b'), 'C']: os.environ[k] = v"),
		    "1 force A=b\n1? -: an entry is not what the loop takes\n");
}

TEST(dictionaries)
{
	check_streq(py("D = {'A': 'b'}\nE = {**D, 'C': 'd'}\nos.environ.update(E)\n"
		       "os.environ.update([('F', 'g')])\nos.environ |= D"),
		    "1 force A=b\n2 force C=d\n4 force F=g\n");
	check_streq(py("os.environ.update(D)\nD = {'A': 'b'}"),
		    "1? -: what it is updated with: D is not bound to a constant (line 2)\n");
	check_streq(py("D = {'A': 'b'}\nD['C'] = 'd'\nos.environ.update(D)"),
		    "3? -: what it is updated with: D may be changed after line 1\n");
}

TEST(functions)
{
	check_streq(py("def put(k, v):\n  '''x'''\n  os.environ.setdefault(k, v)\n"
		       "put('A', 'b')\nput(v='d', k='C')"),
		    "4 default A=b\n5 default C=d\n");
	check_streq(py("def put(k: str, v: str = 'b') -> None: os.environ[k] = str(v)\n"
		       "put('A')\nput('C', 4)"),
		    "2 force A=b\n3 force C=4\n");
	check_streq(py("def put(k, v):\n  if k not in os.environ:\n    os.environ[k] = v\n"
		       "for k in ('A', 'C'):\n  put(k, 'b')"),
		    "4 default A=b\n4 default C=b\n");
	check_streq(py("def all():\n  put('A', 'b')\n  os.environ['C'] = 'd'\n"
		       "def put(k, v):\n  return os.environ.setdefault(k, v)\nall()"),
		    "2 default A=b\n3 force C=d\n");
	/* A condition around the call, or inside. */
	check_streq(py("def put(k, v):\n  os.environ[k] = v\nif x:\n  if y:\n    put('A', 'b')"),
		    "5 unknown A=\n5? A: it depends on a condition (if, line 4)\n");
	check_streq(py("def put(k, v):\n  if k in os.environ:\n    return\n  os.environ[k] = v\n"
		       "put('A', 'b')"),
		    "5 unknown A=\n5? A: it stands in a function or class (def, line 1)\n");
	/* What is bound in it is its own. */
	check_streq(py("def f():\n  e = os.environ\n  e['A'] = 'b'\nf()\ne = {}\ne['C'] = 'd'"),
		    "3 force A=b\n");
}

TEST(functions_not_followed)
{
	check_streq(py("def put(k, v):\n  os.environ[k] = v\nput(*x)"),
		    "3? -: a call of a function (line 1) that is not followed\n"
		    "2? -: the name of a variable: k is not bound in this file\n");
	check_streq(py("def put(**d):\n  os.environ.update(d)\nput(A='b')"),
		    "3? -: a call of a function (line 1) that is not followed\n"
		    "2? -: what it is updated with: d is not bound in this file\n");
	check(strstr(py("def put():\n  os.environ['A'] = 'b'\n  put()\nput()"),
		     "2 force A=b\n3? -: a call of a function (line 1) that is not followed\n"));
	check_streq(py("@x\ndef put():\n  os.environ['A'] = 'b'\nput()"),
		    "3 unknown A=\n3? A: it stands in a function or class (def, line 2)\n");
	check_streq(py("def put():\n  os.environ['A'] = 'b'\nx = put()"),
		    "2 unknown A=\n2? A: it stands in a function or class (def, line 1)\n");
}

/* A little file that would make a lot. */
TEST(work)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	check(f);
	fputs("X0 = 'abcdefgh'\n", f);
	for (unsigned i = 1; i < 500; i++)
		fprintf(f, "X%u = X%u + X%u\nos.environ['A%u'] = X%u\n", i, i - 1, i - 1, i, i);
	check(fclose(f) == 0);
	{
		struct import im = {0};

		check(import_begin_file(&im, "F") == 0);
		check(import_python(&im, text, strlen(text)) == 0);
		check(im.n_items == 499 && strlen(import_find(&im, "A14")->value) == 131072);
		check(import_find(&im, "A400")->state == IMPORT_UNKNOWN);
		import_done(&im);
	}
	check(strstr(
		py("D = ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l')\n"
		   "for a in D:\n for b in D:\n  for c in D:\n   for d in D:\n    for e in D:\n"
		   "     for f in D:\n      for g in D:\n       for h in D:\n"
		   "        os.putenv\n"),
		"makes too much of itself"));
	check(strstr(py("def f():\n  f()\n  f()\n  f()\n  f()\n  os.environ['A'] = 'b'\nf()\n"),
		     "not followed"));
}

TEST_MAIN
