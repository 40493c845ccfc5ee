/* SPDX-License-Identifier: MIT */
/*
 * Whom a process believes. Trees of many makes are built in a temporary folder and judged for
 * several uids; what needs other uids is run as root only, in children that give their uid up. A
 * FIFO that blocked would end the program by SIGALRM.
 */
#include "common/runtime.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

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

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(own_tree)
{
	struct runtime rt = RUNTIME_NULL;

	set_up();
	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(rt.self == geteuid() && rt.publisher == geteuid() && rt.broker == geteuid());
	for (size_t i = 0; i < 4; i++) {
		int fd = (const int[]){rt.dir_fd, rt.snapshots_fd, rt.jobs_fd, rt.procs_fd}[i];

		check(fd >= 3);
		check(fcntl(fd, F_GETFD) == FD_CLOEXEC);
		check(fcntl(fd, F_GETFL) & O_PATH);
	}
	check(faccessat(rt.dir_fd, "snapshots", F_OK, 0) == 0);
	runtime_done(&rt);
	check(rt.dir_fd < 0 && rt.procs_fd < 0);
	runtime_done(&rt);
	tear_down();
}

TEST(absent_parts)
{
	struct runtime rt = RUNTIME_NULL;
	char text[16], *bytes = NULL;
	size_t size;

	set_up();
	check(rmdir(at("rt/jobs")) == 0 && rmdir(at("rt/procs")) == 0);
	check(rmdir(at("rt/snapshots")) == 0);
	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(rt.snapshots_fd < 0 && rt.jobs_fd < 0 && rt.procs_fd < 0);
	check(runtime_read(&rt, rt.snapshots_fd, "x", 10, &bytes, &size) == -ENOENT);
	check(runtime_readlink(&rt, rt.jobs_fd, "x", 0, text, sizeof text) == -ENOENT);
	runtime_done(&rt);
	tear_down();
}

TEST(paths)
{
	static char big[PATH_MAX + 10];
	uid_t self = geteuid();

	set_up();
	check(judged("", self) == -EINVAL);
	check(judged("rt", self) == -EINVAL);
	check(judged(at("absent"), self) == -ENOENT);
	check(judged(at("absent/rt"), self) == -ENOENT);
	put(at("file"), "x", 1, 0644);
	check(judged(at("file"), self) == -ENOTDIR);
	check(judged(at("file/rt"), self) == -ENOTDIR);
	memset(big, '/', PATH_MAX);
	check(judged(big, self) == -ENAMETOOLONG);
	memcpy(big, tree, strlen(tree));
	memset(big + strlen(tree), '/', PATH_MAX - 1 - strlen(tree));
	big[PATH_MAX - 1] = '\0';
	check(judged(big, self) == 0);
	check(judged(at("/./rt//snapshots/../"), self) == 0);
	tear_down();
}

TEST(symlinks_of_ones_own)
{
	static char text[PATH_MAX];
	uid_t self = geteuid();

	set_up();
	check(symlink("rt", at("relative")) == 0);
	check(symlink(tree, at("absolute")) == 0);
	check(symlink("absolute", at("twice")) == 0);
	check(symlink("../rt/../twice", at("rt/back")) == 0);
	check(judged(at("relative"), self) == 0);
	check(judged(at("absolute/"), self) == 0);
	check(judged(at("twice"), self) == 0);
	check(judged(at("rt/back"), self) == 0);
	check(symlink("loop", at("loop")) == 0);
	check(judged(at("loop"), self) == -ELOOP);
	check(symlink("nowhere", at("broken")) == 0);
	check(judged(at("broken"), self) == -ENOENT);
	memset(text, '/', PATH_MAX - 1);
	check(symlink(text, at("long")) == 0);
	check(judged(at("long/rt"), self) == -ENAMETOOLONG);
	tear_down();
}

