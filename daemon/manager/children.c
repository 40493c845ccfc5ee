/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/children.h"

#define PAUSE_FIRST_USEC (50 * 1000ull)
#define PAUSE_MAX_USEC   (10 * 1000 * 1000ull)
#define HEALTHY_USEC     (10 * 1000 * 1000ull) /* who ran that long is started again at once */
#define END_USEC         (2 * 1000 * 1000ull)

static const struct piece {
	const char *name;
	const char *built; /* below the directory of cudaenvd in a build tree */
} pieces[] = {
	{"cudaenv-broker", "daemon/broker/cudaenv-broker"},
};

struct child {
	struct children *children;
	const char *name;
	char *path; /* NULL: not there */
	pid_t pid;  /* 0: does not run */
	sd_event_source *exit;
	sd_event_source *again; /* timer */
	uint64_t started_usec;
	uint64_t pause_usec;
};

struct children {
	sd_event *event;
	struct child items[ARRAY_SIZE(pieces)];
	sd_event_source *deadline; /* of ending */
	children_ended ended;      /* set: we are ending */
	void *userdata;
};

static uint64_t now_usec(const struct children *c)
{
	uint64_t now = 0;

	(void)sd_event_now(c->event, CLOCK_MONOTONIC, &now);
	return now;
}

static int try_path(const char *dir, size_t dir_size, const char *name, char **ret)
{
	_cleanup_(freep) char *path = NULL;

	if (asprintf(&path, "%.*s/%s", (int)dir_size, dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (access(path, X_OK) < 0)
		return 0;
	*ret = TAKE_PTR(path);
	return 1;
}

static int find_piece(const struct piece *piece, char **ret)
{
	const char *given = secure_getenv("CUDAENV_LIBEXECDIR");
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int r = 0;

	if (given && given[0] == '/')
		return try_path(given, strlen(given), piece->name, ret);
	if (n > 0) {
		exe[n] = '\0';
		r = try_path(exe, (size_t)(strrchr(exe, '/') - exe), piece->built, ret);
	}
	return r != 0 ? r : try_path(LIBEXECDIR, strlen(LIBEXECDIR), piece->name, ret);
}

static void become(const struct child *child, pid_t parent) __attribute__((noreturn));

static void become(const struct child *child, pid_t parent)
{
	static const char *const ours[] = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
					   "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES"};
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(0); /* it died before it could be told to tell us */
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		(void)unsetenv(ours[i]);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)execl(child->path, child->name, "--user", (char *)NULL);
	_exit(127);
}

static int on_child_exit(sd_event_source *source, const siginfo_t *info, void *userdata);

static int child_start(struct child *child)
{
	pid_t self = getpid(), pid;
	int r;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(child, self);
	child->exit = sd_event_source_disable_unref(child->exit);
	r = sd_event_add_child(child->children->event, &child->exit, pid, WEXITED, on_child_exit,
			       child);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	child->pid = pid;
	child->started_usec = now_usec(child->children);
	log_debug("Started %s as process %d", child->path, (int)pid);
	return 0;
}

static int child_start_later(struct child *child, uint64_t usec)
{
	int r = sd_event_source_set_time(child->again, now_usec(child->children) + usec);

	return r < 0 ? r : sd_event_source_set_enabled(child->again, SD_EVENT_ONESHOT);
}

static int on_again_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;
	int r = child_start(child);

	if (r == 0)
		return 0;
	(void)log_error_errno(r, "Failed to start %s: %m", child->name);
	return child_start_later(child, PAUSE_MAX_USEC);
}

static void check_ended(struct children *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->items); i++)
		if (c->items[i].pid > 0)
			return;
	c->deadline = sd_event_source_disable_unref(c->deadline);
	c->ended(c->userdata);
}

static int on_child_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct child *child = userdata;
	struct children *c = child->children;
	uint64_t pause;

	child->pid = 0;
	if (c->ended) {
		check_ended(c);
		return 0;
	}
	if (now_usec(c) - child->started_usec >= HEALTHY_USEC)
		child->pause_usec = 0;
	pause = child->pause_usec;
	child->pause_usec = pause == 0 ? PAUSE_FIRST_USEC : 2 * pause;
	if (child->pause_usec > PAUSE_MAX_USEC)
		child->pause_usec = PAUSE_MAX_USEC;
	log_warning("%s (%d) %s %d: starts again%s", child->name, (int)info->si_pid,
		    info->si_code == CLD_EXITED ? "exited with status" : "was ended by signal",
		    info->si_status, pause > 0 ? " after a pause" : "");
	return child_start_later(child, pause);
}

int children_new(sd_event *event, struct children **ret)
{
	struct children *c = calloc(1, sizeof(*c));
	int r = 0;

	if (!c)
		return -ENOMEM;
	c->event = sd_event_ref(event);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(pieces); i++) {
		struct child *child = &c->items[i];

		child->children = c;
		child->name = pieces[i].name;
		r = find_piece(&pieces[i], &child->path);
		if (r == 0)
			log_warning("%s is not in %s: runs without it", child->name, LIBEXECDIR);
		if (r >= 0)
			r = sd_event_add_time(event, &child->again, CLOCK_MONOTONIC, 0, 0,
					      on_again_timer, child);
		if (r >= 0)
			r = sd_event_source_set_enabled(child->again, SD_EVENT_OFF);
	}
	if (r < 0) {
		(void)children_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct children *children_free(struct children *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(c->items); i++) {
		struct child *child = &c->items[i];

		if (child->pid > 0)
			(void)kill(child->pid, SIGKILL);
		(void)sd_event_source_disable_unref(child->exit);
		(void)sd_event_source_disable_unref(child->again);
		free(child->path);
	}
	(void)sd_event_source_disable_unref(c->deadline);
	(void)sd_event_unref(c->event);
	free(c);
	return NULL;
}

int children_start(struct children *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->items); i++) {
		int r = c->items[i].path ? child_start(&c->items[i]) : 0;

		if (r < 0)
			return log_error_errno(r, "Failed to start %s: %m", c->items[i].path);
	}
	return 0;
}

static void signal_all(struct children *c, int signal)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->items); i++)
		if (c->items[i].pid > 0)
			(void)kill(c->items[i].pid, signal);
}

static int on_deadline_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	signal_all(userdata, SIGKILL);
	return 0;
}

void children_stop(struct children *c, children_ended ended, void *userdata)
{
	if (c->ended)
		return;
	c->ended = ended;
	c->userdata = userdata;
	for (size_t i = 0; i < ARRAY_SIZE(c->items); i++)
		(void)sd_event_source_set_enabled(c->items[i].again, SD_EVENT_OFF);
	signal_all(c, SIGTERM);
	signal_all(c, SIGCONT); /* a stopped one would not see it */
	if (sd_event_add_time_relative(c->event, &c->deadline, CLOCK_MONOTONIC, END_USEC, 0,
				       on_deadline_timer, c) < 0)
		signal_all(c, SIGKILL);
	check_ended(c);
}
