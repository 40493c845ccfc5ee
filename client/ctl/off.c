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
#define PAGE            ((size_t)4096)

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

/* Where there is no space for a second file: into the file itself, if it needs no more pages than
 * it has. Who reads it meanwhile may find it damaged, and reads again at its next start. */
static int overwrite(int dir_fd, const char *name, const char *text, mode_t mode)
{
	_cleanup_(closep) int fd = -EBADF;
	size_t size = strlen(text);
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    size > ((size_t)st.st_size + PAGE - 1) / PAGE * PAGE)
		return -ENOSPC;
	if (fchmodat(dir_fd, name, mode | S_IWUSR, 0) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text);
	if (r == 0 && (ftruncate(fd, (off_t)size) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0))
		r = -errno;
	return r;
}

/* The manager's own record of what is in force. 0 or negative errno. */
static int read_state(const char *state_dir, char **ret, mode_t *ret_mode)
{
	_cleanup_(closep) int dir_fd = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
			      fd = -EBADF;
	_cleanup_(freep) char *text = NULL;
	struct stat st;
	ssize_t n;

	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, ACTIVE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	text = malloc(ACTIVE_MAX + 1);
	if (!text)
		return -ENOMEM;
	n = read(fd, text, ACTIVE_MAX);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (!S_ISREG(st.st_mode) || (size_t)n == ACTIVE_MAX)
		return -EBADMSG;
	*ret = TAKE_PTR(text);
	*ret_mode = st.st_mode & 07777;
	return 0;
}

/* Only the mode: see off.h. An absent state is none that could bring a mode back. */
static int rewrite_state(const char *state_dir)
{
	_cleanup_(freep) char *text = NULL, *changed = NULL;
	_cleanup_(closep) int dir_fd = -EBADF;
	mode_t mode;
	int r;

	r = read_state(state_dir, &text, &mode);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	changed = off_rewrite(text, 0);
	if (!changed)
		return -EBADMSG;
	dir_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	r = replace(dir_fd, ACTIVE_FILE, ACTIVE_TEMP, changed, mode);
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r;
}

/* The rest of the line that begins with KEY and a blank; NULL: there is none. Not terminated. */
static const char *line_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return line + n + 1;
	}
	return NULL;
}

/* Rules cannot be made anew here, but the default can, so that the manager does not take over that
 * there is none. */
static char *make_minimal(const char *state_dir, uint64_t *ret_generation)
{
	_cleanup_(freep) char *state = NULL;
	const char *generation = NULL, *value = NULL;
	char digest[DIGEST_SIZE] = "", *text;
	mode_t mode;

	if (read_state(state_dir, &state, &mode) == 0) {
		generation = line_value(state, "generation");
		value = line_value(state, "digest");
	}
	if (value)
		(void)snprintf(digest, sizeof digest, "%s", value);
	*ret_generation = generation ? strtoull(generation, NULL, 10) + 1 : 1;
	if (asprintf(&text, "cudaenv-assign 1\ngeneration %" PRIu64 "\nmode off\ndefault %s\nend\n",
		     *ret_generation, digest_valid(digest) ? digest : "none") < 0)
		return NULL;
	return text;
}

int off_direct(const struct published *p, const char *state_dir, struct off_result *ret)
{
	_cleanup_(freep) char *text = NULL, *changed = NULL;
	_cleanup_(closep) int dir_fd = -EBADF;
	struct off_result result = {.damaged = !p->assign};
	size_t size = 0;
	int r;

	if (p->runtime.publisher != geteuid())
		return -EPERM;
	dir_fd = openat(p->runtime.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	if (p->assign) {
		r = runtime_read(&p->runtime, p->runtime.dir_fd, ASSIGN_FILE, ASSIGN_MAX_BYTES,
				 &text, &size);
		if (r < 0)
			return r;
		result.generation = p->assign->generation + 1;
		changed = off_rewrite(text, result.generation);
	} else {
		changed = make_minimal(state_dir, &result.generation);
	}
	if (!changed)
		return -ENOMEM;
	r = replace(dir_fd, ASSIGN_FILE, ASSIGN_TEMP, changed, ASSIGN_READABLE);
	if (r == -ENOSPC || r == -EDQUOT)
		r = overwrite(dir_fd, ASSIGN_FILE, changed, ASSIGN_READABLE);
	if (r < 0)
		return r;
	result.state_error = rewrite_state(state_dir);
	*ret = result;
	return 0;
}
