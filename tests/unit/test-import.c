/* SPDX-License-Identifier: MIT */
/* The readers of nccl.conf, environment files, units and shell files, and how a kind is told. */
#include "tests/unit/import-show.h"

static const char *sh(const char *text)
{
	return import_show(IMPORT_SHELL, text);
}

static const char *unit(const char *text)
{
	return import_show(IMPORT_UNIT, text);
}

TEST(nccl_conf)
{
	check_streq(import_show(IMPORT_NCCL_CONF, "# c\nNCCL_ALGO=Ring\n\nNCCL_PROTO=LL"),
		    "2 default NCCL_ALGO=Ring\n4 default NCCL_PROTO=LL\n");
	check_streq(import_show(IMPORT_NCCL_CONF, "A=b=c # d\nA=e\n"),
		    "1 default A=b=c # d\n2? A: F:1 says something else before, which counts\n");
	check_streq(import_show(IMPORT_NCCL_CONF, "A =b\nno\n"),
		    "1? -: a blank before the = is part of the name: NCCL never asks for it\n"
		    "2? -: the line has no =: NCCL ignores it\n");
	check_streq(import_show(IMPORT_NCCL_CONF, "A= b\r\n"),
		    "1 default A= b\n1? -: lines end in CR LF: NCCL before 2.30 takes the CR for a "
		    "part "
		    "of the value, here it is not\n");
	check_streq(import_show_bytes(IMPORT_NCCL_CONF, "A=b\0c\n", 6),
		    "1 unknown A=\n1? A: there is a NUL byte\n");
}

TEST(nccl_conf_long)
{
	char text[1200] = "A=";

	memset(text + 2, 'x', 1024);
	check_streq(import_show(IMPORT_NCCL_CONF, text),
		    "1 unknown A=\n1? A: NCCL cuts it at 1023 bytes\n");
}

TEST(env_block)
{
	check_streq(import_show_bytes(IMPORT_ENV, "A=b\0C=d\ne\0junk\0A=f\0", 19),
		    "0 default A=b\n0 default C=d\ne\n0? -: a string without NAME= in the block\n"
		    "0? A: F:0 says something else before, which counts\n");
}

TEST(env_file)
{
	check_streq(import_show(IMPORT_ENV, "# c\n;d\nA=b c \nB='d  e'\nC=\"f\\\"g\\h\"\nD=\n"
					    "E=x\\\ny\n F = g\nexport H=i\n"),
		    "3 default A=b c\n4 default B=d  e\n5 default C=f\"g\\h\n6 default D=\n"
		    "7 default E=xy\n9 default F=g\n10 default H=i\n");
	check_streq(import_show(IMPORT_ENV, "A='b\nC=d"),
		    "1? A: the quote is not closed\nbroken\n");
	check_streq(import_show(IMPORT_ENV, "A=b\nno\n=c\n"),
		    "1 default A=b\n2? -: the line has no =\n"
		    "3? -: its name is not one that a profile may have\n");
}

TEST(unit_words)
{
	check_streq(unit("[Service]\nEnvironment=A=b \"C=d e\" 'F=g' H=\"i j\"k\n"),
		    "2 default A=b\n2 default C=d e\n2 default F=g\n2 default H=i jk\n");
	check_streq(
		unit("[Service]\nEnvironment=A=b \\\n# c\n  C=d\\\n\n[Install]\nEnvironment=E=f\n"),
		"2 default A=b\n2 default C=d\n");
	check_streq(unit("[Service]\nEnvironment=\"A=\\x41\\t\\u00e9\\101\\s\\\\\"\n"),
		    "2 default A=A\t\xc3\xa9"
		    "A \\\n");
	check_streq(unit("[Service]\nEnvironment=A=%h B=100%% C=%\n"),
		    "2 unknown A=\n2 default B=100%\n2 unknown C=\n"
		    "2? A: a specifier (%) stands in it, which systemd replaces\n"
		    "2? C: a specifier (%) stands in it, which systemd replaces\n");
	check_streq(unit("[Service]\nEnvironment=A=b \"C=d\nEnvironment=E=\\q\n"),
		    "2 default A=b\n"
		    "2? -: the rest of Environment= is not quoted as systemd understands it, which "
		    "ignores it\n"
		    "3? -: the rest of Environment= is not quoted as systemd understands it, which "
		    "ignores it\n");
}

