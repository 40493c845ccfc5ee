/* SPDX-License-Identifier: MIT */
#include <config.h>

#include <grp.h>
#include <pwd.h>

#include "common/ini.h"
#include "common/near.h"
#include "common/snapshot.h"
#include "common/util.h"
#include "daemon/manager/config.h"

#define WORD_MAX       1024
#define NEAR_ITEMS_MAX 16
#define HINT_SIZE      64

/* Matched against the name of a process (15 bytes). What starts jobs for others is a boundary:
 * nothing at or above it belongs to the job. Launchers whose children are one job (mpirun,
 * slurmstepd, torchrun) must not stand here. */
#define DEFAULT_BOUNDARIES                                                                         \
	"sshd sshd-session dropbear login su mosh-server "                                         \
	"cron crond anacron fcron atd "                                                            \
	"tmux* screen zellij dtach abduco ttyd "                                                   \
	"supervisord circusd s6-supervise runsv monit PM2* "                                       \
	"jupyterhub* jupyter-* code-server "                                                       \
	"gitlab-runner Runner.Listener Runner.Worker buildkite-agen* act_runner drone-runner* "    \
	"slurmd pbs_mom sge_execd condor_startd kubelet nomad "                                    \
	"containerd-shim* conmon dockerd systemd init"

/* Matched against the unit's name: a unit that starts jobs for others is not one job. */
#define DEFAULT_SUPERVISORS                                                                        \
	"ssh.service sshd.service ssh@*.service sshd@*.service dropbear*.service "                 \
	"cron.service crond.service anacron.service fcron.service atd.service "                    \
	"*getty@*.service console-getty.service emergency.service rescue.service "                 \
	"debug-shell.service supervisor.service supervisord.service circus*.service "              \
	"monit.service jupyter*.service code-server*.service gitlab-runner.service "               \
	"actions.runner.*.service buildkite-agent*.service jenkins*.service drone*.service "       \
	"slurmd.service pbs*.service sge*.service condor.service kubelet.service k3s*.service "    \
	"nomad.service docker.service containerd.service crio.service"

/* 1: taken, 0: bad value (the caller complains), -ENOMEM. */
typedef int (*item_parse)(void *place, const char *value);

struct item {
	const char *section;
	const char *key;
	item_parse parse;
	size_t offset; /* in struct config, or struct config_rule for the section "assign" */
	const char *default_text;
	const char *expects; /* for the complaint */
	const char *help;    /* lines of the shipped file */
};

static int parse_profile(void *place, const char *value)
{
	char **target = place;
	char *copy;

	if (!snapshot_label_valid(value, strlen(value)))
		return 0;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 1;
}

static int parse_bool(void *place, const char *value)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (streq(value, yes[i]) || streq(value, no[i])) {
			*(bool *)place = streq(value, yes[i]);
			return 1;
		}
	}
	return 0;
}

static int parse_mismatch(void *place, const char *value)
{
	if (!streq(value, "mark") && !streq(value, "fail"))
		return 0;
	*(bool *)place = streq(value, "fail");
	return 1;
}

static int parse_words(void *place, const char *value)
{
	int r;

	for (const char *p = value; *p; p++)
		if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return 0;
	for (const char *p = value; *p; p += strspn(p, " \t")) {
		size_t n = strcspn(p, " \t");

		if (n > WORD_MAX)
			return 0;
		p += n;
	}
	r = words_merge(place, value);
	return r < 0 ? r : 1;
}

static const struct item config_items[] = {
	{
		.section = "cudaenvd",
		.key = "profile",
		.parse = parse_profile,
		.offset = offsetof(struct config, profile),
		.default_text = "none",
		.expects = "none, auto or the name of a profile",
		.help = "# The profile of new jobs as long as nobody chose one by `cudaenvctl "
			"use`:\n"
			"# none, auto (by [match], once there are facts about the GPUs) or a "
			"name.\n",
	},
	{
		.section = "cudaenvd",
		.key = "apply_on_change",
		.parse = parse_bool,
		.offset = offsetof(struct config, apply_on_change),
		.default_text = "no",
		.expects = "yes or no",
		.help = "# yes: a profile in force that is edited without an error is applied to "
			"new\n"
			"# jobs at once (for nodes run by GitOps). no: it is shown as edited "
			"until\n"
			"# somebody says `cudaenvctl use`.\n",
	},
	{
		.section = "cudaenvd",
		.key = "on_mismatch",
		.parse = parse_mismatch,
		.offset = offsetof(struct config, mismatch_fails),
		.default_text = "mark",
		.expects = "mark or fail",
		.help = "# Where a launcher asks for a digest by CUDAENV_REQUIRE and the node does "
			"not\n"
			"# have it. mark: the process runs, and workers and why show it. fail: "
			"its\n"
			"# Python ends with status 78 before user code, with one line on stderr.\n",
	},
	{
		.section = "jobs",
		.key = "boundaries",
		.parse = parse_words,
		.offset = offsetof(struct config, boundaries),
		.default_text = DEFAULT_BOUNDARIES,
		.expects = "a list of words",
		.help = "# Processes that start jobs for others, by name (globs): nothing at or "
			"above\n"
			"# one belongs to the job. Words add to the default list; !WORD takes one "
			"out,\n"
			"# !* all.\n",
	},
	{
		.section = "jobs",
		.key = "supervisors",
		.parse = parse_words,
		.offset = offsetof(struct config, supervisors),
		.default_text = DEFAULT_SUPERVISORS,
		.expects = "a list of words",
		.help = "# Units that start jobs for others (globs): such a unit is not one job. "
			"Words\n"
			"# add to the default list likewise.\n",
	},
};