TEST(writable_by_others)
{
	static const mode_t bad[] = {0775, 0757, 0777, 01777, 02775, 0720};
	uid_t self = geteuid();

	set_up();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		bool sticky = bad[i] & S_ISVTX;

		check(chmod(tree, bad[i]) == 0);
		check(judged(tree, self) == -EPERM);
		check(chmod(tree, 0755) == 0);
		check(chmod(at("rt/snapshots"), bad[i]) == 0);
		check(judged(tree, self) == -EPERM);
		check(chmod(at("rt/snapshots"), 0755) == 0);
		/* these may be shared, but nobody may rename what another made */
		check(chmod(at("rt/jobs"), bad[i]) == 0);
		check(judged(tree, self) == (sticky ? 0 : -EPERM));
		check(chmod(at("rt/jobs"), 01777) == 0);
		check(chmod(at("rt/procs"), bad[i]) == 0);
		check(judged(tree, self) == (sticky ? 0 : -EPERM));
		check(chmod(at("rt/procs"), 01777) == 0);
		/* on the way there */
		check(chmod(base, bad[i]) == 0);
		check(judged(tree, self) == (sticky ? 0 : -EPERM));
		check(chmod(base, 0755) == 0);
		check(judged(tree, self) == 0);
	}
	tear_down();
}

/* Something else where a directory should be. */
TEST(odd_parts)
{
	static const char *const parts[] = {"snapshots", "jobs", "procs"};
	uid_t self = geteuid();

	set_up();
	check(mkdir(at("elsewhere"), 0755) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *part = at("rt/%s", parts[i]);

		check(rmdir(part) == 0);
		check(symlink("../elsewhere", part) == 0);
		check(judged(tree, self) == -EPERM);
		check(unlink(part) == 0);
		check(mkfifo(part, 0644) == 0);
		check(judged(tree, self) == -EPERM);
		check(unlink(part) == 0);
		put(part, "x", 1, 0644);
		check(judged(tree, self) == -EPERM);
		check(unlink(part) == 0);
		check(mkdir(part, 0755) == 0);
		check(judged(tree, self) == 0);
	}
	check(mkfifo(at("fifo"), 0644) == 0);
	check(judged(at("fifo"), self) == -ENOTDIR);
	tear_down();
}