TEST(unit_others)
{
	check_streq(unit("[Service]\nEnvironment=A=b\nEnvironment=\nEnvironment=A=c\n"),
		    "4 default A=c\n2? A: F:3 says something else later, which counts\n");
	check_streq(
		unit("[Service]\nUnsetEnvironment=A B=c\nEnvironment=A=b\nPassEnvironment=P\n"
		     "EnvironmentFile=-/etc/x\n"),
		"2 unset A=\n4 unknown P=\n2? B: UnsetEnvironment= removes it if it has one value\n"
		"3? A: UnsetEnvironment= removes it at last\n"
		"4? P: PassEnvironment= takes it from the service manager\n"
		"5? -: EnvironmentFile= is not followed, and what it sets goes before "
		"Environment=: "
		"cudaenvctl import --from env /etc/x\n");
	check_streq(unit("[Manager]\nDefaultEnvironment=A=b\n"), "2 default A=b\n");
	check_streq(unit("[Service\n"), "1? -: the section line is broken\nbroken\n");
	check_streq(unit("Environment=A=b\n[Unit]\nEnvironment=A=b\n"), "");
	check_streq(unit("[Service]\r\nEnvironment=A=b \\\r\n C=d\r\n"),
		    "2 default A=b\n2 default C=d\n");
}

TEST(shell_exports)
{
	check_streq(sh("export A=b C='d e' F=\"g\\\"h\\i\" J=k\\ l; export M=\n"),
		    "1 default A=b\n1 default C=d e\n1 default F=g\"h\\i\n1 default J=k l\n"
		    "1 default M=\n");
	check_streq(sh("export \"A=b c\" 'D=e'\n"), "1 default A=b c\n1 default D=e\n");
	check_streq(sh("A=b; export A\nC=d\nexport C # x\nexport E\nE=f\n"),
		    "1 default A=b\n2 default C=d\n5 default E=f\n");
	check_streq(sh("A=b\n"), "1? A: it is not exported: no other program has it\n");
	check_streq(sh("set -a\nA=b\nset +a\nC=d\nset -o allexport\nE=f\n"),
		    "2 default A=b\n6 default E=f\n4? C: it is not exported: no other program has "
		    "it\n");
	check_streq(sh("declare -x A=\"b\"\ntypeset C=d\nreadonly E=f\nexport C E\n"),
		    "1 default A=b\n2 default C=d\n3 default E=f\n");
	check_streq(sh("export A=b\nunset A\nexport C='x\\\ny' D=x\\\ny\n"),
		    "2 unset A=\n3 default C=x\\\ny\n4 default D=xy\n"
		    "1? A: F:2 says something else later, which counts\n");
}

TEST(shell_expansion)
{
	check_streq(sh("export A=$B C=\"${D}\" E=`f` G=$(h \"i)\" ) J=~/k L='$m' N=\\$o P=q$\n"),
		    "1 unknown A=\n1 unknown C=\n1 unknown E=\n1 unknown G=\n1 unknown J=\n"
		    "1 default L=$m\n1 default N=$o\n1 default P=q$\n"
		    "1? A: it takes the value of B, which is not set here before\n"
		    "1? C: it takes the value of D, which is not set here before\n"
		    "1? E: it needs a command's output (`)\n1? G: it needs a command's output\n"
		    "1? J: it needs expansion (~)\n");
	check_streq(sh("export PATH=/x/bin:$PATH A=b\n"),
		    "1 unknown PATH=\n1 default A=b\n1? PATH: it takes the value of PATH, which is "
		    "not set here before\n");
	check_streq(sh("A=(b c); export A\nexport B+=c\nexport D=$'e'\n"),
		    "1 unknown A=\n2 unknown B=\n3 unknown D=\n1? A: it is an array\n"
		    "2? B: it extends another value (+=)\n3? D: it has a $ before a quote\n");
	check_streq(sh("export A=b\nexport A=$A:c\n"),
		    "2 default A=b:c\n"
		    "1? A: F:2 says something else later, which counts\n");
}

