/* SPDX-License-Identifier: MIT */
#include <systemd/sd-event.h>

#include "daemon/manager/watch.h"
#include "tests/unit/temp.h"

#define PATIENCE_USEC (20 * 1000 * 1000ull)
#define QUIET_USEC    (120 * 1000ull) /* longer than a change stays untold */

static sd_event *event;
static struct watch *watch;
static unsigned calls;

static void on_change(int error, void *userdata)
{
	check(error == 0);
	calls++;
}

static void watching(enum watch_kind kind, const char *path, bool writes)
{
	watch = watch_free(watch);
	check(watch_new(event, writes, on_change, NULL, &watch) == 0);
	check(watch_add(watch, kind, path) == 0);
	check(watch_start(watch) == 0);
	calls = 0;
}

/* Runs the loop until the change was told. */
static void told(void)
{
	while (calls == 0)
		check(sd_event_run(event, PATIENCE_USEC) > 0);
	calls = 0;
}

/* Nothing wakes the loop. */
static void quiet(void)
{
	check(sd_event_run(event, QUIET_USEC) == 0);
	check(calls == 0);
}

/* What happens where an absent directory may appear wakes the loop; it is not told. */
static void untold(void)
{
	while (sd_event_run(event, QUIET_USEC) > 0)
		check(calls == 0);
	check(calls == 0);
}

static void write_beside_and_rename(const char *name, const char *text)
{
	const char *beside = temp_path("%s.tmp", name);

	temp_put(beside, text);
	check(rename(beside, temp_path("%s", name)) == 0);
}

TEST(directory_contents)
{
	temp_begin();
	check(sd_event_new(&event) >= 0);
	check(mkdir(temp_path("a"), 0755) == 0 && mkdir(temp_path("a/b"), 0755) == 0);
	watching(WATCH_DIRECTORY, temp_path("a/b"), false);
	quiet();
	temp_put(temp_path("a/b/x.ini"), "1");
	told();
	temp_put(temp_path("a/b/x.ini"), "2");
	told();
	write_beside_and_rename("a/b/x.ini", "3");
	told();
	check(chmod(temp_path("a/b/x.ini"), 0600) == 0);
	told();
	check(symlink("/dev/null", temp_path("a/b/y.ini")) == 0);
	told();
	check(unlink(temp_path("a/b/x.ini")) == 0);
	told();
	quiet();
}

/* Others' business nearby is no reason to wake up. */
TEST(neighbours)
{
	check(mkdir(temp_path("a/b/sub"), 0755) == 0);
	watching(WATCH_DIRECTORY, temp_path("a/b"), false);
	temp_put(temp_path("a/other"), "1");
	temp_put(temp_path("other"), "1");
	temp_put(temp_path("a/b/sub/x"), "1");
	check(symlink("target", temp_path("a/b/sub/pin")) == 0);
	check(unlink(temp_path("a/b/sub/pin")) == 0);
	quiet();
}

TEST(directory_is_replaced)
{
	watching(WATCH_DIRECTORY, temp_path("a/b"), false);
	check(rename(temp_path("a/b"), temp_path("a/old")) == 0);
	told();
	check(mkdir(temp_path("a/b"), 0755) == 0);
	told();
	temp_put(temp_path("a/b/x.ini"), "1");
	told();
	/* An ancestor goes, and comes back. */
	check(rename(temp_path("a"), temp_path("gone")) == 0);
	told();
	check(mkdir(temp_path("a"), 0755) == 0);
	told();
	check(mkdir(temp_path("a/b"), 0755) == 0);
	told();
	temp_put(temp_path("a/b/x.ini"), "2");
	told();
	/* In one step. */
	check(mkdir(temp_path("new"), 0755) == 0 && mkdir(temp_path("new/b"), 0755) == 0);
	check(rename(temp_path("a"), temp_path("gone2")) == 0);
	check(rename(temp_path("new"), temp_path("a")) == 0);
	told();
	temp_put(temp_path("a/b/x.ini"), "3");
	told();
	quiet();
}

