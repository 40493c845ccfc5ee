/* SPDX-License-Identifier: MIT */
/* What client/ctl/pyexe computes, on trees of empty files with an ELF magic: layouts that this
 * machine does not have. */
#include "client/ctl/pyexe.h"
#include "tests/unit/test.h"

#include <sys/stat.h>

#include "common/util.h"

static char root[] = "/tmp/test-pyexe-XXXXXX";

static const char *at(const char *path)
{
	static char full[4][256];
	static unsigned n;

	(void)snprintf(full[++n % 4], sizeof full[0], "%s/%s", root, path);
	return full[n % 4];
}

/* Makes the directories above PATH. */
static void make_above(const char *path)
{
	char copy[256];

	(void)snprintf(copy, sizeof copy, "%s", at(path));
	for (char *p = copy + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		check(mkdir(copy, 0755) == 0 || errno == EEXIST);
	}
}

static void put(const char *path, const char *text, mode_t mode)
{
	FILE *f;

	make_above(path);
	f = fopen(at(path), "w");
	check(f && fputs(text, f) >= 0 && fclose(f) == 0);
	check(chmod(at(path), mode) == 0);
}

static void program(const char *path)
{
	put(path, "\177ELF and more\n", 0755);
}

static void link_to(const char *target, const char *path)
{
	make_above(path);
	check(symlink(target, at(path)) == 0);
}

static void reset(void)
{
	char command[300];

	(void)snprintf(command, sizeof command, "rm -rf %s && mkdir %s", root, root);
	check(system(command) == 0);
}

static int find(const char *path, struct pyexe *ret)
{
	char why[PYEXE_WHY_SIZE];
	int r = pyexe_find(at(path), ret, why);

	check((r < 0) == (why[0] != '\0'));
	return r;
}

TEST(versions)
{
	static const char *const bad[] = {
		"",          "python3",     "python2.7",         "python3.",
		"python3.x", "python3.11m", "python3.11-config", "python3.11tt",
		"pypy3.9t",  "pypy2.7",     "python3.1000",      "xpython3.1"};
	struct pyexe_version v;
	char text[PYEXE_VERSION_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(!pyexe_version_parse(bad[i], &v));
	check(pyexe_version_parse("python3.11", &v) && v.minor == 11 && !v.pypy &&
	      !v.free_threaded);
	check(pyexe_version_parse("pypy3.9", &v) && v.minor == 9 && v.pypy);
	check(pyexe_version_parse("python3.13t", &v) && v.minor == 13 && v.free_threaded);
	pyexe_version_format(&v, text);
	check_streq(text, "python3.13t");
}

TEST(base)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL;

	reset();
	program("usr/bin/python3.11");
	link_to("python3.11", "usr/bin/python3");
	put("usr/lib/python3.11/os.py", "", 0644);
	put("usr/lib/python3.12/os.py", "", 0644);
	put("usr/lib/python3/dist-packages/x.py", "", 0644);
	check(find("usr/bin/python3", &p) == 0);
	check_streq(p.binary, at("usr/bin/python3.11"));
	check_streq(p.stdlib, at("usr/lib/python3.11"));
	check_streq(p.zip, at("usr/lib/python311.zip"));
	check_streq(p.plain, p.binary);
	check(!p.venv && !p.site && p.owner == geteuid());
}

TEST(lib64_and_free_threaded)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL, t = PYEXE_NULL;

	reset();
	program("usr/bin/python3.13");
	program("usr/bin/python3.13t");
	put("usr/lib64/python3.13/os.py", "", 0644);
	put("usr/lib64/python3.13t/os.py", "", 0644);
	put("usr/lib64/python3.13t/site-packages/x.py", "", 0644);
	check(find("usr/bin/python3.13", &p) == 0);
	check_streq(p.zip, at("usr/lib64/python313.zip"));
	check(find("usr/bin/python3.13t", &t) == 0);
	check_streq(t.zip, at("usr/lib64/python313t.zip"));
	check_streq(t.site, at("usr/lib64/python3.13t/site-packages"));
	check(t.version.free_threaded && !p.version.free_threaded);
}

TEST(lib64_link)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL;

	reset();
	program("opt/conda/bin/python");
	put("opt/conda/lib/python3.10/os.py", "", 0644);
	link_to("lib", "opt/conda/lib64");
	check(find("opt/conda/bin/python", &p) == 0);
	check_streq(p.zip, at("opt/conda/lib/python310.zip"));
}

