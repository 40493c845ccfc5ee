/* SPDX-License-Identifier: MIT */
#include "daemon/broker/server.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "common/util.h"
#include "daemon/broker/request.h"
#include "daemon/log.h"

#define ACCEPT_BATCH   32
#define EVENT_BATCH    64
#define DATAGRAM_BATCH 8 /* of one connection before the others have their turn */
#define TIMER_ACCURACY (250 * UINT64_C(1000))

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
	enum watched listener_watched, links_watched, event_watched;
	sd_event *event; /* signals, timer, watchdog, and what happens seldom */
	sd_event_source *timer, *sources[4];
	size_t n_sources;
	uint64_t now_usec; /* when the present events were got */
	uint64_t timer_usec;
	bool touched; /* sd-event must be prepared again */
	struct connection *first, *last;
	uint64_t n_refused;
	struct epoll_event ready[EVENT_BATCH];
	char datagram[WIRE_DATAGRAM_MAX];
	char reply[WIRE_DATAGRAM_MAX];
};

static uint64_t clock_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Now, as start times of processes are counted. */
static uint64_t clock_ticks(void)
{
	struct timespec ts;
	long hz = sysconf(_SC_CLK_TCK);

	if (hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * (uint64_t)hz +
	       (uint64_t)ts.tv_nsec * (uint64_t)hz / UINT64_C(1000000000);
}

/* The timer is set only to come earlier than it would, else it looks again when it fires. */
static void arm(struct server *s)
{
	uint64_t next = broker_next_usec(&s->broker);

	if (s->first && s->first->active_usec + SERVER_IDLE_USEC < next)
		next = s->first->active_usec + SERVER_IDLE_USEC;
	if (next >= s->timer_usec)
		return;
	s->timer_usec = next;
	s->touched = true;
	(void)sd_event_source_set_time(s->timer, next);
	(void)sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
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
	c->active_usec = s->now_usec;
	list_remove(s, c);
	list_add(s, c);
}

static void refuse(struct server *s, int fd, int error)
{
	ssize_t n = request_error(s->reply, 0, EAGAIN, "too many connections; decide by the files");

	s->n_refused++;
	/* A question left unread would make the client's end fail before it reads why. */
	(void)recv(fd, s->datagram, sizeof s->datagram, MSG_DONTWAIT);
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
	*c = (struct connection){.watched = WATCHED_CONNECTION,
				 .fd = fd,
				 .peer = {.fd = fd,
					  .pid = cred.pid,
					  .uid = cred.uid,
					  .gid = cred.gid,
					  .since = clock_ticks()},
				 .active_usec = s->now_usec};
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

static void on_listener(struct server *s)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				drop_one(s);
			return;
		}
		on_accepted(s, fd);
	}
}

/* --- what else happens --- */

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *s = userdata;

	s->timer_usec = UINT64_MAX;
	while (s->first && s->first->active_usec + SERVER_IDLE_USEC <= s->now_usec)
		connection_close(s, s->first);
	broker_tick(&s->broker, s->now_usec);
	return 0;
}

static int on_published(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;

	broker_refresh(&s->broker);
	return 0;
}

static int on_cgroups(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *s = userdata;

	roots_read(&s->broker.roots, s->now_usec);
	return 0;
}

/* The rules, or the socket: whoever read of it, here it is acted upon. */
static void on_changed(struct server *s)
{
	struct broker *b = &s->broker;

	if (b->changed_socket && listener_replaced(&s->listener, &b->rt)) {
		log_notice("Another broker has taken the socket's name: this one ends");
		(void)sd_event_exit(s->event, 0);
		s->touched = true;
	}
	if (b->changed_rules && b->assign_error < 0)
		log_warning_errno(
			b->assign_error,
			"The published rules cannot be read, the last good ones hold: %m");
	else if (b->changed_rules)
		log_info("Rules of generation %" PRIu64 ", mode %s", b->assign->generation,
			 mode_name(b->assign->mode));
	b->changed_socket = b->changed_rules = false;
}

/* --- the loop --- */

