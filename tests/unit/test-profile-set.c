/* SPDX-License-Identifier: MIT */
/*
 * Directories of profiles: precedence, masks, files that are none, and inheritance between files.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/profile.h"
#include "common/util.h"
#include "tests/unit/test.h"

static char base[] = "/tmp/test-profile-set-XXXXXX";
static char dirs[3][64];
static const char *list[] = {dirs[0], dirs[1], dirs[2], NULL};
static struct profile_set set;
static char path[4096];

static const char *at(unsigned dir, const char *file)
{
	snprintf(path, sizeof path, "%s/%s", dirs[dir], file);
	return path;
}

static void put(unsigned dir, const char *file, const char *text)
{
	FILE *f = fopen(at(dir, file), "we");

	check(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Three new directories: etc, run, lib. */
static void begin(void)
{
	static const char *const names[] = {"etc", "run", "lib"};

	if (strstr(base, "XXXXXX"))
		check(mkdtemp(base));
	for (unsigned i = 0; i < 3; i++) {
		snprintf(dirs[i], sizeof dirs[i], "%s/%s", base, names[i]);
		check(mkdir(dirs[i], 0755) == 0);
	}
}

static void end(void)
{
	char command[128];

	profile_set_done(&set);
	snprintf(command, sizeof command, "rm -rf %s/*", base);
	check(system(command) == 0);
}

static void load(void)
{
	profile_set_done(&set);
	check(profile_set_load(list, NULL, &set) == 0);
	for (size_t i = 1; i < set.n_profiles; i++)
		check(strcmp(set.profiles[i - 1]->name, set.profiles[i]->name) < 0);
}

static struct profile *get(const char *name)
{
	struct profile *p = profile_set_find(&set, name);

	if (!p)
		fprintf(stderr, "no profile %s\n", name);
	check(p);
	return p;
}

static const struct profile_variable *variable(const char *profile, const char *name)
{
	const struct profile *p = get(profile);

	for (size_t i = 0; i < p->n_variables; i++)
		if (streq(p->variables[i].name, name))
			return &p->variables[i];
	return NULL;
}

static const char *value(const char *profile, const char *name)
{
	const struct profile_variable *v = variable(profile, name);

	return v ? v->value : NULL;
}

static const struct finding *finding(const char *profile, const char *rule)
{
	const struct profile *p = get(profile);

	for (size_t i = 0; i < p->findings.n; i++)
		if (streq(p->findings.items[i].rule, rule))
			return &p->findings.items[i];
	return NULL;
}

TEST(no_directories)
{
	const char *const none[] = {"/nowhere/a", "/nowhere/b", NULL};

	check(profile_set_load(none, NULL, &set) == 0);
	check(set.n_profiles == 0 && !profile_set_find(&set, "a"));
}

TEST(precedence_and_masks)
{
	begin();
	put(0, "a.ini", "[env]\nA=etc\n");
	put(1, "a.ini", "[env]\nA=run\n");
	put(2, "a.ini", "[env]\nA=lib\n");
	put(1, "b.ini", "[env]\nA=run\n");
	put(2, "b.ini", "[env]\nA=lib\n");
	put(2, "c.ini", "[env]\nA=lib\n");
	check(symlink("/dev/null", at(0, "c.ini")) == 0);
	put(2, "d.ini", "[env]\nA=lib\n");
	put(0, "d.ini", "[env]\nA\n"); /* a broken one overrides too */
	put(0, "e.conf", "[env]\nA=1\n");
	put(0, ".f.ini", "[env]\nA=1\n");
	put(0, "g.ini~", "[env]\nA=1\n");
	put(0, ".ini", "[env]\nA=1\n");
	load();
	check(set.n_profiles == 3);
	check_streq(value("a", "A"), "etc");
	check_streq(value("b", "A"), "run");
	check(!profile_set_find(&set, "c"));
	check(!get("d")->valid);
	check_streq(get("b")->path, at(1, "b.ini"));
	end();
}

