/* SPDX-License-Identifier: MIT */
#include "common/facts.h"

#include <sys/stat.h>

#include "common/snapshot.h"
#include "common/util.h"

struct facts {
	char *text; /* owned; names and version point into it */
	const char *version;
	const char **names; /* sorted */
	size_t n_names;
};

static int compare_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool version_valid(const char *s)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+~_-";
	size_t size = strlen(s);

	return size > 0 && size <= 64 && strspn(s, allowed) == size;
}

/* LINE is one line, terminated. */
static int parse_line(struct facts *f, const char *line)
{
	const char *version = startswith(line, "version ");

	if (line[0] == '\0' || line[0] == '#' || startswith(line, "source "))
		return 0;
	if (version) {
		if (f->version || !version_valid(version))
			return -EBADMSG;
		f->version = version;
		return 0;
	}
	if (!snapshot_name_valid(line, strlen(line)))
		return -EBADMSG;
	f->names[f->n_names++] = line;
	return 0;
}

int facts_parse(const char *bytes, size_t size, struct facts **ret)
{
	_cleanup_(facts_freep) struct facts *f = NULL;
	size_t n_lines = 1;
	char *next;
	int r;

	if (size > FACTS_MAX_BYTES)
		return -EFBIG;
	if (memchr(bytes, '\0', size))
		return -EBADMSG;
	f = calloc(1, sizeof *f);
	if (!f)
		return -ENOMEM;
	f->text = strndup(bytes, size);
	for (size_t i = 0; i < size; i++)
		n_lines += bytes[i] == '\n';
	f->names = calloc(n_lines, sizeof *f->names);
	if (!f->text || !f->names)
		return -ENOMEM;
	for (char *line = f->text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r = parse_line(f, line);
		if (r < 0)
			return r;
	}
	if (!f->version)
		return -EBADMSG;
	qsort(f->names, f->n_names, sizeof *f->names, compare_name);
	*ret = TAKE_PTR(f);
	return 0;
}

int facts_load(const char *path, struct facts **ret)
{
	_cleanup_(freep) char *bytes = NULL;
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t size = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if (st.st_size > (off_t)FACTS_MAX_BYTES)
		return -EFBIG;
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	while (size < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + size, (size_t)st.st_size - size);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		if (n > 0)
			size += (size_t)n;
	}
	return facts_parse(bytes, size, ret);
}

struct facts *facts_free(struct facts *f)
{
	if (!f)
		return NULL;
	free(f->names);
	free(f->text);
	free(f);
	return NULL;
}

const char *facts_version(const struct facts *f)
{
	return f->version;
}

bool facts_must_match(const struct facts *f, const char *name)
{
	return f->n_names > 0 &&
	       bsearch(&name, f->names, f->n_names, sizeof *f->names, compare_name);
}
