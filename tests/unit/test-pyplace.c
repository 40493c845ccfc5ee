/* SPDX-License-Identifier: MIT */
/* Manifests, the parts of a hook's text, file systems: what client/ctl/py* does without an
 * interpreter. */
#include "client/ctl/pyhook.h"
#include "client/ctl/pyplace-internal.h"
#include "client/ctl/pytrust.h"
#include "tests/unit/test.h"

#include <limits.h>
#include <sys/stat.h>

#include "common/util.h"

#define A64  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEAD "cudaenv-hook 1\nversion 0.1.0\nmethod directory\nextension 1 2 3 /x\n"

TEST(manifest)
{
	_cleanup_(pyplace_done) struct pyplace p = PYPLACE_NULL;

	check(pyplace_parse(HEAD "runtime /run/x y\nfile " A64 " python311.zip/README\nfile " A64
				 " python311.zip/__pycache__/a.b.pyc\nlater word\nend\n",
			    &p) == 0);
	check_streq(p.version, "0.1.0");
	check_streq(p.runtime, "/run/x y");
	check_streq(p.header, "version 0.1.0\nmethod directory\nextension 1 2 3 /x\n");
	check(p.n_entries == 2);
	check_streq(p.entries[1].path, "python311.zip/__pycache__/a.b.pyc");
}

/* Nothing that leads out of the directory, no cut file, no other one. */
TEST(bad_manifests)
{
	static const char *const bad[] = {
		"",
		"cudaenv-hook 1",
		"cudaenv-hook 1\n",
		"cudaenv-hook 1\nend\n",
		"cudaenv-hook 2\nversion 1\nend\n",
		"cudaenv-hook 1\nversion 1\nversion 2\nend\n",
		HEAD,
		HEAD "end",
		HEAD "end\nmore\n",
		HEAD "file " A64 "\nend\n",
		HEAD "file " A64 " \nend\n",
		HEAD "file " A64 "  x\nend\n",
		HEAD "file " A64 " /etc/passwd\nend\n",
		HEAD "file " A64 " ../x\nend\n",
		HEAD "file " A64 " a/../x\nend\n",
		HEAD "file " A64 " a/.x\nend\n",
		HEAD "file " A64 " a//x\nend\n",
		HEAD "file " A64 " a/\nend\n",
		HEAD "file " A64 " a/b/c/d\nend\n",
		HEAD "file " A64 " a\tb\nend\n",
		HEAD "file " A64 "a x\nend\n",
		HEAD "file XYZ x\nend\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(pyplace_done) struct pyplace p = PYPLACE_NULL;

		check(pyplace_parse(bad[i], &p) == -EBADMSG);
	}
}

TEST(too_many_files)
{
	_cleanup_(pyplace_done) struct pyplace p = PYPLACE_NULL;
	char text[16384];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", HEAD);

	for (unsigned i = 0; i <= PYPLACE_ENTRIES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "file " A64 " a/%u\n", i);
	(void)snprintf(text + n, sizeof text - n, "end\n");
	check(pyplace_parse(text, &p) == -EBADMSG);
}