static void on_ready(struct server *s, void *object)
{
	switch (*(enum watched *)object) {
	case WATCHED_CONNECTION:
		on_connection(s, object);
		break;
	case WATCHED_PROCESS:
		broker_on_process_exit(&s->broker, object, s->now_usec);
		break;
	case WATCHED_ROOT:
		broker_on_root_exit(&s->broker, object, s->now_usec);
		break;
	case WATCHED_LISTENER:
		on_listener(s);
		break;
	case WATCHED_LINKS:
		break; /* settle() reads it */
	case WATCHED_EVENT:
		s->touched = true;
		break;
	}
}

/* Own new links are read at once, which saves being woken for them. */
static void settle(struct server *s)
{
	(void)adopt_read(&s->broker.adopt, true);
	broker_step(&s->broker, s->now_usec);
	broker_settle(&s->broker, s->now_usec);
	if (s->broker.changed_rules || s->broker.changed_socket)
		on_changed(s);
	arm(s);
}

/* Clients and exits, until sd-event has something: its set is one descriptor of the hub. The other
 * way round every request would pay for sd-event's turn, which is a tenth of a round trip. */
static int serve(struct server *s)
{
	s->touched = false;
	while (!s->touched) {
		int timeout = broker_pending(&s->broker) ? 0 : -1;
		int n = epoll_wait(s->broker.hub_fd, s->ready, EVENT_BATCH, timeout);

		if (n < 0 && errno != EINTR)
			return -errno;
		s->now_usec = clock_usec();
		for (int i = 0; i < n; i++)
			on_ready(s, s->ready[i].data.ptr);
		settle(s);
	}
	return 0;
}

static int run_loop(struct server *s)
{
	while (sd_event_get_state(s->event) != SD_EVENT_FINISHED) {
		int r = sd_event_prepare(s->event);

		if (r == 0) {
			r = serve(s);
			if (r >= 0)
				r = sd_event_wait(s->event, 0);
		}
		if (r > 0) {
			s->now_usec = clock_usec();
			r = sd_event_dispatch(s->event);
			settle(s);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- start and end --- */

static int add_io(struct server *s, int fd, sd_event_io_handler_t handler)
{
	int r = sd_event_add_io(s->event, &s->sources[s->n_sources], fd, EPOLLIN, handler, s);

	s->n_sources += r >= 0;
	return r;
}

static int add_signal(struct server *s, int signal)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, signal);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	r = sd_event_add_signal(s->event, &s->sources[s->n_sources], signal, NULL, NULL);
	s->n_sources += r >= 0;
	return r;
}

static int add_sources(struct server *s)
{
	int r;

	r = sd_event_new(&s->event);
	if (r >= 0)
		r = add_signal(s, SIGTERM);
	if (r >= 0)
		r = add_signal(s, SIGINT);
	if (r >= 0)
		r = add_io(s, s->broker.assign_fd, on_published);
	if (r >= 0)
		r = add_io(s, s->broker.roots.inotify_fd, on_cgroups);
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

static int watch(struct server *s, int fd, enum watched what, enum watched *place)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = place};

	*place = what;
	return epoll_ctl(s->broker.hub_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int add_watches(struct server *s)
{
	int r;

	r = watch(s, s->listener.fd, WATCHED_LISTENER, &s->listener_watched);
	if (r >= 0)
		r = watch(s, s->broker.adopt.inotify_fd, WATCHED_LINKS, &s->links_watched);
	if (r >= 0)
		r = watch(s, sd_event_get_fd(s->event), WATCHED_EVENT, &s->event_watched);
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
	if (r >= 0)
		r = add_watches(s);
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
	for (enum account_kind kind = 0; kind < ACCOUNT_KIND_MAX_; kind++)
		if (b->accounts.refused[kind] > 0)
			log_info("Limit of %s: refused %" PRIu64 " times", account_kind_name(kind),
				 b->accounts.refused[kind]);
}

int server_run(struct server *s)
{
	int r;

	(void)sd_notify(0, "READY=1");
	r = run_loop(s);
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
