/* SPDX-License-Identifier: MIT */
/*
 * Files of plain values. Each format refuses what its reader would not give back byte for byte:
 *
 *   systemd    EnvironmentFile= (systemd.exec(5)): in double quotes a backslash keeps \ " ` and $;
 *              no specifiers, no expansion. A file with a Unicode noncharacter is refused as a whole.
 *   docker     --env-file: NAME=VALUE up to the end of the line, nothing is quoted. A line of 64 KiB
 *              makes docker refuse the file.
 *   nccl-conf  NCCL_CONF_FILE, /etc/nccl.conf: nothing is quoted; 1023 bytes of a value are read.
 *   k8s        an immutable ConfigMap, as JSON, which is YAML; for envFrom.
 *   json       one object, NAME: VALUE.
 */
#include "config.h"

#include <ctype.h>

#include "client/ctl/export.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/text.h"
#include "common/util.h"

#define DOCKER_LINE_MAX ((size_t)65535) /* with its newline; bufio.MaxScanTokenSize */
#define NCCL_FIELD_MAX  ((size_t)1023)
#define K8S_KEY_MAX     ((size_t)253)
#define K8S_DIGITS      12

/* What is no UTF-8, which a snapshot's writer does not let in, and noncharacters if STRICT. */
static bool is_text(const char *s, bool strict)
{
	size_t size = strlen(s);

	for (size_t i = 0, n; i < size; i += n) {
		unsigned code = 0;

		n = text_utf8(s + i, size - i, &code);
		if (n == 0 ||
		    (strict && ((code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef))))
			return false;
	}
	return true;
}

static const char *refuse_bytes(const struct snapshot_entry *e)
{
	return is_text(e->value, false) ? NULL : "is no UTF-8";
}

static const char *refuse_systemd(const struct snapshot_entry *e)
{
	return is_text(e->value, true) ? NULL : "has a character that systemd refuses";
}

static const char *refuse_docker(const struct snapshot_entry *e)
{
	if (strlen(e->name) + 1 + strlen(e->value) + 1 > DOCKER_LINE_MAX)
		return "is longer than a line that docker reads";
	return refuse_bytes(e);
}

static const char *refuse_nccl(const struct snapshot_entry *e)
{
	if (!startswith(e->name, "NCCL_"))
		return "is no name of NCCL";
	if (streq(e->name, "NCCL_CONF_FILE"))
		return "is read before this file";
	if (strlen(e->name) > NCCL_FIELD_MAX || strlen(e->value) > NCCL_FIELD_MAX)
		return "is longer than NCCL reads";
	return NULL;
}

/* An absolute path, as the value, in a list, or behind a = in it; // begins no path but a URL's
 * host. */
static bool has_path(const char *value)
{
	for (const char *p = value; (p = strchr(p, '/')); p++)
		if (p == value || (strchr(",;= \t\"'", p[-1])) ||
		    (p[-1] == ':' && (p[1] != '/' || p[2] == '/')))
			return true;
	return false;
}

static const char *refuse_k8s(const struct snapshot_entry *e)
{
	if (has_path(e->value))
		return "is a path of this host";
	if (strlen(e->name) > K8S_KEY_MAX)
		return "is longer than a key may be";
	return refuse_bytes(e);
}

static void put_comments(FILE *f, const struct export *x)
{
	fprintf(f, "# cudaenv profile %s, snapshot %s\n", x->snapshot->profile,
		x->snapshot->digest);
	for (const char *p = x->notes; *p;) {
		size_t n = strcspn(p, "\n");

		fprintf(f, "# %.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
}

/* NAME=VALUE, the characters of ESCAPED behind a backslash and all between quotes if there are any.
 */
static void put_lines(FILE *f, const struct export *x, const char *escaped)
{
	put_comments(f, x);
	for (size_t i = 0; i < x->snapshot->n_entries; i++) {
		const struct snapshot_entry *e = &x->snapshot->entries[i];

		if (x->left[i].why)
			continue;
		fprintf(f, "%s=%s", e->name, escaped ? "\"" : "");
		for (const char *p = e->value; *p; p++)
			fprintf(f, "%s%c", escaped && strchr(escaped, *p) ? "\\" : "", *p);
		fprintf(f, "%s\n", escaped ? "\"" : "");
	}
}

static int write_quoted(FILE *f, const struct export *x)
{
	put_lines(f, x, "\\\"`$");
	return 0;
}

static int write_lines(FILE *f, const struct export *x)
{
	put_lines(f, x, NULL);
	return 0;
}

static struct json_object *values_json(const struct export *x)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < x->snapshot->n_entries; i++)
		if (!x->left[i].why)
			json_object_object_add(
				o, x->snapshot->entries[i].name,
				json_object_new_string(x->snapshot->entries[i].value));
	return o;
}

