/* SPDX-License-Identifier: MIT */
#include <sys/wait.h>

#include "common/digest.h"
#include "common/runtime.h"
#include "daemon/manager/publish.h"
#include "tests/unit/crash.h"
#include "tests/unit/temp.h"

static const char text[] = "some bytes\n";
static char digest[DIGEST_SIZE];
static struct publisher *p;

static struct publisher *open_tree(void)
{
	struct words complaints = {0};
	struct publisher *new = NULL;
	pid_t pid;

	check(publisher_open(temp_path("run"), true, &new, &complaints, &pid) == 0);
	check(complaints.n == 0);
	return new;
}

static unsigned mode_of(const char *name)
{
	struct stat st;

	check(lstat(temp_path("run/%s", name), &st) == 0);
	return st.st_mode & 07777;
}

TEST(tree)
{
	struct words complaints = {0};
	struct publisher *second = NULL;
	pid_t pid = 0;

	temp_begin();
	digest_bytes(text, strlen(text), digest);
	(void)umask(0077); /* whatever it is */
	p = open_tree();
	check(mode_of("") == 0755 && mode_of("snapshots") == 0755);
	check(mode_of("jobs") == 01777 && mode_of("procs") == 01777);
	check(publisher_open(temp_path("run"), true, &second, &complaints, &pid) == -EBUSY);
	check(pid == getpid());
	check(mode_of(".lock") == 0600); /* who can open it can hold the lock */
}

TEST(others_may_not_write)
{
	struct words complaints = {0};
	struct publisher *bad = NULL;
	pid_t pid;

	check(mkdir(temp_path("open"), 0777) == 0 && chmod(temp_path("open"), 0777) == 0);
	check(publisher_open(temp_path("open"), true, &bad, &complaints, &pid) == -EPERM);
	check(publisher_open(temp_path("open/below"), true, &bad, &complaints, &pid) == -EPERM);
}

TEST(files)
{
	struct runtime rt = RUNTIME_NULL;
	char *read = NULL;
	size_t size;

	check(publisher_snapshot(p, digest, text, strlen(text)) == 0);
	check(publisher_has(p, digest) == 1);
	check(mode_of(temp_path("run/snapshots/%s", digest) + strlen(temp_path("run/"))) == 0444);
	check(publisher_assign(p, "a\n", 2) == 0 && mode_of("assign") == 0444);
	check(publisher_assign_is(p, "a\n", 2) && !publisher_assign_is(p, "b\n", 2));
	check(publisher_status(p, "{}", 2) == 0 && mode_of("status") == 0644);
	check(publisher_current(p, digest) == 0);
	check(access(temp_path("run/current"), R_OK) == 0);
	check(runtime_open(temp_path("run"), geteuid(), &rt) == 0);
	check(runtime_read(&rt, rt.snapshots_fd, digest, 1000, &read, &size) == 0);
	check_streq(read, text);
	free(read);
	runtime_done(&rt);
	check(publisher_current(p, "") == 0);
	check(access(temp_path("run/current"), R_OK) < 0);
}

static void damage_write(const char *path)
{
	check(chmod(path, 0644) == 0);
	temp_put(path, "other bytes");
	check(chmod(path, 0444) == 0);
}

static void damage_remove(const char *path)
{
	check(unlink(path) == 0);
}

static void damage_mode(const char *path)
{
	check(chmod(path, 0666) == 0);
}

static void damage_link(const char *path)
{
	damage_remove(path);
	check(symlink("/etc/passwd", path) == 0);
}

static void damage_directory(const char *path)
{
	damage_remove(path);
	check(mkdir(path, 0755) == 0);
	temp_put(temp_path("run/snapshots/%s/x", digest), "x");
}

static void damage_fifo(const char *path)
{
	damage_remove(path);
	check(mkfifo(path, 0444) == 0);
}

static void damage_owner(const char *path)
{
	if (geteuid() == 0)
		check(chown(path, 12345, 12345) == 0);
	else
		damage_mode(path);
}

TEST(damage_is_found_and_put_right)
{
	static void (*const damages[])(const char *) = {
		damage_write, damage_remove,    damage_mode, damage_link,
		damage_fifo,  damage_directory, damage_owner};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct words damaged = {0};

		check(publisher_damaged(p, &damaged) == 0 && damaged.n == 0);
		damages[i](temp_path("run/snapshots/%s", digest));
		check(publisher_damaged(p, &damaged) == 0 && damaged.n == 1);
		check_streq(damaged.items[0], digest);
		words_done(&damaged);
		check(publisher_has(p, digest) == 0);
		check(publisher_snapshot(p, digest, text, strlen(text)) == 0);
		check(publisher_has(p, digest) == 1);
	}
	check(publisher_assign(p, "a\n", 2) == 0);
	damage_mode(temp_path("run/assign"));
	check(!publisher_assign_is(p, "a\n", 2));
	check(publisher_assign(p, "a\n", 2) == 0 && publisher_assign_is(p, "a\n", 2));
}

