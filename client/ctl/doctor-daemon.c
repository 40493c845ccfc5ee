/* SPDX-License-Identifier: MIT */
/* doctor: manager, broker, what they publish and keep. */
#include "config.h"

#include "client/ctl/doctor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "client/ctl/child.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/missing.h"
#include "client/ctl/reach.h"
#include "client/fetch.h"
#include "common/util.h"

#define BROKER_USEC     1000000
#define PROGRAM_MSEC    3000
#define OUTPUT_MAX      ((size_t)256 * 1024)
#define SPACE_MIN       ((uint64_t)1024 * 1024) /* bytes free where something is to be written */
#define NO_SUCH_PROGRAM 127

static int nothing_published(struct doctor *d)
{
	return doctor_skip(d, "nothing is published in %s", d->paths->runtime);
}

int doctor_manager(struct doctor *d)
{
	_cleanup_(freep) char *start = ctl_start_advice(d->ctl), *wake = NULL;
	pid_t pid;

	if (!start)
		return -ENOMEM;
	switch (manager_reach(&d->published, d->paths->control, &pid)) {
	case MANAGER_RUNNING:
		return 0;
	case MANAGER_UNSEEN:
		return doctor_skip(d, "whether cudaenvd runs cannot be seen from here");
	case MANAGER_SILENT:
		wake = ctl_wake_advice(d->ctl, pid);
		return !wake ? -ENOMEM
			     : doctor_add(
				       d, FINDING_ERROR, d->paths->control, 0, NULL, wake,
				       "cudaenvd (pid %d) does not answer: nothing can be changed",
				       (int)pid);
	default:
		return doctor_add(d, FINDING_ERROR, d->paths->control, 0, NULL, start,
				  "cudaenvd is not running%s",
				  d->have_published ? ": starts go by what it published" : "");
	}
}

/* Why the socket of the broker is no use, or NULL. */
static const char *socket_fault(int r)
{
	switch (r) {
	case 0:
		return NULL;
	case -ENOENT:
		return "the broker's socket is not there";
	case -ECONNREFUSED:
		return "nobody listens at the broker's socket";
	case -EAGAIN:
		return "the queue of the broker's socket is full";
	case -EPERM:
		return "the broker's socket belongs to a stranger";
	default:
		return "the broker's socket cannot be used";
	}
}

int doctor_broker(struct doctor *d)
{
	static const char nobody[DIGEST_SIZE] = "00000000000000000000000000000000"
						"00000000000000000000000000000000";
	_cleanup_(fetch_done) struct fetch f = FETCH_NULL;
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *socket = NULL;
	const char *fault, *fix;
	int r;

	if (!d->have_published)
		return nothing_published(d);
	fix = d->paths->user ? ctl_restart_advice(d->ctl)
			     : "systemctl restart cudaenv-broker.socket cudaenv-broker.service";
	socket = doctor_format("%s/socket", d->paths->runtime);
	if (!socket)
		return -ENOMEM;
	r = fetch_open(&d->published.runtime, d->paths->runtime, fetch_deadline(BROKER_USEC), &f);
	fault = socket_fault(r);
	/* It has no such snapshot and says so. */
	if (r == 0 && fetch_get(&f, nobody, &s) == -ETIMEDOUT)
		fault = "the broker does not answer";
	if (!fault)
		return 0;
	return doctor_add(d, FINDING_ERROR, socket, 0, NULL, fix,
			  "%s: each start waits 8 ms at most and decides alone", fault);
}

/* --- the runtime directory */

static int look_at_links(struct doctor *d, const char *name, int fd)
{
	_cleanup_(freep) char *path = NULL;
	const char *fix = d->paths->user ? ctl_restart_advice(d->ctl)
					 : "systemd-tmpfiles --create cudaenv.conf, then systemctl "
					   "restart cudaenvd cudaenv-broker";
	struct statvfs fs;
	struct stat st;

	path = doctor_format("%s/%s", d->paths->runtime, name);
	if (!path)
		return -ENOMEM;
	if (fd < 0 || fstat(fd, &st) < 0)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, fix,
				  "there is no such directory: no job keeps its snapshot");
	if ((st.st_mode & 07777) != 01777)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, fix,
				  "its mode is %04o, not 1777: not everybody can pin a job",
				  (unsigned)st.st_mode & 07777);
	if (fstatvfs(fd, &fs) == 0 && ((fs.f_files > 0 && fs.f_favail < fs.f_files / 50) ||
				       (fs.f_blocks > 0 && fs.f_bavail < fs.f_blocks / 50)))
		return doctor_add(d, FINDING_WARNING, path, 0, NULL,
				  "look who has made the most links in it",
				  "its file system is nearly full: new jobs cannot be pinned");
	return 0;
}