static int put_json(FILE *f, struct json_object *o)
{
	const char *text = json_object_to_json_string_ext(
		o,
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);

	if (!text)
		return -ENOMEM;
	fprintf(f, "%s\n", text);
	return 0;
}

static int write_json(FILE *f, const struct export *x)
{
	_cleanup_(json_putp) struct json_object *o = values_json(x);

	return put_json(f, o);
}

/* An object's name takes small letters, digits, - and . between letters or digits. */
static char *k8s_name(const struct snapshot *s)
{
	char *name;

	if (asprintf(&name, "cudaenv-%s-%.*s", s->profile, K8S_DIGITS, s->digest) < 0)
		return NULL;
	for (char *p = name; *p; p++)
		*p = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '-';
	return name;
}

static int write_k8s(FILE *f, const struct export *x)
{
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	_cleanup_(freep) char *name = k8s_name(x->snapshot);
	struct json_object *metadata = json_object_new_object(),
			   *annotations = json_object_new_object();

	json_object_object_add(o, "apiVersion", json_text("v1"));
	json_object_object_add(o, "kind", json_text("ConfigMap"));
	json_object_object_add(o, "metadata", metadata);
	json_object_object_add(metadata, "name", json_text(name));
	json_object_object_add(metadata, "annotations", annotations);
	json_object_object_add(annotations, "cudaenv/profile", json_text(x->snapshot->profile));
	json_object_object_add(annotations, "cudaenv/snapshot", json_text(x->snapshot->digest));
	json_object_object_add(o, "immutable", json_object_new_boolean(true));
	json_object_object_add(o, "data", values_json(x));
	return name ? put_json(f, o) : -ENOMEM;
}

static const struct export_format formats[] = {
	{.name = "sh", .write = export_sh},
	{.name = "fish", .write = export_fish},
	{.name = "systemd",
	 .refuse = refuse_systemd,
	 .reader = "an EnvironmentFile",
	 .comments = true,
	 .write = write_quoted},
	{.name = "docker",
	 .refuse = refuse_docker,
	 .reader = "an env file of docker",
	 .comments = true,
	 .write = write_lines},
	{.name = "k8s", .refuse = refuse_k8s, .reader = "a ConfigMap", .write = write_k8s},
	{.name = "json", .refuse = refuse_bytes, .reader = "plain JSON", .write = write_json},
	{.name = "nccl-conf",
	 .refuse = refuse_nccl,
	 .reader = "NCCL's file",
	 .keeps_default = true,
	 .comments = true,
	 .write = write_lines},
};

const struct export_format *export_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (streq(formats[i].name, name))
			return &formats[i];
	return NULL;
}

bool export_in_toolkit(const struct snapshot_entry *e)
{
	return e->rule == SNAPSHOT_TOGETHER && streq(e->group, "toolkit");
}

bool export_is_list(const struct snapshot_entry *e)
{
	return e->rule == SNAPSHOT_PREPEND || e->rule == SNAPSHOT_APPEND ||
	       (export_in_toolkit(e) && streq(e->name, "PATH"));
}

static void refuse_all(const struct export_format *format, struct export *x)
{
	for (size_t i = 0; i < x->snapshot->n_entries; i++) {
		const struct snapshot_entry *e = &x->snapshot->entries[i];

		x->left[i].entry = e;
		if (!format->refuse)
			continue;
		if (e->rule == SNAPSHOT_UNSET)
			x->left[i].why = "is to be removed, which cannot be said";
		else if (export_is_list(e))
			x->left[i].why = "is a list to be extended, which cannot be said";
		else
			x->left[i].why = format->refuse(e);
	}
}

