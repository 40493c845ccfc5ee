/* SPDX-License-Identifier: MIT */
/* Which kind a file is, and its reader. */
#include "config.h"

#include "client/ctl/import.h"
#include "common/util.h"

static const struct {
	const char *name;
	int (*read)(struct import *im, const char *bytes, size_t size);
} kinds[] = {
	[IMPORT_PYTHON] = {"python", import_python},
	[IMPORT_NCCL_CONF] = {"nccl-conf", import_nccl_conf},
	[IMPORT_UNIT] = {"unit", import_unit},
	[IMPORT_SHELL] = {"shell", import_shell},
	[IMPORT_ENV] = {"env", import_env},
};

const char *import_kind_name(enum import_kind kind)
{
	return kinds[kind].name;
}

int import_kind_parse(const char *name, enum import_kind *ret)
{
	for (enum import_kind i = 0; i < IMPORT_KIND_MAX_; i++)
		if (streq(kinds[i].name, name)) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

int import_read(struct import *im, enum import_kind kind, const char *bytes, size_t size)
{
	/* What runs in the process itself replaces what it has; the others come before it. */
	im->assignments_force = kind == IMPORT_PYTHON;
	return kinds[kind].read(im, bytes, size);
}

/* Whole names of files, or their ends where these begin with '*'. */
static const struct {
	const char *pattern;
	enum import_kind kind;
} names[] = {
	{"nccl.conf", IMPORT_NCCL_CONF}, {".nccl.conf", IMPORT_NCCL_CONF},
	{"*.py", IMPORT_PYTHON},         {"*.pth", IMPORT_PYTHON},
	{"*.service", IMPORT_UNIT},      {"*.socket", IMPORT_UNIT},
	{"*.mount", IMPORT_UNIT},        {"*.swap", IMPORT_UNIT},
	{"*.sh", IMPORT_SHELL},          {"*.bash", IMPORT_SHELL},
	{"*.zsh", IMPORT_SHELL},         {"profile", IMPORT_SHELL},
	{"*.profile", IMPORT_SHELL},     {"*_profile", IMPORT_SHELL},
	{"*bashrc", IMPORT_SHELL},       {"*zshrc", IMPORT_SHELL},
	{"*zshenv", IMPORT_SHELL},       {"environment", IMPORT_ENV},
	{"*.env", IMPORT_ENV},           {"environ", IMPORT_ENV},
};

static int guess_by_name(const char *path, enum import_kind *ret)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t size = strlen(base);

	if (strstr(path, "/environment.d/")) {
		*ret = IMPORT_ENV;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *p = names[i].pattern;
		size_t n = strlen(p + 1);
		bool hit =
			p[0] == '*' ? size >= n && streq(base + size - n, p + 1) : streq(base, p);

		if (hit) {
			*ret = names[i].kind;
			return 0;
		}
	}
	return -ENOENT;
}

static bool has_word(const char *line, size_t size, const char *word)
{
	return memmem(line, size, word, strlen(word)) != NULL;
}

static bool begins(const char *line, size_t size, const char *word)
{
	return size >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* What one line that is no comment gives away. */
static int guess_by_line(const char *line, size_t size, enum import_kind *ret)
{
	if (line[0] == '[' && memchr(line, ']', size))
		*ret = IMPORT_UNIT;
	else if (begins(line, size, "export ") || begins(line, size, "if [") ||
		 begins(line, size, "declare "))
		*ret = IMPORT_SHELL;
	else if (begins(line, size, "import ") || begins(line, size, "from ") ||
		 has_word(line, size, "os.environ") || begins(line, size, "\"\"\""))
		*ret = IMPORT_PYTHON;
	else
		return -ENOENT;
	return 0;
}

int import_kind_guess(const char *path, const char *bytes, size_t size, enum import_kind *ret)
{
	if (guess_by_name(path, ret) == 0)
		return 0;
	if (size > 2 && memcmp(bytes, "#!", 2) == 0) {
		const char *lf = memchr(bytes, '\n', size);
		size_t n = lf ? (size_t)(lf - bytes) : size;

		*ret = has_word(bytes, n, "python") ? IMPORT_PYTHON : IMPORT_SHELL;
		return has_word(bytes, n, "python") || has_word(bytes, n, "sh") ? 0 : -ENOENT;
	}
	if (memchr(bytes, '\0', size)) {
		*ret = IMPORT_ENV;
		return 0;
	}
	for (size_t at = 0; at < size;) {
		const char *lf = memchr(bytes + at, '\n', size - at);
		size_t end = lf ? (size_t)(lf - bytes) : size;

		while (at < end && (bytes[at] == ' ' || bytes[at] == '\t'))
			at++;
		if (at < end && bytes[at] != '#' && bytes[at] != ';' &&
		    guess_by_line(bytes + at, end - at, ret) == 0)
			return 0;
		at = end + 1;
	}
	return -ENOENT;
}
