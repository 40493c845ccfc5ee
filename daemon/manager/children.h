/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * In user mode the manager runs the other pieces itself: starts them, starts them again when they
 * end (at once, then with growing pauses), and ends them when it ends. They die with us also when
 * we are killed. Logs.
 *
 * A piece is looked for in $CUDAENV_LIBEXECDIR if that is set, else where make puts it when our own
 * executable lies in a build tree, else in the installed libexec directory.
 */

#include <systemd/sd-event.h>

typedef void (*children_ended)(void *userdata);

struct children;

/* 0 or negative errno. A piece that is not there is said and left out. */
int children_new(sd_event *event, struct children **ret);
/* Kills what runs and does not wait. */
struct children *children_free(struct children *c);
int children_start(struct children *c);
/* Asks all to end, kills them after a while, then calls ENDED (perhaps before this returns). */
void children_stop(struct children *c, children_ended ended, void *userdata);
