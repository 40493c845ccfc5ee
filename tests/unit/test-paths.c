/* SPDX-License-Identifier: MIT */
#include <sys/stat.h>

#include "common/paths.h"
#include "common/util.h"
#include "tests/unit/test.h"

static void clean(void)
{
	unsetenv("CUDAENV_RUNTIME_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("XDG_STATE_HOME");
	unsetenv("HOME");
}

TEST(system)
{
	_cleanup_(paths_done) struct paths p = {0};

	clean();
	check(paths_init(false, &p) == 0);
	check(!p.user);
	check_streq(p.runtime, "/run/cudaenv");
	check_streq(p.control, "/run/cudaenvd/control");
	check_streq(p.config, "/etc/cudaenv");
	check_streq(p.state, "/var/lib/cudaenv");
	check_streq(p.profiles[0], "/etc/cudaenv/profiles.d");
	check_streq(p.profiles[1], "/run/cudaenv/profiles.d");
	check_streq(p.profiles[2], "/usr/lib/cudaenv/profiles.d");
	check(!p.profiles[3]);
}

TEST(system_elsewhere)
{
	_cleanup_(paths_done) struct paths p = {0};

	clean();
	setenv("CUDAENV_RUNTIME_DIR", "/x/run", 1);
	check(paths_init(false, &p) == 0);
	check_streq(p.runtime, "/x/run");
	check_streq(p.control, "/x/run/control");
	check_streq(p.profiles[1], "/x/run/profiles.d");
	check_streq(p.config, "/etc/cudaenv");
}

TEST(user)
{
	_cleanup_(paths_done) struct paths p = {0};

	clean();
	setenv("XDG_RUNTIME_DIR", "/x/run", 1);
	setenv("XDG_CONFIG_HOME", "/x/config", 1);
	setenv("XDG_STATE_HOME", "relative", 1); /* does not count */
	setenv("HOME", "/home/a", 1);
	check(paths_init(true, &p) == 0);
	check(p.user);
	check_streq(p.runtime, "/x/run/cudaenv");
	check_streq(p.control, "/x/run/cudaenv/control");
	check_streq(p.config, "/x/config/cudaenv");
	check_streq(p.state, "/home/a/.local/state/cudaenv");
	check_streq(p.profiles[0], "/x/config/cudaenv/profiles.d");
	check(!p.profiles[1]);
}

TEST(user_without_xdg)
{
	_cleanup_(paths_done) struct paths p = {0};
	char run[64];

	clean();
	check(paths_init(true, &p) == -ENXIO);
	check(!p.runtime && !p.config);
	setenv("HOME", "/home/a", 1);
	snprintf(run, sizeof run, "/run/user/%u/cudaenv", (unsigned)geteuid());
	check(paths_init(true, &p) == 0);
	check_streq(p.runtime, run);
	check_streq(p.config, "/home/a/.config/cudaenv");
}

TEST(relative_runtime_is_refused)
{
	struct paths p;

	clean();
	setenv("CUDAENV_RUNTIME_DIR", "run", 1);
	check(paths_init(false, &p) == -EINVAL);
	setenv("CUDAENV_RUNTIME_DIR", "", 1); /* as if unset */
	check(paths_init(false, &p) == 0);
	check_streq(p.runtime, "/run/cudaenv");
	paths_done(&p);
}

TEST(a_tool_finds_the_users)
{
	_cleanup_(paths_done) struct paths p = {0};
	char dir[] = "/tmp/test-paths-XXXXXX", run[64];

	clean();
	check(mkdtemp(dir));
	setenv("HOME", dir, 1);
	setenv("CUDAENV_RUNTIME_DIR", dir, 1);
	check(paths_find(false, &p) == 0);
	check(p.user);
	check_streq(p.runtime, dir);
	paths_done(&p);

	unsetenv("CUDAENV_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	check(paths_find(true, &p) == 0);
	check(p.user);
	paths_done(&p);

	if (access("/run/cudaenv", F_OK) == 0) {
		check(rmdir(dir) == 0);
		skip("this machine has /run/cudaenv");
	}
	check(paths_find(false, &p) == 0);
	check(!p.user); /* neither is there */
	paths_done(&p);
	snprintf(run, sizeof run, "%s/cudaenv", dir);
	check(mkdir(run, 0700) == 0);
	check(paths_find(false, &p) == 0);
	check(p.user);
	check(rmdir(run) == 0 && rmdir(dir) == 0);
}

TEST(no_session)
{
	_cleanup_(paths_done) struct paths system = {0}, user = {0};
	_cleanup_(freep) char *advice = NULL;
	char directory[64];

	clean();
	setenv("HOME", "/home/a", 1);
	check(paths_init(false, &system) == 0 && paths_init(true, &user) == 0);
	check(!paths_no_session(&system));
	snprintf(directory, sizeof directory, "/run/user/%u", (unsigned)geteuid());
	advice = paths_no_session(&user);
	check(!advice == (access(directory, F_OK) == 0));
	check(!advice || (startswith(advice, directory) &&
			  strstr(advice, " does not exist (no login session): export "
					 "XDG_RUNTIME_DIR=DIR, ")));
	setenv("XDG_RUNTIME_DIR", "/x/run", 1);
	check(!paths_no_session(&user));
	unsetenv("XDG_RUNTIME_DIR");
	setenv("CUDAENV_RUNTIME_DIR", "/x/run", 1);
	check(!paths_no_session(&user));
}

TEST_MAIN