/* Values of variables that the file has set before, and defaults. */
TEST(shell_variables)
{
	check_streq(sh("B=/c\nexport A=$B/d C=\"${B}e\"\nA2=$A; export A2\n"),
		    "2 default A=/c/d\n2 default C=/ce\n3 default A2=/c/d\n"
		    "1? B: it is not exported: no other program has it\n");
	check_streq(sh("export A=${A:-b} C=\"${C-d}\"\nE=${E:-f}; export E\nG=${G:=h}\nexport G\n"),
		    "1 default A=b\n1 default C=d\n2 default E=f\n3 default G=h\n");
	check_streq(sh(": ${A:=b} \"${C:=d e}\"\nexport A C\n: ${E:=f}\n"),
		    "1 default A=b\n1 default C=d e\n"
		    "3? E: it is not exported: no other program has it\n");
	check_streq(sh("B=x\nexport A=${B:-c} C=${D:-$B}\nexport D=${D:-\"$B\"}\n"),
		    "2 default A=x\n2 unknown C=\n3 default D=x\n"
		    "2? C: it takes the value of D, which a process may have\n"
		    "1? B: it is not exported: no other program has it\n");
	check_streq(sh("export A=$((16*1024*1024)) B=$(( (1 << 4) - 6 / 2 )) C=$((x+1))\n"),
		    "1 default A=16777216\n1 default B=13\n1 unknown C=\n"
		    "1? C: it is a sum that is not of plain numbers\n");
	check_streq(sh("export A=1; export A=${A:-2}\nexport C=${C:-1}/x\n"),
		    "1 default A=1\n2 unknown C=\n"
		    "2? C: it extends a value that a process may have\n");
}

TEST(shell_variables_not_certain)
{
	static const char *const unsure[] = {
		"if x; then B=c; fi; export A=$B",
		"[ -d /x ] && B=c; export A=$B",
		"B=c; f() { B=d; }; f; export A=$B",
		"f() { B=d; }; B=c; f; export A=$B",
		"B=c; . /x; export A=$B",
		"B=c; eval \"$x\"; export A=$B",
		"B=c; read B; export A=$B",
		"B=c; for B in d e; do :; done; export A=$B",
		"B=c; printf -v B d; export A=$B",
		"B=`c`; export A=$B",
		"B=${B:-c}; export A=$B",
		"B=c; unset B; export A=$B",
		"B=c B=d A=$B; export A",
		"B='c d'; export A=$B",
		"B=c; export A=${B%c}",
		"B=c; export A=${B:-d}${E}",
		"export A=${A:-`b`}",
		"export A=${A:-*}",
		"export A=x${A:-b}",
		"export \"A=${B:-b}\"",
		"[ -z \"$A\" ] && export A=b",
		"[ x ] && A=b; export A",
	};
	for (size_t i = 0; i < ARRAY_SIZE(unsure); i++) {
		const char *shown = sh(unsure[i]);

		if (!strstr(shown, " unknown A=\n") || !strstr(shown, "? A: "))
			fprintf(stderr, "%s\n->\n%s", unsure[i], shown);
		check(strstr(shown, " unknown A=\n") && strstr(shown, "? A: "));
	}
	check_streq(sh("env NCCL_ALGO=Ring python x\nmpirun -x NCCL_PROTO=LL y\ndd if=/x\n"),
		    "1? NCCL_ALGO: it is an argument of a command, for what that starts\n"
		    "2? NCCL_PROTO: it is an argument of a command, for what that starts\n");
}

TEST(shell_conditions)
{
	check_streq(
		sh("if [ -d /x ]; then\n  export A=b\nfi\nexport C=d\n"),
		"2 unknown A=\n4 default C=d\n2? A: it stands in a block or function (line 1)\n");
	check_streq(sh("[ -n \"$X\" ] && export A=b\nexport C=d || export E=f; export G=h\n"),
		    "1 unknown A=\n2 default C=d\n2 unknown E=\n2 default G=h\n"
		    "1? A: it depends on the command before it (&& or ||)\n"
		    "2? E: it depends on the command before it (&& or ||)\n");
	check_streq(sh("f() {\n export A=b\n}\n(export C=d)\nexport E=f | cat\nexport G=h &\n"
		       "case x in\nx) export I=j;;\nesac\nfor k in 1; do export L=m; done\n"
		       "export N=o\n"),
		    "2 unknown A=\n4 unknown C=\n5 unknown E=\n6 unknown G=\n8 unknown I=\n"
		    "10 unknown L=\n11 default N=o\n"
		    "2? A: it stands in a block or function (line 1)\n"
		    "4? C: it stands in a block or function (line 4)\n"
		    "5? E: it stands in a pipe or runs beside the shell\n"
		    "6? G: it stands in a pipe or runs beside the shell\n"
		    "8? I: it stands in a block or function (line 7)\n"
		    "10? L: it stands in a block or function (line 10)\n");
	check_streq(sh("A=b true\n. /etc/x\neval \"$x\"\nsetenv A b\n"),
		    "1? A: it is set for one command alone\n"
		    "2? -: another file is read here, which was not looked at: /etc/x\n"
		    "3? -: eval is not followed\n4? -: setenv is of csh, which is not read\n");
}

