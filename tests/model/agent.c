/* SPDX-License-Identifier: MIT */
/*
 * A process of the model test: starts as a program that uses libcudaenv does, says hello to the
 * test on the socket MODEL_SOCKET, and does what it is told there, a line each:
 *
 *   spawn NAME PROGRAM FLAGS UID    a child, executed anew; FLAGS of c (clean environment), s
 *                                   (session of its own), d (double fork: an orphan), u (as UID), -
 *   exec NAME PROGRAM FLAGS         itself anew
 *   setsid
 *   exit
 *
 * Under the names cron (a boundary) and launcher (which is none, and knows nothing of cudaenv) it
 * does not start.
 */
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/cudaenv.h"
#include "common/util.h"

extern char **environ;

static FILE *open_socket(void)
{
	const char *path = getenv("MODEL_SOCKET");
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!path || strlen(path) >= sizeof sa.sun_path || fd < 0)
		return NULL;
	strcpy(sa.sun_path, path);
	if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return NULL;
	return fdopen(fd, "r+");
}

static void hello(FILE *f, const char *name, const struct cudaenv_result *result, int r)
{
	const char *digest = result ? cudaenv_result_digest(result) : "",
		   *key = result ? cudaenv_result_job(result) : "";

	fprintf(f, "hello %s %d %d %s %s %d %d\n", name, (int)getpid(), (int)getppid(),
		*key ? key : "-", *digest ? digest : "none", r,
		result ? cudaenv_result_by_broker(result) : 0);
	fflush(f);
}

static void execute(const char *program, char *name, bool clean)
{
	static char socket_variable[512], runtime[512];
	char *bare[] = {socket_variable, runtime, NULL}, *argv[] = {(char *)program, name, NULL};

	(void)snprintf(socket_variable, sizeof socket_variable, "MODEL_SOCKET=%s",
		       getenv("MODEL_SOCKET"));
	(void)snprintf(runtime, sizeof runtime, "CUDAENV_RUNTIME_DIR=%s",
		       getenv("CUDAENV_RUNTIME_DIR"));
	execve(program, argv, clean ? bare : environ);
	_exit(127);
}

static void spawn(char *name, const char *program, const char *flags, uid_t uid)
{
	pid_t pid = fork();

	if (pid != 0)
		return;
	if (strchr(flags, 's'))
		(void)setsid();
	if (strchr(flags, 'd')) {
		if (fork() != 0)
			_exit(0);
		/* Its own start is to find it an orphan. */
		while (getppid() != 1)
			(void)usleep(100);
	}
	if (strchr(flags, 'u') && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
				   setresuid(uid, uid, uid) < 0))
		_exit(126);
	execute(program, name, strchr(flags, 'c'));
}

static void serve(FILE *f)
{
	char line[1024], verb[16], name[64], program[512], flags[16];
	unsigned uid;

	while (fgets(line, sizeof line, f)) {
		uid = 0;
		int n = sscanf(line, "%15s %63s %511s %15s %u", verb, name, program, flags, &uid);

		if (n >= 4 && streq(verb, "spawn"))
			spawn(name, program, flags, (uid_t)uid);
		else if (n >= 4 && streq(verb, "exec"))
			execute(program, name, strchr(flags, 'c'));
		else if (streq(verb, "setsid"))
			(void)setsid();
		else
			return;
	}
}

int main(int argc, char *argv[])
{
	const char *slash = strrchr(argv[0], '/'), *own = slash ? slash + 1 : argv[0];
	struct cudaenv_result *result = NULL;
	bool plain = streq(own, "cron") || streq(own, "launcher");
	int r = 0;
	FILE *f;

	if (argc != 2)
		return 2;
	(void)signal(SIGCHLD, SIG_IGN);
	if (!plain)
		r = cudaenv_start(NULL, &result);
	f = open_socket();
	if (!f)
		return 1;
	hello(f, argv[1], result, r);
	serve(f);
	return 0;
}
