/* SPDX-License-Identifier: MIT */
/* cudaenvd: arguments and wiring. */
#include <config.h>

#include <getopt.h>
#include <sys/stat.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/config-missing.h"
#include "daemon/manager/manager.h"

enum { ARG_VERSION = 256, ARG_CHECK_CONFIG, ARG_PRINT_CONFIG, ARG_DEBUG, ARG_USER };

static bool arg_user;
static int arg_action; /* 0: run */
static int arg_priority = LOG_INFO;

static void print_help(void)
{
	puts("cudaenvd [OPTION...]\n"
	     "\n"
	     "The manager of cudaenv: reads profiles, publishes snapshots and rules, keeps what is "
	     "in force.\n"
	     "\n"
	     "      --user          For the calling user alone, with the other pieces as children "
	     "(always so\n"
	     "                      when not run by root)\n"
	     "      --check-config  Check cudaenvd.conf and its drop-ins and exit\n"
	     "      --print-config  Print cudaenvd.conf with every default and exit\n"
	     "      --debug         Log more\n"
	     "  -h, --help          Show this help\n"
	     "      --version       Show the version");
}

/* 1: go on, 0: all is done, -EINVAL. */
static int parse_arguments(int argc, char *argv[])
{
	static const struct option options[] = {
		{"user", no_argument, NULL, ARG_USER},
		{"check-config", no_argument, NULL, ARG_CHECK_CONFIG},
		{"print-config", no_argument, NULL, ARG_PRINT_CONFIG},
		{"debug", no_argument, NULL, ARG_DEBUG},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, ARG_VERSION},
		{0},
	};
	int c;

	arg_user = geteuid() != 0;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (c == ARG_USER) {
			arg_user = true;
		} else if (c == ARG_DEBUG) {
			arg_priority = LOG_DEBUG;
		} else if (c == ARG_CHECK_CONFIG || c == ARG_PRINT_CONFIG) {
			arg_action = c;
		} else if (c == 'h') {
			print_help();
			return 0;
		} else if (c == ARG_VERSION) {
			puts("cudaenvd " PACKAGE_VERSION);
			return 0;
		} else {
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "cudaenvd: takes no argument '%s'\n", argv[optind]);
		return -EINVAL;
	}
	return 1;
}

static void print_words(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		fprintf(stderr, "%s\n", w->items[i]);
	words_done(w);
}

/* 0 good, warnings or not, 1 there are complaints, 3 it could not be checked. */
static int check_config(void)
{
	struct words complaints = {0}, missing = {0};
	struct config *config = NULL;
	struct paths paths = {0};
	int r;

	r = paths_init(arg_user, &paths);
	if (r == 0)
		r = config_load(&paths, &config, &complaints);
	if (r < 0)
		(void)log_error_errno(r, "Failed to check the settings: %m");
	else if (config_missing_load(config, &paths, &missing) < 0)
		log_warning(
			"The profiles cannot be read: whether there are all that are named is not "
			"known");
	r = r < 0 ? 3 : complaints.n > 0;
	print_words(&complaints);
	print_words(&missing);
	(void)config_free(config);
	paths_done(&paths);
	return r;
}

static int run(void)
{
	_cleanup_(manager_freep) struct manager *m = NULL;
	int r;

	r = manager_new(arg_user, &m);
	return r < 0 ? r : manager_run(m);
}

int main(int argc, char *argv[])
{
	int r;

	r = parse_arguments(argc, argv);
	log_open("cudaenvd", arg_priority);
	if (r <= 0)
		return r < 0 ? 2 : 0;
	if (arg_action == ARG_PRINT_CONFIG) {
		config_print(stdout);
		return fflush(stdout) == 0 ? 0 : 3;
	}
	if (arg_action == ARG_CHECK_CONFIG)
		return check_config();
	(void)umask(0022);
	r = run();
	if (r == MANAGER_START_OVER && arg_user) {
		(void)execv("/proc/self/exe", argv);
		return log_error_errno(errno, "Failed to start over: %m") < 0;
	}
	return r < 0 ? EXIT_FAILURE : r == 0 ? 0 : EXIT_FAILURE;
}
