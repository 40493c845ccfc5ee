/* SPDX-License-Identifier: MIT */
/* Where units are found, below a root of the test's own; and how files of strangers are read. */
#include "client/ctl/unitfiles.h"

#include "client/ctl/child.h"
#include "client/ctl/slurp.h"
#include "tests/unit/temp.h"

#include <sys/inotify.h>
#include <sys/wait.h>

static int root_fd;

/* Makes FILE and the directories above it. */
static void put(const char *file, const char *text)
{
	char path[4096];

	(void)snprintf(path, sizeof path, "%s", temp_path("%s", file));
	for (char *p = path + strlen(temp_dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		check(mkdir(path, 0755) == 0 || errno == EEXIST);
	}
	temp_put(path, text);
}

/* The paths of a unit, with blanks between. */
static const char *files_of(const char *name)
{
	struct unit_list l = {0};
	static char shown[4096];
	int r = unit_files(root_fd, false, name, &l);

	shown[0] = '\0';
	if (r < 0)
		(void)snprintf(shown, sizeof shown, "%s", strerrorname_np(-r));
	for (size_t i = 0; r == 0 && i < l.n; i++)
		(void)snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%s",
			       i > 0 ? " " : "", l.paths[i]);
	unit_list_done(&l);
	return shown;
}

TEST(begin)
{
	temp_begin();
	root_fd = open(temp_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	check(root_fd >= 0);
}

TEST(precedence)
{
	put("usr/lib/systemd/system/a.service", "x");
	check_streq(files_of("a.service"), "/usr/lib/systemd/system/a.service");
	put("etc/systemd/system/a.service", "x");
	put("usr/lib/systemd/system/a.service.d/20.conf", "x");
	put("run/systemd/system/a.service.d/10.conf", "x");
	put("etc/systemd/system/a.service.d/20.conf", "x");
	put("etc/systemd/system/a.service.d/30.conf", "");
	put("usr/lib/systemd/system/a.service.d/30.conf", "x");
	put("usr/lib/systemd/system/service.d/15.conf", "x");
	check_streq(files_of("a.service"),
		    "/etc/systemd/system/a.service /run/systemd/system/a.service.d/10.conf "
		    "/usr/lib/systemd/system/service.d/15.conf "
		    "/etc/systemd/system/a.service.d/20.conf");
}

TEST(templates_and_prefixes)
{
	put("etc/systemd/system/w@.service", "x");
	put("etc/systemd/system/w@.service.d/1.conf", "x");
	put("etc/systemd/system/w@one.service.d/2.conf", "x");
	check_streq(files_of("w@one.service"),
		    "/etc/systemd/system/w@.service /etc/systemd/system/w@.service.d/1.conf "
		    "/usr/lib/systemd/system/service.d/15.conf "
		    "/etc/systemd/system/w@one.service.d/2.conf");
	put("etc/systemd/system/b-c-d.service", "x");
	put("etc/systemd/system/b-.service.d/3.conf", "x");
	put("etc/systemd/system/b-c-.service.d/4.conf", "x");
	check_streq(files_of("b-c-d.service"),
		    "/etc/systemd/system/b-c-d.service /usr/lib/systemd/system/service.d/15.conf "
		    "/etc/systemd/system/b-.service.d/3.conf "
		    "/etc/systemd/system/b-c-.service.d/4.conf");
}

TEST(none)
{
	char name[600];

	put("usr/lib/systemd/system/m.service", "x");
	check(symlink("/dev/null", temp_path("etc/systemd/system/m.service")) == 0);
	check_streq(files_of("m.service"), "ERFKILL");
	put("etc/systemd/system/e.service", "");
	check_streq(files_of("e.service"), "ERFKILL");
	check_streq(files_of("nothere.service"), "ENOENT");
	check_streq(files_of("../a.service"), "ENOENT");
	check_streq(files_of("a.socket"), "ENOENT");
	check_streq(files_of("w@.service"), "/etc/systemd/system/w@.service "
					    "/etc/systemd/system/w@.service.d/1.conf "
					    "/usr/lib/systemd/system/service.d/15.conf");
	memset(name, '-', sizeof name);
	strcpy(name + 580, ".service");
	check_streq(files_of(name), "ENOENT");
}

TEST(slurp_inside_of_a_root)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;

	put("etc/file", "inside");
	check(symlink("/etc/file", temp_path("absolute")) == 0);
	check(symlink("../../../../../../etc/file", temp_path("upward")) == 0);
	check(symlink("loop", temp_path("loop")) == 0);
	check(mkfifo(temp_path("fifo"), 0644) == 0);
	check(slurp(root_fd, "/absolute", 100, &text, &size) == 0);
	check(size == 6 && streq(text, "inside"));
	free(text);
	text = NULL;
	check(slurp(root_fd, "upward", 100, &text, &size) == 0 && size == 6);
	free(text);
	text = NULL;
	check(slurp(root_fd, "etc/file", 5, &text, &size) == -EFBIG);
	check(slurp(root_fd, "loop", 100, &text, &size) == -ELOOP);
	check(slurp(root_fd, "etc", 100, &text, &size) == -EISDIR);
	check(slurp(root_fd, "fifo", 100, &text, &size) == -EINVAL);
	check(slurp(root_fd, "nothere", 100, &text, &size) == -ENOENT);
	check(slurp(SLURP_ROOT_HERE, "/dev/zero", 100, &text, &size) == -EINVAL);
	check(slurp(SLURP_ROOT_HERE, "/proc/self/environ", 1, &text, &size) == -EFBIG);
	check(slurp(SLURP_ROOT_HERE, "/dev/null", 100, &text, &size) == 0 && size == 0);
	check(slurp_masked(root_fd, "etc/systemd/system/m.service"));
	check(!slurp_masked(root_fd, "etc/file") && !slurp_masked(root_fd, "loop"));
}