#define RULE_WORDS(member, example, what)                                                          \
	{                                                                                          \
		.section = "assign", .key = #member, .parse = parse_words,                         \
		.offset = offsetof(struct config_rule, member), .default_text = (example),         \
		.expects = "a list of words", .help = "# " what "\n",                              \
	}

static const struct item rule_items[] = {
	RULE_WORDS(unit, "vllm@*.service", "Units (globs)."),
	RULE_WORDS(user, "alice 1000", "Users, by name or number."),
	RULE_WORDS(group, "ml", "Groups, by name or number."),
	RULE_WORDS(exe, "/opt/vllm/bin/*", "Paths of the program (globs)."),
	RULE_WORDS(cgroup, "/kubepods*", "Paths of the control group (globs)."),
	{
		.section = "assign",
		.key = "profile",
		.parse = parse_profile,
		.offset = offsetof(struct config_rule, profile),
		.default_text = "NAME",
		.expects = "none or the name of a profile",
		.help = "# The profile, or none.\n",
	},
};

static void rule_done(struct config_rule *r)
{
	free(r->name);
	free(r->file);
	free(r->profile);
	words_done(&r->unit);
	words_done(&r->user);
	words_done(&r->group);
	words_done(&r->exe);
	words_done(&r->cgroup);
	words_done(&r->uid);
	words_done(&r->gid);
	*r = (struct config_rule){0};
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_rules; i++)
		rule_done(&c->rules[i]);
	free(c->rules);
	free(c->profile);
	free(c->profile_file);
	words_done(&c->boundaries);
	words_done(&c->supervisors);
	free(c);
	return NULL;
}

int config_new(struct config **ret)
{
	_cleanup_(config_freep) struct config *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(config_items); i++) {
		const struct item *item = &config_items[i];
		int r = item->parse((char *)c + item->offset, item->default_text);

		if (r <= 0)
			return r < 0 ? r : -EINVAL;
	}
	*ret = TAKE_PTR(c);
	return 0;
}

static const struct item *find_item(const struct item *items, size_t n, const char *section,
				    const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (streq(items[i].section, section) && streq(items[i].key, key))
			return &items[i];
	return NULL;
}

/* Every key of ITEMS that SECTION (NULL: any) has, for near_match(). */
static const char *near_key(const struct item *items, size_t n, const char *section,
			    const char *key)
{
	const char *names[NEAR_ITEMS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < n && count < NEAR_ITEMS_MAX; i++)
		if (!section || streq(items[i].section, section))
			names[count++] = items[i].key;
	return near_match(key, names, count);
}

/* What may have been meant by an unknown KEY, as text in RET: "". */
static void hint_at_key(const char *section, const char *key, char *ret, size_t size)
{
	bool rule = startswith(section, "assign ") != NULL;
	const struct item *items = rule ? rule_items : config_items;
	size_t n = rule ? ARRAY_SIZE(rule_items) : ARRAY_SIZE(config_items);
	const char *near = near_key(items, n, rule ? NULL : section, key);

	ret[0] = '\0';
	if (near) {
		(void)snprintf(ret, size, ", did you mean '%s'?", near);
		return;
	}
	for (size_t i = 0; !rule && i < n; i++)
		if (streq(items[i].key, key))
			(void)snprintf(ret, size, ", it belongs to [%s]", items[i].section);
}

static void hint_at_section(const char *section, char *ret, size_t size)
{
	static const char *const names[] = {"cudaenvd", "jobs", "assign"};
	char first[16];
	const char *near;

	(void)snprintf(first, sizeof first, "%.*s", (int)strcspn(section, " \t"), section);
	near = near_match(first, names, ARRAY_SIZE(names));
	ret[0] = '\0';
	if (near && strstr(section, " " CONFIG_OVERRIDE))
		(void)snprintf(ret, size,
			       ", names that begin with " CONFIG_OVERRIDE
			       " are those of overrides");
	else if (near && streq(near, "assign"))
		(void)snprintf(ret, size, ", a rule is [assign NAME]");
	else if (near)
		(void)snprintf(ret, size, ", did you mean [%s]?", near);
}

