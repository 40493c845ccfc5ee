/* SPDX-License-Identifier: MIT */
#include "daemon/broker/server.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "common/util.h"
#include "daemon/broker/request.h"
#include "daemon/log.h"

#define ACCEPT_BATCH   32
#define EVENT_BATCH    64
#define DATAGRAM_BATCH 8 /* of one connection before the others have their turn */
#define TIMER_ACCURACY (250 * UINT64_C(1000))
#define PRIORITY_CONTROL                                                                           \
	(-10) /* signals, and the rules: a request never meets older ones than it could have read  \
	       */

struct connection {
	enum watched watched; /* WATCHED_CONNECTION */
	int fd;
	struct peer peer;
	uint64_t active_usec;
	struct connection *next, *prev; /* server.first, by active_usec */
};

struct server {
	struct broker broker;
	struct listener listener;
	int reserve_fd; /* given up for a moment to refuse a client when descriptors run out */
	sd_event *event;
	sd_event_source *timer, *steps, *sources[8];
	size_t n_sources;
	uint64_t timer_usec;
	struct connection *first, *last;
	uint64_t n_refused;
	char datagram[WIRE_DATAGRAM_MAX];
	char reply[WIRE_DATAGRAM_MAX];
};

static uint64_t now_of(struct server *s)
{
	uint64_t usec;

	return sd_event_now(s->event, CLOCK_MONOTONIC, &usec) < 0 ? 0 : usec;
}

/* --- timer and slices --- */

/* Called at the end of every event: the timer is set only to come earlier than it would, else it
 * looks again when it fires. */
static void arm(struct server *s)
{
	uint64_t next = broker_next_usec(&s->broker);

	if (s->first && s->first->active_usec + SERVER_IDLE_USEC < next)
		next = s->first->active_usec + SERVER_IDLE_USEC;
	if (next < s->timer_usec) {
		s->timer_usec = next;
		(void)sd_event_source_set_time(s->timer, next);
		(void)sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
	}
	(void)sd_event_source_set_enabled(s->steps, adopt_pending(&s->broker.adopt) ? SD_EVENT_ON
										    : SD_EVENT_OFF);
}

/* Reading our own new links at once saves being woken for them. */
static void settle(struct server *s)
{
	(void)adopt_read(&s->broker.adopt, true);
	broker_settle(&s->broker, now_of(s));
	arm(s);
}

/* --- connections --- */

static void list_add(struct server *s, struct connection *c)
{
	c->next = NULL;
	c->prev = s->last;
	*(s->last ? &s->last->next : &s->first) = c;
	s->last = c;
}

static void list_remove(struct server *s, struct connection *c)
{
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	*(c->next ? &c->next->prev : &s->last) = c->prev;
}

static void connection_close(struct server *s, struct connection *c)
{
	list_remove(s, c);
	account_release(&s->broker.accounts, c->peer.uid, ACCOUNT_CONNECTIONS, 1);
	(void)safe_close(c->fd);
	free(c);
}

