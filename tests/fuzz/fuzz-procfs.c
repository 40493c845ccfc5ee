/* SPDX-License-Identifier: MIT */
/*
 * What strangers write: files of /proc, names in jobs/ and procs/, texts of pins, cgroup paths. The
 * first byte says which. What was parsed as a key, a name or a pin must come out the same when it
 * is written again.
 */
#include <stdint.h>

#include "common/cgroup.h"
#include "common/job.h"
#include "common/pin.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static void try_stat(const char *text)
{
	struct proc_facts f = {.pid = 1};

	if (procfs_parse_stat(text, &f) < 0)
		return;
	demand(f.ppid >= 0 && strnlen(f.comm, sizeof f.comm) < sizeof f.comm);
}

static void try_status(const char *text)
{
	struct proc_ns ns;

	if (procfs_parse_ns(text, &ns) == 0)
		demand(ns.pid >= 0 && ns.depth > 0);
}

static void try_cgroups(const char *text)
{
	struct proc_cgroups c = {.n = 0};
	struct cgroup_place place;

	(void)snprintf(c.text, sizeof c.text, "%s", text);
	if (procfs_parse_cgroups(&c) < 0)
		return;
	for (unsigned i = 0; i < c.n; i++) {
		demand(c.lines[i].path[0] == '/');
		cgroup_classify(c.lines[i].path, &place);
		demand(place.length <= strlen(c.lines[i].path));
		demand(place.length > 0 || place.kind == CGROUP_NONE ||
		       place.kind == CGROUP_SHARED);
	}
}

static void try_key(const char *text)
{
	char again[JOB_KEY_SIZE];
	struct job_key k;

	if (job_key_parse(text, &k) < 0)
		return;
	job_key_format(&k, again);
	demand(streq(text, again) && !strchr(text, '/'));
}

static void try_proc(const char *text)
{
	char again[JOB_PROC_SIZE];
	uint64_t pidns, start;
	pid_t pid;

	if (job_proc_parse(text, &pidns, &pid, &start) < 0)
		return;
	job_proc_format(pidns, pid, start, again);
	demand(streq(text, again));
}

static void try_pin(const char *text)
{
	char again[(2 + PIN_MAX_FORMER) * DIGEST_SIZE];
	struct pin pin;

	if (pin_parse(text, &pin) < 0)
		return;
	(void)strcpy(again, pin.digest[0] ? pin.digest : "none");
	for (unsigned i = 0; i < pin.n_former; i++) {
		(void)strcat(again, " ");
		(void)strcat(again, pin.former[i]);
		demand(pin_has(&pin, pin.former[i]));
	}
	demand(streq(text, again));
}

static void try_uid_map(const char *text)
{
	uid_t uid;

	(void)procfs_parse_uid_map(text, 0, &uid);
	(void)procfs_parse_uid_map(text, 65534, &uid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[])(const char *text) = {
		try_stat, try_status, try_cgroups, try_key, try_proc, try_pin, try_uid_map};
	char *text;

	if (size < 1)
		return 0;
	/* Exactly as long as the text, so that a sanitizer sees a read beyond it. */
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	tries[data[0] % ARRAY_SIZE(tries)](text);
	free(text);
	return 0;
}