TEST(shell_documents)
{
	check_streq(sh("cat <<E1 <<-'E2'\nexport A=b\nE1\n\texport C=d\n\tE2\nexport F=g\n"),
		    "6 default F=g\n");
	check_streq(sh("# export A=b\nexport C=d#e # f\n"), "2 default C=d#e\n");
	check_streq(sh("export A=b\nexport C='d\n"),
		    "1 default A=b\n2? -: a ' is not closed\nbroken\n");
	check_streq(sh("x=$(y\n"), "1? -: a substitution is not closed\nbroken\n");
}

static const char *kind_of(const char *path, const char *text)
{
	enum import_kind kind;

	return import_kind_guess(path, text, strlen(text), &kind) == 0 ? import_kind_name(kind)
								       : "unknown";
}

TEST(kinds)
{
	check_streq(kind_of("/x/sitecustomize.py", ""), "python");
	check_streq(kind_of("/etc/nccl.conf", ""), "nccl-conf");
	check_streq(kind_of("/home/a/.nccl.conf", ""), "nccl-conf");
	check_streq(kind_of("/x/a.service", ""), "unit");
	check_streq(kind_of("/x/a.service.d/b.conf", "# c\n[Service]\n"), "unit");
	check_streq(kind_of("/etc/profile", ""), "shell");
	check_streq(kind_of("/root/.bashrc", ""), "shell");
	check_streq(kind_of("/etc/environment", ""), "env");
	check_streq(kind_of("/etc/environment.d/x.conf", ""), "env");
	check_streq(kind_of("x", "#!/bin/sh\n"), "shell");
	check_streq(kind_of("x", "#!/usr/bin/env python3\n"), "python");
	check_streq(kind_of("x", "\n# c\nexport A=b\n"), "shell");
	check_streq(kind_of("x", "import os\n"), "python");
	check_streq(kind_of("x", "A=b\n"), "unknown");
	check_streq(kind_of("x", ""), "unknown");
}

/* 4 MiB of one thing again and again. */
TEST(hostile)
{
	enum { SIZE = 512 * 1024 };
	static const char *const units[] = {
		"A=b\n",    "export A=$(",  "export a ", "if ",         "<<x ",  "\\",
		"A=b \\\n", "\"",           "%",         "[Service]\n", "A=b\0", "$(${",
		"${A:-",    ": ${A:=$A}\n", "A=$A$A\n",  "$((1+(",      "\xff",  "Environment=\n"};
	static char text[SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = strlen(units[i]) + (i == 10);

		for (size_t at = 0; at + n <= SIZE; at += n)
			memcpy(text + at, units[i], n);
		for (enum import_kind kind = 0; kind < IMPORT_KIND_MAX_; kind++) {
			struct import im = {0};

			check(import_begin_file(&im, "F") == 0);
			(void)import_read(&im, kind, text, SIZE);
			import_done(&im);
		}
	}
}

/* As many names as fit. */
TEST(many_names)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct import im = {0};

	check(f);
	for (unsigned i = 0; i < 300000; i++)
		fprintf(f, "A%u=b\n", i);
	check(fclose(f) == 0);
	check(import_begin_file(&im, "F") == 0);
	check(import_env(&im, text, size) == 0);
	check(im.n_items == IMPORT_ITEMS_MAX && im.n_notes == IMPORT_NOTES_MAX);
	check(im.more_notes == 300000 - IMPORT_ITEMS_MAX - IMPORT_NOTES_MAX);
	import_done(&im);
}

TEST_MAIN
