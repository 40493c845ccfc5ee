/* SPDX-License-Identifier: MIT */
/* What client/ctl/pyfind, pyjudge and mounts find and leave alone, on trees of empty files and with
 * mount tables of the test's own. */
#include "client/ctl/pyfind.h"
#include "tests/unit/temp.h"

#include "client/ctl/mounts.h"
#include "client/ctl/pyjudge.h"
#include "client/ctl/pytrust.h"

/* Makes the directories above PATH. */
static void make_above(const char *path)
{
	char copy[4096];

	(void)snprintf(copy, sizeof copy, "%s", path);
	for (char *p = copy + strlen(temp_dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		check(mkdir(copy, 0755) == 0 || errno == EEXIST);
	}
}

static void put(const char *path, const char *text)
{
	make_above(path);
	temp_put(path, text);
	check(chmod(path, 0755) == 0);
}

static void link_to(const char *target, const char *path)
{
	make_above(path);
	check(symlink(target, path) == 0);
}

/* A base: PREFIX/bin/python3.MINOR, python3, and its library. */
static void base(const char *prefix, int minor)
{
	char name[32];

	put(temp_path("%s/bin/python3.%d", prefix, minor), "\177ELF and more\n");
	(void)snprintf(name, sizeof name, "python3.%d", minor);
	if (access(temp_path("%s/bin/python3", prefix), F_OK) < 0)
		link_to(name, temp_path("%s/bin/python3", prefix));
	put(temp_path("%s/lib/python3.%d/os.py", prefix, minor), "");
	put(temp_path("%s/lib/python3.%d/site-packages/README", prefix, minor), "");
}

/* A venv of PREFIX's python3. */
static void venv(const char *where, const char *prefix, int minor)
{
	char cfg[4096], target[4096];

	(void)snprintf(target, sizeof target, "%s/%s/bin/python3", temp_dir, prefix);
	link_to(target, temp_path("%s/bin/python3", where));
	(void)snprintf(cfg, sizeof cfg, "home = %s/%s/bin\nversion = 3.%d.1\n", temp_dir, prefix,
		       minor);
	put(temp_path("%s/pyvenv.cfg", where), cfg);
	put(temp_path("%s/lib/python3.%d/site-packages/README", where, minor), "");
}

static void reset(void)
{
	if (!temp_dir[0])
		temp_begin();
	temp_remove(temp_dir);
	check(mkdir(temp_dir, 0755) == 0);
	temp_put(temp_path("mountinfo"), "");
}

static void mounted(const char *path, const char *type)
{
	FILE *f = fopen(temp_path("mountinfo"), "ae");

	check(f &&
	      fprintf(f, "36 35 0:9 / %s/%s rw shared:1 - %s source rw\n", temp_dir, path, type) >
		      0 &&
	      fclose(f) == 0);
}

/* Looks below temp_dir, whose directory "home" is HOME. */
static void find(struct pyfind *ret)
{
	char home[128], mountinfo[128], pyenv[128];
	struct pyfind_options o = {.root = temp_dir, .home = home, .mountinfo = mountinfo};

	(void)snprintf(home, sizeof home, "%s/home", temp_dir);
	(void)snprintf(pyenv, sizeof pyenv, "%s/home/.pyenv", temp_dir);
	(void)snprintf(mountinfo, sizeof mountinfo, "%s/mountinfo", temp_dir);
	o.pyenv_root = pyenv;
	o.active[0] = temp_path("active");
	*ret = (struct pyfind){.n = 0};
	check(pyfind(&o, ret) == 0);
}

/* The item that was found as PATH, or NULL. */
static const struct pyfind_item *item(const struct pyfind *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++)
		if (streq(f->items[i].exe.exe, temp_path("%s", path)))
			return &f->items[i];
	return NULL;
}

static void check_item(const struct pyfind *f, const char *path, enum pyfind_kind kind,
		       const char *source)
{
	const struct pyfind_item *i = item(f, path);

	if (!i)
		(void)fprintf(stderr, "not found: %s\n", path);
	check(i && i->kind == kind && streq(i->source, source));
}

