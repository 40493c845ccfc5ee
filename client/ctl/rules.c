/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/rules.h"

#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>

#include "client/ctl/duration.h"
#include "client/ctl/jsonutil.h"
#include "client/ctl/table.h"
#include "common/util.h"

struct json_object *rules_source(const struct published *p, const char *name)
{
	struct json_object *rules = json_array(p->status, "rules");

	for (size_t i = 0; rules && i < json_object_array_length(rules); i++) {
		struct json_object *o = json_object_array_get_idx(rules, i);
		const char *s = json_string(o, "name");

		if (name ? s && streq(s, name) : !s)
			return o;
	}
	return NULL;
}

/* What RULE says of SUBJECT, without regard to the other rules. */
static const char *answer(const struct subject *subject, const struct assign_rule *rule)
{
	if (rule->ended)
		return "ended";
	if (rule->hit)
		return "hit";
	return subject_lacks(subject, rule) ? "unknown" : "miss";
}

/* --- JSON */

static struct json_object *condition_json(const struct published *p, const struct subject *subject,
					  const struct assign_rule *rule, size_t i)
{
	static const struct assign_subject nobody = {.uid = (uid_t)-1};
	_cleanup_(freep) char *found = NULL;
	struct json_object *o = json_object_new_object();
	struct assign_condition c;
	char id[16];
	bool known;

	assign_condition(p->assign, rule, i, subject ? &subject->match : &nobody, &c);
	(void)snprintf(id, sizeof id, "%" PRIu32, c.id);
	known = subject && subject->known & 1u << c.kind;
	found = known ? subject_found(subject, c.kind) : NULL;
	json_object_object_add(o, "kind", json_text(assign_kind_name(c.kind)));
	json_object_object_add(o, "value", json_text(c.glob ? c.glob : id));
	json_object_object_add(o, "holds", known ? json_object_new_boolean(c.holds) : NULL);
	json_object_object_add(o, "found", json_text(found));
	return o;
}

static char *profile_of(const struct published *p, const struct assign_rule *rule)
{
	return rule->digest[0] ? published_profile(p, rule->digest) : NULL;
}

struct json_object *rules_json(const struct published *p, const struct subject *subject,
			       const struct assign_rule *rule)
{
	struct json_object *o, *list, *source;
	_cleanup_(freep) char *profile = NULL;

	if (!rule->digest)
		return NULL;
	source = rules_source(p, rule->name);
	profile = profile_of(p, rule);
	o = json_object_new_object();
	list = json_object_new_array();
	json_object_object_add(o, "name", json_text(rule->name));
	json_object_object_add(o, "profile", json_text(profile));
	json_object_object_add(o, "digest", json_text(rule->digest[0] ? rule->digest : NULL));
	json_object_object_add(o, "until", json_number_or_null(rule->until));
	json_object_object_add(o, "ended", json_object_new_boolean(rule->ended));
	json_object_object_add(o, "file", json_text(json_string(source, "file")));
	json_object_object_add(o, "line", json_number_or_null(json_number(source, "line", -1)));
	json_object_object_add(o, "by", json_text(json_string(source, "by")));
	json_object_object_add(o, "override", json_text(json_string(source, "override")));
	json_object_object_add(o, "answer", json_text(subject ? answer(subject, rule) : NULL));
	json_object_object_add(o, "conditions", list);
	for (size_t i = 0; i < rule->n_conditions; i++)
		json_object_array_add(list, condition_json(p, subject, rule, i));
	return o;
}

/* --- for people */

static void print_where(FILE *f, const struct published *p, const struct assign_rule *rule)
{
	struct json_object *source = rules_source(p, rule->name);
	const char *file = json_string(source, "file"), *by = json_string(source, "by"),
		   *override = json_string(source, "override");
	int64_t line = json_number(source, "line", 0);

	if (override)
		fprintf(f, "%s%s%s", override, by ? " by " : "", by ? by : "");
	else if (by)
		fprintf(f, "chosen by %s", by);
	if (file)
		fprintf(f, "%s%s", override || by ? ", " : "", file);
	if (file && line > 0)
		fprintf(f, ":%" PRId64, line);
	if (!override && !by && !file)
		fprintf(f, "-");
}

