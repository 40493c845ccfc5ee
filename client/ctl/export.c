/* SPDX-License-Identifier: MIT */
/* export: a published snapshot for a shell, a service manager or a container. No daemon is asked.
 */
#include "config.h"

#include "client/ctl/export.h"

#include "client/ctl/jsonutil.h"
#include "client/ctl/pick.h"
#include "common/util.h"

static const char *arg_profile, *arg_format;

/* Without -p the one in force on the node; rules may give one process or another something else. */
static int find_snapshot(struct ctl *ctl, struct published *p, struct snapshot **ret)
{
	char digest[DIGEST_SIZE];
	int r;

	r = arg_profile ? ctl_published(ctl, p) : ctl_published_assign(ctl, p);
	if (r != CTL_GOOD)
		return r;
	if (arg_profile) {
		r = ctl_pick(ctl, p, arg_profile, digest);
		if (r != CTL_GOOD)
			return r;
	} else if (!published_in_force(p)[0]) {
		return ctl_error(CTL_BAD_NEWS, "no profile is in use; name one: export -p PROFILE");
	} else {
		memcpy(digest, published_in_force(p), DIGEST_SIZE);
	}
	return ctl_pick_load(p, digest, ret);
}

/* Calls FN for each line of TEXT. */
static void each_line(const char *text, void (*fn)(const char *line, size_t n, void *userdata),
		      void *userdata)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		fn(text, n, userdata);
	}
}

static void print_note(const char *line, size_t n, void *userdata)
{
	ctl_note("%.*s", (int)n, line);
}

static void add_note(const char *line, size_t n, void *userdata)
{
	json_object_array_add(userdata, json_object_new_string_len(line, (int)n));
}

static void print_json(const struct export *x)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *left = json_object_new_array(), *notes = json_object_new_array();

	json_object_object_add(o, "profile", json_text(x->snapshot->profile));
	json_object_object_add(o, "digest", json_text(x->snapshot->digest));
	json_object_object_add(o, "format", json_text(arg_format));
	json_object_object_add(o, "text", json_text(x->text));
	json_object_object_add(o, "left_out", left);
	json_object_object_add(o, "notes", notes);
	for (size_t i = 0; i < x->snapshot->n_entries; i++) {
		const struct snapshot_entry *e = &x->snapshot->entries[i];
		struct json_object *v;

		if (!x->left[i].why)
			continue;
		v = json_object_new_object();
		json_object_object_add(v, "name", json_text(e->name));
		json_object_object_add(v, "rule", json_text(snapshot_rule_name(e->rule)));
		json_object_object_add(v, "why", json_text(x->left[i].why));
		json_object_array_add(left, v);
	}
	each_line(x->notes, add_note, notes);
	json_print(o);
}

static int run_export(struct ctl *ctl, int argc, char *argv[])
{
	const struct export_format *format = arg_format ? export_format_find(arg_format) : NULL;
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
	_cleanup_(export_done) struct export x = {0};
	int r;

	if (!format)
		return ctl_error(CTL_USAGE, "%s%s: one of " EXPORT_FORMATS,
				 arg_format ? "--format=" : "export --format",
				 arg_format ? arg_format : " is needed");
	r = find_snapshot(ctl, &p, &snapshot);
	if (r != CTL_GOOD)
		return r;
	r = export_make(snapshot, format, &x);
	if (r < 0)
		return ctl_error(CTL_FAILED, "cannot export: %s", strerror(-r));
	if (ctl->json) {
		print_json(&x);
		return CTL_GOOD;
	}
	(void)fwrite(x.text, 1, x.size, stdout);
	each_line(x.notes, print_note, NULL);
	return CTL_GOOD;
}

static const struct ctl_option options[] = {
	{"profile", 'p', "PROFILE", "a profile's name, or a snapshot's digest",
	 .value = &arg_profile},
	{"format", 0, EXPORT_FORMATS, "for whom", .value = &arg_format},
	{0},
};

const struct verb verb_export = {
	.name = "export",
	.arguments = "",
	.summary = "A snapshot's variables for a shell, systemd, docker, Kubernetes or NCCL.",
	.help = "Without -p: the one in use on this node. sh and fish keep the rules (default,\n"
		"together, lists, unset): eval \"$(cudaenvctl export --format sh)\". The others "
		"hold\n"
		"plain values: systemd (EnvironmentFile=), docker (an env file), nccl-conf "
		"(NCCL_*\n"
		"alone, for NCCL_CONF_FILE), k8s (an immutable ConfigMap, without paths of this\n"
		"host), json; what they cannot say is a note on stderr and, where they have\n"
		"comments, one of these. Needs no daemon.",
	.options = options,
	.run = run_export,
};