TEST(owners)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	/* root's: everybody's */
	check(judged(tree, 0) == 0 && judged(tree, STRANGER) == 0 && judged(tree, NOBODY) == 0);

	/* a user's own: that user's alone, and never root's; the same for nobody, whose uid is also
	 * the overflow uid */
	make_tree(at("own"), STRANGER);
	check(judged(at("own"), STRANGER) == 0);
	check(judged(at("own"), 0) == -EPERM);
	check(judged(at("own"), NOBODY) == -EPERM);
	make_tree(at("nobody"), NOBODY);
	check(judged(at("nobody"), NOBODY) == 0);
	check(judged(at("nobody"), 0) == -EPERM);
	check(judged(at("nobody"), STRANGER) == -EPERM);

	/* root's tree in a user's directory could be swapped by that user */
	make_dir(at("home"), 0755, STRANGER);
	make_tree(at("home/rt"), 0);
	check(judged(at("home/rt"), 0) == -EPERM);
	check(judged(at("home/rt"), NOBODY) == -EPERM);
	check(judged(at("home/rt"), STRANGER) == 0);

	/* the parts */
	check(chown(at("rt/snapshots"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == -EPERM && judged(tree, STRANGER) == -EPERM);
	check(chown(at("rt/snapshots"), 0, (gid_t)-1) == 0);
	check(chown(at("rt/procs"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == -EPERM);
	check(chown(at("rt/jobs"), STRANGER, (gid_t)-1) == 0);
	check(judged(tree, 0) == 0);
	check(chown(at("rt/procs"), 0, (gid_t)-1) == 0);
	check(judged(tree, 0) == 0);
	tear_down();
}

TEST(symlinks_of_others)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(chmod(base, 01777) == 0);
	check(symlink("rt", at("roots")) == 0);
	check(symlink("rt", at("strangers")) == 0);
	check(lchown(at("strangers"), STRANGER, (gid_t)-1) == 0);
	check(judged(at("roots"), 0) == 0 && judged(at("roots"), STRANGER) == 0);
	check(judged(at("strangers"), STRANGER) == 0);
	check(judged(at("strangers"), 0) == -EPERM);
	check(judged(at("strangers"), NOBODY) == -EPERM);
	/* in the middle */
	check(symlink(base, at("middle")) == 0);
	check(lchown(at("middle"), STRANGER, (gid_t)-1) == 0);
	check(judged(at("middle/rt"), 0) == -EPERM);
	check(judged(at("middle/rt"), STRANGER) == 0);
	tear_down();
}

/* --- files */

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

TEST(read_files)
{
	struct runtime rt = RUNTIME_NULL;
	char *bytes = NULL;
	size_t size;

	set_up();
	put(at("rt/file"), "a\0b\n", 4, 0444);
	put(at("rt/empty"), "", 0, 0444);
	put(at("rt/group"), "x", 1, 0464);
	put(at("rt/other"), "x", 1, 0446);
	check(symlink("file", at("rt/link")) == 0);
	check(mkfifo(at("rt/fifo"), 0444) == 0);
	check(runtime_open(tree, geteuid(), &rt) == 0);

	check(runtime_read(&rt, rt.dir_fd, "file", 4, &bytes, &size) == 0);
	check(size == 4 && memcmp(bytes, "a\0b\n", 5) == 0);
	free(bytes);
	check(read_name(&rt, "file", 3) == -EFBIG);
	check(read_name(&rt, "empty", 0) == 0);
	check(read_name(&rt, "group", 10) == -EPERM);
	check(read_name(&rt, "other", 10) == -EPERM);
	check(read_name(&rt, "absent", 10) == -ENOENT);
	check(read_name(&rt, "link", 10) == -ELOOP);
	check(read_name(&rt, "fifo", 10) == -EINVAL);
	check(read_name(&rt, "snapshots", 10) == -EINVAL);
	check(read_name(&rt, "", 10) == -EINVAL);
	check(read_name(&rt, ".", 10) == -EINVAL);
	check(read_name(&rt, "..", 10) == -EINVAL);
	check(read_name(&rt, "../rt/file", 10) == -EINVAL);
	check(read_name(&rt, "/etc/passwd", 10000) == -EINVAL);

	check(truncate(at("rt/file"), (off_t)RUNTIME_FILE_MAX + 1) == 0);
	check(read_name(&rt, "file", SIZE_MAX) == -EFBIG);
	check(truncate(at("rt/file"), (off_t)RUNTIME_FILE_MAX) == 0);
	check(read_name(&rt, "file", SIZE_MAX) == 0);
	runtime_done(&rt);
	tear_down();
}

TEST(read_odd_files)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct runtime rt = RUNTIME_NULL;

	set_up();
	check(runtime_open(tree, geteuid(), &rt) == 0);
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", at("rt/sock"));
	check(fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0);
	check(read_name(&rt, "sock", 10) == -ENXIO);
	if (mknod(at("rt/zero"), S_IFCHR | 0444, makedev(1, 5)) == 0)
		check(read_name(&rt, "zero", 10) < 0);
	if (geteuid() == 0) {
		put(at("rt/users"), "x", 1, 0444);
		check(chown(at("rt/users"), STRANGER, (gid_t)-1) == 0);
		check(read_name(&rt, "users", 10) == -EPERM);
	}
	runtime_done(&rt);
	tear_down();
}

/* The kernel has files that hold more than fstat says, and less: what they do is what a file does
 * that is changed between fstat and read. */
TEST(read_changing_files)
{
	struct runtime rt = RUNTIME_NULL;
	struct stat st;

	rt.dir_fd = open("/proc/sys/kernel", O_PATH | O_CLOEXEC);
	if (rt.dir_fd < 0 || fstatat(rt.dir_fd, "ostype", &st, 0) < 0 || st.st_uid != 0)
		skip("no /proc/sys of root's");
	check(read_name(&rt, "ostype", 4096) == -EAGAIN);
	runtime_done(&rt);
	rt.dir_fd = open("/sys/kernel", O_PATH | O_CLOEXEC);
	if (rt.dir_fd < 0 || fstatat(rt.dir_fd, "uevent_seqnum", &st, 0) < 0 || st.st_uid != 0)
		skip("no /sys of root's");
	check(read_name(&rt, "uevent_seqnum", 4096) == -EAGAIN);
	runtime_done(&rt);
}

/* --- links */

static void make_link(const char *path, const char *text, uid_t owner)
{
	check(symlink(text, path) == 0);
	check(lchown(path, owner, (gid_t)-1) == 0);
}

TEST(readlink)
{
	struct runtime rt = RUNTIME_NULL;
	uid_t self = geteuid();
	char text[8] = "kept";

	set_up();
	check(runtime_open(tree, self, &rt) == 0);
	make_link(at("rt/jobs/own"), "none", self);
	make_link(at("rt/jobs/seven"), "1234567", self);
	make_link(at("rt/jobs/eight"), "12345678", self);
	put(at("rt/jobs/file"), "none", 4, 0444);
	check(mkfifo(at("rt/jobs/fifo"), 0444) == 0);
	check(mkdir(at("rt/jobs/dir"), 0755) == 0);

	check(runtime_readlink(&rt, rt.jobs_fd, "absent", self, text, sizeof text) == -ENOENT);
	check(runtime_readlink(&rt, rt.jobs_fd, "file", self, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "fifo", self, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "dir", self, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "../jobs/own", self, text, sizeof text) == -EINVAL);
	check(runtime_readlink(&rt, rt.jobs_fd, "", self, text, sizeof text) == -EINVAL);
	check_streq(text, "kept");
	check(runtime_readlink(&rt, rt.jobs_fd, "own", self, text, sizeof text) == 0);
	check_streq(text, "none");
	check(runtime_readlink(&rt, rt.jobs_fd, "seven", self, text, sizeof text) == 0);
	check_streq(text, "1234567");
	check(runtime_readlink(&rt, rt.jobs_fd, "eight", self, text, sizeof text) == -ENAMETOOLONG);
	runtime_done(&rt);
	tear_down();
}

TEST(readlink_owners)
{
	const uid_t broker = 998, other = 23456;
	struct runtime rt = RUNTIME_NULL;
	char text[8];

	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(chown(at("rt/jobs"), broker, (gid_t)-1) == 0);
	check(runtime_open(tree, STRANGER, &rt) == 0);
	check(rt.publisher == 0 && rt.broker == broker);
	make_link(at("rt/jobs/root"), "r", 0);
	make_link(at("rt/jobs/broker"), "b", broker);
	make_link(at("rt/jobs/own"), "o", STRANGER);
	make_link(at("rt/jobs/other"), "x", other);
	make_link(at("rt/jobs/nobody"), "n", NOBODY);
	check(runtime_readlink(&rt, rt.jobs_fd, "root", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "broker", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "own", STRANGER, text, sizeof text) == 0);
	check(runtime_readlink(&rt, rt.jobs_fd, "other", STRANGER, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "nobody", STRANGER, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "own", 0, text, sizeof text) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "broker", 0, text, sizeof text) == 0);
	runtime_done(&rt);
	tear_down();
}