static void print_gives(FILE *f, const struct published *p, const struct assign_rule *rule)
{
	_cleanup_(freep) char *profile = profile_of(p, rule);

	if (rule->digest[0])
		fprintf(f, "%s %.*s", profile ? profile : "a snapshot", DIGEST_SHOWN, rule->digest);
	else
		fprintf(f, "nothing");
}

/* A cell out of what PRINT writes. */
static void cell_of(struct table *t, FILE *f, char **text)
{
	if (fclose(f) != 0)
		t->failed = true;
	table_cell(t, *text);
	free(*text);
}

void rules_cell(struct table *t, const struct published *p, const struct assign_rule *rule)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = rule->digest ? open_memstream(&text, &size) : NULL;

	if (!f) {
		table_cell(t, NULL);
		return;
	}
	fprintf(f, "%s%s gives ", rule->name ? "rule " : "the default",
		rule->name ? rule->name : "");
	print_gives(f, p, rule);
	fprintf(f, " (");
	print_where(f, p, rule);
	fprintf(f, ")");
	cell_of(t, f, &text);
}

static void print_id(FILE *f, const struct assign_condition *c)
{
	const struct passwd *pw = c->kind == ASSIGN_UID ? getpwuid(c->id) : NULL;
	const struct group *gr = c->kind == ASSIGN_GID ? getgrgid(c->id) : NULL;
	const char *name = pw ? pw->pw_name : gr ? gr->gr_name : NULL;

	fprintf(f, "%" PRIu32 "%s%s%s", c->id, name ? " (" : "", name ? name : "", name ? ")" : "");
}

/* The conditions of KIND (-1: all), as "unit is a* or b*". */
static void print_conditions(FILE *f, const struct published *p, const struct assign_rule *rule,
			     int kind)
{
	static const struct assign_subject nobody = {.uid = (uid_t)-1};
	int last = -1;

	for (size_t i = 0; i < rule->n_conditions; i++) {
		struct assign_condition c;

		assign_condition(p->assign, rule, i, &nobody, &c);
		if (kind >= 0 && (int)c.kind != kind)
			continue;
		if ((int)c.kind == last)
			fprintf(f, " or ");
		else
			fprintf(f, "%s%s ", last >= 0 ? ", " : "", assign_kind_name(c.kind));
		if (c.glob)
			fprintf(f, "%s", c.glob);
		else
			print_id(f, &c);
		last = (int)c.kind;
	}
}

/* The first kind of condition of RULE that did not hold, and what was found in its place. */
static void print_miss(FILE *f, const struct published *p, const struct subject *subject,
		       const struct assign_rule *rule)
{
	unsigned missed = rule->named & ~rule->held;
	_cleanup_(freep) char *found = NULL;
	int kind = 0;

	/* What is known first: it settles the matter. */
	if (missed & subject->known)
		missed &= subject->known;
	while (!(missed & 1u << kind))
		kind++;
	found = subject_found(subject, (enum assign_kind)kind);
	fprintf(f, "asks for ");
	print_conditions(f, p, rule, kind);
	if (!(subject->known & 1u << kind))
		fprintf(f, "; its %s is not known", assign_kind_name((enum assign_kind)kind));
	else if (found && found[0])
		fprintf(f, "; it is %s", found);
	else
		fprintf(f, "; it has none");
}

static void print_until(FILE *f, const struct assign_rule *rule)
{
	char when[TIME_SIZE];

	time_format(rule->until, when);
	fprintf(f, "%s %s", rule->ended ? "ended" : "until", when);
}

/* SUBJECT NULL: when it holds; else why it does not. */
static void why_cell(struct table *t, const struct published *p, const struct subject *subject,
		     const struct assign_rule *rule)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f) {
		t->failed = true;
		return;
	}
	if (subject && !rule->hit && !rule->ended)
		print_miss(f, p, subject, rule);
	else if (rule->n_conditions > 0)
		print_conditions(f, p, rule, -1);
	else
		fprintf(f, "everything");
	if (rule->until >= 0) {
		fprintf(f, ", ");
		print_until(f, rule);
	}
	cell_of(t, f, &text);
}

