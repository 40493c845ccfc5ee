/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <time.h>

#include "common/known.h"
#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/control.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/peer.h"
#include "daemon/manager/release.h"

#define OBJECT          "/org/cudaenv/Manager1"
#define INTERFACE       "org.cudaenv.Manager1"
#define ERROR_DENIED    "org.cudaenv.Error.Denied"
#define ADMIN_GROUP     "cudaenv-admin"
#define BACKLOG         64
#define TOTAL_MAX       64 /* connections of ordinary users */
#define PER_UID_MAX     8
#define RESERVED_MAX    32 /* of root and our own uid */
#define HELLO_USEC      (5 * 1000 * 1000ull)
#define IDLE_USEC       (30 * 1000 * 1000ull)
#define REST_USEC       (200 * 1000ull) /* without descriptors left */
#define ANSWERS_MAX     8               /* not fetched by the client */
#define ORDINARY_OFFSET 10              /* others than root come after it */

struct client {
	struct control *control;
	struct client *next; /* control.clients */
	sd_bus *bus;
	sd_event_source *deadline;
	struct peer peer;
	bool may_change;
	bool ending; /* its timer is due */
};

struct control {
	struct manager *manager;
	sd_event_source *accept;
	sd_event_source *rest;
	char *path; /* NULL: the socket is systemd's */
	int fd;
	gid_t admin_gid;
	struct client *clients;
	struct log_limit refused;
};

static struct client *client_free(struct client *c)
{
	struct client **at = &c->control->clients;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	(void)sd_event_source_disable_unref(c->deadline);
	(void)sd_bus_close_unref(c->bus);
	free(c);
	return NULL;
}

/* Puts the end of a silent connection off by USEC. */
static int client_extend(struct client *c, uint64_t usec)
{
	int r = sd_event_source_set_time_relative(c->deadline, usec);

	return r < 0 ? r : sd_event_source_set_enabled(c->deadline, SD_EVENT_ONESHOT);
}

static int on_deadline_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)client_free(userdata);
	return 0;
}

/* Runs before the method. Who asks without reading the answers is ended, in the timer's handler,
 * where that is safe. */
static int on_any_message(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	struct client *c = userdata;
	uint64_t queued = 0;

	if (c->ending)
		return 1;
	c->ending = sd_bus_get_n_queued_write(c->bus, &queued) >= 0 && queued > ANSWERS_MAX;
	(void)client_extend(c, c->ending ? 0 : IDLE_USEC);
	return c->ending;
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	(void)client_free(userdata);
	return 1;
}

typedef int (*method_call)(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error);

static int get_status(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	return document_status(c->control->manager, ret);
}

static int list(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	return document_list(c->control->manager, ret);
}

static int history(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	return document_history(c->control->manager, ret);
}

static int show(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	struct manager *manager = c->control->manager;
	_cleanup_(freep) char *fault = NULL;
	const struct profile *p;
	const char *name;
	int r;

	r = sd_bus_message_read(m, "s", &name);
	if (r < 0)
		return r;
	r = document_show(manager, name, ret);
	if (r == -ENOENT)
		return sd_bus_error_setf(
			error, ERROR_NO_SUCH_PROFILE,
			name[0] ? "there is no profile '%.128s'" : "no profile is in use", name);
	p = profile_set_find(&manager->profiles, name);
	if (r == -EBADMSG && p && document_fault(p, &fault) == 0)
		return sd_bus_error_set(error, ERROR_INVALID, fault);
	return r;
}

static struct caller caller_of(const struct client *c, char **user)
{
	*user = peer_user_name(c->peer.uid, "/etc/passwd");
	return (struct caller){.uid = c->peer.uid, .user = *user};
}

static int set_mode(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);
	const char *mode, *reason;
	int r = sd_bus_message_read(m, "ss", &mode, &reason);

	return r < 0 ? r : operation_set_mode(c->control->manager, &who, mode, reason, ret, error);
}