TEST(files_that_are_none)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	begin();
	check(mkdir(at(0, "dir.ini"), 0755) == 0);
	check(mkfifo(at(0, "fifo.ini"), 0644) == 0);
	check(symlink("nowhere", at(0, "dangling.ini")) == 0);
	check(symlink("loop.ini", at(0, "loop.ini")) == 0);
	check(symlink("/dev/zero", at(0, "zero.ini")) == 0);
	check(strlen(at(0, "socket.ini")) < sizeof address.sun_path);
	strcpy(address.sun_path, at(0, "socket.ini"));
	check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
	put(0, "with blank.ini", "[env]\nA=1\n");
	put(0, "-dash.ini", "[env]\nA=1\n");
	put(0, "new\nline\x1b\xff.ini", "[env]\nA=1\n");
	put(0, "auto.ini", "[env]\nA=1\n");
	put(0, "good.ini", "[env]\nA=1\n");
	put(2, "dir.ini", "[env]\nA=1\n");
	load();
	check(set.n_profiles == 11);
	check(get("good")->valid);
	check_streq(finding("dir", "not-a-file")->message, "this is a directory");
	check(finding("fifo", "not-a-file") && finding("zero", "not-a-file") &&
	      finding("socket", "not-a-file"));
	check(finding("dangling", "not-a-file") && finding("loop", "not-a-file"));
	check(finding("with\\x20blank", "bad-file-name"));
	check(finding("-dash", "bad-file-name"));
	check(finding("auto", "bad-file-name"));
	check(finding("new\\x0aline\\x1b\\xff", "bad-file-name"));
	for (size_t i = 0; i < set.n_profiles; i++)
		check(set.profiles[i]->valid == streq(set.profiles[i]->name, "good"));
	close(fd);
	end();
}

TEST(size)
{
	char *text = malloc(PROFILE_MAX_BYTES + 2);

	check(text);
	memset(text, '\n', PROFILE_MAX_BYTES + 1);
	memcpy(text, "[env]\nA=1\n", 10);
	text[PROFILE_MAX_BYTES] = '\0';
	begin();
	put(0, "a.ini", text);
	text[PROFILE_MAX_BYTES] = '\n';
	text[PROFILE_MAX_BYTES + 1] = '\0';
	put(0, "b.ini", text);
	load();
	check(get("a")->valid);
	check(!get("b")->valid && finding("b", "too-large"));
	end();
	free(text);
}

/* ConfigMap: x.ini -> ..data/x.ini, ..data -> ..2024, swapped by rename. */
TEST(config_map)
{
	begin();
	check(mkdir(at(0, "..1"), 0755) == 0);
	put(0, "..1/x.ini", "[env]\nA=1\n");
	check(mkdir(at(0, "..2"), 0755) == 0);
	put(0, "..2/x.ini", "[env]\nA=2\n");
	check(symlink("..1", at(0, "..data")) == 0);
	check(symlink("..data/x.ini", at(0, "x.ini")) == 0);
	load();
	check(set.n_profiles == 1);
	check_streq(value("x", "A"), "1");
	check_streq(get("x")->path, at(0, "x.ini"));
	check(unlink(at(0, "..data")) == 0);
	check(symlink("..2", at(0, "..data")) == 0);
	load();
	check_streq(value("x", "A"), "2");
	end();
}

TEST(directory_that_cannot_be_read)
{
	struct profile_set other = {0};

	begin();
	put(1, "a.ini", "[env]\nA=1\n");
	check(rmdir(dirs[0]) == 0);
	check(symlink("etc", dirs[0]) == 0); /* a loop */
	check(profile_set_load(list, NULL, &other) == -ELOOP);
	check(unlink(dirs[0]) == 0);
	check(mknod(dirs[0], S_IFREG | 0644, 0) == 0);
	check(profile_set_load(list, NULL, &other) == -ENOTDIR);
	check(unlink(dirs[0]) == 0);
	load();
	check(set.n_profiles == 1);
	end();
}

TEST(trust)
{
	begin();
	put(0, "a.ini", "[env]\nA=1\n");
	put(0, "b.ini", "[env]\nA=1\n");
	check(chmod(at(0, "a.ini"), 0644) == 0 && chmod(at(0, "b.ini"), 0666) == 0);
	load();
	check(get("a")->findings.n == 0);
	check(finding("b", "file-writable")->severity == FINDING_WARNING && get("b")->valid);
	check(chmod(dirs[0], 0777) == 0);
	load();
	check(finding("a", "file-writable"));
	check(chmod(dirs[0], 0755) == 0);
	if (geteuid() == 0) {
		check(chown(at(0, "a.ini"), 12345, 12345) == 0);
		load();
		check(strstr(finding("a", "file-owner")->message, "12345"));
	}
	end();
}

