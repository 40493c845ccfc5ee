/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <signal.h>
#include <systemd/sd-daemon.h>

#include "common/util.h"
#include "daemon/log.h"
#include "daemon/manager/children.h"
#include "daemon/manager/compile.h"
#include "daemon/manager/config-missing.h"
#include "daemon/manager/control.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/release.h"

#define FACTS_FILE FACTSDIR "/must-match"

struct manager *manager_free(struct manager *m)
{
	if (!m)
		return NULL;
	(void)children_free(m->children);
	releases_free(m);
	(void)control_free(m->control);
	(void)watch_free(m->sources);
	(void)watch_free(m->published);
	for (size_t i = 0; i < ARRAY_SIZE(m->signals); i++)
		(void)sd_event_source_disable_unref(m->signals[i]);
	(void)sd_event_source_disable_unref(m->ends);
	(void)publisher_free(m->publisher);
	(void)state_free(m->state);
	profile_set_done(&m->profiles);
	words_done(&m->complained);
	words_done(&m->missing);
	(void)facts_free(m->facts);
	(void)config_free(m->config);
	paths_done(&m->paths);
	rules_done(&m->rules);
	derived_done(&m->derived);
	free(m->assign);
	free(m->last_error);
	free(m->versions);
	(void)sd_event_unref(m->event);
	free(m);
	return NULL;
}

static void say(struct words *complaints)
{
	for (size_t i = 0; i < complaints->n; i++)
		log_warning("%s", complaints->items[i]);
	words_done(complaints);
}

/* Can C be published with what is in force? */
static int try_config(const struct manager *m, const struct config *c)
{
	const struct active nothing = {.mode = MODE_OBSERVE};
	const struct active *a = m->state ? &m->state->active : &nothing;
	_cleanup_(freep) char *text = NULL;
	struct rules rules = {0};
	size_t size;
	int r;

	r = compile_rules(c, a, &rules);
	if (r == 0)
		r = compile_assign(c, a, &rules, &text, &size);
	rules_done(&rules);
	return r;
}

int manager_load_config(struct manager *m)
{
	_cleanup_(config_freep) struct config *c = NULL;
	struct words complaints = {0};
	int r;

	r = config_load(&m->paths, &c, &complaints);
	say(&complaints);
	if (r < 0)
		return r;
	r = try_config(m, c);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		(void)log_error_errno(r, "The settings in %s are too many to be published, %s: %m",
				      m->paths.config,
				      m->config ? "the earlier ones stay"
						: "the defaults are used");
		return m->config ? 0 : config_new(&m->config);
	}
	(void)config_free(m->config);
	m->config = TAKE_PTR(c);
	return 0;
}

void manager_say_missing(struct manager *m)
{
	struct words now = {0};

	if (config_missing(m->config, &m->profiles, &m->state->active, &now) < 0) {
		words_done(&now);
		return;
	}
	for (size_t i = 0; i < now.n; i++)
		if (!words_contain(&m->missing, now.items[i]))
			log_warning("%s", now.items[i]);
	words_done(&m->missing);
	m->missing = now;
}

static int open_settings(struct manager *m)
{
	int r;

	r = paths_init(m->user, &m->paths);
	if (r < 0)
		return log_error_errno(r, "Failed to find our directories%s: %m",
				       r == -ENXIO ? ", HOME is not set" : "");
	r = manager_load_config(m);
	if (r < 0)
		return log_error_errno(r, "Failed to read the settings: %m");
	r = facts_load(FACTS_FILE, &m->facts);
	if (r < 0)
		(void)log_warning_errno(r, "No rank digests, %s cannot be read: %m", FACTS_FILE);
	return 0;
}

static int open_failed(int r, pid_t pid, const char *path)
{
	if (r == -EBUSY)
		return log_error_errno(r, "Another cudaenvd (process %d) works with %s", (int)pid,
				       path);
	if (r == -EPERM)
		return log_error_errno(
			r,
			"%s, or a directory above it, can be written by others: no process "
			"would believe what is published there",
			path);
	return log_error_errno(r, "Failed to open %s: %m", path);
}

static int open_directories(struct manager *m)
{
	_cleanup_(freep) char *no_session = NULL;
	struct words complaints = {0};
	pid_t pid = 0;
	int r;

	r = publisher_open(m->paths.runtime, m->user, &m->publisher, &complaints, &pid);
	say(&complaints);
	no_session = r < 0 ? paths_no_session(&m->paths) : NULL;
	if (no_session)
		return log_error_errno(r, "%s", no_session);
	if (r < 0)
		return open_failed(r, pid, m->paths.runtime);
	r = state_open(m->paths.state, &m->state, &complaints, &pid);
	say(&complaints);
	if (r < 0)
		return open_failed(r, pid, m->paths.state);
	r = publisher_adopt(m->publisher);
	return r < 0 ? log_error_errno(r, "Failed to read %s/snapshots: %m", m->paths.runtime) : 0;
}