static int use(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);
	const char *profile, *scope, *reason;
	uint64_t seconds;
	int r = sd_bus_message_read(m, "ssts", &profile, &scope, &seconds, &reason);

	return r < 0 ? r
		     : operation_use_for(c->control->manager, &who, profile, scope, seconds, reason,
					 ret, error);
}

static int read_strings(sd_bus_message *m, struct words *ret)
{
	const char *s;
	int r = sd_bus_message_enter_container(m, 'a', "s"), k;

	while (r >= 0 && (k = sd_bus_message_read_basic(m, 's', &s)) != 0)
		r = k < 0 ? k : words_add(ret, s);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* A member of the group chooses among root's settings; what names code, files or addresses takes root. */
static bool is_root_or_own(const struct client *c)
{
	return c->control->manager->user || c->peer.uid == 0;
}

static int check_names(const struct client *c, const struct words *variables, sd_bus_error *error)
{
	for (size_t i = 0; !is_root_or_own(c) && i < variables->n; i++) {
		const char *assignment = variables->items[i];
		_cleanup_(freep) char *name = strndup(assignment, strcspn(assignment, "="));

		if (!name)
			return -ENOMEM;
		if (known_kind(name) != KNOWN_PLAIN)
			return sd_bus_error_setf(error, ERROR_DENIED, KNOWN_PLAIN_ONLY, name);
	}
	return 0;
}

static int set(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);
	struct words variables = {0};
	const char *scope, *reason;
	uint64_t seconds;
	int r = read_strings(m, &variables);

	if (r >= 0)
		r = sd_bus_message_read(m, "sts", &scope, &seconds, &reason);
	if (r >= 0)
		r = check_names(c, &variables, error);
	if (r >= 0)
		r = operation_set(c->control->manager, &who, &variables, scope, seconds, reason,
				  ret, error);
	words_done(&variables);
	return r;
}

static int reset(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);
	const char *scope, *reason;
	int r = sd_bus_message_read(m, "ss", &scope, &reason);

	return r < 0 ? r : operation_reset(c->control->manager, &who, scope, reason, ret, error);
}

static int rollback(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);
	const char *reason;
	int r = sd_bus_message_read(m, "s", &reason);

	return r < 0 ? r : operation_rollback(c->control->manager, &who, reason, ret, error);
}

static int reload(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);

	return operation_reload(c->control->manager, &who, ret, error);
}

/* Whoever may not is told so before, in the words in which the change itself is denied. */
static int may_change(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	*ret = strdup(is_root_or_own(c) ? "{\"may_change\":true,\"set_any\":true}"
					: "{\"may_change\":true,\"set_any\":false}");
	return *ret ? 0 : -ENOMEM;
}

/* Answered when the broker has: *ret stays NULL. */
static int release(struct client *c, sd_bus_message *m, char **ret, sd_bus_error *error)
{
	_cleanup_(freep) char *user = NULL;
	struct caller who = caller_of(c, &user);

	return release_begin(c->control->manager, m, &who, error);
}

/* name, signature of the arguments, does it change anything, handler */
#define METHODS(X)                                                                                 \
	X("GetStatus", "", false, get_status)                                                      \
	X("List", "", false, list)                                                                 \
	X("Show", "s", false, show)                                                                \
	X("History", "", false, history)                                                           \
	X("SetMode", "ss", true, set_mode)                                                         \
	X("Use", "ssts", true, use)                                                                \
	X("Set", "assts", true, set)                                                               \
	X("Reset", "ss", true, reset)                                                              \
	X("Rollback", "s", true, rollback)                                                         \
	X("Reload", "", true, reload)                                                              \
	X("MayChange", "", true, may_change)                                                       \
	X("Release", "sss", true, release)

struct method {
	const char *name;
	bool changes;
	method_call call;
};

static const struct method methods[] = {
#define X(name, arguments, changes, call) {name, changes, call},
	METHODS(X)
#undef X
};