TEST(inheritance_by_name)
{
	begin();
	put(0, "base.ini",
	    "[match]\ngpu.name=x\ndriver=1\n[env]\nA=base\nB=base\nX=base\n[env.force]\nF=base\n"
	    "[env.unset]\nU=\n[together g]\nT1=base\nT2=base\n[env.prepend]\nL=/usr/b:/usr/c\n"
	    "[env.append]\nL=/usr/y\nM=/usr/m\n");
	put(0, "child.ini",
	    "[profile]\ninherits = base\n[match]\ndriver=2\n[env]\nA=child\nF=child\nU=child\n"
	    "T2=child\nM=child\n[env.unset]\nB=\n[env.prepend]\nL=/usr/a:/usr/b\nX=/usr/x\n"
	    "[env.append]\nL=/usr/z\n");
	load();
	check(get("child")->valid && get("child")->findings.n == 0);
	check_streq(get("child")->snapshot_text, "cudaenv-snapshot 1\n"
						 "profile child\n"
						 "scope any\n"
						 "default A=child\n"
						 "unset B\n"
						 "default F=child\n"
						 "prepend L=/usr/a:/usr/b:/usr/c\n"
						 "append L=/usr/y:/usr/z\n"
						 "default M=child\n"
						 "together g T1=base\n"
						 "default T2=child\n"
						 "default U=child\n"
						 "prepend X=/usr/x\n");
	check_streq(variable("child", "T1")->file, at(0, "base.ini"));
	check(variable("child", "T1")->line == 13);
	check_streq(variable("child", "A")->file, at(0, "child.ini"));
	check(get("child")->n_match == 2);
	for (size_t i = 0; i < 2; i++)
		check_streq(get("child")->match[i].value,
			    streq(get("child")->match[i].key, "driver") ? "2" : "x");
	check_streq(value("base", "A"), "base"); /* the parent is as it was */
	end();
}

TEST(every_section)
{
	begin();
	put(0, "base.ini", "[env]\nNCCL_DEBUG = WARN\n");
	put(0, "cuda13-pcie.ini",
	    "[profile]\n"
	    "description = CUDA 13.0, 8x RTX PRO 6000 Blackwell, PCIe only\n"
	    "inherits = base\n"
	    "[match]\n"
	    "gpu.name = *RTX PRO 6000*\n"
	    "gpu.nvlink = no\n"
	    "driver = >=580\n"
	    "[toolkit]\n"
	    "root = /usr/local/cuda-not-there\n"
	    "[env]\n"
	    "NCCL_NTHREADS = 512\n"
	    "[together nccl]\n"
	    "NCCL_PROTO = LL\n"
	    "NCCL_ALGO = Ring\n"
	    "[env.force]\n"
	    "[env.unset]\n"
	    "[env.prepend]\n"
	    "[env.append]\n"
	    "[require]\n"
	    "nccl = >=2.28\n");
	load();
	check(get("cuda13-pcie")->valid && get("cuda13-pcie")->findings.errors == 0);
	check(get("cuda13-pcie")->n_match == 3 && get("cuda13-pcie")->n_require == 1);
	check_streq(value("cuda13-pcie", "NCCL_DEBUG"), "WARN");
	check_streq(value("cuda13-pcie", "CUDA_HOME"), "/usr/local/cuda-not-there");
	check_streq(variable("cuda13-pcie", "NCCL_ALGO")->group, "nccl");
	end();
}

TEST(lists_of_parent_and_child)
{
	begin();
	put(0, "base.ini", "[env.prepend]\nL=/usr/a\nK=/usr/a:/usr/b\n");
	put(0, "child.ini", "[profile]\ninherits=base\n[env.append]\nL=/usr/b\nK=/usr/b:/usr/c\n");
	put(0, "same.ini", "[profile]\ninherits=base\n[env.append]\nL=/usr/a\n");
	load();
	/* another kind of list is kept beside; an element of the child's moves to where the child
	 * has it */
	check_streq(get("child")->snapshot_text, "cudaenv-snapshot 1\nprofile child\nscope any\n"
						 "prepend K=/usr/a\nappend K=/usr/b:/usr/c\n"
						 "prepend L=/usr/a\nappend L=/usr/b\n");
	check_streq(get("same")->snapshot_text, "cudaenv-snapshot 1\nprofile same\nscope any\n"
						"prepend K=/usr/a:/usr/b\nappend L=/usr/a\n");
	end();
}