TEST(directory_appears_later)
{
	watching(WATCH_DIRECTORY, temp_path("later/cudaenv/profiles.d"), false);
	temp_put(temp_path("unrelated"), "1");
	untold();
	check(mkdir(temp_path("later"), 0755) == 0);
	told();
	check(mkdir(temp_path("later/cudaenv"), 0755) == 0);
	check(mkdir(temp_path("later/cudaenv/profiles.d"), 0755) == 0);
	temp_put(temp_path("later/cudaenv/profiles.d/x.ini"), "1");
	told();
	temp_put(temp_path("later/cudaenv/profiles.d/x.ini"), "2");
	told();
	quiet();
}

static void put_version(const char *version, const char *text)
{
	check(mkdir(temp_path("map/%s", version), 0755) == 0);
	temp_put(temp_path("map/%s/x.ini", version), text);
}

/* As the kubelet does it: x.ini -> ..data/x.ini, ..data -> ..VERSION, and a new ..data is renamed
 * over the old one. */
TEST(config_map)
{
	check(mkdir(temp_path("map"), 0755) == 0);
	put_version("..1", "1");
	check(symlink("..1", temp_path("map/..data")) == 0);
	check(symlink("..data/x.ini", temp_path("map/x.ini")) == 0);
	watching(WATCH_DIRECTORY, temp_path("map"), false);
	quiet();
	put_version("..2", "2");
	check(symlink("..2", temp_path("map/..data_tmp")) == 0);
	check(rename(temp_path("map/..data_tmp"), temp_path("map/..data")) == 0);
	told();
	/* Mounted elsewhere and linked to: the way goes through the swapped link. */
	check(symlink(temp_path("map/..data"), temp_path("linked")) == 0);
	watching(WATCH_DIRECTORY, temp_path("linked"), false);
	put_version("..3", "3");
	check(symlink("..3", temp_path("map/..data_tmp")) == 0);
	check(rename(temp_path("map/..data_tmp"), temp_path("map/..data")) == 0);
	told();
	temp_put(temp_path("map/..3/x.ini"), "4");
	told();
	quiet();
}

TEST(files_behind_links)
{
	check(mkdir(temp_path("git"), 0755) == 0 && mkdir(temp_path("p"), 0755) == 0);
	temp_put(temp_path("git/x.ini"), "1");
	check(symlink(temp_path("git/x.ini"), temp_path("p/x.ini")) == 0);
	check(symlink("loop", temp_path("p/loop")) == 0);
	check(symlink("/dev/null", temp_path("p/masked.ini")) == 0);
	watching(WATCH_DIRECTORY, temp_path("p"), false);
	quiet();
	temp_put(temp_path("git/x.ini"), "2");
	told();
	write_beside_and_rename("git/x.ini", "3");
	told();
	write_beside_and_rename("git/x.ini", "4");
	told();
	temp_put("/dev/null", "1");
	quiet();
	temp_put(temp_path("git/other"), "1");
	untold();
}

TEST(one_file)
{
	check(mkdir(temp_path("run"), 0755) == 0);
	watching(WATCH_FILE, temp_path("run/assign"), false);
	temp_put(temp_path("run/socket"), "1");
	untold();
	temp_put(temp_path("run/assign"), "1");
	told();
	check(chmod(temp_path("run/assign"), 0666) == 0);
	told();
	check(unlink(temp_path("run/assign")) == 0);
	told();
	quiet();
}

/* A file that is never closed: told only where nobody else should write. */
TEST(writes)
{
	int fd;

	temp_put(temp_path("p/open"), "1");
	fd = open(temp_path("p/open"), O_WRONLY | O_CLOEXEC);
	check(fd >= 0);
	watching(WATCH_DIRECTORY, temp_path("p"), false);
	check(write(fd, "2", 1) == 1);
	quiet();
	watching(WATCH_DIRECTORY, temp_path("p"), true);
	check(write(fd, "3", 1) == 1);
	told();
	quiet();
	check(close(fd) == 0);
	told();
}

/* Many changes, few calls: and the last change is told. */
TEST(settles)
{
	check(mkdir(temp_path("many"), 0755) == 0);
	watching(WATCH_DIRECTORY, temp_path("many"), false);
	for (int i = 0; i < 1000; i++)
		temp_put(temp_path("many/%d.ini", i), "1");
	told();
	quiet();
	temp_put(temp_path("many/1.ini"), "2");
	told();
	watch = watch_free(watch);
	sd_event_unref(event);
}

TEST_MAIN
