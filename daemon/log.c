/* SPDX-License-Identifier: MIT */
#include "daemon/log.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* The location would be this file's for all messages. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "common/util.h"

static struct {
	const char *identifier;
	char syslog_identifier[96]; /* the field as the journal takes it */
	int max_priority;
	bool journal;
} log_state = {.max_priority = LOG_INFO};

/* systemd names the device and inode of the stream that it made; stderr may have been redirected
 * since. */
static bool stderr_is_journal(void)
{
	const char *e = secure_getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	int n = 0;

	if (!e || sscanf(e, "%llu:%llu%n", &dev, &ino, &n) != 2 || e[n] != '\0')
		return false;
	if (fstat(STDERR_FILENO, &st) < 0)
		return false;
	return st.st_dev == dev && st.st_ino == ino;
}

void log_open(const char *identifier, int max_priority)
{
	log_state.identifier = identifier;
	log_state.max_priority = max_priority;
	log_state.journal = stderr_is_journal();
	(void)snprintf(log_state.syslog_identifier, sizeof log_state.syslog_identifier,
		       "SYSLOG_IDENTIFIER=%s", identifier);
}

static void sanitize(char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			*s = '?';
}

static struct iovec iovec_of(char *s)
{
	return (struct iovec){s, strlen(s)};
}

static int to_journal(int priority, int error, const struct log_field *fields, size_t n_fields,
		      const char *text)
{
	char message[LOG_LINE_MAX + 16], level[32], error_number[32], *made[LOG_FIELDS_MAX];
	struct iovec iov[4 + LOG_FIELDS_MAX];
	size_t n = 0, n_made = 0;
	int r;

	(void)snprintf(message, sizeof message, "MESSAGE=%s", text);
	iov[n++] = iovec_of(message);
	(void)snprintf(level, sizeof level, "PRIORITY=%d", priority);
	iov[n++] = iovec_of(level);
	iov[n++] = iovec_of(log_state.syslog_identifier);
	if (error) {
		(void)snprintf(error_number, sizeof error_number, "ERRNO=%d", error);
		iov[n++] = iovec_of(error_number);
	}
	for (size_t i = 0; i < n_fields && n_made < LOG_FIELDS_MAX; i++)
		if (fields[i].value &&
		    asprintf(&made[n_made], "%s=%s", fields[i].name, fields[i].value) >= 0)
			iov[n++] = iovec_of(made[n_made++]);
	r = sd_journal_sendv(iov, (int)n);
	while (n_made > 0)
		free(made[--n_made]);
	return r;
}

/* A pipe that poll() calls writable takes PIPE_BUF bytes, more than a line has, without blocking.
 */
static void to_stderr(const char *text)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[LOG_LINE_MAX + 128];
	int n;

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
		return;
	n = snprintf(line, sizeof line, "%s%s%s\n",
		     log_state.identifier ? log_state.identifier : "",
		     log_state.identifier ? ": " : "", text);
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody left to tell */
}

int log_full(int priority, int error, const struct log_field *fields, size_t n_fields,
	     const char *format, ...)
{
	char text[LOG_LINE_MAX];
	int saved = errno;
	va_list ap;

	error = error < 0 ? -error : error;
	if (priority > log_state.max_priority)
		return -error;
	errno = error ? error : saved; /* for %m */
	va_start(ap, format);
	if (vsnprintf(text, sizeof text, format, ap) < 0)
		(void)snprintf(text, sizeof text, "%s", format);
	va_end(ap);
	sanitize(text);
	if (!log_state.journal || to_journal(priority, error, fields, n_fields, text) < 0)
		to_stderr(text);
	errno = saved;
	return -error;
}

bool log_limit_pass(struct log_limit *limit, uint64_t now_usec, unsigned *ret_suppressed)
{
	if (limit->passed == 0 || now_usec - limit->begin_usec >= limit->interval_usec) {
		limit->begin_usec = now_usec;
		limit->passed = 0;
	}
	if (limit->passed >= limit->burst) {
		limit->suppressed++;
		return false;
	}
	limit->passed++;
	*ret_suppressed = limit->suppressed;
	limit->suppressed = 0;
	return true;
}