/* With apply_on_change, a profile that was edited while we were not there counts as edited now; not
 * after a rollback, which a restart must not undo. */
static int missed_edits(struct manager *m, struct words *ret)
{
	const struct state *s = m->state;

	if (!m->config->apply_on_change)
		return 0;
	for (size_t i = s->n_history; i > 0; i--) {
		const struct history_entry *e = &s->history[i - 1];

		if (!history_is_choice(e))
			continue;
		if (streq(e->action, "rollback"))
			return 0;
		break;
	}
	for (size_t i = 0; i < m->profiles.n_profiles; i++) {
		int r = words_add(ret, m->profiles.profiles[i]->name);

		if (r < 0)
			return r;
	}
	return 0;
}

static int put_in_force(struct manager *m, struct words *refresh, const char *action)
{
	const struct change why = {.action = action, .uid = STATE_UID_UNKNOWN};
	struct active next;
	int r;

	r = active_copy(&m->state->active, &next);
	if (r < 0)
		return r;
	r = switch_resolve(m, refresh, &next);
	if (r < 0) {
		active_done(&next);
		return r;
	}
	r = switch_commit(m, &next, &why);
	manager_say_missing(m);
	return r;
}

/* Settings that have grown while we were not there go before overrides. */
static void fit_overrides(struct manager *m)
{
	static const struct change why = {.action = "reset",
					  .uid = STATE_UID_UNKNOWN,
					  .reason = "with the settings there would be more rules "
						    "than a start may look at"};
	struct overrides old = m->state->active.overrides;
	int r = try_config(m, m->config);

	if (r == 0 || r == -ENOMEM || old.n == 0)
		return;
	log_error("Settings and overrides are too many rules together: all overrides are ended");
	m->state->active.overrides = (struct overrides){0};
	(void)switch_record_overrides(m, &old, &why);
	overrides_done(&old);
	m->unsaved = true;
}

/* What was in force when the last manager ended, whichever of the runtime tree and the state
 * directory knows it better; then what the settings say, where nobody has chosen. */
static int take_up(struct manager *m)
{
	struct words refresh = {0};
	struct active found;
	int r;

	/* Versions in force do not need their files. */
	r = switch_load_profiles(m, NULL);
	if (r < 0)
		(void)log_error_errno(r, "Failed to read the profiles: %m");
	r = switch_adopt(m, &found);
	if (r < 0)
		return log_error_errno(r, "Failed to read %s/assign: %m", m->paths.runtime);
	if (r > 0) {
		log_notice("%s/assign is newer than %s: adopted", m->paths.runtime, m->paths.state);
		active_done(&m->state->active);
		m->state->active = found;
		m->unsaved = true; /* persisted below */
	}
	switch_record_found(m);
	m->state->rebuilt = false;
	fit_overrides(m);
	r = missed_edits(m, &refresh);
	if (r == 0)
		r = put_in_force(m, &refresh, refresh.n > 0 ? "apply" : "config");
	words_done(&refresh);
	return r;
}

static void on_sources_changed(int error, void *userdata)
{
	struct manager *m = userdata;
	struct words changed = {0};
	int r;

	if (error < 0)
		(void)log_warning_errno(error, "Not every profile directory is watched, changes "
					       "may need a reload: %m");
	r = switch_load_profiles(m, &changed);
	if (r < 0)
		(void)log_error_errno(r, "Failed to read the profiles, the versions read before "
					 "stay: %m");
	else
		(void)put_in_force(m, m->config->apply_on_change ? &changed : NULL, "apply");
	words_done(&changed);
}

static void begin_end(struct manager *m, int status);

static void on_published_changed(int error, void *userdata)
{
	struct manager *m = userdata;
	int r;

	if (error < 0)
		(void)log_warning_errno(error, "Not all of %s is watched: %m", m->paths.runtime);
	r = switch_heal(m);
	if (r != -ESTALE)
		return;
	log_error("%s was removed or replaced: cudaenvd has to start over", m->paths.runtime);
	begin_end(m, MANAGER_START_OVER);
}

static int watch_sources(struct manager *m)
{
	int r = watch_new(m->event, false, on_sources_changed, m, &m->sources);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(m->paths.profiles) && m->paths.profiles[i]; i++)
		r = watch_add(m->sources, WATCH_DIRECTORY, m->paths.profiles[i]);
	if (r < 0)
		return r;
	r = watch_start(m->sources);
	if (r < 0)
		(void)log_warning_errno(r,
					"Failed to watch the profiles, changes need a reload: %m");
	return 0;
}