/* One datagram. 1: there may be more, 0: none is there, negative: the connection ends. */
static int connection_serve(struct server *s, struct connection *c)
{
	ssize_t n = recv(c->fd, s->datagram, sizeof s->datagram, MSG_DONTWAIT | MSG_TRUNC);
	int r = 1;

	/* The peer has closed without reading our answer: what it sent is still there. */
	if (n < 0 && errno == ECONNRESET)
		n = recv(c->fd, s->datagram, sizeof s->datagram, MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	n = (size_t)n > sizeof s->datagram
		    ? -EMSGSIZE
		    : request_handle(&s->broker, &c->peer, s->datagram, (size_t)n, s->reply);
	if (n < 0)
		return (int)n;
	if (n > 0 && send(c->fd, s->reply, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno != EPIPE && errno != ECONNRESET)
		r = -errno;
	request_settle(&s->broker, &c->peer);
	return r;
}

static void on_connection(struct server *s, struct connection *c)
{
	int r = 1;

	for (int i = 0; i < DATAGRAM_BATCH && r > 0; i++)
		r = connection_serve(s, c);
	if (r < 0) {
		connection_close(s, c);
		return;
	}
	c->active_usec = now_of(s);
	list_remove(s, c);
	list_add(s, c);
}

static void refuse(struct server *s, int fd, int error)
{
	ssize_t n = request_error(s->reply, 0, EAGAIN, "too many connections; decide by the files");

	s->n_refused++;
	if (n > 0)
		(void)send(fd, s->reply, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	log_debug_errno(error, "Refused a connection: %m");
}

static int connection_new(struct server *s, int fd, struct connection **ret)
{
	struct ucred cred;
	socklen_t size = sizeof cred;
	struct connection *c;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	r = account_charge(&s->broker.accounts, cred.uid, ACCOUNT_CONNECTIONS, 1);
	if (r < 0)
		return r;
	c = malloc(sizeof *c);
	if (!c) {
		account_release(&s->broker.accounts, cred.uid, ACCOUNT_CONNECTIONS, 1);
		return -ENOMEM;
	}
	*c = (struct connection){
		.watched = WATCHED_CONNECTION,
		.fd = fd,
		.peer = {.fd = fd, .pid = cred.pid, .uid = cred.uid, .gid = cred.gid},
		.active_usec = now_of(s)
        };
	list_add(s, c);
	*ret = c;
	return 0;
}

/* Most clients have sent their question when they are accepted: those are answered before anything
 * else is done. */
static void on_accepted(struct server *s, int fd_take)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct connection *c = NULL;
	int r;

	r = connection_new(s, fd_take, &c);
	if (r < 0) {
		refuse(s, fd_take, r);
		(void)safe_close(fd_take);
		return;
	}
	r = connection_serve(s, c);
	e.data.ptr = c;
	if (r < 0 || epoll_ctl(s->broker.hub_fd, EPOLL_CTL_ADD, fd_take, &e) < 0)
		connection_close(s, c);
}

/* Without a free descriptor the queue would wake us for ever: its first one is taken by the
 * reserve, and let go. */
static void drop_one(struct server *s)
{
	s->reserve_fd = safe_close(s->reserve_fd);
	(void)safe_close(accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	s->n_refused++;
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int on_listener(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;

	(void)broker_refresh(&s->broker, NULL);
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (c < 0) {
			if (errno == EMFILE || errno == ENFILE)
				drop_one(s);
			break;
		}
		on_accepted(s, c);
	}
	settle(s);
	return 0;
}

static int on_hub(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct epoll_event ready[EVENT_BATCH];
	struct server *s = userdata;
	int n = epoll_wait(fd, ready, EVENT_BATCH, 0);

	for (int i = 0; i < n; i++) {
		void *object = ready[i].data.ptr;

		switch (*(enum watched *)object) {
		case WATCHED_CONNECTION:
			on_connection(s, object);
			break;
		case WATCHED_PROCESS:
			broker_on_process_exit(&s->broker, object, now_of(s));
			break;
		case WATCHED_ROOT:
			broker_on_root_exit(&s->broker, object, now_of(s));
			break;
		}
	}
	settle(s);
	return 0;
}

/* --- what else happens --- */

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *s = userdata;
	uint64_t now = now_of(s);

	s->timer_usec = UINT64_MAX;
	while (s->first && s->first->active_usec + SERVER_IDLE_USEC <= now)
		connection_close(s, s->first);
	broker_tick(&s->broker, now);
	settle(s);
	return 0;
}

static int on_steps(sd_event_source *source, void *userdata)
{
	struct server *s = userdata;

	adopt_step(&s->broker.adopt, now_of(s));
	settle(s);
	return 0;
}

static void refresh(struct server *s, bool *ret_socket)
{
	struct broker *b = &s->broker;

	if (broker_refresh(b, ret_socket) == 0)
		return;
	if (b->assign_error < 0)
		log_warning_errno(
			b->assign_error,
			"The published rules cannot be read, the last good ones hold: %m");
	else
		log_info("Rules of generation %" PRIu64 ", mode %s", b->assign->generation,
			 mode_name(b->assign->mode));
}

static int on_published(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;
	bool socket = false;

	refresh(s, &socket);
	if (socket && listener_replaced(&s->listener, &s->broker.rt)) {
		log_notice("Another broker has taken the socket's name: this one ends");
		return sd_event_exit(s->event, 0);
	}
	arm(s);
	return 0;
}

static int on_links(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;

	adopt_read(&s->broker.adopt, true);
	settle(s);
	return 0;
}

static int on_cgroups(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;

	roots_read(&s->broker.roots, now_of(s));
	arm(s);
	return 0;
}

/* --- start and end --- */

static int add_io(struct server *s, int fd, sd_event_io_handler_t handler, int64_t priority)
{
	sd_event_source **source = &s->sources[s->n_sources];
	int r;

	r = sd_event_add_io(s->event, source, fd, EPOLLIN, handler, s);
	if (r < 0)
		return r;
	s->n_sources++;
	return sd_event_source_set_priority(*source, priority);
}

static int add_signal(struct server *s, int signal)
{
	sd_event_source **source = &s->sources[s->n_sources];
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, signal);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	r = sd_event_add_signal(s->event, source, signal, NULL, NULL);
	if (r < 0)
		return r;
	s->n_sources++;
	return sd_event_source_set_priority(*source, PRIORITY_CONTROL);
}

static int add_sources(struct server *s)
{
	struct broker *b = &s->broker;
	int r;

	r = sd_event_new(&s->event);
	if (r >= 0)
		r = add_signal(s, SIGTERM);
	if (r >= 0)
		r = add_signal(s, SIGINT);
	if (r >= 0)
		r = add_io(s, b->assign_fd, on_published, PRIORITY_CONTROL);
	if (r >= 0)
		r = add_io(s, s->listener.fd, on_listener, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = add_io(s, b->hub_fd, on_hub, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = add_io(s, b->adopt.inotify_fd, on_links, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = add_io(s, b->roots.inotify_fd, on_cgroups, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = sd_event_add_defer(s->event, &s->steps, on_steps, s);
	if (r >= 0)
		r = sd_event_add_time(s->event, &s->timer, CLOCK_MONOTONIC, UINT64_MAX,
				      TIMER_ACCURACY, on_timer, s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_set_watchdog(s->event, true);
	s->timer_usec = UINT64_MAX;
	return r;
}

static int open_socket(struct server *s, bool user)
{
	int r;

	r = listener_from_systemd(&s->listener);
	if (r == 0)
		return 0;
	if (r != -ENOENT)
		return log_error_errno(r, "The socket that was passed cannot be used: %m");
	r = listener_bind(&s->broker.rt, &s->listener);
	if (r < 0)
		return log_error_errno(r, "Failed to make the socket: %m%s",
				       user ? ""
					    : " (systemd passes it: start cudaenv-broker.socket)");
	return 0;
}

int server_new(const char *path, bool user, const struct account_limits *limits,
	       struct server **ret)
{
	_cleanup_(server_freep) struct server *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return log_error_errno(ENOMEM, "Failed to start: %m");
	s->listener.fd = s->reserve_fd = -EBADF;
	r = broker_open(&s->broker, path, user, limits);
	if (r < 0)
		return log_error_errno(r, "Failed to open the runtime directory %s: %m", path);
	if (s->broker.assign_error < 0)
		log_notice_errno(s->broker.assign_error, "No rules are published yet: %m");
	r = open_socket(s, user);
	if (r < 0)
		return r;
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	r = add_sources(s);
	if (r < 0)
		return log_error_errno(r, "Failed to prepare the event loop: %m");
	*ret = TAKE_PTR(s);
	return 0;
}

static void log_summary(const struct server *s)
{
	const struct broker *b = &s->broker;
	const struct broker_counters *c = &b->counters;

	log_info("Ended: %" PRIu64 " of %" PRIu64 " questions answered, %" PRIu64
		 " connections refused, %" PRIu64 " malformed; %zu processes in %zu jobs, %" PRIu64
		 " adopted, %" PRIu64 " pins removed",
		 c->answers, c->fetches, s->n_refused, c->malformed, b->registry.processes.n,
		 b->registry.jobs.n, b->adopt.n_adopted, c->pins_removed);
}

int server_run(struct server *s)
{
	int r;

	arm(s);
	(void)sd_notify(0, "READY=1");
	r = sd_event_loop(s->event);
	(void)sd_notify(0, "STOPPING=1");
	if (r < 0)
		return log_error_errno(r, "The event loop failed: %m");
	log_summary(s);
	return 0;
}

struct server *server_free(struct server *s)
{
	if (!s)
		return NULL;
	while (s->first)
		connection_close(s, s->first);
	(void)sd_event_source_disable_unref(s->timer);
	(void)sd_event_source_disable_unref(s->steps);
	while (s->n_sources > 0)
		(void)sd_event_source_disable_unref(s->sources[--s->n_sources]);
	(void)sd_event_unref(s->event);
	/* The socket's name stays: whoever connects now finds nobody, and decides alone. */
	s->listener.fd = safe_close(s->listener.fd);
	s->reserve_fd = safe_close(s->reserve_fd);
	broker_done(&s->broker);
	free(s);
	return NULL;
}
