/* SPDX-License-Identifier: MIT */
/*
 * sd_bus_call() waits for authentication without our deadline, so a frozen manager would hold it
 * for sd-bus's own 25 s and more. Here the call is queued while the connection is being made and
 * one loop drives both.
 */
#include "config.h"

#include "client/ctl/control.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <time.h>

#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/published.h"
#include "common/util.h"

#define OBJECT       "/org/cudaenv/Manager1"
#define INTERFACE    "org.cudaenv.Manager1"
#define ERROR_PREFIX "org.cudaenv.Error."
#define BACKLOG_WAIT 10 /* ms between two tries at a full backlog */

struct call {
	bool done;
	int result;
	bool want_reply;
	struct control_result *ret;
};

static uint64_t now_usec(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct call *call = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	const char *text = NULL;

	call->done = true;
	if (e) {
		/* sd-bus makes this one itself when the connection ends before an answer. */
		if (streq(e->name, SD_BUS_ERROR_NO_REPLY)) {
			call->result = -ECONNRESET;
			return 1;
		}
		call->ret->error_name = strdup(e->name);
		call->ret->error_text = strdup(e->message ? e->message : "");
		call->result =
			call->ret->error_name && call->ret->error_text ? -EREMOTEIO : -ENOMEM;
		return 1;
	}
	if (!call->want_reply)
		return 1;
	if (sd_bus_message_read_basic(m, 's', &text) <= 0) {
		call->result = -EBADMSG;
		return 1;
	}
	call->ret->reply = strdup(text);
	call->result = call->ret->reply ? 0 : -ENOMEM;
	return 1;
}

/* A connection that begins its authentication; the descriptor is non-blocking, sd-bus takes it. */
static int connect_until(const char *path, uint64_t deadline, int *ret)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_(closep) int fd = -EBADF;

	if (strlen(path) >= sizeof address.sun_path)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (now_usec() >= deadline)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, BACKLOG_WAIT);
	}
	*ret = TAKE_FD(fd);
	return 0;
}

static int bus_start(int fd_consume, sd_bus **ret)
{
	_cleanup_(closep) int fd = fd_consume;
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	int r;

	r = sd_bus_new(&bus);
	if (r < 0)
		return r;
	r = sd_bus_set_fd(bus, fd, fd);
	if (r < 0)
		return r;
	(void)TAKE_FD(fd);
	r = sd_bus_start(bus);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(bus);
	return 0;
}

/* ALIVE: until then the manager has authenticated us. */
static int drive(sd_bus *bus, struct call *call, uint64_t alive, uint64_t deadline)
{
	int r;

	while (!call->done) {
		uint64_t now, end;

		r = sd_bus_process(bus, NULL);
		if (r < 0 && r != -EINTR)
			return r == -ENOTCONN ? -ECONNRESET : r;
		if (r > 0)
			continue;
		now = now_usec();
		end = sd_bus_is_ready(bus) > 0 ? deadline : alive;
		if (now >= end)
			return -ETIMEDOUT;
		r = sd_bus_wait(bus, end - now);
		if (r < 0 && r != -EINTR)
			return r;
	}
	return call->result;
}

static int append(sd_bus_message *m, const struct control_arguments *a)
{
	int r = 0;

	if (a->list)
		r = sd_bus_message_append_strv(m, (char **)a->list);
	for (size_t i = 0; r >= 0 && a->strings && a->strings[i]; i++) {
		if (a->number && !a->strings[i + 1])
			r = sd_bus_message_append_basic(m, 't', a->number);
		if (r >= 0)
			r = sd_bus_message_append_basic(m, 's', a->strings[i]);
	}
	return r;
}

static int exchange(const char *path, const char *interface, const char *method,
		    const struct control_arguments *arguments, uint64_t usec, struct call *call)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	uint64_t begin = now_usec(), deadline = begin + usec, alive = begin + CONTROL_ALIVE_USEC;
	struct ucred peer;
	socklen_t size = sizeof peer;
	int r, fd = -EBADF;

	if (alive > deadline)
		alive = deadline;
	r = connect_until(path, alive, &fd);
	if (r < 0)
		return r;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		call->ret->peer = peer.pid;
	r = bus_start(fd, &bus);
	if (r < 0)
		return r;
	r = sd_bus_message_new_method_call(bus, &m, NULL, OBJECT, interface, method);
	if (r >= 0)
		r = append(m, arguments);
	if (r < 0)
		return r;
	/* The loop below has the deadline; sd-bus's own comes later. */
	r = sd_bus_call_async(bus, NULL, m, on_reply, call, 2 * usec);
	if (r < 0)
		return r;
	return drive(bus, call, alive, deadline);
}

static int call_with(const char *socket, const char *method,
		     const struct control_arguments *arguments, uint64_t usec,
		     struct control_result *ret)
{
	struct call call = {.want_reply = true, .ret = ret};
	const char *const *first = arguments->list ? arguments->list : arguments->strings;

	*ret = (struct control_result){.argument = first ? first[0] : NULL};
	return exchange(socket, INTERFACE, method, arguments, usec, &call);
}

int control_call(const char *socket, const char *method, const char *const *arguments,
		 uint64_t usec, struct control_result *ret)
{
	const struct control_arguments all = {.strings = arguments};

	return call_with(socket, method, &all, usec, ret);
}

int control_ping(const char *socket, uint64_t usec, struct control_result *ret)
{
	const struct control_arguments none = {0};
	struct call call = {.ret = ret};

	*ret = (struct control_result){0};
	return exchange(socket, "org.freedesktop.DBus.Peer", "Ping", &none, usec, &call);
}