/* The name after "assign ", or NULL. */
static const char *rule_name(const char *section)
{
	const char *name = startswith(section, "assign ");

	if (!name)
		return NULL;
	while (*name == ' ' || *name == '\t')
		name++;
	return snapshot_label_valid(name, strlen(name)) && !startswith(name, CONFIG_OVERRIDE)
		       ? name
		       : NULL;
}

static struct config_rule *find_rule(struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_rules; i++)
		if (streq(c->rules[i].name, name))
			return &c->rules[i];
	return NULL;
}

/* A section of a later file replaces the rule of that name in its place. */
static int open_rule(struct config *c, const char *name, const char *file, unsigned line)
{
	struct config_rule *rule = find_rule(c, name);
	struct config_rule fresh = {.line = line};

	if (!rule) {
		struct config_rule *rules = reallocarray(c->rules, c->n_rules + 1, sizeof(*rules));

		if (!rules)
			return -ENOMEM;
		c->rules = rules;
	}
	fresh.name = strdup(name);
	fresh.file = strdup(file);
	if (!fresh.name || !fresh.file) {
		rule_done(&fresh);
		return -ENOMEM;
	}
	if (rule)
		rule_done(rule);
	else
		rule = &c->rules[c->n_rules++];
	*rule = fresh;
	return 0;
}