TEST(inherited_toolkit)
{
	begin();
	put(0, "base.ini", "[toolkit]\nroot=/usr/not/there\n[env]\nA=1\n");
	put(0, "plain.ini", "[profile]\ninherits=base\n[env]\nCUDA_PATH=/usr\n");
	put(0, "rule.ini", "[profile]\ninherits=base\n[toolkit]\nrule=force\n");
	put(0, "other.ini", "[profile]\ninherits=rule\n[toolkit]\nroot=/usr/not/here\n");
	put(0, "lists.ini", "[profile]\ninherits=base\n[env.prepend]\nPATH=/usr/x\n");
	put(0, "whole.ini", "[profile]\ninherits=base\n[env]\nPATH=/usr/x\n");
	put(0, "path.ini", "[env]\nPATH=/usr/x\nCUDA_HOME=/usr\n");
	put(0, "late.ini", "[profile]\ninherits=path\n[toolkit]\nroot=/usr/not/there\n");
	load();
	check(strstr(get("plain")->snapshot_text, "toolkit default /usr/not/there\n"));
	check(strstr(get("plain")->snapshot_text, "\ndefault CUDA_PATH=/usr\n"));
	check(strstr(get("plain")->snapshot_text, "\ntogether toolkit CUDA_HOME=/usr/not/there\n"));
	check(strstr(get("rule")->snapshot_text, "toolkit force /usr/not/there\n"));
	check(strstr(get("other")->snapshot_text, "toolkit default /usr/not/here\n"));
	check(!strstr(get("other")->snapshot_text, "/usr/not/there"));
	check(strstr(get("lists")->snapshot_text,
		     "together toolkit PATH=/usr/not/there/bin\nprepend PATH=/usr/x\n"));
	check(!strstr(get("whole")->snapshot_text, "toolkit PATH"));
	check(strstr(get("late")->snapshot_text, "\ndefault PATH=/usr/x\n"));
	check(!strstr(get("late")->snapshot_text, "toolkit PATH"));
	check(finding("late", "toolkit-path")->line == 4);
	check_streq(value("late", "CUDA_HOME"), "/usr/not/there");
	end();
}

TEST(inheritance_faults)
{
	char name[16], text[64];

	begin();
	put(0, "orphan.ini", "[env]\nA=1\n[profile]\ninherits = nobody\n");
	put(0, "self.ini", "[profile]\ninherits=self\n[env]\nA=1\n");
	put(0, "ring1.ini", "[profile]\ninherits=ring2\n[env]\nA=1\n");
	put(0, "ring2.ini", "[profile]\ninherits=ring3\n[env]\nA=1\n");
	put(0, "ring3.ini", "[profile]\ninherits=ring1\n[env]\nA=1\n");
	put(0, "to-ring.ini", "[profile]\ninherits=ring1\n[env]\nA=1\n");
	put(0, "broken.ini", "[env]\nA\n");
	put(0, "heir.ini", "[profile]\ninherits=broken\n[env]\nA=1\n");
	put(0, "heir2.ini", "[profile]\ninherits=heir\n[env]\nA=1\n");
	put(0, "bad.ini", "[profile]\ninherits=../x\n[env]\nA=1\n");
	put(0, "masked-heir.ini", "[profile]\ninherits=masked\n[env]\nA=1\n");
	check(symlink("/dev/null", at(0, "masked.ini")) == 0);
	for (unsigned i = 0; i < 17; i++) {
		snprintf(name, sizeof name, "deep%02u.ini", i);
		snprintf(text, sizeof text, "[profile]\ninherits=deep%02u\n[env]\nA=1\n", i - 1);
		put(0, name, i == 0 ? "[env]\nA=0\nDEEP=0\n" : text);
	}
	load();
	check(finding("orphan", "no-parent")->line == 4);
	check(finding("orphan", "no-parent")->column == 12);
	check(finding("self", "inherits-itself"));
	check(finding("ring1", "inherits-itself") && finding("ring2", "inherits-itself") &&
	      finding("ring3", "inherits-itself"));
	check(finding("to-ring", "inherits-too-deep"));
	check(finding("heir", "broken-parent") && finding("heir2", "broken-parent"));
	check(finding("bad", "bad-parent") && !get("bad")->inherits);
	check(finding("masked-heir", "no-parent"));
	check(get("deep15")->valid);
	check_streq(value("deep15", "DEEP"), "0");
	check(finding("deep16", "inherits-too-deep"));
	for (size_t i = 0; i < set.n_profiles; i++)
		if (!startswith(set.profiles[i]->name, "deep"))
			check(!set.profiles[i]->valid && set.profiles[i]->digest[0] == '\0');
	end();
}

