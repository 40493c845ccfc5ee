/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A runtime directory to be judged, in a temporary folder, for the tests of common/runtime:
 * set_up(), what the test makes with at(), tear_down(). A FIFO that blocks ends the program by
 * SIGALRM.
 */
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/runtime.h"
#include "common/util.h"
#include "tests/unit/test.h"

#define STRANGER ((uid_t)12345)
#define NOBODY   ((uid_t)65534)

static char base[PATH_MAX - 256]; /* a fresh folder below /tmp, 0755 */
static char tree[PATH_MAX];       /* base/rt */

_printf_(1, 2) static const char *at(const char *format, ...)
{
	static char paths[8][2 * PATH_MAX];
	static unsigned turn;
	char *path = paths[turn++ % ARRAY_SIZE(paths)];
	int n = snprintf(path, sizeof paths[0], "%s/", base);
	va_list ap;

	va_start(ap, format);
	vsnprintf(path + n, sizeof paths[0] - (size_t)n, format, ap);
	va_end(ap);
	return path;
}

static void make_dir(const char *path, mode_t mode, uid_t owner)
{
	check(mkdir(path, 0700) == 0);
	check(chown(path, owner, (gid_t)-1) == 0);
	check(chmod(path, mode) == 0);
}

static void put(const char *path, const char *bytes, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	check(fd >= 0);
	check(write(fd, bytes, size) == (ssize_t)size);
	check(fchmod(fd, mode) == 0);
	close(fd);
}

static void make_tree(const char *path, uid_t owner)
{
	char sub[2 * PATH_MAX];

	make_dir(path, 0755, owner);
	snprintf(sub, sizeof sub, "%s/snapshots", path);
	make_dir(sub, 0755, owner);
	snprintf(sub, sizeof sub, "%s/jobs", path);
	make_dir(sub, 01777, owner);
	snprintf(sub, sizeof sub, "%s/procs", path);
	make_dir(sub, 01777, owner);
}

static void set_up_in(const char *parent)
{
	snprintf(base, sizeof base, "%s/test-runtime-XXXXXX", parent);
	check(mkdtemp(base));
	check(chmod(base, 0755) == 0);
	snprintf(tree, sizeof tree, "%s", at("rt"));
	make_tree(tree, geteuid());
	alarm(60);
}

static void set_up(void)
{
	set_up_in("/tmp");
}

static void tear_down(void)
{
	char command[PATH_MAX + 32];

	snprintf(command, sizeof command, "rm -rf -- %s", base);
	check(system(command) == 0);
	alarm(0);
}

/* Opens, closes and says what came of it. */
static int judged(const char *path, uid_t self)
{
	struct runtime rt = RUNTIME_NULL;
	int r = runtime_open(path, self, &rt);

	check((r == 0) == (rt.dir_fd >= 0));
	runtime_done(&rt);
	return r;
}

/* Runs FN in a child, as UID where that is another one; a failed check in it fails here. */
static void in_child(uid_t uid, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		if (uid != geteuid())
			check(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
		fn();
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void make_link(const char *path, const char *text, uid_t owner)
{
	check(symlink(text, path) == 0);
	check(lchown(path, owner, (gid_t)-1) == 0);
}

static int read_name(const struct runtime *rt, const char *name, size_t max)
{
	size_t size = 7;
	char *bytes = NULL;
	int r = runtime_read(rt, rt->dir_fd, name, max, &bytes, &size);

	check((r == 0) == (bytes != NULL));
	check(r == 0 || size == 7);
	check(r != 0 || bytes[size] == '\0');
	free(bytes);
	return r;
}
