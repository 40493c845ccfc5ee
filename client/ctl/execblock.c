/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/execblock.h"

#include "common/util.h"

/* Strings of an environment have a name, and the kernel's block ends with the last of them; a title
 * that was written over it is filled up with NULs. */
static bool is_environment(const char *bytes, size_t size)
{
	const char *equals = memchr(bytes, '=', strnlen(bytes, size));

	if (size == 0)
		return true;
	return equals && equals > bytes &&
	       !(size > 1 && bytes[size - 1] == '\0' && bytes[size - 2] == '\0');
}

/* BYTES is taken; there is room for a NUL behind it. */
static void take(char *bytes, size_t size, bool cut, struct exec_block *ret)
{
	bytes[size] = '\0';
	*ret = (struct exec_block){.bytes = bytes, .size = size};
	ret->state = !is_environment(bytes, size) ? EXEC_BLOCK_REWRITTEN
		     : cut                        ? EXEC_BLOCK_CUT
						  : EXEC_BLOCK_READ;
}

void exec_block_parse(const char *bytes, size_t size, bool cut, struct exec_block *ret)
{
	char *copy = malloc(size + 1);

	*ret = (struct exec_block){.state = EXEC_BLOCK_DENIED};
	if (!copy)
		return;
	if (size > 0)
		memcpy(copy, bytes, size);
	take(copy, size, cut, ret);
}

void exec_block_read(int proc_fd, pid_t pid, struct exec_block *ret)
{
	_cleanup_(closep) int fd = -EBADF;
	char path[64], *bytes;
	size_t used = 0;
	ssize_t n = 1;

	*ret = (struct exec_block){.state = EXEC_BLOCK_DENIED};
	(void)snprintf(path, sizeof path, "%d/environ", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bytes = fd < 0 ? NULL : malloc(EXEC_BLOCK_MAX + 1);
	if (!bytes)
		return;
	while (n > 0 && used < EXEC_BLOCK_MAX) {
		n = read(fd, bytes + used, EXEC_BLOCK_MAX - used);
		used += n > 0 ? (size_t)n : 0;
	}
	if (n >= 0) {
		take(bytes, used, n > 0, ret);
		return;
	}
	explicit_bzero(bytes, used);
	free(bytes);
}

void exec_block_done(struct exec_block *b)
{
	if (b->bytes)
		explicit_bzero(b->bytes, b->size);
	free(b->bytes);
	*b = (struct exec_block){.state = EXEC_BLOCK_DENIED};
}

const char *exec_block_find(const struct exec_block *b, const char *name)
{
	size_t n = strlen(name);

	if (b->state != EXEC_BLOCK_READ && b->state != EXEC_BLOCK_CUT)
		return NULL;
	for (const char *s = b->bytes; s < b->bytes + b->size; s += strlen(s) + 1)
		if (strncmp(s, name, n) == 0 && s[n] == '=')
			return s + n + 1;
	return NULL;
}

bool exec_block_known(const struct exec_block *b)
{
	return b->state == EXEC_BLOCK_READ;
}

const char *exec_block_word(const struct exec_block *b)
{
	static const char *const words[] = {"read", "cut", "rewritten", "denied"};

	return words[b->state];
}