/* To open a device may do something: only a regular file is opened for reading. */
TEST(slurp_opens_no_device)
{
	_cleanup_(closep) int watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	char events[4096];
	size_t size;

	put("dev/plain", "x");
	check(mkfifo(temp_path("dev/fifo"), 0644) == 0);
	check(symlink("dev/fifo", temp_path("to-fifo")) == 0);
	check(inotify_add_watch(watch_fd, temp_path("dev/fifo"), IN_OPEN) >= 0);
	check(slurp(root_fd, "to-fifo", 100, &text, &size) == -EINVAL);
	check(slurp(SLURP_ROOT_HERE, temp_path("to-fifo"), 100, &text, &size) == -EINVAL);
	check(read(watch_fd, events, sizeof events) < 0 && errno == EAGAIN);
	check(inotify_add_watch(watch_fd, temp_path("dev/plain"), IN_OPEN) >= 0);
	check(slurp(root_fd, "dev/plain", 100, &text, &size) == 0 && size == 1);
	check(read(watch_fd, events, sizeof events) > 0);
}

static int ask(const char *command, unsigned msec, size_t max, struct child_answer *ret)
{
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};

	return child_ask(argv, msec, max, ret);
}

TEST(children)
{
	char *nothing[] = {(char *)"/nonexistent", NULL};
	struct child_answer a = {0};

	check(ask("read x; echo out; echo err >&2; exit 3", 10000, 100, &a) == 0);
	check(WIFEXITED(a.status) && WEXITSTATUS(a.status) == 3);
	check_streq(a.out, "out\nerr\n");
	child_answer_done(&a);
	check(child_ask(nothing, 10000, 100, &a) == 0 && WEXITSTATUS(a.status) == 127);
	child_answer_done(&a);
	check(ask("sleep 600", 50, 100, &a) == -ETIMEDOUT);
	check(ask("exec >&- 2>&-; sleep 600", 50, 100, &a) == -ETIMEDOUT);
	check(ask("echo 12345", 10000, 4, &a) == -EFBIG);
	check(!a.out);
}

static int print_word(void *word)
{
	printf("%s\n", (char *)word);
	return fflush(stdout);
}

static int crash(void *nothing)
{
	abort();
}

TEST(functions)
{
	struct child_answer a = {0};

	check(child_call(print_word, (void *)"word", 10000, 100, &a) == 0);
	check_streq(a.out, "word\n");
	check(WIFEXITED(a.status) && WEXITSTATUS(a.status) == 0);
	child_answer_done(&a);
	check(child_call(crash, NULL, 10000, 100, &a) == 0 && WIFSIGNALED(a.status));
	child_answer_done(&a);
}

TEST_MAIN
