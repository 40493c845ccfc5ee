/* SPDX-License-Identifier: MIT */
/* What stands at a hook's place: the manifest, and each file held against it. */
#include "client/ctl/pyplace-internal.h"

#include <dirent.h>
#include <sys/stat.h>

#include "common/util.h"

#define MANIFEST_MAX 65536

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

const char *pyplace_entry_state_name(enum pyplace_entry_state state)
{
	static const char *const names[] = {
		[ENTRY_GOOD] = "good",   [ENTRY_CHANGED] = "changed", [ENTRY_MISSING] = "missing",
		[ENTRY_CACHE] = "cache", [ENTRY_FOREIGN] = "foreign",
	};

	return names[state];
}

/* --- opening */

int place_open_directory(const char *path)
{
	_cleanup_(closep) int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(freep) char *copy = strdup(path);
	char *save = NULL;
	int last;

	if (!copy)
		return -ENOMEM;
	if (fd < 0)
		return -errno;
	for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (next < 0)
			return -errno;
		(void)close(fd);
		fd = next;
	}
	last = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return last < 0 ? -errno : last;
}

/* The first directory of PATH, which ends at SLASH. A descriptor or negative errno. */
static int open_first(int dir_fd, const char *path, const char *slash)
{
	_cleanup_(freep) char *first = strndup(path, (size_t)(slash - path));
	int fd;

	if (!first)
		return -ENOMEM;
	fd = openat(dir_fd, first, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int place_unlink(int dir_fd, const char *path)
{
	const char *slash = strchr(path, '/');

	if (slash) {
		_cleanup_(closep) int inner = open_first(dir_fd, path, slash);

		return inner < 0 ? inner : place_unlink(inner, slash + 1);
	}
	return unlinkat(dir_fd, path, 0) < 0 ? -errno : 0;
}

int place_read(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_(closep) int fd = -EBADF;
	_cleanup_(freep) char *bytes = NULL;
	const char *slash = strchr(path, '/');
	size_t n = 0;
	struct stat st;
	ssize_t r = 1;

	if (slash) {
		_cleanup_(closep) int inner = open_first(dir_fd, path, slash);

		return inner < 0 ? inner : place_read(inner, slash + 1, max, ret, ret_size);
	}
	fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((size_t)st.st_size > max)
		return -EFBIG;
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	while (n < (size_t)st.st_size && r > 0) {
		r = read(fd, bytes + n, (size_t)st.st_size - n);
		if (r < 0)
			return -errno;
		n += (size_t)r;
	}
	bytes[n] = '\0';
	*ret = TAKE_PTR(bytes);
	*ret_size = n;
	return 0;
}

/* --- the manifest */

/* NAME/FILE, NAME/__pycache__/FILE or a file beside: nothing that leads out of the parent. */
static bool path_valid(const char *path)
{
	unsigned parts = 0;

	for (const char *s = path;; s++) {
		size_t n = strcspn(s, "/");

		if (n == 0 || n > 255 || *s == '.' || *s == '-' || ++parts > 3)
			return false;
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)s[i] <= 32 || (unsigned char)s[i] >= 127)
				return false;
		s += n;
		if (!*s)
			return true;
	}
}

static int add_entry(struct pyplace *p, const char *path, const char *digest,
		     enum pyplace_entry_state state)
{
	struct pyplace_entry *e = &p->entries[p->n_entries];

	if (p->n_entries == PYPLACE_ENTRIES_MAX) {
		p->more_foreign = true;
		return 0;
	}
	e->path = strdup(path);
	if (!e->path)
		return -ENOMEM;
	(void)snprintf(e->digest, sizeof e->digest, "%s", digest ? digest : "");
	e->state = state;
	p->n_entries++;
	return 0;
}