void control_result_done(struct control_result *r)
{
	free(r->reply);
	free(r->error_name);
	free(r->error_text);
	*r = (struct control_result){0};
}

/* Who listens, or, where systemd does that for it, who wrote the status file. 0 unknown. */
static pid_t manager_pid(const struct ctl *ctl, const struct control_result *result)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;

	if (result->peer > 1)
		return result->peer;
	if (published_open(ctl->paths.runtime, &p) < 0)
		return 0;
	return (pid_t)json_number(p.status, "manager_pid", 0);
}

static int error_timeout(struct ctl *ctl, const struct control_result *result)
{
	pid_t pid = manager_pid(ctl, result);
	_cleanup_(freep) char *advice = ctl_wake_advice(ctl, pid);
	const char *after = ctl->verb && ctl->verb->flags & VERB_CHANGES && !ctl->dry_run
				    ? "; whether the change was made, cudaenvctl history tells then"
				    : "";
	char who[64] = "cudaenvd";

	if (pid > 0)
		(void)snprintf(who, sizeof who, "cudaenvd (pid %d)", (int)pid);
	return ctl_error(CTL_FAILED, "%s does not answer on %s; %s%s", who, ctl->paths.control,
			 advice ? advice : "out of memory", after);
}

/* An error that the manager gave: refused by it is an answer, everything else a failure. */
static int error_remote(const struct ctl *ctl, const struct control_result *result)
{
	const char *name = startswith(result->error_name, ERROR_PREFIX), *text = result->error_text,
		   *profile = result->argument;

	if (!name && streq(result->error_name, SD_BUS_ERROR_INVALID_ARGS))
		return ctl_error(CTL_USAGE, "%s", text);
	if (!name)
		return ctl_error(CTL_FAILED, "cudaenvd answered %s: %s", result->error_name, text);
	if (streq(name, "NoSuchProfile") && profile && profile[0])
		return ctl_no_profile(ctl, profile);
	if (streq(name, "NoSuchProfile"))
		return ctl_error(CTL_BAD_NEWS, "%s; cudaenvctl%s list shows what there is", text,
				 ctl_user_option(ctl));
	if (streq(name, "Invalid"))
		return ctl_error(CTL_BAD_NEWS,
				 "profile %s has errors, the first is %s; cudaenvctl%s check %s "
				 "shows all",
				 profile ? profile : "", text, ctl_user_option(ctl),
				 profile ? profile : "");
	if (streq(name, "NothingBefore") || streq(name, "NoSuchJob") || streq(name, "Refused") ||
	    streq(name, "TooMany"))
		return ctl_error(CTL_BAD_NEWS, "%s", text);
	if (streq(name, "Denied"))
		return ctl_error(CTL_BAD_NEWS, "%s: %s", ctl->verb ? ctl->verb->name : "cudaenvd",
				 text);
	return ctl_error(CTL_FAILED, "%s%s", text,
			 streq(name, "Busy") ? "; try again in a moment" : "");
}

static int error_nobody(const struct ctl *ctl)
{
	_cleanup_(freep) char *advice = ctl_start_advice(ctl);

	return ctl_error(CTL_FAILED, "cudaenvd is not running: nobody listens on %s; %s",
			 ctl->paths.control, advice ? advice : "out of memory");
}

int ctl_call_error(struct ctl *ctl, int r, const struct control_result *result)
{
	switch (r) {
	case -EREMOTEIO:
		return error_remote(ctl, result);
	case -ETIMEDOUT:
		return error_timeout(ctl, result);
	case -ENOENT:
	case -ECONNREFUSED:
		return error_nobody(ctl);
	case -EINVAL:
		return ctl_error(CTL_USAGE, "an argument is not text in UTF-8");
	case -EACCES:
	case -EPERM:
		return ctl_error(CTL_FAILED, "%s may not be reached by this user: %s",
				 ctl->paths.control, strerror(-r));
	case -ECONNRESET:
	case -EPIPE:
		return ctl_error(CTL_FAILED,
				 "cudaenvd ended the connection before it answered; look at "
				 "its journal, then try again");
	default:
		return ctl_error(CTL_FAILED, "cannot ask cudaenvd on %s: %s", ctl->paths.control,
				 strerror(-r));
	}
}

int ctl_call(struct ctl *ctl, const char *method, const char *const *arguments,
	     struct json_object **ret)
{
	const struct control_arguments all = {.strings = arguments};

	return ctl_call_with(ctl, method, &all, ret);
}

int ctl_call_with(struct ctl *ctl, const char *method, const struct control_arguments *arguments,
		  struct json_object **ret)
{
	_cleanup_(control_result_done) struct control_result result = {0};
	const struct paths *paths = ctl_paths(ctl);
	int r;

	if (!paths)
		return CTL_FAILED;
	r = call_with(paths->control, method, arguments, CONTROL_DEADLINE_USEC, &result);
	return ctl_call_finish(ctl, method, r, &result, ret);
}

int ctl_may_change(struct ctl *ctl)
{
	_cleanup_(json_putp) struct json_object *o = NULL;

	return ctl_call(ctl, "MayChange", NULL, &o);
}

int ctl_call_finish(struct ctl *ctl, const char *method, int r, const struct control_result *result,
		    struct json_object **ret)
{
	struct json_object *o;

	if (r < 0)
		return ctl_call_error(ctl, r, result);
	o = json_parse(result->reply, strlen(result->reply));
	if (!o)
		return ctl_error(CTL_FAILED,
				 "cudaenvd's answer to %s is not understood; are "
				 "cudaenvctl and cudaenvd of one version?",
				 method);
	*ret = o;
	return CTL_GOOD;
}
