/* SPDX-License-Identifier: MIT */
#include "client/ctl/pycompile.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "client/ctl/pytrust.h"
#include "common/util.h"

#define DEADLINE_MSEC 30000
#define OUTPUT_MAX    ((size_t)8 * 1024 * 1024)

/* Input: for each source a line "PATH-SIZE TEXT-SIZE", then both. Output: the cache tag, then
 * whether sys.path names the expected zip, each a line, then for each source and level a line with
 * the size, and the bytes. */
static const char script[] = "import sys\n"
			     "import importlib._bootstrap_external as x, _imp\n"
			     "from os import fsdecode, fsencode\n"
			     "i, o = sys.stdin.buffer, sys.stdout.buffer\n"
			     "o.write(('%s\\n%d\\n' % (sys.implementation.cache_tag, sys.argv[1] "
			     "in sys.path)).encode())\n"
			     "while True:\n"
			     "    line = i.readline().split()\n"
			     "    if not line:\n"
			     "        break\n"
			     "    path = fsdecode(i.read(int(line[0])))\n"
			     "    text = i.read(int(line[1]))\n"
			     "    h = _imp.source_hash(x._RAW_MAGIC_NUMBER, text)\n"
			     "    for level in 0, 1, 2:\n"
			     "        code = compile(text, path, 'exec', 0, True, level)\n"
			     "        pyc = x._code_to_hash_pyc(code, h, False)\n"
			     "        o.write(b'%d\\n' % len(pyc) + bytes(pyc))\n"
			     "o.flush()\n";

/* --- may it be run? */

int pycompile_allowed(const struct pyexe *exe, char why[PYEXE_WHY_SIZE])
{
	static const char *const parts[] = {"",
					    "/__pycache__",
					    "/encodings",
					    "/encodings/__pycache__",
					    "/importlib",
					    "/importlib/__pycache__",
					    "/lib-dynload",
					    "/collections",
					    "/collections/__pycache__"};
	char who[PYEXE_WHY_SIZE - 64];
	bool good = pytrust_path(exe->binary, who, sizeof who) &&
		    pytrust_path(exe->stdlib, who, sizeof who);

	for (size_t i = 0; good && i < ARRAY_SIZE(parts); i++) {
		char directory[PATH_MAX];

		if (snprintf(directory, sizeof directory, "%s%s", exe->stdlib, parts[i]) < 0)
			return -EINVAL;
		good = pytrust_entries(directory, who, sizeof who);
	}
	if (good)
		return 0;
	(void)snprintf(why, PYEXE_WHY_SIZE, "it is not run, since others could change %s", who);
	return -EPERM;
}

/* --- running */

struct child {
	pid_t pid;
	int in, out;
};

static void child_done(struct child *c)
{
	c->in = safe_close(c->in);
	c->out = safe_close(c->out);
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
		c->pid = 0;
	}
}

/* In the child: only async-signal-safe calls. */
static void become(const struct pyexe *exe, int in, int out)
{
	char *const argv[] = {exe->binary,
			      (char *)"-I",
			      (char *)"-S",
			      (char *)"-B",
			      (char *)"-c",
			      (char *)script,
			      exe->zip ? exe->zip : (char *)"",
			      NULL};
	char *const envp[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C", NULL};
	int null = open("/dev/null", O_WRONLY);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 || chdir("/") < 0)
		_exit(126);
	(void)execve(exe->binary, argv, envp);
	_exit(127);
}

static int spawn(const struct pyexe *exe, struct child *ret)
{
	int in[2], out[2];
	struct child c;

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		int r = -errno;

		(void)safe_close(in[0]);
		(void)safe_close(in[1]);
		return r;
	}
	c = (struct child){.pid = fork(), .in = in[1], .out = out[0]};
	if (c.pid == 0)
		become(exe, in[0], out[1]);
	(void)safe_close(in[0]);
	(void)safe_close(out[1]);
	if (c.pid < 0) {
		int r = -errno;

		child_done(&c);
		return r;
	}
	(void)fcntl(c.in, F_SETFL, O_NONBLOCK);
	(void)fcntl(c.out, F_SETFL, O_NONBLOCK);
	*ret = c;
	return 0;
}

static long now_msec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct buffer {
	char *data;
	size_t size, used;
};

static void buffer_done(struct buffer *b)
{
	free(b->data);
}

/* 1: more may come, 0: the end, negative errno. */
static int read_some(int fd, struct buffer *b)
{
	ssize_t n;

	if (b->size - b->used < 65536) {
		size_t size = b->size ? b->size * 2 : 262144;
		char *data = size > OUTPUT_MAX ? NULL : realloc(b->data, size);

		if (!data)
			return -EFBIG;
		b->data = data;
		b->size = size;
	}
	n = read(fd, b->data + b->used, b->size - b->used - 1);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	b->used += (size_t)n;
	b->data[b->used] = '\0';
	return n > 0;
}

