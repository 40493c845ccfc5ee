/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "common/util.h"
#include "common/wire.h"
#include "daemon/log.h"
#include "daemon/manager/json.h"
#include "daemon/manager/release.h"

#define ERROR_NO_SUCH_JOB "org.cudaenv.Error.NoSuchJob"
#define ERROR_REFUSED     "org.cudaenv.Error.Refused"
#define ERROR_BUSY        "org.cudaenv.Error.Busy"
#define ERROR_FAILED      "org.cudaenv.Error.Failed"

struct release {
	struct manager *manager;
	struct release *next; /* manager.releases */
	sd_bus_message *call;
	sd_event_source *io, *timer;
	int fd;
	char job[JOB_KEY_SIZE];
	char digest[DIGEST_SIZE]; /* "" none */
	char *reason;
	struct caller who; /* with a user of its own */
	char *user;
};

static struct release *release_free(struct release *r)
{
	struct release **at = &r->manager->releases;

	while (*at && *at != r)
		at = &(*at)->next;
	if (*at)
		*at = r->next;
	(void)sd_event_source_disable_unref(r->io);
	(void)sd_event_source_disable_unref(r->timer);
	(void)sd_bus_message_unref(r->call);
	(void)safe_close(r->fd);
	free(r->reason);
	free(r->user);
	free(r);
	return NULL;
}

void releases_free(struct manager *m)
{
	while (m->releases)
		(void)release_free(m->releases);
}

/* --- the end of one */

static void finish_error(struct release *r, const char *name, const char *text)
{
	const sd_bus_error error = SD_BUS_ERROR_MAKE_CONST(name, text);

	log_notice("Job %s is not released: %s", r->job, text);
	(void)sd_bus_reply_method_error(r->call, &error);
	(void)release_free(r);
}

/* Name of the profile that DIGEST was made from, malloc()ed. NULL: none, or unknown. */
static char *profile_of(struct manager *m, const char *digest)
{
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL;
	size_t size;

	if (!digest[0] || switch_fetch(m, digest, &bytes, &size) < 0 ||
	    snapshot_parse(bytes, size, &s) < 0)
		return NULL;
	return strdup(s->profile);
}

static int document(const struct release *r, const char *from, const char *profile, char **ret)
{
	const struct active *a = &r->manager->state->active;
	const char *to = r->digest[0] ? r->digest : NULL;
	_cleanup_(json_putp) json_object *o = json_object_new_object();

	if (!o || json_add_string(o, "action", "release") ||
	    json_add_string(o, "mode", mode_name(a->mode)) || json_add_string(o, "job", r->job) ||
	    json_add_string(o, "from", from[0] ? from : NULL) || json_add_string(o, "to", to) ||
	    json_add_string(o, "digest", to) || json_add_string(o, "profile", profile) ||
	    json_add_number(o, "generation", (int64_t)a->generation))
		return -ENOMEM;
	return json_print(o, ret);
}

static void finish_good(struct release *r, const char *from)
{
	_cleanup_(freep) char *profile = profile_of(r->manager, r->digest), *json = NULL;
	const struct change why = {
		.action = "release", .uid = r->who.uid, .user = r->user, .reason = r->reason};
	char scope[STRLEN("job ") + JOB_KEY_SIZE];
	int k = 0;

	(void)snprintf(scope, sizeof(scope), "job %s", r->job);
	if (!streq(from, r->digest))
		k = switch_record(r->manager, &why,
				  &(struct record){.action = "release",
						   .scope = scope,
						   .from = from,
						   .to = r->digest,
						   .profile = profile});
	if (k < 0)
		(void)log_error_errno(k, "The release of %s is not in the history yet: %m", r->job);
	k = document(r, from, profile, &json);
	if (k < 0)
		(void)sd_bus_reply_method_errno(r->call, k, NULL);
	else
		(void)sd_bus_reply_method_return(r->call, "s", json);
	(void)release_free(r);
}

/* An answer is a stranger's bytes until it is decoded; a text of it is not passed on. */
static void finish_refused(struct release *r, uint32_t code)
{
	char text[256];

	switch (code) {
	case ENOENT:
		finish_error(r, ERROR_NO_SUCH_JOB, "there is no job of that name with a snapshot");
		break;
	case E2BIG:
		finish_error(r, ERROR_REFUSED,
			     "the job has had as many snapshots as its pin has room for; start it "
			     "again");
		break;
	default:
		(void)snprintf(text, sizeof(text), "the broker refused: %s", strerror((int)code));
		finish_error(r, ERROR_FAILED, text);
		break;
	}
}

/* False: none is there yet. */
static bool take_answer(struct release *r)
{
	char datagram[WIRE_HEADER_SIZE + 8 + WIRE_TEXT_MAX];
	struct wire_released m;
	struct wire_error e;
	ssize_t n = recv(r->fd, datagram, sizeof(datagram), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0 && (size_t)n <= sizeof(datagram) &&
	    wire_decode_released(datagram, (size_t)n, &m) == 0)
		finish_good(r, m.from);
	else if (n > 0 && (size_t)n <= sizeof(datagram) &&
		 wire_decode_error(datagram, (size_t)n, &e) == 0)
		finish_refused(r, e.code);
	else
		finish_error(r, ERROR_FAILED, "the broker ended the connection without an answer");
	return true;
}

