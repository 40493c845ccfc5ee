/* SPDX-License-Identifier: MIT */
#pragma once

/* A directory of the test's own, removed when the test ends, and files in it. */

#include <ftw.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "common/util.h"
#include "tests/unit/test.h"

static char temp_dir[64];
static pid_t temp_owner;

static inline int temp_remove_one(const char *path, const struct stat *st, int type,
				  struct FTW *ftw)
{
	return remove(path);
}

static inline void temp_remove(const char *path)
{
	(void)nftw(path, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void temp_end(void)
{
	if (getpid() == temp_owner)
		temp_remove(temp_dir);
}

static inline void temp_begin(void)
{
	/* In memory where that is possible: fsync() of a disk that others use takes its time. */
	(void)snprintf(temp_dir, sizeof(temp_dir), "%s/cudaenv-test-XXXXXX",
		       access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
	check(mkdtemp(temp_dir) && chmod(temp_dir, 0755) == 0);
	temp_owner = getpid();
	check(atexit(temp_end) == 0);
}

/* temp_dir and what printf makes of FORMAT; one of eight buffers in turn. */
__attribute__((format(printf, 1, 2))) static inline const char *temp_path(const char *format, ...)
{
	static char paths[8][4096];
	static unsigned next;
	char *path = paths[next++ % 8];
	va_list ap;
	int n = snprintf(path, 4096, "%s/", temp_dir);

	va_start(ap, format);
	(void)vsnprintf(path + n, 4096 - (size_t)n, format, ap);
	va_end(ap);
	return path;
}

static inline void temp_put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	check(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* The file's text, or NULL. */
static inline char *temp_get(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!f)
		return NULL;
	if (getdelim(&text, &size, '\0', f) < 0) {
		free(text);
		text = strdup("");
	}
	check(fclose(f) == 0);
	return text;
}
