/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The control socket: D-Bus peer to peer, object /org/cudaenv/Manager1, interface
 * org.cudaenv.Manager1. Everyone may connect and read; who may change is judged by the kernel's
 * credentials of the connection. Connections are counted (in all, and for each uid; root and our
 * own uid have places of their own) and end when nothing is said for a while. Logs.
 */

#include <systemd/sd-event.h>

struct manager;
struct control;

/* Listens on the socket that systemd passed, else on PATH, which is made. 0 or negative errno. */
int control_new(struct manager *m, const char *path, struct control **ret);
struct control *control_free(struct control *c);
/* Looks the group up again. */
void control_reload(struct control *c);