static int parse_file(struct pyplace *p, const char *rest)
{
	char digest[DIGEST_SIZE];

	if (strlen(rest) < DIGEST_HEX + 2 || rest[DIGEST_HEX] != ' ')
		return -EBADMSG;
	memcpy(digest, rest, DIGEST_HEX);
	digest[DIGEST_HEX] = '\0';
	if (!digest_valid(digest) || !path_valid(rest + DIGEST_HEX + 1) ||
	    p->n_entries == PYPLACE_ENTRIES_MAX)
		return -EBADMSG;
	return add_entry(p, rest + DIGEST_HEX + 1, digest, ENTRY_GOOD);
}

static int keep_string(char **where, const char *s)
{
	if (*where)
		return -EBADMSG;
	*where = strdup(s);
	return *where ? 0 : -ENOMEM;
}

static int parse_line(struct pyplace *p, const char *line)
{
	const char *rest;

	if ((rest = startswith(line, "version ")))
		return keep_string(&p->version, rest);
	if ((rest = startswith(line, "runtime ")))
		return keep_string(&p->runtime, rest);
	if ((rest = startswith(line, "file ")))
		return parse_file(p, rest);
	/* Others say what tells an older hook, or come from a later version. */
	return 0;
}

int pyplace_parse(const char *text, struct pyplace *ret)
{
	const char *body = startswith(text, PYHOOK_MARK), *first, *end;
	_cleanup_(freep) char *copy = NULL;
	char *save = NULL;
	size_t n = strlen(text);
	int r = 0;

	if (!body || n < STRLEN("\nend\n") || !streq(text + n - STRLEN("\nend\n"), "\nend\n"))
		return -EBADMSG;
	first = strstr(body, "\nextension ");
	end = first ? strchr(first + 1, '\n') : NULL;
	copy = strdup(body);
	if (!copy)
		return -ENOMEM;
	if (end) {
		ret->header = strndup(body, (size_t)(end + 1 - body));
		if (!ret->header)
			return -ENOMEM;
	}
	for (char *line = strtok_r(copy, "\n", &save); line && r == 0;
	     line = strtok_r(NULL, "\n", &save))
		r = parse_line(ret, line);
	return r < 0 ? r : ret->version ? 0 : -EBADMSG;
}

/* --- the files */

static enum pyplace_entry_state judge(int parent_fd, const struct pyplace_entry *e)
{
	_cleanup_(freep) char *bytes = NULL;
	char digest[DIGEST_SIZE];
	size_t size;
	int r = place_read(parent_fd, e->path, PLACE_FILE_MAX, &bytes, &size);

	if (r == -ENOENT || r == -ENOTDIR)
		return ENTRY_MISSING;
	if (r < 0)
		return ENTRY_CHANGED;
	digest_bytes(bytes, size, digest);
	return streq(digest, e->digest) ? ENTRY_GOOD : ENTRY_CHANGED;
}

static const struct pyplace_entry *find_entry(const struct pyplace *p, const char *path)
{
	for (size_t i = 0; i < p->n_entries; i++)
		if (streq(p->entries[i].path, path))
			return &p->entries[i];
	return NULL;
}

/* __pycache__/BASE.*.pyc* of a BASE.py that the manifest names: an interpreter made it (for -O, or
 * after an update). */
static bool is_cache(const struct pyplace *p, const char *file)
{
	size_t n = strcspn(file, ".");
	_cleanup_(freep) char *source = NULL;

	if (!strstr(file, ".pyc") || asprintf(&source, "%s/%.*s.py", p->name, (int)n, file) < 0) {
		source = NULL;
		return false;
	}
	return find_entry(p, source) != NULL;
}