/* Writes INPUT to the child and reads what it writes, until it closes its output. */
static int converse(struct child *c, const struct buffer *input, struct buffer *output)
{
	long deadline = now_msec() + DEADLINE_MSEC;
	size_t written = 0;

	for (;;) {
		struct pollfd p[2] = {{.fd = c->out, .events = POLLIN},
				      {.fd = c->in, .events = POLLOUT}};
		long left = deadline - now_msec();
		int r;

		if (left <= 0)
			return -ETIMEDOUT;
		r = poll(p, c->in >= 0 ? 2 : 1, (int)left);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0 && c->in >= 0 && p[1].revents) {
			ssize_t n = write(c->in, input->data + written, input->used - written);

			if (n > 0)
				written += (size_t)n;
			/* EPIPE: it has ended; its output and status tell. */
			if (written == input->used || (n < 0 && errno != EAGAIN && errno != EINTR))
				c->in = safe_close(c->in);
		}
		if (r > 0 && p[0].revents) {
			r = read_some(c->out, output);
			if (r <= 0)
				return r;
		}
	}
}

/* --- its answer */

static int take_line(const char **cursor, char *ret, size_t size)
{
	size_t n = strcspn(*cursor, "\n");

	if ((*cursor)[n] != '\n' || n >= size)
		return -EBADMSG;
	memcpy(ret, *cursor, n);
	ret[n] = '\0';
	*cursor += n + 1;
	return 0;
}

static int parse(const struct buffer *output, size_t n_sources, struct pycompile *c)
{
	const char *cursor = output->data, *end;
	char line[64];

	if (!cursor)
		return -EBADMSG;
	end = cursor + output->used;
	if (take_line(&cursor, line, sizeof line) < 0 || !line[0] || strchr(line, '/'))
		return -EBADMSG;
	c->cache_tag = strdup(line);
	c->code = calloc(n_sources * PYCOMPILE_LEVELS, sizeof *c->code);
	if (!c->cache_tag || !c->code)
		return -ENOMEM;
	if (take_line(&cursor, line, sizeof line) < 0)
		return -EBADMSG;
	c->reads_zip = streq(line, "1");
	while (c->n_code < n_sources * PYCOMPILE_LEVELS) {
		struct pycompile_code *code = &c->code[c->n_code];

		if (take_line(&cursor, line, sizeof line) < 0)
			return -EBADMSG;
		code->size = strtoul(line, NULL, 10);
		if (code->size < 16 || code->size > (size_t)(end - cursor))
			return -EBADMSG;
		code->bytes = malloc(code->size);
		if (!code->bytes)
			return -ENOMEM;
		memcpy(code->bytes, cursor, code->size);
		cursor += code->size;
		c->n_code++;
	}
	return cursor == end ? 0 : -EBADMSG;
}

static int make_input(const struct pycompile_source *sources, size_t n, struct buffer *ret)
{
	FILE *f = open_memstream(&ret->data, &ret->used);

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		fprintf(f, "%zu %zu\n%s", strlen(sources[i].path), sources[i].size,
			sources[i].path);
		(void)fwrite(sources[i].text, 1, sources[i].size, f);
	}
	return fclose(f) == EOF ? -ENOMEM : 0;
}

static int run(const struct pyexe *exe, const struct pycompile_source *sources, size_t n_sources,
	       struct pycompile *c)
{
	_cleanup_(buffer_done) struct buffer input = {NULL, 0, 0}, output = {NULL, 0, 0};
	_cleanup_(child_done) struct child child = {.in = -EBADF, .out = -EBADF};
	int r = make_input(sources, n_sources, &input);

	if (r == 0)
		r = spawn(exe, &child);
	if (r == 0)
		r = converse(&child, &input, &output);
	return r < 0 ? r : parse(&output, n_sources, c);
}

int pycompile_run(const struct pyexe *exe, const struct pycompile_source *sources, size_t n_sources,
		  struct pycompile *ret, char why[PYEXE_WHY_SIZE])
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	struct pycompile c = {.cache_tag = NULL};
	int r;

	if (exe->version.minor < 7) {
		(void)snprintf(why, PYEXE_WHY_SIZE,
			       "Python before 3.7 has no compiled files of this kind");
		return -ENOTSUP;
	}
	(void)sigaction(SIGPIPE, &ignore, &before);
	r = run(exe, sources, n_sources, &c);
	(void)sigaction(SIGPIPE, &before, NULL);
	if (r == 0) {
		*ret = c;
		return 0;
	}
	pycompile_done(&c);
	if (r == -EBADMSG)
		(void)snprintf(why, PYEXE_WHY_SIZE, "%s cannot be run", exe->binary);
	else
		(void)snprintf(why, PYEXE_WHY_SIZE, "%s did not compile: %s", exe->binary,
			       strerror(-r));
	return r;
}

void pycompile_done(struct pycompile *c)
{
	for (size_t i = 0; i < c->n_code; i++)
		free(c->code[i].bytes);
	free(c->code);
	free(c->cache_tag);
	*c = (struct pycompile){.cache_tag = NULL};
}
