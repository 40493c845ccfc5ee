/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/off.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "common/util.h"

#define ASSIGN_FILE     "assign"
#define ASSIGN_TEMP     ".assign.off"
#define ACTIVE_FILE     "active"
#define ACTIVE_TEMP     ".active.off"
#define ACTIVE_MAX      ((size_t)256 * 1024)
#define ASSIGN_READABLE 0444
#define ACTIVE_PRIVATE  0600

char *off_rewrite(const char *text, uint64_t generation)
{
	char *out = NULL;
	size_t size = 0, modes = 0, generations = 0;
	FILE *f = open_memstream(&out, &size);

	if (!f)
		return NULL;
	while (*text) {
		size_t n = strcspn(text, "\n");

		/* The first of each is the header's: no later line begins with these words. */
		if (startswith(text, "mode ") && modes++ == 0)
			fputs("mode off", f);
		else if (generation > 0 && startswith(text, "generation ") && generations++ == 0)
			fprintf(f, "generation %" PRIu64, generation);
		else
			(void)fwrite(text, 1, n, f);
		text += n;
		if (*text == '\n')
			fputc(*text++, f);
	}
	if (fclose(f) != 0 || modes == 0 || (generation > 0 && generations == 0)) {
		free(out);
		return NULL;
	}
	return out;
}

static int write_all(int fd, const char *text)
{
	size_t size = strlen(text);

	while (size > 0) {
		ssize_t n = write(fd, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

static int replace(int dir_fd, const char *name, const char *temporary, const char *text,
		   mode_t mode)
{
	_cleanup_(closep) int fd = -EBADF;
	int r;

	if (unlinkat(dir_fd, temporary, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text);
	if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 ||
		       renameat(dir_fd, temporary, dir_fd, name) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temporary, 0);
	return r;
}

/* Only the mode: see off.h. An absent state is none that could bring a mode back. */
static int rewrite_state(const char *state_dir)
{
	_cleanup_(closep) int dir_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			      fd = -EBADF;
	_cleanup_(freep) char *text = NULL, *changed = NULL;
	struct stat st;
	ssize_t n;
	int r;

	if (dir_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	fd = openat(dir_fd, ACTIVE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	text = malloc(ACTIVE_MAX + 1);
	if (!text)
		return -ENOMEM;
	n = read(fd, text, ACTIVE_MAX);
	if (n < 0 || fstat(fd, &st) < 0)
		return -errno;
	text[n] = '\0';
	if (!S_ISREG(st.st_mode) || (size_t)n == ACTIVE_MAX)
		return -EBADMSG;
	changed = off_rewrite(text, 0);
	if (!changed)
		return -EBADMSG;
	r = replace(dir_fd, ACTIVE_FILE, ACTIVE_TEMP, changed, st.st_mode & 07777);
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r;
}

/* Anything below the true generation would be replaced by a manager that still knows it. */
static uint64_t next_generation(const struct published *p)
{
	return p->assign ? p->assign->generation + 1 : (uint64_t)1 << 32;
}

int off_direct(const struct published *p, const char *state_dir, struct off_result *ret)
{
	_cleanup_(freep) char *text = NULL, *changed = NULL;
	struct off_result result = {.generation = next_generation(p)};
	_cleanup_(closep) int dir_fd = -EBADF;
	size_t size = 0;
	int r;

	if (p->runtime.publisher != geteuid())
		return -EPERM;
	dir_fd = openat(p->runtime.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	if (p->assign) {
		(void)snprintf(result.from, sizeof result.from, "%s", mode_name(p->assign->mode));
		r = runtime_read(&p->runtime, p->runtime.dir_fd, ASSIGN_FILE, ASSIGN_MAX_BYTES,
				 &text, &size);
		if (r < 0)
			return r;
		changed = off_rewrite(text, result.generation);
	} else {
		result.damaged = true;
		if (asprintf(&changed,
			     "cudaenv-assign 1\ngeneration %" PRIu64
			     "\nmode off\ndefault none\nend\n",
			     result.generation) < 0)
			changed = NULL;
	}
	if (!changed)
		return -ENOMEM;
	r = replace(dir_fd, ASSIGN_FILE, ASSIGN_TEMP, changed, ASSIGN_READABLE);
	if (r < 0)
		return r;
	result.state_error = rewrite_state(state_dir);
	*ret = result;
	return 0;
}