static void where_cell(struct table *t, const struct published *p, const struct assign_rule *rule)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f) {
		t->failed = true;
		return;
	}
	print_where(f, p, rule);
	cell_of(t, f, &text);
}

/* --- list --why */

struct walk {
	const struct published *published;
	const struct subject *subject; /* NULL: none */
	bool open;                     /* no rule before this one was a hit, or may be one */
	bool decided;
	struct assign_rule chosen; /* digest NULL: it depends on what was not given */
};

/* The word for people: a hit behind another is none. */
static const char *walk_step(struct walk *w, const struct assign_rule *rule)
{
	const char *word = answer(w->subject, rule);
	bool hit = streq(word, "hit");

	if (w->decided)
		return hit ? "behind" : word;
	if (hit) {
		w->decided = true;
		if (w->open)
			w->chosen = *rule;
		return w->open ? "decides" : "perhaps";
	}
	w->open = w->open && !streq(word, "unknown");
	return word;
}

static int print_rules(struct walk *w)
{
	static const char *const with[] = {"RULE", "ANSWER", "PROFILE", "SNAPSHOT",
					   "WHY",  "FROM",   NULL};
	static const char *const without[] = {"RULE", "PROFILE", "SNAPSHOT", "WHEN", "FROM", NULL};
	static const struct assign_subject nobody = {.uid = (uid_t)-1};
	const struct assign_subject *match = w->subject ? &w->subject->match : &nobody;
	_cleanup_(table_done) struct table t;
	struct assign_rule rule;
	size_t cursor = 0;

	table_init(&t, w->subject ? with : without);
	while (assign_explain(w->published->assign, match, &cursor, &rule) > 0) {
		_cleanup_(freep) char *profile = profile_of(w->published, &rule);

		table_cell(&t, rule.name ? rule.name : "default");
		if (w->subject)
			table_cell(&t, walk_step(w, &rule));
		table_cell(&t, profile);
		table_cell_format(&t, "%.*s", DIGEST_SHOWN, rule.digest[0] ? rule.digest : "none");
		why_cell(&t, w->published, w->subject, &rule);
		where_cell(&t, w->published, &rule);
	}
	return table_print(&t, stdout, ctl_terminal());
}

static void print_subject(FILE *f, const struct rules_question *q)
{
	const char *const what[] = {"process", "unit", "user", "program"};
	const char *const value[] = {q->pid, q->unit, q->user, q->exe};
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		if (value[i]) {
			fprintf(f, "%s%s %s", comma, what[i], value[i]);
			comma = ", ";
		}
}

/* One line that says what comes of it. */
static char *conclusion(const struct walk *w, const struct rules_question *q)
{
	enum mode mode = w->published->assign->mode;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "A new job of ");
	print_subject(f, q);
	fprintf(f, " gets ");
	if (w->chosen.digest)
		print_gives(f, w->published, &w->chosen);
	else
		fprintf(f, "what a rule says that asks for more than is given");
	if (mode != MODE_ON)
		fprintf(f, " once the mode is on (now: %s, nothing)", mode_name(mode));
	fprintf(f, ".");
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static int print_people(struct walk *w, const struct rules_question *q)
{
	_cleanup_(freep) char *text = NULL;

	if (print_rules(w) < 0)
		return ctl_error(CTL_FAILED, "out of memory");
	text = w->subject ? conclusion(w, q) : NULL;
	if (!text)
		return CTL_GOOD;
	/* In a pipe rows alone. */
	if (ctl_terminal()) {
		printf("\n");
		print_escaped(text);
		printf("\n");
	}
	return CTL_GOOD;
}

static struct json_object *subject_json(const struct subject *s)
{
	struct json_object *o;

	if (!s)
		return NULL;
	o = json_object_new_object();
	for (enum assign_kind kind = 0; kind < ASSIGN_KIND_MAX_; kind++) {
		_cleanup_(freep) char *found = subject_found(s, kind);

		json_object_object_add(o, assign_kind_name(kind), json_text(found));
	}
	return o;
}