bool export_same_group(const struct snapshot_entry *a, const struct snapshot_entry *b)
{
	return a->rule == SNAPSHOT_TOGETHER && b->rule == SNAPSHOT_TOGETHER &&
	       streq(a->group, b->group);
}

/* Half a group is worse than none. Its list counts no more than it does at a start. */
static void refuse_groups(struct export *x)
{
	const struct snapshot *s = x->snapshot;

	for (size_t i = 0; i < s->n_entries; i++) {
		if (!x->left[i].why || s->entries[i].rule != SNAPSHOT_TOGETHER ||
		    export_is_list(&s->entries[i]))
			continue;
		for (size_t j = 0; j < s->n_entries; j++)
			if (!x->left[j].why && export_same_group(&s->entries[i], &s->entries[j]))
				x->left[j].why = "goes together with one that is left out";
	}
}

/* A line for each reason, with the names. */
static void note_left(FILE *f, const struct export *x)
{
	size_t n = x->snapshot->n_entries;

	for (size_t i = 0; i < n; i++) {
		const char *why = x->left[i].why;
		bool told = !why;

		for (size_t j = 0; j < i && !told; j++)
			told = x->left[j].why == why;
		if (told)
			continue;
		fputs("left out:", f);
		for (size_t j = i; j < n; j++)
			if (x->left[j].why == why)
				fprintf(f, " %s", x->left[j].entry->name);
		fprintf(f, " (%s)\n", why);
	}
}

static size_t count(const struct export *x, enum snapshot_rule rule, bool toolkit)
{
	size_t n = 0;

	for (size_t i = 0; i < x->snapshot->n_entries; i++) {
		const struct snapshot_entry *e = &x->snapshot->entries[i];

		n += !x->left[i].why && e->rule == rule && export_in_toolkit(e) == toolkit;
	}
	return n;
}

/* The rules of what was not left out. */
static void note_rules(FILE *f, const struct export_format *format, const struct export *x)
{
	size_t defaults = count(x, SNAPSHOT_DEFAULT, false),
	       forced = count(x, SNAPSHOT_FORCE, false);

	if (defaults > 0 && !format->keeps_default)
		fprintf(f, "rule default is lost: %s replaces what a process has already\n",
			format->reader);
	if (forced > 0 && format->keeps_default)
		fprintf(f, "rule force is lost: what a process has already wins over %s\n",
			format->reader);
	if (count(x, SNAPSHOT_TOGETHER, false) > 0)
		fprintf(f, "rule together is lost: %s sets each variable by itself\n",
			format->reader);
	if (count(x, SNAPSHOT_TOGETHER, true) > 0) {
		_cleanup_(freep) char *root =
			x->snapshot->toolkit_root ? text_escape(x->snapshot->toolkit_root,
								strlen(x->snapshot->toolkit_root))
						  : NULL;

		fprintf(f, "the toolkit is set also where %s does not exist\n",
			root ? root : "its root");
	}
}

static int make_notes(const struct export_format *format, struct export *x)
{
	size_t size;
	FILE *f = open_memstream(&x->notes, &size);

	if (!f)
		return -ENOMEM;
	if (format->refuse) {
		note_left(f, x);
		note_rules(f, format, x);
	}
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

int export_make(const struct snapshot *s, const struct export_format *format, struct export *ret)
{
	_cleanup_(export_done) struct export x = {.snapshot = s};
	FILE *f;
	int r;

	x.left = calloc(s->n_entries + 1, sizeof *x.left);
	if (!x.left)
		return -ENOMEM;
	refuse_all(format, &x);
	refuse_groups(&x);
	r = make_notes(format, &x);
	if (r < 0)
		return r;
	f = open_memstream(&x.text, &x.size);
	if (!f)
		return -ENOMEM;
	r = format->write(f, &x);
	if (fclose(f) != 0)
		return -ENOMEM;
	if (r < 0)
		return r;
	*ret = x;
	x = (struct export){0};
	return 0;
}

void export_done(struct export *x)
{
	free(x->left);
	free(x->notes);
	free(x->text);
	*x = (struct export){0};
}