static int look_at_directory(struct doctor *d)
{
	struct stat st;

	if (fstat(d->published.runtime.dir_fd, &st) < 0)
		return 0;
	if (!d->paths->user && (st.st_mode & 0555) != 0555)
		return doctor_add(d, FINDING_ERROR, d->paths->runtime, 0, NULL, "chmod 0755 it",
				  "its mode is %04o: not everybody can read what is published",
				  (unsigned)st.st_mode & 07777);
	return 0;
}

int doctor_runtime(struct doctor *d)
{
	_cleanup_(freep) char *advice = ctl_start_advice(d->ctl);
	const char *path = d->paths->runtime;
	int r = d->published_error;

	if (!advice)
		return -ENOMEM;
	if (r == -ENOENT)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, advice,
				  "it does not exist: cudaenvd has not run");
	if (r == -EPERM)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL,
				  "let it and every directory above it belong to root or to you, "
				  "and be writable by the owner alone",
				  "it is not believed, by no process: others could write in it");
	if (r < 0)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, NULL, "it cannot be read: %s",
				  strerror(-r));
	r = look_at_directory(d);
	if (r == 0)
		r = look_at_links(d, "jobs", d->published.runtime.jobs_fd);
	if (r == 0)
		r = look_at_links(d, "procs", d->published.runtime.procs_fd);
	return r;
}

/* --- what is published */

/* The snapshot that new jobs get is there, and its bytes are its name's. */
static int look_at_snapshot(struct doctor *d)
{
	const struct assign *a = d->published.assign;
	_cleanup_(snapshot_freep) struct snapshot *s = NULL;
	_cleanup_(freep) char *bytes = NULL, *path = NULL;
	size_t size;
	int r;

	if (!a->fallback[0])
		return 0;
	r = runtime_read(&d->published.runtime, d->published.runtime.snapshots_fd, a->fallback,
			 SNAPSHOT_MAX_BYTES, &bytes, &size);
	if (r == 0)
		r = snapshot_parse(bytes, size, &s);
	if (r == -ENOMEM)
		return r;
	if (r == 0 && streq(s->digest, a->fallback))
		return 0;
	path = doctor_format("%s/snapshots/%s", d->paths->runtime, a->fallback);
	if (!path)
		return -ENOMEM;
	return doctor_add(d, FINDING_ERROR, path, 0, NULL, ctl_restart_advice(d->ctl),
			  "the snapshot that new jobs get %s: they get nothing",
			  r == -ENOENT ? "is not there"
			  : r < 0      ? strerror(-r)
				       : "is damaged");
}

static bool is_stale(const struct published *p)
{
	return p->assign && p->status &&
	       json_number(p->status, "generation", -1) != (int64_t)p->assign->generation;
}

int doctor_published(struct doctor *d)
{
	struct published *p = &d->published;

	if (!d->have_published)
		return nothing_published(d);
	/* Written one after the other: a switch may be just on its way. */
	if (is_stale(p)) {
		published_done(p);
		*p = (struct published)PUBLISHED_NULL;
		d->published_error = published_open(d->paths->runtime, p);
		d->have_published = d->published_error == 0;
	}
	if (!p->assign)
		return doctor_add(d, FINDING_ERROR, d->paths->runtime, 0, NULL,
				  ctl_restart_advice(d->ctl),
				  "its file assign, the rules, %s: no start is given anything",
				  p->assign_error == -EBADMSG  ? "is damaged"
				  : p->assign_error == -ENOENT ? "is not there"
							       : strerror(-p->assign_error));
	if (!p->status)
		return doctor_add(d, FINDING_ERROR, d->paths->runtime, 0, NULL,
				  ctl_restart_advice(d->ctl),
				  "its file status is not there or damaged");
	if (is_stale(p)) {
		int r = doctor_add(d, FINDING_WARNING, d->paths->runtime, 0, NULL,
				   ctl_restart_advice(d->ctl),
				   "its file status is of generation %lld, the rules are of %llu",
				   (long long)json_number(p->status, "generation", -1),
				   (unsigned long long)p->assign->generation);
		if (r < 0)
			return r;
	}
	return look_at_snapshot(d);
}

