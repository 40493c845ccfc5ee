/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <sys/stat.h>

#include "common/profile-path.h"
#include "common/util.h"
#include "tests/unit/test.h"

/* A directory below which everything is root's alone; tests that need one are skipped without root.
 */
static char base[] = "/test-profile-path-XXXXXX";
static char path[PATH_MAX];

static const char *at(const char *name)
{
	snprintf(path, sizeof path, "%s/%s", base, name);
	return path;
}

static int judge(const char *name)
{
	return profile_path_root_only(at(name), NULL);
}

static void make_link(const char *to, const char *name)
{
	check(symlink(to, at(name)) == 0);
}

TEST(system_paths)
{
	struct stat st;

	if (stat("/usr", &st) < 0 || st.st_uid != 0)
		skip("no root here: a user namespace");
	check(profile_path_root_only("/", NULL) == 1);
	check(profile_path_root_only("/usr", NULL) == 1);
	check(profile_path_root_only("//usr/./bin/../lib/", NULL) == 1);
	check(profile_path_root_only("/usr/not/there", NULL) == 1);
	check(profile_path_root_only("usr", NULL) == -EINVAL);
	check(profile_path_root_only("", NULL) == -EINVAL);
}

TEST(world_writable)
{
	_cleanup_(freep) char *culprit = NULL;
	struct stat st;

	if (stat("/tmp", &st) < 0 || st.st_uid != 0 || !(st.st_mode & S_IWOTH))
		skip("/tmp is not as usual");
	check(profile_path_root_only("/tmp/not-there/x", &culprit) == 0);
	check_streq(culprit, "/tmp");
	check(profile_path_root_only("/tmp", NULL) == 0);
}

TEST(tree)
{
	_cleanup_(freep) char *culprit = NULL;

	if (geteuid() != 0 || !mkdtemp(base))
		skip("needs root");
	check(chmod(base, 0755) == 0);
	check(mkdir(at("good"), 0755) == 0);
	check(mkdir(at("good/in"), 0755) == 0);
	check(mkdir(at("group"), 0775) == 0 && chmod(at("group"), 0775) == 0);
	check(mkdir(at("theirs"), 0755) == 0 && chown(at("theirs"), 12345, 0) == 0);
	check(mkdir(at("theirs/in"), 0755) == 0);
	make_link("good/in", "link");
	make_link("theirs/in", "bad-link");
	make_link("link", "theirs-link");
	check(lchown(at("theirs-link"), 12345, 0) == 0);
	make_link("loop", "loop");
	make_link("../..", "good/up");
	make_link("/tmp", "good/absolute");
	make_link("theirs/in/../../good", "by-way");

	check(judge("good/in") == 1);
	check(judge("good/in/missing/more") == 1);
	check(judge("group") == 0);
	check(judge("group/missing") == 0);
	check(judge("theirs") == 0);
	check(profile_path_root_only(at("theirs/in"), &culprit) == 0);
	check_streq(culprit, at("theirs"));
	check(judge("link") == 1);
	check(judge("link/missing") == 1);
	check(judge("bad-link") == 0);
	check(judge("theirs-link") == 0);
	check(judge("good/../theirs") == 0);
	check(judge("good/up") == 1);
	check(judge("good/absolute/x") == 0);
	check(judge("by-way") == 0); /* whoever owns the way decides where it leads */
	check(judge("loop") == -ELOOP);
	check(judge("missing/../theirs") == -EINVAL);
	check(judge("missing/..hidden") == 1);
}

TEST(values)
{
	struct stat st;

	if (stat("/usr", &st) < 0 || st.st_uid != 0 || stat("/tmp", &st) < 0 ||
	    !(st.st_mode & S_IWOTH))
		skip("/usr or /tmp are not as usual");
	check(profile_value_root_only("", NULL) == 1);
	check(profile_value_root_only("Ring", NULL) == 1);
	check(profile_value_root_only("/usr/lib:/usr/bin", NULL) == 1);
	check(profile_value_root_only("/usr/lib:/tmp/x", NULL) == 0);
	check(profile_value_root_only("/usr/lib,/tmp/x", NULL) == 0);
	check(profile_value_root_only("--a=/usr --b=/tmp/x", NULL) == 0);
	check(profile_value_root_only("\"/tmp/x\"", NULL) == 0);
	check(profile_value_root_only("file:///tmp/x", NULL) == 0);
	check(profile_value_root_only("a/tmp", NULL) == 1);
	check(profile_value_root_only("./x", NULL) == 0);
	check(profile_value_root_only("/usr:.:/bin", NULL) == 0);
	check(profile_value_root_only("/usr:..", NULL) == 0);
	check(profile_value_root_only("0.5", NULL) == 1);
	check(profile_value_root_only(".hidden", NULL) == 1);
}

TEST(paths_with_separators_in_them)
{
	char value[2 * PATH_MAX];

	if (geteuid() != 0 || strstr(base, "XXXXXX"))
		skip("needs root");
	check(mkdir(at("with blank"), 0777) == 0 && chmod(at("with blank"), 0777) == 0);
	check(profile_value_root_only(at("with blank/x"), NULL) == 0);
	check(mkdir(at("a,b"), 0777) == 0 && chmod(at("a,b"), 0777) == 0);
	check(profile_value_root_only(at("a,b"), NULL) == 0);
	check(mkdir(at("a=b"), 0777) == 0 && chmod(at("a=b"), 0777) == 0);
	check(profile_value_root_only(at("a=b:/usr"), NULL) == 0);
	memset(value, 'x', sizeof value);
	value[0] = '/';
	value[sizeof value - 1] = '\0';
	check(profile_value_root_only(value, NULL) == 1);
	value[300] = '\0';
	check(profile_value_root_only(value, NULL) == 1);
	check(system(strcat(strcpy(value, "rm -r "), base)) == 0);
}

TEST_MAIN
