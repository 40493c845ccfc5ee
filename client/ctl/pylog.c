/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/pylog.h"

#include <syslog.h>
#include <unistd.h>

/* The location would be this file's for all messages. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

void pylog(enum pyaction action, const struct pyexe *exe, const char *reason)
{
	const char *name = pyaction_name(action);
	unsigned uid = (unsigned)getuid();

	if (geteuid() != 0)
		return;
	(void)sd_journal_send("MESSAGE=Python hook: %s in %s by uid %u%s%s", name, exe->exe, uid,
			      reason[0] ? ": " : "", reason, "PRIORITY=%d", LOG_NOTICE,
			      "SYSLOG_IDENTIFIER=cudaenvctl", "CUDAENV_ACTION=python-%s", name,
			      "CUDAENV_PATH=%s", exe->exe, "CUDAENV_UID=%u", uid,
			      reason[0] ? "CUDAENV_REASON=%s" : NULL, reason, NULL);
}