TEST(pypy)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL;

	reset();
	program("opt/pypy/bin/pypy3.9");
	put("opt/pypy/lib/pypy3.9/os.py", "", 0644);
	put("opt/pypy/lib/pypy3.9/site-packages/x.py", "", 0644);
	check(find("opt/pypy/bin/pypy3.9", &p) == 0);
	check(p.version.pypy && !p.zip);
	check_streq(p.site, at("opt/pypy/lib/pypy3.9/site-packages"));
}

/* What a version cannot be told from. */
TEST(unclear)
{
	struct pyexe p = PYEXE_NULL;

	reset();
	program("usr/bin/python");
	put("usr/lib/python3.11/os.py", "", 0644);
	put("usr/lib/python3.12/os.py", "", 0644);
	check(find("usr/bin/python", &p) == -ENOTUNIQ);
	put("usr/bin/python", "\177ELF ... libpython3.12.so.1.0 ...", 0755);
	check(find("usr/bin/python", &p) == 0);
	check_streq(p.zip, at("usr/lib/python312.zip"));
	pyexe_done(&p);
	program("usr/bin/python3.9");
	check(find("usr/bin/python3.9", &p) == -ENOEXEC);
	put("usr/bin/script", "#!/bin/sh\n", 0755);
	check(find("usr/bin/script", &p) == -ENOEXEC);
	put("usr/bin/text", "x", 0755);
	check(find("usr/bin/text", &p) == -ENOEXEC);
	program("usr/bin/ls");
	link_to("ls", "usr/bin/python3.8");
	check(find("usr/bin/ls", &p) == -ENOEXEC);
	check(find("usr/bin/python3.8", &p) == -ENOEXEC);
	check(find("usr/bin", &p) == -ENOEXEC);
	check(find("usr/bin/none", &p) == -ENOENT);
	check(!p.exe);
}

static void venv(const char *cfg)
{
	reset();
	program("base/bin/python3.11");
	put("base/lib/python3.11/os.py", "", 0644);
	put("venv/pyvenv.cfg", cfg, 0644);
	put("venv/lib/python3.11/site-packages/x.py", "", 0644);
}

TEST(venvs)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL;
	char cfg[300];

	(void)snprintf(cfg, sizeof cfg, "home = %s\nversion = 3.11.7\n", at("base/bin"));
	venv(cfg);
	link_to("python3", "venv/bin/python");
	link_to(at("base/bin/python3.11"), "venv/bin/python3");
	check(find("venv/bin/python", &p) == 0);
	check_streq(p.venv, at("venv"));
	check_streq(p.binary, at("base/bin/python3.11"));
	check_streq(p.site, at("venv/lib/python3.11/site-packages"));
	check_streq(p.plain, at("venv/bin/python3"));
}

/* Made with --copies, by virtualenv (other keys, CRLF, a NUL), from another directory by a link. */
TEST(venv_copies)
{
	_cleanup_(pyexe_done) struct pyexe p = PYEXE_NULL, q = PYEXE_NULL;
	char cfg[300];

	(void)snprintf(cfg, sizeof cfg,
		       "garbage\n=\nhome=%s \r\nversion_info = 3.11.7.final.0\r\nhome = /other\n",
		       at("base/bin"));
	venv(cfg);
	program("venv/bin/python3");
	check(find("venv/bin/python3", &p) == 0);
	check_streq(p.binary, at("base/bin/python3.11"));
	link_to("venv", "venv-link");
	check(find("venv-link/bin/python3", &q) == 0);
	check_streq(q.venv, at("venv"));
}

TEST(venv_without_its_base)
{
	struct pyexe p = PYEXE_NULL;

	venv("home = /nowhere/at/all\nversion = 3.11.7\n");
	program("venv/bin/python3");
	check(find("venv/bin/python3", &p) == -ENOENT);
	/* Not a venv: no home. */
	venv("version = 3.11.7\n");
	program("venv/bin/python3");
	check(find("venv/bin/python3", &p) == -ENOEXEC);
}

TEST(cleanup)
{
	reset();
	check(rmdir(root) == 0);
}

__attribute__((constructor(101))) static void make_root(void)
{
	check(mkdtemp(root));
}

TEST_MAIN
