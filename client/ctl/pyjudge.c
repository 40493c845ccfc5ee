/* SPDX-License-Identifier: MIT */
#include "client/ctl/pyjudge.h"

#include <stdarg.h>

#include "client/ctl/pytrust.h"
#include "common/util.h"

#define OLDEST_MINOR 6

_printf_(2, 3) static bool refuse(char why[PYEXE_WHY_SIZE], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(why, PYEXE_WHY_SIZE, format, ap);
	va_end(ap);
	return false;
}

static bool writable(const char *directory, char why[PYEXE_WHY_SIZE])
{
	if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0)
		return true;
	if (errno == EROFS)
		return refuse(why, "%s is on a read-only file system", directory);
	if (errno == EACCES && geteuid() != 0)
		return refuse(why, "%s is not yours to write: run this as root", directory);
	return refuse(why, "%s cannot be written: %s", directory, strerror(errno));
}

bool pyjudge(const struct pyexe *exe, const char *directory, char why[PYEXE_WHY_SIZE])
{
	_cleanup_(freep) char *lib = NULL;
	char who[PYEXE_WHY_SIZE - 64];
	const char *network;

	if (exe->version.minor < OLDEST_MINOR)
		return refuse(why, "older than Python 3.%d", OLDEST_MINOR);
	if (!directory && exe->zip && !exe->venv) {
		lib = strndup(exe->zip, (size_t)(strrchr(exe->zip, '/') - exe->zip));
		directory = lib;
	}
	if (!directory)
		directory = exe->site;
	if (!directory)
		return refuse(why, "no site-packages directory");
	network = pytrust_network(directory);
	if (network)
		return refuse(why, "on a network file system (%s), which other nodes may share",
			      network);
	if (geteuid() == 0 && exe->owner != 0)
		return refuse(why, "belongs to uid %u", (unsigned)exe->owner);
	if (geteuid() == 0 && !pytrust_roots(directory, who, sizeof who))
		return refuse(why, "others could replace %s", who);
	return writable(directory, why);
}