int doctor_mode(struct doctor *d)
{
	const struct assign *a = d->published.assign;

	if (!a)
		return nothing_published(d);
	if (a->mode == MODE_ON && !published_gives(&d->published)) {
		_cleanup_(freep) char *fix = NULL,
				      *reason = missing_reason(d->ctl, &d->published, &fix);

		return !reason ? -ENOMEM
			       : doctor_add(d, FINDING_WARNING, NULL, 0, NULL, fix,
					    "mode is on, but %s: nothing is set", reason);
	}
	if (a->mode == MODE_ON)
		return 0;
	return doctor_add(d, FINDING_ADVICE, NULL, 0, NULL,
			  *doctor_user(d) ? "cudaenvctl --user on" : "cudaenvctl on",
			  "mode is %s: nothing is set in new jobs", mode_name(a->mode));
}

/* --- the state directory */

int doctor_state(struct doctor *d)
{
	const char *path = d->paths->state, *last = json_string(d->published.status, "last_error");
	struct statvfs fs;
	struct stat st;
	int r;

	if (last) {
		r = doctor_add(d, FINDING_WARNING, NULL, 0, NULL,
			       d->paths->user ? "see what cudaenvd wrote to its log"
					      : "journalctl -u cudaenvd has more",
			       "cudaenvd says: %s", last);
		if (r < 0)
			return r;
	}
	if (stat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return doctor_add(d, d->have_published ? FINDING_ERROR : FINDING_ADVICE,
					  path, 0, NULL,
					  d->paths->user ? ctl_restart_advice(d->ctl)
							 : "systemd-tmpfiles --create cudaenv.conf",
					  "it does not exist: choices are lost at a reboot");
		return doctor_skip(d, "%s: %s", path, strerror(errno));
	}
	if (!S_ISDIR(st.st_mode) || st.st_mode & (S_IWGRP | S_IWOTH))
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, "chmod 0700 it",
				  "it is no directory of its owner's alone");
	if (statvfs(path, &fs) < 0)
		return 0;
	if (fs.f_flag & ST_RDONLY)
		return doctor_add(d, FINDING_ERROR, path, 0, NULL, "mount it for writing",
				  "its file system is read-only: choices are lost at a reboot");
	if ((uint64_t)fs.f_bavail * fs.f_frsize < SPACE_MIN)
		return doctor_add(d, FINDING_WARNING, path, 0, NULL, "make room",
				  "its file system is full: choices are lost at a reboot");
	return 0;
}

/* --- cudaenvd.conf */

/* "FILE:LINE: text" or "FILE:LINE: warning: text", in place. */
static int add_complaint(struct doctor *d, char *text)
{
	char *colon = strchr(text, ':'), *end;
	const char *warning;
	unsigned long line = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (line == 0 || line > UINT32_MAX || end[0] != ':')
		return doctor_add(d, FINDING_WARNING, NULL, 0, NULL, NULL, "%s", text);
	*colon = '\0';
	end += 1 + strspn(end + 1, " ");
	warning = startswith(end, "warning: ");
	return doctor_add(
		d, FINDING_WARNING, text, (unsigned)line, NULL,
		warning ? "name a profile that cudaenvctl list shows as ready, or put that "
			  "one right"
			: "cudaenvd --print-config shows every setting",
		"%s", warning ? warning : end);
}

int doctor_config(struct doctor *d)
{
	char *argv[] = {(char *)SBINDIR "/cudaenvd", (char *)"--check-config",
			d->paths->user ? (char *)"--user" : NULL, NULL};
	_cleanup_(child_answer_done) struct child_answer answer = {0};
	int r = child_ask(argv, PROGRAM_MSEC, OUTPUT_MAX, &answer), exited;

	if (r == -ENOMEM)
		return r;
	exited = r == 0 && WIFEXITED(answer.status) ? WEXITSTATUS(answer.status) : -1;
	if (exited == NO_SUCH_PROGRAM)
		return doctor_skip(d, "%s cannot be run", argv[0]);
	if (exited != 0 && exited != 1)
		return doctor_add(d, FINDING_ERROR, argv[0], 0, NULL, NULL,
				  "its --check-config fails%s%s", r < 0 ? ": " : "",
				  r < 0 ? strerror(-r) : "");
	for (char *line = answer.out, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r = add_complaint(d, line);
		if (r < 0)
			return r;
	}
	return 0;
}