static void print_json(struct walk *w)
{
	static const struct assign_subject nobody = {.uid = (uid_t)-1};
	const struct assign_subject *match = w->subject ? &w->subject->match : &nobody;
	_cleanup_(json_putp) struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();
	struct assign_rule rule;
	size_t cursor = 0;

	while (assign_explain(w->published->assign, match, &cursor, &rule) > 0) {
		json_object_array_add(list, rules_json(w->published, w->subject, &rule));
		if (w->subject)
			(void)walk_step(w, &rule);
	}
	json_object_object_add(o, "mode", json_text(mode_name(w->published->assign->mode)));
	json_object_object_add(o, "subject", subject_json(w->subject));
	json_object_object_add(o, "decides", rules_json(w->published, w->subject, &w->chosen));
	json_object_object_add(o, "rules", list);
	json_print(o);
}

/* RET is to be freed in every case. */
static void read_subject(const struct published *p, const struct worker *w, struct subject *ret)
{
	_cleanup_(closep) int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closep) int cgroup_fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct subject_source source = {p, proc_fd, cgroup_fd, 0};
	struct stat st;

	if (fstatat(proc_fd, "self/ns/pid", &st, 0) == 0)
		source.own_pidns = st.st_ino;
	subject_of(&source, w, ret);
}

int rules_choose(const struct published *p, const struct worker *w, struct assign_rule *ret)
{
	_cleanup_(subject_done) struct subject subject;
	struct assign_rule rule;
	size_t cursor = 0;

	read_subject(p, w, &subject);
	while (assign_explain(p->assign, &subject.match, &cursor, &rule) > 0 && !rule.hit)
		if (subject_lacks(&subject, &rule))
			return -EACCES;
	*ret = rule;
	return 0;
}

static int look(const struct published *p, pid_t pid, struct subject *ret)
{
	_cleanup_(worker_done) struct worker w = {0};
	int r;

	r = workers_look(p, pid, &w);
	if (r < 0)
		return r;
	if (geteuid() != 0 && w.uid != geteuid())
		return -EPERM;
	read_subject(p, &w, ret);
	return 0;
}

static int find_subject(const struct published *p, const struct rules_question *q,
			struct subject *ret)
{
	const char *s = q->pid;
	uint64_t pid;
	int r;

	if (!q->pid) {
		r = subject_given(q->unit, q->user, q->exe, ret);
		return r < 0 ? ctl_error(CTL_BAD_NEWS, "there is no user %s", q->user) : CTL_GOOD;
	}
	if (procfs_number(&s, INT_MAX, &pid) < 0 || *s != '\0' || pid == 0)
		return ctl_error(CTL_USAGE, "'%s' is no process number", q->pid);
	r = look(p, (pid_t)pid, ret);
	if (r == -ESRCH)
		return ctl_error(CTL_BAD_NEWS, "there is no process %s to be seen here", q->pid);
	if (r == -EPERM)
		return ctl_error(CTL_BAD_NEWS,
				 "process %s is of another user: only root and that user may ask "
				 "about it",
				 q->pid);
	return r < 0 ? ctl_error(CTL_FAILED, "cannot read /proc/%s: %s", q->pid, strerror(-r))
		     : CTL_GOOD;
}

int rules_list(struct ctl *ctl, const struct rules_question *q)
{
	_cleanup_(published_done) struct published p = PUBLISHED_NULL;
	_cleanup_(subject_done) struct subject subject = {.known = 0};
	bool asked = q->pid || q->unit || q->user || q->exe;
	struct walk w = {.published = &p, .subject = asked ? &subject : NULL, .open = true};
	int r;

	if (q->pid && (q->unit || q->user || q->exe))
		return ctl_error(CTL_USAGE, "--pid tells all of a process; --unit, --user and "
					    "--exe stand without it");
	r = ctl_published_assign(ctl, &p);
	if (r == CTL_GOOD && asked)
		r = find_subject(&p, q, &subject);
	if (r != CTL_GOOD)
		return r;
	if (!ctl->json)
		return print_people(&w, q);
	print_json(&w);
	return CTL_GOOD;
}