/* --- hard places */

static void with_closed_stdio(void)
{
	struct runtime rt = RUNTIME_NULL;
	char *bytes, text[16];
	size_t size;

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (runtime_open(tree, geteuid(), &rt) < 0 || rt.dir_fd < 3 || rt.snapshots_fd < 3 ||
	    rt.jobs_fd < 3 || rt.procs_fd < 3)
		_exit(2);
	if (runtime_read(&rt, rt.dir_fd, "file", 10, &bytes, &size) < 0 ||
	    runtime_readlink(&rt, rt.jobs_fd, "link", geteuid(), text, sizeof text) < 0)
		_exit(3);
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			_exit(4);
	_exit(0);
}

TEST(closed_stdio)
{
	set_up();
	put(at("rt/file"), "x", 1, 0444);
	make_link(at("rt/jobs/link"), "none", geteuid());
	in_child(geteuid(), with_closed_stdio);
	tear_down();
}

/* With every number of free descriptors: all or nothing, and nothing left behind. */
static void with_few_descriptors(void)
{
	bool opened = false;

	for (rlim_t limit = 3; limit < 20; limit++) {
		struct rlimit rl = {limit, 20};
		struct runtime rt = RUNTIME_NULL;
		unsigned before = open_descriptors();
		int r;

		check(setrlimit(RLIMIT_NOFILE, &rl) == 0);
		r = runtime_open(tree, geteuid(), &rt);
		check(r == 0 || r == -EMFILE);
		check(r == 0 || !opened);
		opened = r == 0;
		runtime_done(&rt);
		check(open_descriptors() == before);
	}
	check(opened);
}

TEST(few_descriptors)
{
	set_up();
	in_child(geteuid(), with_few_descriptors);
	tear_down();
}

static void with_no_descriptor_and_no_stdio(void)
{
	struct rlimit rl = {3, 3};
	struct runtime rt = RUNTIME_NULL;

	close(0);
	close(1);
	check(setrlimit(RLIMIT_NOFILE, &rl) == 0);
	check(runtime_open(tree, geteuid(), &rt) == -EMFILE);
	check(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0);
}