static int on_answer_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)take_answer(userdata);
	return 0;
}

/* We may have been stopped ourselves while the answer came. */
static int on_answer_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	if (!take_answer(userdata))
		finish_error(userdata, ERROR_FAILED,
			     "the broker does not answer, nothing has changed; is it stopped?");
	return 0;
}

/* --- the beginning */

/* Connecting and sending are done at once or fail. */
static int send_request(struct release *r)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct wire_release m = {.key = {r->job, strlen(r->job)}};
	char datagram[WIRE_HEADER_SIZE + 66 + JOB_KEY_MAX];
	ssize_t n;
	int k;

	k = snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket",
		     r->manager->paths.runtime);
	if (k < 0 || (size_t)k >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(m.digest, r->digest, sizeof(m.digest));
	n = wire_encode_release(datagram, sizeof(datagram), 1, &m);
	if (n < 0)
		return (int)n;
	r->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(r->fd, datagram, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -errno;
	return 0;
}

static int wait_for_answer(struct release *r)
{
	sd_event *event = r->manager->event;
	int k;

	k = sd_event_add_io(event, &r->io, r->fd, EPOLLIN, on_answer_io, r);
	if (k >= 0)
		k = sd_event_add_time_relative(event, &r->timer, CLOCK_MONOTONIC, RELEASE_USEC, 0,
					       on_answer_timer, r);
	return k;
}

static int refuse_send(int k, sd_bus_error *error)
{
	switch (k) {
	case -ENOENT:
	case -ECONNREFUSED:
		return sd_bus_error_set(error, ERROR_FAILED,
					"the broker is not running: a job is released by it");
	case -EAGAIN:
		return sd_bus_error_set(error, ERROR_FAILED,
					"the broker does not take connections; is it stopped?");
	default:
		return sd_bus_error_setf(error, ERROR_FAILED, "the broker cannot be asked: %s",
					 strerror(-k));
	}
}

/* Only what the rules give: to what a running job is moved, new ones would get. */
static int check_digest(const struct manager *m, const char *digest, sd_bus_error *error)
{
	_cleanup_(assign_freep) struct assign *a = NULL;
	int k;

	if (m->state->active.mode == MODE_OFF)
		return sd_bus_error_set(
			error, ERROR_REFUSED,
			"in mode off nothing is set in any job; cudaenvctl on first");
	k = assign_parse(m->assign, m->assign_size, &a, NULL);
	if (k < 0)
		return k;
	if (a->mode == MODE_OBSERVE ? digest[0] == '\0' : assign_gives(a, digest))
		return 0;
	return sd_bus_error_set(error, ERROR_REFUSED, "no rule gives this snapshot now; try again");
}

static int check_arguments(const struct manager *m, const char *job, const char *digest,
			   const char *reason, sd_bus_error *error)
{
	struct job_key parsed;

	if (job_key_parse(job, &parsed) < 0 || parsed.slot > 0)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					"that is no name of a job");
	if (digest[0] && !digest_valid(digest))
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					"a snapshot is 64 hex digits, or none");
	if (strlen(reason) > STATE_REASON_MAX)
		return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
					 "a reason has at most %d bytes", STATE_REASON_MAX);
	return check_digest(m, digest, error);
}

static int begin(struct release *r, sd_bus_error *error)
{
	int k;

	k = send_request(r);
	if (k < 0)
		return refuse_send(k, error);
	return wait_for_answer(r);
}

int release_begin(struct manager *m, sd_bus_message *call, const struct caller *who,
		  sd_bus_error *error)
{
	const char *job, *digest, *reason;
	struct release *r;
	unsigned n = 0;
	int k;

	k = sd_bus_message_read(call, "sss", &job, &digest, &reason);
	if (k < 0)
		return k;
	if (streq(digest, "none"))
		digest = "";
	k = check_arguments(m, job, digest, reason, error);
	if (k < 0)
		return k;
	for (r = m->releases; r; r = r->next)
		n++;
	if (n >= RELEASES_MAX)
		return sd_bus_error_set(error, ERROR_BUSY, "too many jobs are being released");
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct release){.manager = m,
			      .next = m->releases,
			      .fd = -EBADF,
			      .who = *who,
			      .reason = strdup(reason),
			      .user = who->user ? strdup(who->user) : NULL,
			      .call = sd_bus_message_ref(call)};
	m->releases = r;
	(void)strcpy(r->job, job);
	(void)strcpy(r->digest, digest);
	k = r->reason ? begin(r, error) : -ENOMEM;
	if (k < 0) {
		(void)release_free(r);
		return k;
	}
	return 1;
}
