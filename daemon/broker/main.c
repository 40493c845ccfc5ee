/* SPDX-License-Identifier: MIT */
/*
 * cudaenv-broker: tells starting processes which snapshot their job has. Arguments, log and
 * descriptors are set up here; the work is in server.c.
 */
#include <getopt.h>
#include <sys/resource.h>

#include "common/paths.h"
#include "common/util.h"
#include "config.h"
#include "daemon/broker/server.h"
#include "daemon/log.h"

static bool arg_user;

static void help(void)
{
	printf("Usage: cudaenv-broker [OPTION]...\n"
	       "\n"
	       "Tells starting processes which snapshot their job has, and keeps the register\n"
	       "of processes and jobs. Started by systemd, or by cudaenvd --user.\n"
	       "\n"
	       "  --user       serve one user: make the socket and what else is missing in\n"
	       "               $CUDAENV_RUNTIME_DIR or $XDG_RUNTIME_DIR/cudaenv\n"
	       "  -h, --help   show this text and exit\n"
	       "  --version    show the version and exit\n");
}

/* 1: run, 0: all is done, negative: wrong usage. */
static int parse_arguments(int argc, char *argv[])
{
	enum { ARG_USER = 256, ARG_VERSION };
	static const struct option options[] = {{"user", no_argument, NULL, ARG_USER},
						{"help", no_argument, NULL, 'h'},
						{"version", no_argument, NULL, ARG_VERSION},
						{0}};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
		switch (c) {
		case ARG_USER:
			arg_user = true;
			break;
		case 'h':
			help();
			return 0;
		case ARG_VERSION:
			printf("cudaenv-broker %s\n", PACKAGE_VERSION);
			return 0;
		default:
			return -EINVAL;
		}
	if (optind < argc) {
		fprintf(stderr, "cudaenv-broker: unexpected argument: %s\n", argv[optind]);
		return -EINVAL;
	}
	return 1;
}

static void lower(size_t *limit, size_t max)
{
	if (*limit > max)
		*limit = max;
}

/* A descriptor for each connection, process and root of a job; the limits follow where there cannot
 * be as many, so that none of them takes those of the others. */
static void raise_limits(struct account_limits *limits)
{
	struct rlimit l;
	size_t n;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	n = l.rlim_cur > SIZE_MAX ? SIZE_MAX : (size_t)l.rlim_cur;
	lower(&limits->total[ACCOUNT_CONNECTIONS], n / 8);
	lower(&limits->total[ACCOUNT_PROCESSES], n / 2);
	lower(&limits->total[ACCOUNT_JOBS], n / 4);
}

int main(int argc, char *argv[])
{
	_cleanup_(server_freep) struct server *server = NULL;
	_cleanup_(paths_done) struct paths paths = {0};
	struct account_limits limits = account_limits_default;
	int r;

	r = parse_arguments(argc, argv);
	if (r <= 0)
		return r < 0 ? 2 : EXIT_SUCCESS;
	log_open("cudaenv-broker", LOG_INFO);
	raise_limits(&limits);
	r = paths_init(arg_user, &paths);
	if (r < 0) {
		(void)log_error_errno(r, "No runtime directory: %m");
		return EXIT_FAILURE;
	}
	if (server_new(paths.runtime, arg_user, &limits, &server) < 0)
		return EXIT_FAILURE;
	return server_run(server) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