static int open_sections(struct config *c, const char *file, const struct ini *ini,
			 struct words *complaints)
{
	for (size_t i = 0; i < ini->n_sections; i++) {
		const struct ini_section *s = &ini->sections[i];
		const char *name = rule_name(s->name);
		char hint[HINT_SIZE];
		int r = 0;

		if (name) {
			r = open_rule(c, name, file, s->line);
		} else if (!streq(s->name, "cudaenvd") && !streq(s->name, "jobs")) {
			hint_at_section(s->name, hint, sizeof hint);
			r = words_addf(complaints, "%s:%u: unknown section [%.80s]%s: left out",
				       file, s->line, s->name, hint);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Where `profile =` stands that decides. RULE: NULL for a key of no rule. */
static int note_place(struct config *c, struct config_rule *rule, const struct item *item,
		      const char *file, unsigned line)
{
	char *copy;

	if (rule && item->parse == parse_profile)
		rule->profile_line = line;
	if (rule || item->offset != offsetof(struct config, profile) ||
	    !streq(item->section, "cudaenvd"))
		return 0;
	copy = strdup(file);
	if (!copy)
		return -ENOMEM;
	free(c->profile_file);
	c->profile_file = copy;
	c->profile_line = line;
	return 0;
}

static int take_entry(struct config *c, const char *file, const struct ini_entry *e,
		      struct words *complaints)
{
	const char *name = rule_name(e->section);
	struct config_rule *rule = name ? find_rule(c, name) : NULL;
	const struct item *item;
	char hint[HINT_SIZE];
	int r;

	item = rule ? find_item(rule_items, ARRAY_SIZE(rule_items), "assign", e->key)
		    : find_item(config_items, ARRAY_SIZE(config_items), e->section, e->key);
	if (!item) {
		if (rule)
			rule->refused = true;
		else if (!streq(e->section, "cudaenvd") && !streq(e->section, "jobs"))
			return 0; /* its section was complained about */
		hint_at_key(e->section, e->key, hint, sizeof hint);
		return words_addf(complaints, "%s:%u: unknown key '%.80s' in [%.80s]%s: %s", file,
				  e->line, e->key, e->section, hint,
				  rule ? "the rule is left out" : "left out");
	}
	r = item->parse((rule ? (char *)rule : (char *)c) + item->offset, e->value);
	if (r != 0)
		return r < 0 ? r : note_place(c, rule, item, file, e->line);
	if (rule)
		rule->refused = true;
	return words_addf(complaints, "%s:%u: %s = %.80s is not %s: %s", file, e->line, e->key,
			  e->value, item->expects,
			  rule ? "the rule is left out" : "the default stays");
}

static int take_findings(const char *file, const struct findings *f, struct words *complaints)
{
	for (size_t i = 0; i < f->n; i++) {
		_cleanup_(freep) char *text = NULL;
		int r = finding_format(&f->items[i], file, &text);

		if (r == 0)
			r = words_add(complaints, text);
		if (r < 0)
			return r;
	}
	return 0;
}

int config_parse(struct config *c, const char *file, const char *bytes, size_t size,
		 struct words *complaints)
{
	struct findings findings = {0};
	struct ini ini = {0};
	int r;

	r = ini_read(bytes, size, &ini, &findings);
	if (r == 0)
		r = take_findings(file, &findings, complaints);
	if (r == 0)
		r = open_sections(c, file, &ini, complaints);
	for (size_t i = 0; r == 0 && i < ini.n_entries; i++)
		r = take_entry(c, file, &ini.entries[i], complaints);
	if (r == -EIO)
		r = words_addf(complaints, "%s:0: cannot be taken apart: left out", file);
	ini_done(&ini);
	findings_done(&findings);
	return r;
}

static int number_of(const char *word, bool group, char ret[24])
{
	unsigned long id;
	char *end;

	errno = 0;
	id = strtoul(word, &end, 10);
	if (word[0] >= '0' && word[0] <= '9' && *end == '\0') {
		if (errno || id >= UINT32_MAX)
			return -ENOENT;
	} else if (group) {
		const struct group *gr = getgrnam(word);

		if (!gr)
			return -ENOENT;
		id = gr->gr_gid;
	} else {
		const struct passwd *pw = getpwnam(word);

		if (!pw)
			return -ENOENT;
		id = pw->pw_uid;
	}
	(void)snprintf(ret, 24, "%lu", id);
	return 0;
}

static int look_up(struct config_rule *rule, const struct words *names, bool group,
		   struct words *ids, struct words *complaints)
{
	for (size_t i = 0; i < names->n; i++) {
		char id[24];
		int r;

		if (number_of(names->items[i], group, id) == 0)
			r = words_add(ids, id);
		else
			r = words_addf(complaints, "%s:%u: [assign %s]: no %s '%.80s'", rule->file,
				       rule->line, rule->name, group ? "group" : "user",
				       names->items[i]);
		if (r < 0)
			return r;
	}
	if (names->n > 0 && ids->n == 0)
		rule->refused = true;
	return 0;
}

static int finish_rule(struct config_rule *rule, struct words *complaints)
{
	size_t conditions =
		rule->unit.n + rule->user.n + rule->group.n + rule->exe.n + rule->cgroup.n;
	int r;

	words_done(&rule->uid);
	words_done(&rule->gid);
	r = look_up(rule, &rule->user, false, &rule->uid, complaints);
	if (r == 0)
		r = look_up(rule, &rule->group, true, &rule->gid, complaints);
	if (r < 0)
		return r;
	if (rule->profile && conditions > 0 && !rule->refused)
		return 0;
	rule->refused = true;
	return words_addf(complaints, "%s:%u: [assign %s] is left out: %s", rule->file, rule->line,
			  rule->name,
			  !rule->profile    ? "it has no profile ="
			  : conditions == 0 ? "it has no condition; for every job use profile = in "
					      "[cudaenvd]"
					    : "see above");
}

int config_finish(struct config *c, struct words *complaints)
{
	for (size_t i = 0; i < c->n_rules;) {
		int r = finish_rule(&c->rules[i], complaints);

		if (r < 0)
			return r;
		if (!c->rules[i].refused) {
			i++;
			continue;
		}
		rule_done(&c->rules[i]);
		memmove(&c->rules[i], &c->rules[i + 1], (c->n_rules - i - 1) * sizeof(*c->rules));
		c->n_rules--;
	}
	return 0;
}

static void print_items(FILE *out, const struct item *items, size_t n)
{
	const char *section = "";

	for (size_t i = 0; i < n; i++) {
		if (!streq(section, items[i].section)) {
			section = items[i].section;
			fprintf(out, "\n[%s]\n", section);
		}
		fprintf(out, "%s#%s = %s\n", items[i].help, items[i].key, items[i].default_text);
	}
}

void config_print(FILE *out)
{
	fputs("# cudaenvd.conf: settings of cudaenvd. Files in cudaenvd.conf.d/*.conf are read "
	      "after\n"
	      "# this one, by name; a later value replaces an earlier one. What stands here is "
	      "the\n"
	      "# default. After a change: `cudaenvd --check-config`, then `systemctl reload "
	      "cudaenvd`.\n",
	      out);
	print_items(out, config_items, ARRAY_SIZE(config_items));
	fputs("\n"
	      "# Rules: the first whose conditions all hold gives a new job its profile; of one\n"
	      "# condition any word will do. NAME is free; a later file's rule of the same name\n"
	      "# replaces the earlier one in its place. A reload brings the profiles of rules to "
	      "the\n"
	      "# versions in their files.\n"
	      "#[assign NAME]\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(rule_items); i++)
		fprintf(out, "%s#%s = %s\n", rule_items[i].help, rule_items[i].key,
			rule_items[i].default_text);
}