static int call(struct client *c, const struct method *method, sd_bus_message *m, char **ret,
		sd_bus_error *error)
{
	int r;

	if (method->changes && !c->may_change)
		return sd_bus_error_setf(error, ERROR_DENIED, "only %s may do this",
					 c->control->manager->user
						 ? "root and who runs this cudaenvd"
						 : "root and members of group " ADMIN_GROUP);
	if (c->may_change)
		switch_save(c->control->manager);
	r = method->call(c, m, ret, error);
	if (r < 0 && !sd_bus_error_is_set(error))
		(void)sd_bus_error_setf(error, ERROR_FAILED, "%s failed: %s", method->name,
					strerror(-r));
	return r;
}

static int on_method(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(m);
	_cleanup_(freep) char *json = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		int r;

		if (!streq(methods[i].name, member))
			continue;
		r = call(userdata, &methods[i], m, &json, error);
		return r < 0 || !json ? r : sd_bus_reply_method_return(m, "s", json);
	}
	return -ENOSYS;
}

static const sd_bus_vtable vtable[] = {
	SD_BUS_VTABLE_START(0),
#define X(name, arguments, changes, call)                                                          \
	SD_BUS_METHOD(name, arguments, "s", on_method, SD_BUS_VTABLE_UNPRIVILEGED),
	METHODS(X)
#undef X
		SD_BUS_VTABLE_END,
};

/* FD is the bus's on success. Descriptors are not taken: sd-bus 252 keeps those for ever whose
 * number is not the one that the message says. */
static int bus_open(struct client *c, int fd_take)
{
	sd_id128_t id;
	int r;

	r = sd_id128_randomize(&id);
	if (r >= 0)
		r = sd_bus_new(&c->bus);
	if (r >= 0)
		r = sd_bus_set_server(c->bus, 1, id);
	if (r >= 0)
		r = sd_bus_negotiate_fds(c->bus, false);
	if (r >= 0)
		r = sd_bus_set_sender(c->bus, "org.cudaenv.Manager1");
	if (r >= 0)
		r = sd_bus_set_fd(c->bus, fd_take, fd_take);
	return r;
}

static int bus_serve(struct client *c)
{
	sd_event *event = c->control->manager->event;
	int priority = c->may_change ? 0 : ORDINARY_OFFSET, r;

	r = sd_bus_start(c->bus);
	if (r >= 0)
		r = sd_bus_attach_event(c->bus, event, priority);
	if (r >= 0)
		r = sd_bus_add_filter(c->bus, NULL, on_any_message, c);
	if (r >= 0)
		r = sd_bus_add_object_vtable(c->bus, NULL, OBJECT, INTERFACE, vtable, c);
	if (r >= 0)
		r = sd_bus_match_signal(c->bus, NULL, NULL, "/org/freedesktop/DBus/Local",
					"org.freedesktop.DBus.Local", "Disconnected",
					on_disconnected, c);
	return r;
}

static int client_new(struct control *control, int fd_consume, const struct peer *peer)
{
	_cleanup_(closep) int fd = fd_consume, proc_fd = -EBADF;
	struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->control = control;
	c->peer = *peer;
	c->next = control->clients;
	control->clients = c;
	proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	c->may_change = peer_may_change(peer, control->manager->user, proc_fd);
	r = sd_event_add_time_relative(control->manager->event, &c->deadline, CLOCK_MONOTONIC,
				       HELLO_USEC, 0, on_deadline_timer, c);
	if (r >= 0)
		r = sd_event_source_set_priority(c->deadline, SD_EVENT_PRIORITY_IMPORTANT);
	if (r >= 0)
		r = bus_open(c, fd);
	if (r >= 0) {
		(void)TAKE_FD(fd);
		r = bus_serve(c);
	}
	if (r < 0)
		(void)client_free(c);
	return r;
}