TEST(no_descriptor_and_no_stdio)
{
	set_up();
	in_child(geteuid(), with_no_descriptor_and_no_stdio);
	tear_down();
}

TEST(nothing_leaks)
{
	unsigned before = open_descriptors();
	struct runtime rt = RUNTIME_NULL;

	set_up();
	put(at("rt/file"), "x", 1, 0444);
	check(symlink("rt", at("link")) == 0);
	check(judged(at("link"), geteuid()) == 0);
	check(judged(at("link/absent"), geteuid()) == -ENOENT);
	check(chmod(at("rt/procs"), 0777) == 0);
	check(judged(at("link"), geteuid()) == -EPERM);
	check(chmod(at("rt/procs"), 01777) == 0);
	check(runtime_open(tree, geteuid(), &rt) == 0);
	check(read_name(&rt, "file", 10) == 0);
	check(read_name(&rt, "file", 0) == -EFBIG);
	runtime_done(&rt);
	check(open_descriptors() == before);
	tear_down();
}

/* No /proc there. */
static void in_chroot(void)
{
	check(chroot(base) == 0 && chdir("/") == 0);
	check(judged("/rt", 0) == 0);
	check(judged("/../rt", 0) == 0);
	check(judged("/shared/rt", STRANGER) == 0);
	check(judged("/shared/rt", 0) == -EPERM);
	check(judged("/shared/rt", NOBODY) == -EPERM);
}

TEST(chroot_without_proc)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up();
	make_dir(at("shared"), 01777, 0);
	make_tree(at("shared/rt"), STRANGER);
	in_child(0, in_chroot);
	tear_down();
}

/* --- user namespaces */

/* Writes MAP for process PID once the pipe FD is closed at its other end. */
static void write_map(pid_t pid, const char *map, int fd)
{
	char path[64], c;

	if (read(fd, &c, 1) != 0)
		_exit(1);
	snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	_exit(fd < 0 || write(fd, map, strlen(map)) != (ssize_t)strlen(map));
}

/* The map is written from outside, where root may write any. */
static void enter_user_namespace(const char *map)
{
	int fds[2], status;
	pid_t self = getpid(), pid;

	check(prctl(PR_SET_DUMPABLE, 1) == 0);
	check(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		close(fds[1]);
		write_map(self, map, fds[0]);
	}
	check(unshare(CLONE_NEWUSER) == 0);
	close(fds[0]);
	close(fds[1]);
	check(waitpid(pid, &status, 0) == pid);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int can_unshare(void)
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0);
	check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Root is not mapped: its files are nobody's, and believed where nobody else can have put them. */
static void root_unmapped_self_mapped(void)
{
	struct runtime rt = RUNTIME_NULL;
	char text[16];

	enter_user_namespace("12345 12345 1");
	check(geteuid() == STRANGER);
	check(runtime_open(tree, STRANGER, &rt) == 0);
	check(rt.publisher == NOBODY && rt.broker == NOBODY);
	check(read_name(&rt, "file", 10) == 0);
	check(read_name(&rt, "own", 10) == -EPERM);
	check(read_name(&rt, "writable", 10) == -EPERM);
	check(runtime_readlink(&rt, rt.jobs_fd, "root", STRANGER, text, sizeof text) == 0);
	runtime_done(&rt);
	check(judged(at("link"), STRANGER) == 0);
	check(judged(at("shared/rt"), STRANGER) == -EPERM);
	check(judged(at("shared/own"), STRANGER) == 0);
	check(judged(at("group/rt"), STRANGER) == -EPERM);
}

static void self_is_root_inside(void)
{
	enter_user_namespace("0 12345 1");
	check(geteuid() == 0);
	check(judged(tree, 0) == 0);
	check(judged(at("shared/rt"), 0) == -EPERM);
	check(judged(at("shared/own"), 0) == 0);
}

static void nobody_mapped(void)
{
	check(unshare(CLONE_NEWUSER) == 0);
	check(geteuid() == NOBODY);
	check(judged(tree, NOBODY) == 0);
	check(judged(at("shared/rt"), NOBODY) == -EPERM);
	check(judged(at("shared/own"), NOBODY) == -EPERM);
}