static int watch_published(struct manager *m)
{
	static const char *const files[] = {"assign", "status", "current", "jobs", "procs"};
	_cleanup_(freep) char *snapshots = NULL;
	int r;

	if (asprintf(&snapshots, "%s/snapshots", m->paths.runtime) < 0) {
		snapshots = NULL;
		return -ENOMEM;
	}
	r = watch_new(m->event, true, on_published_changed, m, &m->published);
	if (r >= 0)
		r = watch_add(m->published, WATCH_DIRECTORY, snapshots);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(files); i++) {
		_cleanup_(freep) char *path = NULL;

		if (asprintf(&path, "%s/%s", m->paths.runtime, files[i]) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		r = watch_add(m->published, WATCH_FILE, path);
	}
	if (r < 0)
		return r;
	r = watch_start(m->published);
	if (r < 0)
		(void)log_warning_errno(r, "Failed to watch %s, damage there stays: %m",
					m->paths.runtime);
	return 0;
}

static void on_children_ended(void *userdata)
{
	struct manager *m = userdata;

	(void)sd_event_exit(m->event, m->exit_status);
}

static void begin_end(struct manager *m, int status)
{
	m->exit_status = status;
	(void)sd_notify(0, "STOPPING=1");
	if (m->children)
		children_stop(m->children, on_children_ended, m);
	else
		on_children_ended(m);
}

static int on_end_signal(sd_event_source *source, const struct signalfd_siginfo *info,
			 void *userdata)
{
	log_info("Ends on signal %u", info->ssi_signo);
	begin_end(userdata, 0);
	return 0;
}

static int on_reload_signal(sd_event_source *source, const struct signalfd_siginfo *info,
			    void *userdata)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(freep) char *json = NULL;

	(void)sd_notify(0, "RELOADING=1");
	if (operation_reload(userdata, NULL, &json, &error) < 0)
		log_error("Reload failed: %s", error.message ? error.message : "out of memory");
	sd_bus_error_free(&error);
	(void)sd_notify(0, "READY=1");
	return 0;
}

static int catch_signals(struct manager *m)
{
	sigset_t mask;
	int r;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGHUP);
	(void)sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
		return -errno;
	(void)signal(SIGPIPE, SIG_IGN);
	r = sd_event_add_signal(m->event, &m->signals[0], SIGTERM, on_end_signal, m);
	if (r >= 0)
		r = sd_event_add_signal(m->event, &m->signals[1], SIGINT, on_end_signal, m);
	if (r >= 0)
		r = sd_event_add_signal(m->event, &m->signals[2], SIGHUP, on_reload_signal, m);
	return r;
}

static int start_pieces(struct manager *m)
{
	int r;

	r = control_new(m, m->paths.control, &m->control);
	if (r < 0 || !m->user)
		return r;
	r = children_new(m->event, &m->children);
	return r < 0 ? log_error_errno(r, "Failed to prepare the other pieces: %m")
		     : children_start(m->children);
}

int manager_new(bool user, struct manager **ret)
{
	_cleanup_(manager_freep) struct manager *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return log_error_errno(-ENOMEM, "Failed to start: %m");
	m->user = user;
	r = sd_event_new(&m->event);
	if (r >= 0)
		r = catch_signals(m);
	if (r >= 0)
		r = sd_event_set_watchdog(m->event, 1);
	if (r < 0)
		return log_error_errno(r, "Failed to prepare the event loop: %m");
	r = open_settings(m);
	if (r < 0)
		return r;
	r = open_directories(m);
	if (r < 0)
		return r;
	/* First the watches: what changes after the first reading is told. */
	r = watch_sources(m);
	if (r < 0)
		return log_error_errno(r, "Failed to watch the profiles: %m");
	r = take_up(m);
	if (r < 0)
		return r;
	r = watch_published(m);
	if (r < 0)
		return log_error_errno(r, "Failed to watch %s: %m", m->paths.runtime);
	r = start_pieces(m);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(m);
	return 0;
}

int manager_run(struct manager *m)
{
	int r;

	(void)sd_notify(0, "READY=1");
	log_info("Works with %s, generation %llu, mode %s, profile %s", m->paths.runtime,
		 (unsigned long long)m->state->active.generation, mode_name(m->state->active.mode),
		 m->state->active.profile[0] ? m->state->active.profile : "none");
	r = sd_event_loop(m->event);
	return r < 0 ? log_error_errno(r, "The event loop failed: %m") : r;
}