TEST(places)
{
	struct pyfind f;

	reset();
	base("usr", 11);
	base("usr", 13);
	base("usr/local", 12);
	base("usr/local/python-own", 10);
	base("usr/local/miniconda3", 9);
	base("opt/python3.14", 14);
	base("opt/conda", 11);
	base("opt/conda/envs/train", 12);
	base("opt/pyenv/versions/3.9.1", 9);
	base("home/.pyenv/versions/3.8.1", 8);
	base("home/miniforge3", 10);
	base("home/miniforge3/envs/serve", 13);
	base("home/.local/share/uv/python/cpython-3.12.3-linux-x86_64-gnu", 12);
	link_to("cpython-3.12.3-linux-x86_64-gnu",
		temp_path("home/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu"));
	base("elsewhere", 12);
	venv("opt/engine/venv", "elsewhere", 12);
	venv("active", "usr", 11);
	venv("home/.pyenv/versions/3.8.1/envs/mine", "home/.pyenv/versions/3.8.1", 8);
	link_to("3.8.1/envs/mine", temp_path("home/.pyenv/versions/mine"));
	put(temp_path("home/.hidden/bin/python3"), "\177ELF\n");
	find(&f);
	check_item(&f, "usr/bin/python3.11", PYFIND_BASE, "system");
	check_item(&f, "usr/bin/python3.13", PYFIND_BASE, "system");
	check_item(&f, "usr/local/bin/python3.12", PYFIND_BASE, "local");
	check_item(&f, "usr/local/python-own/bin/python3", PYFIND_BASE, "local");
	check_item(&f, "usr/local/miniconda3/bin/python3", PYFIND_BASE, "conda");
	check_item(&f, "opt/python3.14/bin/python3", PYFIND_BASE, "opt");
	check_item(&f, "opt/conda/bin/python3", PYFIND_BASE, "conda");
	check_item(&f, "opt/conda/envs/train/bin/python3", PYFIND_BASE, "conda");
	check_item(&f, "opt/pyenv/versions/3.9.1/bin/python3", PYFIND_BASE, "pyenv");
	check_item(&f, "home/.pyenv/versions/3.8.1/bin/python3", PYFIND_BASE, "pyenv");
	check_item(&f, "home/miniforge3/bin/python3", PYFIND_BASE, "conda");
	check_item(&f, "home/miniforge3/envs/serve/bin/python3", PYFIND_BASE, "conda");
	check_item(&f, "home/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin/python3",
		   PYFIND_BASE, "uv");
	check_item(&f, "opt/engine/venv/bin/python3", PYFIND_VENV, "opt");
	check_item(&f, "active/bin/python3", PYFIND_VENV, "active");
	/* The name in versions/ comes first; it is the same directory. */
	check_item(&f, "home/.pyenv/versions/mine/bin/python3", PYFIND_VENV, "pyenv");
	check_item(&f, "elsewhere/bin/python3.12", PYFIND_BASE, "venv");
	check(f.n == 17 && !f.cut);
	for (size_t i = 0; i < f.n; i++) {
		const struct pyfind_item *b = &f.items[f.items[i].base];

		check(f.items[i].base < f.n && b->kind == PYFIND_BASE);
		check(f.items[i].kind == PYFIND_VENV || b == &f.items[i]);
		check(streq(f.items[i].exe.stdlib, b->exe.stdlib));
	}
	pyfind_done(&f);
}

/* Nothing is there; no home; places that are files, links to nowhere, loops. */
TEST(nothing)
{
	struct pyfind_options o = {.root = temp_dir, .home = "relative", .active = {"", "x"}};
	struct pyfind f;

	reset();
	find(&f);
	check(f.n == 0 && !f.cut);
	pyfind_done(&f);
	put(temp_path("opt/conda"), "a file");
	link_to("loop", temp_path("opt/loop"));
	link_to("nowhere", temp_path("usr"));
	find(&f);
	check(f.n == 0);
	pyfind_done(&f);
	check(pyfind(&o, &f) == 0 && f.n == 0);
	pyfind_done(&f);
}

/* What has the name of an interpreter and is none is named once, with the reason, where it has no
 * neighbour that is one. */
TEST(broken)
{
	struct pyfind f;

	reset();
	put(temp_path("opt/shim/bin/python3"), "#!/bin/sh\n");
	put(temp_path("opt/shim/bin/python"), "#!/bin/sh\n");
	link_to("gone", temp_path("opt/gone/bin/python3"));
	base("opt/good", 12);
	put(temp_path("opt/good/bin/python"), "#!/bin/sh\n");
	put(temp_path("opt/python2/bin/python"), "\177ELF\n");
	put(temp_path("opt/other/bin/perl"), "\177ELF\n");
	find(&f);
	check_item(&f, "opt/shim/bin", PYFIND_BROKEN, "opt");
	check(strstr(item(&f, "opt/shim/bin")->skip, "script"));
	check_item(&f, "opt/gone/bin", PYFIND_BROKEN, "opt");
	check_item(&f, "opt/python2/bin", PYFIND_BROKEN, "opt");
	check_item(&f, "opt/good/bin/python3", PYFIND_BASE, "opt");
	check(f.n == 4);
	pyfind_done(&f);
}