/* Root is mapped: whoever seems to be nobody is not root. */
static void root_mapped(void)
{
	enter_user_namespace("0 0 1");
	check(judged(tree, 0) == 0);
	check(judged(at("strangers"), 0) == -EPERM);
}

/* Not even where root is not the first of the map. */
static void root_mapped_late(void)
{
	enter_user_namespace("0 1000 10\n2000 0 1\n");
	check(judged(at("strangers"), 2000) == -EPERM);
	check(judged(at("strangers"), 0) == -EPERM);
}

TEST(user_namespaces)
{
	if (geteuid() != 0)
		skip("needs root");
	if (!can_unshare())
		skip("user namespaces are not permitted");
	set_up_in("/run");
	put(at("rt/file"), "x", 1, 0444);
	put(at("rt/own"), "x", 1, 0444);
	check(chown(at("rt/own"), STRANGER, (gid_t)-1) == 0);
	put(at("rt/writable"), "x", 1, 0664);
	make_link(at("rt/jobs/root"), "none", 0);
	check(symlink("rt", at("link")) == 0);
	make_dir(at("shared"), 01777, 0);
	make_tree(at("shared/rt"), 0);
	make_tree(at("shared/own"), STRANGER);
	make_dir(at("group"), 0775, 0);
	make_tree(at("group/rt"), 0);
	make_tree(at("strangers"), STRANGER);

	in_child(STRANGER, root_unmapped_self_mapped);
	in_child(STRANGER, self_is_root_inside);
	in_child(STRANGER, nobody_mapped);
	in_child(0, root_mapped);
	in_child(0, root_mapped_late);
	tear_down();
}

/* --- finding */

static const char *find(const char *recorded)
{
	static char path[PATH_MAX];
	struct runtime rt = RUNTIME_NULL;

	if (runtime_find(recorded, geteuid(), &rt, path) < 0)
		return "";
	runtime_done(&rt);
	return path;
}

TEST(find)
{
	struct runtime rt = RUNTIME_NULL;
	char env[PATH_MAX], recorded[PATH_MAX];

	set_up();
	snprintf(env, sizeof env, "%s", at("env"));
	snprintf(recorded, sizeof recorded, "%s", at("recorded"));
	unsetenv("CUDAENV_RUNTIME_DIR");
	check(strncmp(find(recorded), base, strlen(base)) != 0);
	make_tree(recorded, geteuid());
	check_streq(find(recorded), recorded);
	check(setenv("CUDAENV_RUNTIME_DIR", env, 1) == 0);
	check_streq(find(recorded), recorded); /* not there: the next one */
	make_tree(env, geteuid());
	check_streq(find(recorded), env);
	check_streq(find(NULL), env);
	check(chmod(env, 0777) == 0);
	check_streq(find(recorded), recorded); /* not believed: the next one */
	check(setenv("CUDAENV_RUNTIME_DIR", "", 1) == 0);
	check_streq(find(recorded), recorded);
	check(runtime_find(recorded, geteuid(), &rt, NULL) == 0);
	runtime_done(&rt);
	unsetenv("CUDAENV_RUNTIME_DIR");
	tear_down();
}

/* A set-uid copy of this program takes no word from its environment. */
__attribute__((constructor)) static void secure_helper(void)
{
	if (getenv("TEST_RUNTIME_SECURE"))
		_exit(streq(find(NULL), getenv("CUDAENV_RUNTIME_DIR")) ? 10 : 11);
}

TEST(find_in_secure_process)
{
	char command[2 * PATH_MAX];

	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(setenv("CUDAENV_RUNTIME_DIR", tree, 1) == 0);
	snprintf(command, sizeof command, "cp -L /proc/%d/exe %s", (int)getpid(), at("copy"));
	check(system(command) == 0);
	check(setenv("TEST_RUNTIME_SECURE", "1", 1) == 0);
	check(WEXITSTATUS(system(at("copy"))) == 10);
	check(chown(at("copy"), STRANGER, (gid_t)-1) == 0 && chmod(at("copy"), 04755) == 0);
	check(WEXITSTATUS(system(at("copy"))) == 11);
	unsetenv("TEST_RUNTIME_SECURE");
	unsetenv("CUDAENV_RUNTIME_DIR");
	tear_down();
}

TEST_MAIN