TEST(literals)
{
	static const struct {
		const char *bytes, *literal;
	} cases[] = {
		{"", "\"\""},
		{"/run/cudaenv", "\"/run/cudaenv\""},
		{"a\"b\\c", "\"a\\x22b\\x5cc\""},
		{"\xc3\xa9\xff", "\"\\udcc3\\udca9\\udcff\""},
		{"\n\t\x7f'{}%", "\"\\x0a\\x09\\x7f'{}%\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *s = NULL;

		check(pyhook_literal(cases[i].bytes, &s) == 0);
		check_streq(s, cases[i].literal);
	}
}

TEST(checksum)
{
	check(pyhook_crc("", 0) == 0);
	check(pyhook_crc("123456789", 9) == 0xcbf43926);
}

TEST(network_file_systems)
{
	check_streq(pytrust_network_type(0x6969, "nfs4"), "nfs");
	check_streq(pytrust_network_type((long)(int)0xff534d42, "cifs"), "cifs");
	check_streq(pytrust_network_type(0xff534d42, NULL), "cifs");
	check_streq(pytrust_network_type(0x0bd00bd0, "lustre"), "lustre");
	check(!pytrust_network_type(0xef53, "ext4"));
	check(!pytrust_network_type(0x794c7630, "overlay"));
	check(!pytrust_network_type(0x65735546, "fuse.fuse-overlayfs"));
	check_streq(pytrust_network_type(0x65735546, "fuse.sshfs"), "fuse");
	check_streq(pytrust_network_type(0x65735546, NULL), "fuse");
	check(!pytrust_network("/nowhere/at/all"));
	check(!pytrust_network("/proc"));
}

TEST(trust)
{
	char root[] = "/tmp/test-pytrust-XXXXXX", path[64], file[80], who[256];

	check(mkdtemp(root));
	(void)snprintf(path, sizeof path, "%s/a", root);
	(void)snprintf(file, sizeof file, "%s/b", path);
	check(mkdir(path, 0755) == 0);
	check(close(open(file, O_CREAT | O_WRONLY, 0644)) == 0);
	check(pytrust_path(file, who, sizeof who));
	check(pytrust_entries(path, who, sizeof who));
	check(pytrust_entries("/nowhere/at/all", who, sizeof who));
	check(!pytrust_path("/nowhere/at/all", who, sizeof who));
	check(!pytrust_path("relative", who, sizeof who));

	check(chmod(file, 0664) == 0);
	check(!pytrust_path(file, who, sizeof who) && strstr(who, file));
	check(!pytrust_entries(path, who, sizeof who));
	check(chmod(file, 0644) == 0 && chmod(path, 0777) == 0);
	check(!pytrust_path(file, who, sizeof who) && strstr(who, path) && !strstr(who, file));
	check(chmod(path, 01777) == 0);
	check(pytrust_path(file, who, sizeof who));
	if (geteuid() == 0) {
		check(chown(file, 12345, 12345) == 0);
		check(!pytrust_path(file, who, sizeof who));
		check(!pytrust_entries(path, who, sizeof who));
	}
	check(unlink(file) == 0 && symlink("/etc/passwd", file) == 0);
	check(!pytrust_path(file, who, sizeof who));
	check(unlink(file) == 0 && rmdir(path) == 0 && rmdir(root) == 0);
}

/* No whole installation needs an interpreter: a hook of three files, there and away again. */
TEST(install_and_remove)
{
	char root[] = "/tmp/test-pyplace-XXXXXX", why[PYEXE_WHY_SIZE], digest[DIGEST_SIZE],
	     text[512];
	struct pyhook h = {.method = PYHOOK_IN_SITE,
			   .parent = root,
			   .name = (char *)"pkg",
			   .n_files = 3,
			   .files = {{(char *)"pkg/a.py", (char *)"x", 1},
				     {(char *)"b.pth", (char *)"yy", 2},
				     {(char *)"pkg/manifest", text, 0}}};
	struct pyplace p = PYPLACE_NULL;
	int n;

	check(mkdtemp(root));
	digest_bytes("x", 1, digest);
	n = snprintf(text, sizeof text, HEAD "file %s pkg/a.py\n", digest);
	digest_bytes("yy", 2, digest);
	n += snprintf(text + n, sizeof text - (size_t)n, "file %s b.pth\nend\n", digest);
	h.files[2].size = (size_t)n;

	check(pyplace_look(root, "pkg", &p, why) == 0 && p.state == PYPLACE_ABSENT);
	pyplace_done(&p);
	check(pyplace_install(&h, why) == 1);
	check(pyplace_install(&h, why) == 0);
	check(pyplace_look(root, "pkg", &p, why) == 0 && p.state == PYPLACE_GOOD &&
	      p.n_entries == 2);
	pyplace_done(&p);
	check(pyplace_remove(root, "other", geteuid(), why) == 0);
	check(pyplace_remove(root, "pkg", geteuid(), why) == 1);
	check(pyplace_remove(root, "pkg", geteuid(), why) == 0);
	check(rmdir(root) == 0);
	check(pyplace_install(&h, why) == -ENOENT && why[0]);
}

/* Between the look and the deletion the owner of a tree may put a link in a directory's place: what
 * lies behind it is another's. */
TEST(unlink_follows_nothing)
{
	char root[] = "/tmp/test-pyplace-XXXXXX", path[PATH_MAX];
	_cleanup_(closep) int fd = -EBADF;

	check(mkdtemp(root));
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(fd >= 0 && mkdirat(fd, "others", 0700) == 0 && mkdirat(fd, "pkg", 0700) == 0);
	check(mknodat(fd, "others/a.py", S_IFREG | 0600, 0) == 0);
	check(mkdirat(fd, "others/in", 0700) == 0);
	check(mknodat(fd, "others/in/a.pyc", S_IFREG | 0600, 0) == 0);
	check(symlinkat("../others/in", fd, "pkg/__pycache__") == 0);
	check(place_unlink(fd, "pkg/__pycache__/a.pyc") == -ENOTDIR);
	check(unlinkat(fd, "pkg/__pycache__", 0) == 0 && unlinkat(fd, "pkg", AT_REMOVEDIR) == 0);
	check(symlinkat("others", fd, "pkg") == 0);
	check(place_unlink(fd, "pkg/a.py") == -ENOTDIR);
	check(place_unlink(fd, "others/b.py") == -ENOENT);
	check(place_unlink(fd, "others/in/a.pyc") == 0 && place_unlink(fd, "others/a.py") == 0);
	check(place_unlink(fd, "pkg") == 0);
	(void)snprintf(path, sizeof path, "%s/others/in", root);
	check(rmdir(path) == 0);
	(void)snprintf(path, sizeof path, "%s/others", root);
	check(rmdir(path) == 0 && rmdir(root) == 0);
}

TEST_MAIN