static bool is_reserved(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

static bool has_place(const struct control *control, uid_t uid)
{
	unsigned ordinary = 0, same = 0;

	for (const struct client *c = control->clients; c; c = c->next) {
		ordinary += !is_reserved(c->peer.uid);
		same += c->peer.uid == uid;
	}
	if (is_reserved(uid))
		return same < RESERVED_MAX;
	return same < PER_UID_MAX && ordinary < TOTAL_MAX;
}

static void say_refused(struct control *c, uid_t uid)
{
	uint64_t now = 0;
	unsigned suppressed = 0;

	(void)sd_event_now(c->manager->event, CLOCK_MONOTONIC, &now);
	if (log_limit_pass(&c->refused, now, &suppressed))
		log_warning(
			"Too many control connections, one of uid %u is refused (and %u before)",
			(unsigned)uid, suppressed);
}

static int rest(struct control *c)
{
	int r = sd_event_source_set_enabled(c->accept, SD_EVENT_OFF);

	if (r >= 0)
		r = sd_event_source_set_time_relative(c->rest, REST_USEC);
	if (r >= 0)
		r = sd_event_source_set_enabled(c->rest, SD_EVENT_ONESHOT);
	return r;
}

static int on_rest_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct control *c = userdata;

	return sd_event_source_set_enabled(c->accept, SD_EVENT_ON);
}

static int on_control_accept(sd_event_source *source, int listen_fd, uint32_t events,
			     void *userdata)
{
	_cleanup_(closep) int fd = -EBADF;
	struct control *c = userdata;
	struct peer peer;
	int r;

	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS
			       ? rest(c)
			       : 0;
	r = peer_read(fd, c->admin_gid, &peer);
	if (r < 0)
		return 0;
	if (!has_place(c, peer.uid)) {
		say_refused(c, peer.uid);
		return 0;
	}
	r = client_new(c, TAKE_FD(fd), &peer);
	if (r < 0)
		(void)log_debug_errno(r, "A control connection of uid %u failed: %m",
				      (unsigned)peer.uid);
	return 0;
}

/* Made beside and renamed, so that there is always one to connect to. */
static int listen_on(const char *path, int *ret)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_(closep) int fd = -EBADF;
	int n;

	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s.new", path);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(address.sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0 ||
	    rename(address.sun_path, path) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static int find_socket(struct control *c, const char *path)
{
	int n = sd_listen_fds(1), r;

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		if (sd_is_socket_unix(fd, SOCK_STREAM, 1, path, 0) > 0 && c->fd < 0)
			c->fd = fd;
		else
			(void)close(fd);
	}
	if (c->fd >= 0)
		return fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	r = listen_on(path, &c->fd);
	if (r < 0)
		return r;
	c->path = strdup(path);
	return c->path ? 0 : -ENOMEM;
}

void control_reload(struct control *c)
{
	const struct group *gr = c->manager->user ? NULL : getgrnam(ADMIN_GROUP);

	c->admin_gid = gr ? gr->gr_gid : PEER_NO_GID;
}

int control_new(struct manager *m, const char *path, struct control **ret)
{
	struct control *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->manager = m;
	c->fd = -EBADF;
	c->refused = (struct log_limit)LOG_LIMIT(60 * 1000 * 1000ull, 3);
	control_reload(c);
	r = find_socket(c, path);
	if (r >= 0)
		r = sd_event_add_io(m->event, &c->accept, c->fd, EPOLLIN, on_control_accept, c);
	if (r >= 0)
		r = sd_event_add_time_relative(m->event, &c->rest, CLOCK_MONOTONIC, 0, 0,
					       on_rest_timer, c);
	if (r >= 0)
		r = sd_event_source_set_enabled(c->rest, SD_EVENT_OFF);
	if (r < 0) {
		(void)control_free(c);
		return log_error_errno(r, "Failed to listen on %s: %m", path);
	}
	*ret = c;
	return 0;
}

struct control *control_free(struct control *c)
{
	if (!c)
		return NULL;
	while (c->clients)
		(void)client_free(c->clients);
	(void)sd_event_source_disable_unref(c->accept);
	(void)sd_event_source_disable_unref(c->rest);
	if (c->path)
		(void)unlink(c->path);
	free(c->path);
	(void)safe_close(c->fd);
	free(c);
	return NULL;
}
