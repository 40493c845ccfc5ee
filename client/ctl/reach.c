/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/reach.h"

#include <signal.h>

#include "client/ctl/control.h"
#include "client/ctl/jsonutil.h"
#include "common/util.h"

/* Without the control socket's directory nothing can be told: a container has only the published
 * tree. */
static bool control_is_here(const char *control)
{
	_cleanup_(freep) char *directory = strdup(control);
	char *slash = directory ? strrchr(directory, '/') : NULL;

	if (slash)
		*slash = '\0';
	return slash && access(directory, F_OK) == 0;
}

enum manager_state manager_reach(const struct published *p, const char *control, pid_t *ret_pid)
{
	_cleanup_(control_result_done) struct control_result answer = {0};
	pid_t pid = (pid_t)json_number(p->status, "manager_pid", 0);
	int r;

	*ret_pid = pid;
	if (p->status && !control_is_here(control))
		return MANAGER_UNSEEN;
	if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
		return MANAGER_DEAD;
	r = control_ping(control, CONTROL_ALIVE_USEC, &answer);
	if (r == 0 || r == -EREMOTEIO)
		return MANAGER_RUNNING;
	if (r == -ETIMEDOUT)
		return MANAGER_SILENT;
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET ? MANAGER_DEAD
								      : MANAGER_UNSEEN;
}