TEST(directories_are_put_right)
{
	struct words complaints = {0};

	check(chmod(temp_path("run"), 0777) == 0 && chmod(temp_path("run/snapshots"), 0700) == 0);
	check(rmdir(temp_path("run/jobs")) == 0);
	check(publisher_in_place(p, &complaints) == 0 && complaints.n == 0);
	check(mode_of("") == 0755 && mode_of("snapshots") == 0755 && mode_of("jobs") == 01777);
	check(rename(temp_path("run"), temp_path("gone")) == 0);
	check(publisher_in_place(p, &complaints) == -ENOENT);
	check(mkdir(temp_path("run"), 0755) == 0);
	check(publisher_in_place(p, &complaints) == -ESTALE);
	check(rmdir(temp_path("run")) == 0 && rename(temp_path("gone"), temp_path("run")) == 0);
	check(publisher_in_place(p, &complaints) == 0);
}

/* What an earlier manager left: good files are proven, bad ones go, half-written ones too. */
TEST(adopted)
{
	static const char other[] =
		"0000000000000000000000000000000000000000000000000000000000000000";

	p = publisher_free(p);
	temp_put(temp_path("run/snapshots/%s", other), "not these bytes");
	check(chmod(temp_path("run/snapshots/%s", other), 0444) == 0);
	temp_put(temp_path("run/snapshots/.%s.new", other), "hal");
	temp_put(temp_path("run/.assign.new"), "hal");
	p = open_tree();
	check(publisher_adopt(p) == 0);
	check(access(temp_path("run/snapshots/%s", other), F_OK) < 0);
	check(access(temp_path("run/snapshots/.%s.new", other), F_OK) < 0);
	check(access(temp_path("run/.assign.new"), F_OK) < 0);
	check(publisher_has(p, digest) == 1 && p->n_items == 1);
}

static void big(int i, char *bytes, size_t size, char ret[DIGEST_SIZE])
{
	memset(bytes, 'x', size);
	(void)snprintf(bytes, size, "%d", i);
	digest_bytes(bytes, size, ret);
}

/* Over the size, what nobody has goes, oldest first; what a pin names (also as a former one) stays.
 */
TEST(pruned)
{
	size_t size = 600 * 1024, n = PUBLISH_MAX_BYTES / size + 8;
	_cleanup_(freep) char *bytes = malloc(size);
	char first[DIGEST_SIZE], second[DIGEST_SIZE], d[DIGEST_SIZE], pin[2 * DIGEST_SIZE];
	struct words keep = {0};
	unsigned left = 0;

	check(bytes && words_add(&keep, digest) == 0);
	big(0, bytes, size, first);
	big(1, bytes, size, second);
	(void)snprintf(pin, sizeof(pin), "none %s", first);
	check(symlink(pin, temp_path("run/jobs/tree-0-1-2-3")) == 0);
	for (size_t i = 0; i < n; i++) {
		struct timespec times[2] = {{.tv_sec = (time_t)i + 1}, {.tv_sec = (time_t)i + 1}};

		big((int)i, bytes, size, d);
		check(publisher_snapshot(p, d, bytes, size) == 0);
		check(utimensat(p->snapshots_fd, d, times, 0) == 0 && publisher_has(p, d) == 1);
	}
	check(publisher_prune(p, &keep) == 0);
	for (size_t i = 0; i < n; i++) {
		big((int)i, bytes, size, d);
		left += access(temp_path("run/snapshots/%s", d), F_OK) == 0;
	}
	check(left == PUBLISH_MAX_BYTES / size && left < n);
	check(publisher_has(p, first) == 1 && publisher_has(p, second) == 0);
	check(publisher_has(p, digest) == 1 && publisher_has(p, d) == 1);
	words_done(&keep);
}

/* Whenever it dies, `assign` is the old or the new one, whole. */
TEST(crash_at_every_step)
{
	bool done = false;

	for (int n = 0; !done; n++) {
		pid_t pid;
		int status;

		check(publisher_assign(p, "old\n", 4) == 0);
		pid = fork();
		check(pid >= 0);
		if (pid == 0) {
			crash_at(n);
			_exit(publisher_assign(p, "new\n", 4) == 0 ? 0 : 1);
		}
		check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		done = WEXITSTATUS(status) == 0;
		check(done || WEXITSTATUS(status) == CRASH_STATUS);
		check(publisher_assign_is(p, done ? "new\n" : "old\n", 4));
		check(!done || n >= 4);
	}
	p = publisher_free(p);
}

TEST_MAIN
