/* SPDX-License-Identifier: MIT */
#pragma once

/* Is the manager there that wrote the published status? */

#include "client/ctl/published.h"

enum manager_state {
	MANAGER_RUNNING,
	MANAGER_SILENT, /* listens and does not answer */
	MANAGER_DEAD,
	MANAGER_UNSEEN, /* cannot be told from here, as in a container */
};

/* CONTROL: its socket. A manager that is known to be gone is not called: systemd would start it,
 * and a question must not do that. *RET_PID: 0 unknown. */
enum manager_state manager_reach(const struct published *p, const char *control, pid_t *ret_pid);
