/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Logging of the daemon's pieces: to the journal with structured fields where stderr is the
 * journal's (systemd says so in JOURNAL_STREAM), else one plain line on stderr. Never in common/ or
 * client/.
 *
 * Which level: LOG_ERR what ends the piece or a request of an operator; LOG_WARNING what somebody
 * should mend; LOG_NOTICE a change of state; LOG_INFO the ordinary course; LOG_DEBUG the rest. What
 * a peer can cause goes through a log_limit. A line is at most LOG_LINE_MAX bytes; control
 * characters in it are written as '?'. Values of variables are never logged.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <syslog.h>

#define LOG_LINE_MAX 2048

/* One structured field; NAME by the journal's rules (A-Z, 0-9, _): "CUDAENV_PROFILE". A field whose
 * VALUE is NULL is left out. At most LOG_FIELDS_MAX are sent. Only the journal sees them: the
 * message must be readable without. */
struct log_field {
	const char *name;
	const char *value;
};
#define LOG_FIELDS_MAX 16

/* IDENTIFIER is kept as a pointer ("cudaenv-broker"). Messages above MAX_PRIORITY (LOG_INFO) are
 * dropped. Before this call everything goes to stderr. */
void log_open(const char *identifier, int max_priority);

/* Logs, and returns -|ERROR| (0 for 0) so that `return log_error_errno(r, "Failed to ...: %m");`
 * works: %m is ERROR's text. errno is kept. Does not block on a full pipe: then the line is lost.
 */
int log_full(int priority, int error, const struct log_field *fields, size_t n_fields,
	     const char *format, ...) __attribute__((format(printf, 5, 6)));

#define log_error(...)                log_full(LOG_ERR, 0, NULL, 0, __VA_ARGS__)
#define log_warning(...)              log_full(LOG_WARNING, 0, NULL, 0, __VA_ARGS__)
#define log_notice(...)               log_full(LOG_NOTICE, 0, NULL, 0, __VA_ARGS__)
#define log_info(...)                 log_full(LOG_INFO, 0, NULL, 0, __VA_ARGS__)
#define log_debug(...)                log_full(LOG_DEBUG, 0, NULL, 0, __VA_ARGS__)
#define log_error_errno(error, ...)   log_full(LOG_ERR, (error), NULL, 0, __VA_ARGS__)
#define log_warning_errno(error, ...) log_full(LOG_WARNING, (error), NULL, 0, __VA_ARGS__)
#define log_notice_errno(error, ...)  log_full(LOG_NOTICE, (error), NULL, 0, __VA_ARGS__)
#define log_info_errno(error, ...)    log_full(LOG_INFO, (error), NULL, 0, __VA_ARGS__)
#define log_debug_errno(error, ...)   log_full(LOG_DEBUG, (error), NULL, 0, __VA_ARGS__)

/* log_struct(LOG_NOTICE, 0, LOG_FIELDS({"CUDAENV_PROFILE", name}), "Now on %s", name) */
#define LOG_FIELDS(...)                                                                            \
	(const struct log_field[]){__VA_ARGS__},                                                   \
		sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)
#define log_struct(priority, error, ...) log_full(priority, error, __VA_ARGS__)

/* A rate limit: BURST messages in INTERVAL_USEC, then silence to the end of the interval. One for
 * each message, or for a family; zero the rest. */
struct log_limit {
	uint64_t interval_usec;
	unsigned burst;
	uint64_t begin_usec;
	unsigned passed;
	unsigned suppressed;
};
#define LOG_LIMIT(interval, n)                                                                     \
	{                                                                                          \
		.interval_usec = (interval), .burst = (n)                                          \
	}

/* May a message be logged at NOW_USEC (monotonic)? *ret_suppressed: how many were not, in the
 * intervals since the last that was (say it in the message); written only when the answer is yes.
 */
bool log_limit_pass(struct log_limit *limit, uint64_t now_usec, unsigned *ret_suppressed);