TEST(network)
{
	struct pyfind f;
	const struct pyfind_item *i;

	reset();
	base("nfs/conda", 12);
	base("opt/nfs", 12);
	base("opt/local", 12);
	base("opt/auto/one", 12);
	base("opt/auto/two", 12);
	link_to("../nfs/conda", temp_path("opt/conda"));
	link_to("../nfs", temp_path("opt/deep"));
	base("opt/hybrid", 11);
	check(unlink(temp_path("opt/hybrid/bin/python3")) == 0);
	check(unlink(temp_path("opt/hybrid/bin/python3.11")) == 0);
	link_to("../../../nfs/conda/bin/python3", temp_path("opt/hybrid/bin/python3"));
	mounted("nfs", "nfs4");
	mounted("opt/nfs", "fuse.sshfs");
	mounted("opt/local", "nfs");
	mounted("opt/local", "ext4");
	mounted("opt/auto", "autofs");
	find(&f);
	check_item(&f, "nfs", PYFIND_PLACE, "conda");
	check_item(&f, "opt/nfs", PYFIND_PLACE, "opt");
	check(strstr(item(&f, "opt/nfs")->skip, "fuse.sshfs"));
	/* The later mount hides the earlier one. */
	check_item(&f, "opt/local/bin/python3", PYFIND_BASE, "opt");
	check_item(&f, "opt/auto", PYFIND_PLACE, "opt");
	check(f.n == 4);
	pyfind_done(&f);

	/* A venv whose base lies there, told by pyvenv.cfg alone. */
	put(temp_path("opt/v/bin/python3"), "\177ELF\n");
	put(temp_path("opt/v/pyvenv.cfg"), "");
	temp_put(temp_path("opt/v/pyvenv.cfg"), "");
	{
		FILE *cfg = fopen(temp_path("opt/v/pyvenv.cfg"), "we");

		check(cfg && fprintf(cfg, "home = %s/nfs/conda/bin\n", temp_dir) > 0 &&
		      fclose(cfg) == 0);
	}
	find(&f);
	check(f.n == 4);
	pyfind_done(&f);

	/* What the automounter has mounted already can be reached by name. */
	reset();
	base("home/miniconda3", 12);
	mounted("", "autofs");
	check(unlink(temp_path("mountinfo")) == 0);
	temp_put(temp_path("mountinfo"), "");
	base("opt/conda", 12);
	mounted("opt", "autofs");
	mounted("opt/conda", "xfs");
	find(&f);
	check_item(&f, "opt/conda/bin/python3", PYFIND_BASE, "conda");
	i = item(&f, "opt");
	check(i && i->kind == PYFIND_PLACE && strstr(i->skip, "automounter"));
	check_item(&f, "home/miniconda3/bin/python3", PYFIND_BASE, "conda");
	pyfind_done(&f);
}

TEST(judge)
{
	struct pyfind f;
	char why[PYEXE_WHY_SIZE];

	reset();
	base("opt/good", 12);
	base("opt/old", 5);
	base("opt/users", 12);
	base("opt/open", 12);
	base("opt/group", 12);
	base("opt/library", 12);
	base("opt/below/conda", 12);
	venv("opt/engine/venv", "opt/good", 12);
	check(chmod(temp_path("opt/open"), 0777) == 0);
	check(chmod(temp_path("opt/group/lib"), 0775) == 0);
	if (geteuid() == 0) {
		check(chown(temp_path("opt/users/lib/python3.12"), 12345, 12345) == 0);
		check(chown(temp_path("opt/library/lib"), 12345, 12345) == 0);
	}
	find(&f);
	check(!item(&f, "opt/good/bin/python3")->skip);
	check(!item(&f, "opt/group/bin/python3")->skip);
	check(!item(&f, "opt/engine/venv/bin/python3")->skip);
	check(strstr(item(&f, "opt/old/bin/python3")->skip, "3.6"));
	if (geteuid() == 0) {
		check(strstr(item(&f, "opt/users/bin/python3")->skip, "uid 12345"));
		check(strstr(item(&f, "opt/open/bin/python3")->skip, "mode 0777"));
		check(strstr(item(&f, "opt/library/bin/python3")->skip, "owner 12345"));
	}
	/* Another place than its own. */
	check(pyjudge(&item(&f, "opt/good/bin/python3")->exe, NULL, why));
	check(!pyjudge(&item(&f, "opt/good/bin/python3")->exe, temp_path("nothere"), why));
	check(strstr(why, "nothere"));
	pyfind_done(&f);
}

