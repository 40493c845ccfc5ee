/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Small things that every file may use: cleanup attributes, ownership hand-over, array size, string
 * tests. libc only, no state. A new helper belongs here only when two modules need it.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(f)    __attribute__((cleanup(f)))
#define _printf_(a, b)  __attribute__((format(printf, a, b)))
#define ARRAY_SIZE(a)   (sizeof(a) / sizeof((a)[0]))
#define STRLEN(literal) (sizeof(literal) - 1)

/* Hands an owned pointer or descriptor over: the variable no longer owns it. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_ptr_ = (p);                                                     \
		(p) = NULL;                                                                        \
		take_ptr_;                                                                         \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int take_fd_ = (fd);                                                               \
		(fd) = -EBADF;                                                                     \
		take_fd_;                                                                          \
	})

/* Defines TYPE_freep() for _cleanup_(TYPE_freep), from a TYPE_free() that accepts NULL. */
#define DEFINE_FREEP(type, name)                                                                   \
	static inline void name##p(type **p)                                                       \
	{                                                                                          \
		if (*p)                                                                            \
			name(*p);                                                                  \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

/* Closes and keeps errno; negative descriptors are accepted. Returns -EBADF for assignment. */
static inline int safe_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return -EBADF;
}

static inline void closep(int *fd)
{
	*fd = safe_close(*fd);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* The rest of s after prefix, or NULL. */
static inline const char *startswith(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}
