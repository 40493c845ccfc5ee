/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tells that something under given paths may have changed, by inotify: contents of directories,
 * single files, what symlinks on the way point to, and directories that are absent, appear, or are
 * replaced (the nearest existing ancestor is watched for the next name). Every change looks the
 * same to the user of this module: after a short quiet time, or at most a quarter of a second, the
 * watches are made anew and the handler is called, which looks at the files themselves. No wake-up
 * without an event. Mounts over a directory are not seen.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum watch_kind {
	WATCH_DIRECTORY, /* anything in it, and files that symlinks in it point to */
	WATCH_FILE,      /* one name in its directory */
	WATCH_PASSAGE,   /* a directory on the way: only whether it is the same one */
};

struct watch_target {
	enum watch_kind kind;
	char *path; /* absolute */
};

/* ERROR: what watch_start() returned. */
typedef void (*watch_handler)(int error, void *userdata);

struct watch;

/* WRITES: tell every write, not only when a written file is closed: for files that nobody else
 * should touch, while a profile half written is not yet news. 0 or negative errno. */
int watch_new(sd_event *event, bool writes, watch_handler handler, void *userdata,
	      struct watch **ret);
struct watch *watch_free(struct watch *w);
/* Adds a target; takes effect with watch_start(). 0 or -ENOMEM. */
int watch_add(struct watch *w, enum watch_kind kind, const char *path);
/* Makes the watches. The caller then reads the files: what changes from now on is told. 0, or
 * negative errno: some of it, or nothing, is watched (-ENOSPC, -EMFILE: the kernel's limits on
 * inotify). */
int watch_start(struct watch *w);

static inline void watch_freep(struct watch **w)
{
	if (*w)
		(void)watch_free(*w);
}
