/* SPDX-License-Identifier: MIT */
/*
 * The runtime directory and what is read in it, for one uid: paths, modes, files, links, and hard
 * places. Other uids are in test-runtime-trust.c.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "tests/unit/runtime-tree.h"

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
		bool sticky = bad[i] & S_ISVTX, private;

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
		private = self != 0 && getegid() == self && !(bad[i] & S_IWOTH);
		check(judged(tree, self) == (sticky || private ? 0 : -EPERM));
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

/* --- files */

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

	check(chmod(at("rt/file"), 0644) == 0);
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

static void set_descriptor_limit(rlim_t n)
{
	struct rlimit rl;

	check(getrlimit(RLIMIT_NOFILE, &rl) == 0);
	rl.rlim_cur = n;
	check(setrlimit(RLIMIT_NOFILE, &rl) == 0);
}

/* With every number of free descriptors: all or nothing, and nothing left behind. */
static void with_few_descriptors(void)
{
	bool opened = false;

	check(close_range(3, ~0u, 0) == 0);
	for (rlim_t limit = 3; limit < 20; limit++) {
		struct runtime rt = RUNTIME_NULL;
		unsigned before = open_descriptors();
		int r;

		set_descriptor_limit(limit);
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
	struct runtime rt = RUNTIME_NULL;

	close(0);
	close(1);
	set_descriptor_limit(3);
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
	char exe[PATH_MAX] = "", command[4 * PATH_MAX];

	if (geteuid() != 0)
		skip("needs root");
	set_up();
	check(setenv("CUDAENV_RUNTIME_DIR", tree, 1) == 0);
	check(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
	snprintf(command, sizeof command, "cp -- '%s' %s", exe, at("copy"));
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