static bool is_regular_at(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Adds what lies in our directory and is not in the manifest. PREFIX: "NAME" or "NAME/__pycache__".
 */
static int find_others(struct pyplace *p, int parent_fd, const char *prefix, bool cache)
{
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closedirp) DIR *d = NULL;
	struct dirent *e;
	int fd = openat(parent_fd, prefix, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	d = fdopendir(fd);
	if (!d) {
		(void)safe_close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (e = readdir(d))) {
		enum pyplace_entry_state state = ENTRY_FOREIGN;

		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		free(path);
		if (asprintf(&path, "%s/%s", prefix, e->d_name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (find_entry(p, path))
			continue;
		if (!cache &&
		    (streq(e->d_name, PYHOOK_MANIFEST) || streq(e->d_name, "__pycache__")))
			continue;
		if (cache && is_cache(p, e->d_name) && is_regular_at(fd, e->d_name))
			state = ENTRY_CACHE;
		r = add_entry(p, path, NULL, state);
	}
	return r;
}

static int find_all_others(struct pyplace *p, int parent_fd)
{
	_cleanup_(freep) char *cache = NULL;
	int r = find_others(p, parent_fd, p->name, false);

	if (r < 0)
		return r;
	if (asprintf(&cache, "%s/__pycache__", p->name) < 0) {
		cache = NULL;
		return -ENOMEM;
	}
	return find_others(p, parent_fd, cache, true);
}

/* Every file against the manifest, then what else is there. */
static int look_at_files(struct pyplace *p, int parent_fd)
{
	size_t listed = p->n_entries;

	p->state = PYPLACE_GOOD;
	for (size_t i = 0; i < listed; i++) {
		p->entries[i].state = judge(parent_fd, &p->entries[i]);
		if (p->entries[i].state != ENTRY_GOOD)
			p->state = PYPLACE_DAMAGED;
	}
	return find_all_others(p, parent_fd);
}

/* Without a whole manifest: ours if its first line, or the README's, is there. */
static int look_without_manifest(struct pyplace *p, int dir_fd, int parent_fd, const char *text)
{
	_cleanup_(freep) char *readme = NULL;
	size_t size;

	p->state = PYPLACE_FOREIGN;
	if (text && startswith(text, PYHOOK_MARK))
		p->state = PYPLACE_DAMAGED;
	else if (place_read(dir_fd, "README", PLACE_FILE_MAX, &readme, &size) == 0 &&
		 startswith(readme, PYHOOK_README_MARK))
		p->state = PYPLACE_DAMAGED;
	return find_all_others(p, parent_fd);
}

static int look(struct pyplace *p, int parent_fd)
{
	_cleanup_(closep) int dir_fd = -EBADF;
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	int r;

	dir_fd = openat(parent_fd, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0 && errno == ENOENT)
		return 0;
	if (dir_fd < 0) {
		p->state = PYPLACE_FOREIGN;
		return errno == ENOTDIR || errno == ELOOP || errno == EACCES ? 0 : -errno;
	}
	r = place_read(dir_fd, PYHOOK_MANIFEST, MANIFEST_MAX, &text, &size);
	if (r == -ENOMEM)
		return r;
	r = text && strlen(text) == size ? pyplace_parse(text, p) : -EBADMSG;
	if (r == -EBADMSG) {
		place_forget_entries(p);
		return look_without_manifest(p, dir_fd, parent_fd, text);
	}
	if (r < 0)
		return r;
	p->manifest_text = TAKE_PTR(text);
	return look_at_files(p, parent_fd);
}

int pyplace_look(const char *parent, const char *name, struct pyplace *ret,
		 char why[PYEXE_WHY_SIZE])
{
	_cleanup_(closep) int parent_fd = place_open_directory(parent);
	struct pyplace p = {.parent = strdup(parent), .name = strdup(name)};
	int r = parent_fd < 0 ? parent_fd : !p.parent || !p.name ? -ENOMEM : look(&p, parent_fd);

	if (r < 0) {
		(void)snprintf(why, PYEXE_WHY_SIZE, "cannot look into %s: %s", parent,
			       strerror(-r));
		pyplace_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

void place_forget_entries(struct pyplace *p)
{
	for (size_t i = 0; i < p->n_entries; i++)
		free(p->entries[i].path);
	p->n_entries = 0;
}

void pyplace_done(struct pyplace *p)
{
	place_forget_entries(p);
	free(p->parent);
	free(p->name);
	free(p->version);
	free(p->runtime);
	free(p->header);
	free(p->manifest_text);
	*p = (struct pyplace)PYPLACE_NULL;
}
