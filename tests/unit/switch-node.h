/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A manager without its loop in a temporary directory, with the profiles a and b, and what is asked
 * of it; for tests that are linked with crash.c.
 */
#include <sys/wait.h>

#include "common/snapshot.h"
#include "daemon/manager/manager.h"
#include "tests/unit/crash.h"
#include "tests/unit/temp.h"

static const struct caller root = {.uid = 0, .user = "root"};

static inline void profile(const char *name, const char *value)
{
	FILE *f = fopen(temp_path("config/cudaenv/profiles.d/%s.ini", name), "we");

	check(f && fprintf(f, "[env]\nNCCL_PROTO = %s\n", value) > 0 && fclose(f) == 0);
}

static inline void settings(const char *text)
{
	temp_put(temp_path("config/cudaenv/cudaenvd.conf"), text);
}

static inline void fresh(void)
{
	static const char *const directories[] = {"", "config", "config/cudaenv",
						  "config/cudaenv/profiles.d", "state"};

	temp_remove(temp_dir);
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		check(mkdir(temp_path("%s", directories[i]), 0755) == 0);
	profile("a", "LL");
	profile("b", "Simple");
}

static inline struct manager *start(void)
{
	struct manager *m = NULL;

	check(manager_new(true, &m) == 0);
	return m;
}

/* 0, or the error with its name in *RET_ERROR (may be NULL). */
static inline int use(struct manager *m, const char *name, const char **ret_error)
{
	static char error_name[128];
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char *json = NULL;
	int r = operation_use(m, &root, name, "test", &json, &error);

	if (r < 0 && ret_error) {
		(void)snprintf(error_name, sizeof(error_name), "%s", error.name);
		*ret_error = error_name;
	}
	free(json);
	sd_bus_error_free(&error);
	return r;
}

static inline int set_mode(struct manager *m, const char *mode)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char *json = NULL;
	int r = operation_set_mode(m, &root, mode, "", &json, &error);

	free(json);
	sd_bus_error_free(&error);
	return r;
}

static inline int rollback(struct manager *m)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char *json = NULL;
	int r = operation_rollback(m, &root, "", &json, &error);

	free(json);
	sd_bus_error_free(&error);
	return r;
}

static inline int reload(struct manager *m)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char *json = NULL;
	int r = operation_reload(m, &root, &json, &error);

	free(json);
	sd_bus_error_free(&error);
	return r;
}

/* What clients read is what the manager has in memory, on disk, and in the history. */
static inline void consistent(const struct manager *m)
{
	const struct active *a = &m->state->active;
	struct runtime rt = RUNTIME_NULL;
	_cleanup_(assign_freep) struct assign *assign = NULL;
	_cleanup_(freep) char *text = temp_get(temp_path("state/cudaenv/active")),
			      *status = temp_get(temp_path("run/status")), *mode = NULL;
	struct active stored;

	check(runtime_open(temp_path("run"), geteuid(), &rt) == 0);
	check(assign_load(&rt, &assign) == 0);
	check(assign->mode == a->mode && assign->generation == a->generation);
	check_streq(assign->fallback, a->digest);
	for (size_t i = 0; i < a->n_applied; i++) {
		_cleanup_(snapshot_freep) struct snapshot *s = NULL;

		check(snapshot_load(&rt, a->applied[i].digest, &s) == 0);
		check_streq(s->profile, a->applied[i].profile);
	}
	check(!a->digest[0] || streq(active_applied(a, a->profile), a->digest));
	check((access(temp_path("run/current"), R_OK) == 0) == (a->digest[0] != '\0'));
	check(text && active_parse(text, strlen(text), &stored) == 0);
	check(stored.generation == a->generation && stored.mode == a->mode);
	check_streq(stored.digest, a->digest);
	check(asprintf(&mode, "\"mode\":\"%s\"", mode_name(a->mode)) > 0);
	check(status && strstr(status, mode));
	check(!a->digest[0] || strstr(status, a->digest));
	active_done(&stored);
	runtime_done(&rt);
}

static inline void in_force(const struct manager *m, const char *profile_name, enum mode mode)
{
	consistent(m);
	check_streq(m->state->active.profile, profile_name);
	check(m->state->active.mode == mode);
}

/* First of all. */
static inline void switch_begin(void)
{
	temp_begin();
	setenv("CUDAENV_RUNTIME_DIR", temp_path("run"), 1);
	setenv("XDG_CONFIG_HOME", temp_path("config"), 1);
	setenv("XDG_STATE_HOME", temp_path("state"), 1);
	setenv("CUDAENV_LIBEXECDIR", "/nonexistent", 1);
	fresh();
}