TEST(limits_after_joining)
{
	enum { HALF = 70000 };
	char *text = malloc(HALF + 64);
	char name[16];

	check(text);
	begin();
	snprintf(text, 64, "[env.prepend]\nL=/usr/");
	memset(text + 21, 'a', HALF);
	strcpy(text + 21 + HALF, "\n");
	put(0, "a.ini", text);
	snprintf(text, 64, "[profile]\ninherits=a\n[env.prepend]\nL=/usr/");
	memset(text + 42, 'b', HALF - 42);
	put(0, "b.ini", text);
	/* eight variables of 70,000 bytes */
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "c%u.ini", i);
		size_t n =
			i > 0 ? (size_t)snprintf(text, 64,
						 "[profile]\ninherits=c%u\n[env]\nV%u=", i - 1, i)
			      : (size_t)snprintf(text, 64, "[env]\nV0=");

		memset(text + n, 'v', HALF);
		strcpy(text + n + HALF, "\n");
		put(0, name, text);
	}
	load();
	check(get("a")->valid && !get("b")->valid);
	check(finding("b", "too-long")->line == 4);
	check(get("c6")->valid && !get("c7")->valid);
	check(finding("c7", "too-large"));
	end();
	free(text);
}

TEST(twins_of_parent_and_child)
{
	begin();
	put(0, "base.ini", "[env]\nAb=1\nab=2\n");
	put(0, "child.ini", "[profile]\ninherits=base\n[env]\nX=1\n");
	put(0, "child2.ini", "[profile]\ninherits=base\n[env]\nAB=1\n");
	load();
	check(finding("base", "case-twins")->line == 3);
	check(!finding("child", "case-twins")); /* said where it is */
	check(finding("child2", "case-twins")->line == 4);
	check(strstr(finding("child2", "case-twins")->message, "base.ini:"));
	end();
}

TEST(one_file)
{
	struct profile *p = NULL;

	begin();
	put(0, "base.ini", "[env]\nA=base\nB=base\n");
	put(0, "x.ini", "[profile]\ninherits=base\n[env]\nA=installed\n");
	put(2, "x.ini", "[profile]\ninherits=base\n[env]\nA=checked\n");
	check(profile_load_file(at(2, "x.ini"), list, NULL, &p) == 0);
	check(p->valid && p->n_variables == 2);
	check_streq(p->name, "x");
	check_streq(p->variables[0].value, "checked");
	check_streq(p->variables[1].value, "base");
	p = profile_free(p);
	check(profile_load_file(at(2, "x.ini"), NULL, NULL, &p) == 0);
	check(!p->valid);
	p = profile_free(p);
	/* the file stands in for the installed one also above itself */
	put(0, "y.ini", "[profile]\ninherits=x\n[env]\nC=1\n");
	put(2, "x.ini", "[profile]\ninherits=y\n[env]\nA=checked\n");
	check(profile_load_file(at(2, "x.ini"), list, NULL, &p) == 0);
	check_streq(p->findings.items[0].rule, "inherits-itself");
	p = profile_free(p);
	check(profile_load_file(at(2, "none.ini"), list, NULL, &p) == -ENOENT);
	check(profile_load_file(dirs[0], list, NULL, &p) == -EISDIR);
	check(profile_load_file("/dev/null", list, NULL, &p) == 0);
	check(p->masked && !p->valid && p->n_variables == 0);
	p = profile_free(p);
	check(!p);
	end();
}

TEST(clean_up)
{
	check(rmdir(base) == 0);
}

TEST_MAIN