/* Names of any bytes; more interpreters than are looked at; a directory with too many entries. */
TEST(hostile)
{
	struct pyfind f;

	reset();
	base("opt/a\nb\033[31m", 12);
	base("opt/\377\376", 12);
	base("opt/*", 12);
	base("opt/a|b", 12);
	find(&f);
	check(f.n == 4 && item(&f, "opt/a\nb\033[31m/bin/python3"));
	pyfind_done(&f);

	reset();
	for (int i = 0; i < PYFIND_MAX + 3; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof prefix, "opt/p%d", i);
		base(prefix, 12);
	}
	find(&f);
	check(f.n == PYFIND_MAX && f.cut);
	pyfind_done(&f);

	reset();
	base("usr/local/first", 12);
	for (int i = 0; i < PYFIND_NAMES_MAX + 1; i++) {
		make_above(temp_path("opt/x"));
		check(mkdir(temp_path("opt/d%d", i), 0755) == 0);
	}
	find(&f);
	check(f.n == 1 && f.cut);
	pyfind_done(&f);
}

/* --- the mount table */

static int resolve(const struct mounts *m, const char *path, char ret[PATH_MAX])
{
	const struct mount *stop = NULL;

	return mounts_resolve(m, path, ret, &stop);
}

TEST(resolve)
{
	static const char *const paths[] = {"a/b/c",  "l/c",    "a/../a/./b//c",  "up/l/c",
					    "a/b/..", "abs/b/", "loop",           "a/b/c/d",
					    "gone",   ".",      "../../../../..", "a/dir/../b"};
	struct mounts none = {.n = 0};
	char mine[PATH_MAX];

	reset();
	put(temp_path("a/b/c"), "");
	link_to("a/b", temp_path("l"));
	link_to("../a/../", temp_path("a/dir"));
	link_to(".", temp_path("up"));
	link_to(temp_path("a"), temp_path("abs"));
	link_to("loop", temp_path("loop"));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const char *path = temp_path("%s", paths[i]);
		_cleanup_(freep) char *real = realpath(path, NULL);
		int r = real ? 0 : -errno;

		check(resolve(&none, path, mine) == r);
		check(r < 0 || streq(mine, real));
	}
	check(resolve(&none, "/", mine) == 0 && streq(mine, "/"));
	check(resolve(&none, "relative", mine) == -EINVAL);
	{
		_cleanup_(freep) char *text = malloc(PATH_MAX + 10);

		check(text);
		memset(text, '/', PATH_MAX + 9);
		text[PATH_MAX + 9] = '\0';
		check(resolve(&none, text, mine) == -ENAMETOOLONG);
	}
}

TEST(mountinfo)
{
	struct mounts m = {.n = 0};
	char path[PATH_MAX];

	reset();
	temp_put(temp_path("mountinfo"),
		 "22 28 0:20 / /proc rw - proc proc rw\n"
		 "36 35 98:0 /mnt1 /with\\040blank\\011 rw,noatime master:1 - nfs4 s:/x rw\n"
		 "nonsense\n"
		 "1 2 3 - nfs x\n"
		 " - nfs\n"
		 "1 2 3:4 / relative rw - nfs x\n"
		 "1 2 3:4 / / rw - nfs x\n"
		 "37 35 98:0 / /cut rw - ceph");
	check(mounts_load(temp_path("mountinfo"), &m) == 0);
	check(resolve(&m, "/with blank\t/x", path) == -EREMOTE);
	check(resolve(&m, "/with", path) == -ENOENT);
	check(resolve(&m, "/cut/x/y", path) == -EREMOTE);
	check(resolve(&m, "/proc/../cut", path) == -EREMOTE);
	/* What is mounted as / is where this runs. */
	check(resolve(&m, "/proc", path) == 0 && streq(path, "/proc"));
	mounts_done(&m);
	check(mounts_load(temp_path("nothere"), &m) == 0 && m.n == 0);
	check(mounts_load(NULL, &m) == 0 && m.n > 0);
	mounts_done(&m);
	check(pytrust_network_name("fuse.overlayfs-of-ours") &&
	      !pytrust_network_name("fuse.fuse-overlayfs") && !pytrust_network_name("fuseblk") &&
	      !pytrust_network_name("fusectl") && !pytrust_network_name("ext4") &&
	      pytrust_network_name("smb3"));
}

TEST_MAIN
