/* SPDX-License-Identifier: MIT */
/* The list of overrides, its text, and the rules that are made of it: against a model that asks the
 * overrides themselves, for many processes. */
#include "daemon/manager/override.h"

#include "common/util.h"
#include "daemon/manager/compile.h"
#include "tests/unit/test.h"

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "2222222222222222222222222222222222222222222222222222222222222222"

static struct scope scope(const char *text)
{
	struct scope s;
	char *fault = NULL;

	check(scope_parse(text, &s, &fault) == 0);
	return s;
}

static struct override make_use(const char *text, const char *profile, const char *digest,
				int64_t until)
{
	struct override o = {.action = OVERRIDE_USE,
			     .scope = scope(text),
			     .since = 1000,
			     .until = until,
			     .uid = 0,
			     .user = strdup("root")};

	strcpy(o.profile, profile);
	strcpy(o.digest, digest);
	return o;
}

static struct override make_set(const char *text, const char *variables, int64_t until)
{
	struct override o = {.action = OVERRIDE_SET,
			     .scope = scope(text),
			     .since = 1000,
			     .until = until,
			     .uid = (uid_t)-1};

	check(words_merge(&o.variables, variables) == 0);
	return o;
}

static int put(struct overrides *all, struct override o)
{
	int r = overrides_put(all, &o);

	override_done(&o);
	return r;
}

static char *print(const struct overrides *all)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	check(f);
	overrides_print(all, f);
	check(fclose(f) == 0);
	return text;
}

static int parse(const char *text, struct overrides *ret)
{
	_cleanup_(freep) char *copy = strdup(text);
	char *cursor = copy;
	int r = overrides_parse(&cursor, ret);

	if (r == 0 && *cursor) {
		overrides_done(ret);
		return -EBADMSG;
	}
	return r;
}

TEST(a_later_one_takes_the_place)
{
	struct overrides all = {0}, copy = {0};
	const struct scope user = scope("user 77"), node = scope("node");

	check(put(&all, make_use("user 77", "a", D1, 0)) == 0);
	check(put(&all, make_set("user 77", "A=1 B=2", 50)) == 0);
	check(put(&all, make_use("unit v", "a", D1, 90)) == 0);
	check(all.n == 3 && overrides_first_end(&all) == 50);
	check(overrides_copy(&all, &copy) == 0 && overrides_same(&all, &copy));
	check(put(&all, make_use("user 77", "b", D2, 40)) == 0);
	check(all.n == 3 && !overrides_same(&all, &copy));
	check_streq(all.items[2].profile, "b");
	check(overrides_first_end(&all) == 40);
	/* Variables join, those of the same name are the later ones. */
	check(put(&all, make_set("user 77", "C=3 A=9", 0)) == 0);
	check(all.n == 3 && all.items[2].variables.n == 3 && all.items[2].until == 0);
	check_streq(all.items[2].variables.items[0], "A=9");
	check_streq(all.items[2].variables.items[1], "B=2");
	check_streq(all.items[2].variables.items[2], "C=3");
	overrides_remove_ended(&all, 39);
	check(all.n == 3);
	overrides_remove_ended(&all, 40);
	check(all.n == 2 && !overrides_find(&all, OVERRIDE_USE, &user));
	overrides_remove(&all, &node);
	check(all.n == 2);
	overrides_remove(&all, &user);
	check(all.n == 1);
	overrides_remove(&all, NULL);
	check(all.n == 0 && overrides_first_end(&all) == 0);
	overrides_done(&all);
	overrides_done(&copy);
}

TEST(bounds)
{
	struct overrides all = {0};
	struct override large = make_set("user 1", "A=1", 0);
	char text[32];

	for (int i = 0; i < OVERRIDES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "unit u%d", i);
		check(put(&all, make_use(text, "a", D1, 0)) == 0);
	}
	check(overrides_put(&all, &large) == -E2BIG && large.variables.n == 1);
	check(all.n == OVERRIDES_MAX);
	check(put(&all, make_use("unit u3", "b", D1, 0)) == 0);
	overrides_remove(&all, NULL);
	/* Bytes of all together. */
	free(large.variables.items[0]);
	large.variables.items[0] = malloc(16001);
	check(large.variables.items[0]);
	memset(large.variables.items[0], 'x', 16000);
	memcpy(large.variables.items[0], "A=", 2);
	large.variables.items[0][16000] = '\0';
	for (unsigned i = 0; i < 9; i++) {
		struct override o = make_set("user 1", "", 0);

		o.scope.uid = i;
		check(words_add(&o.variables, large.variables.items[0]) == 0);
		check(put(&all, o) == (i < 8 ? 0 : -EFBIG));
	}
	override_done(&large);
	overrides_done(&all);
}

TEST(text)
{
	static const char want[] =
		"override use\nscope user 77 77\nsince 1000\nuntil never\nby 0 root\nprofile a " D1
		"\noverride set\nscope unit v.service\nsince 1000\nuntil 50\nby - -\n"
		"variable A=\nvariable B=x y\n"
		"override use\nscope node\nsince 1000\nuntil 60\nby 0 root\nprofile b none\n";
	struct overrides all = {0}, again = {0};
	_cleanup_(freep) char *text = NULL;

	check(put(&all, make_use("user 77", "a", D1, 0)) == 0);
	check(put(&all, make_set("unit v", "A=", 50)) == 0);
	check(words_add(&all.items[1].variables, "B=x y") == 0);
	check(put(&all, make_use("node", "b", "", 60)) == 0);
	text = print(&all);
	check_streq(text, want);
	check(parse(text, &again) == 0 && overrides_same(&all, &again));
	check(again.items[0].uid == 0 && again.items[1].uid == (uid_t)-1);
	check(!again.items[1].user && again.items[0].since == 1000);
	overrides_done(&again);
	/* A cut one is refused, or whole ones are left. */
	for (size_t n = 0; n < strlen(want); n++) {
		_cleanup_(freep) char *cut = strndup(want, n);

		if (parse(cut, &again) < 0)
			continue;
		check(again.n < 3 || n == strlen(want));
		overrides_done(&again);
	}
	overrides_done(&all);
}

TEST(bad_text)
{
#define USE(s, u, b, p) "override use\nscope " s "\nsince 1\nuntil " u "\nby " b "\nprofile " p "\n"
#define SET(s, v)       "override set\nscope " s "\nsince 1\nuntil never\nby 0 root\n" v
	static const char *const bad[] = {
		"override\n",
		"override take\n",
		"override use\n",
		USE("node", "never", "0 root", "a none"),
		USE("nodes", "5", "0 root", "a none"),
		USE("unit v", "5", "0 root", "a none"),
		USE("unit v*.service", "5", "0 root", "a none"),
		USE("unit v.socket", "5", "0 root", "a none"),
		USE("user 5", "5", "0 root", "a none"),
		USE("user 5 ", "5", "0 root", "a none"),
		USE("user -1 x", "5", "0 root", "a none"),
		USE("user 4294967295 x", "5", "0 root", "a none"),
		USE("user alice 5", "5", "0 root", "a none"),
		USE("user 5 a/b", "5", "0 root", "a none"),
		USE("user 5 x", "0", "0 root", "a none"),
		USE("user 5 x", "-5", "0 root", "a none"),
		USE("user 5 x", "5x", "0 root", "a none"),
		USE("user 5 x", "9223372036854775808", "0 root", "a none"),
		USE("user 5 x", "5", "root", "a none"),
		USE("user 5 x", "5", "0", "a none"),
		USE("user 5 x", "5", "-", "a none"),
		USE("user 5 x", "5", "0 root", "a"),
		USE("user 5 x", "5", "0 root", "a " D1 "1"),
		USE("user 5 x", "5", "0 root", "a/b none"),
		USE("user 5 x", "5", "0 root", "a none") USE("user 5 y", "6", "0 root", "a none"),
		SET("node", "variable A=1\n"),
		SET("user 5 x", ""),
		SET("user 5 x", "variable A\n"),
		SET("user 5 x", "variable RANK=1\n"),
		SET("user 5 x", "variable A= 1\n"),
		SET("user 5 x", "variable A=1\nvariable A=2\n"),
		SET("user 5 x", "variable A=1\nprofile a none\n"),
		"override set\nscope user 5 x\nuntil never\nby 0 root\nvariable A=1\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct overrides all = {0};
		int r = parse(bad[i], &all);

		if (r != -EBADMSG)
			fprintf(stderr, "taken: %s\n", bad[i]);
		check(r == -EBADMSG && !all.items);
	}
}

/* --- the rules */

#define PROFILES 4
#define NOW      1000

static const char *const unit_names[] = {"a.service", "b@1.service", "c.scope", NULL};
static const uid_t uids[] = {0, 7, 8};

/* What decides for one process. */
struct process {
	uid_t uid;
	const char *unit;
	const char *exe;
};

/* Profile I's digest. */
static const char *digest_of(unsigned i)
{
	static char digests[PROFILES][DIGEST_SIZE];

	memset(digests[i], "abcd"[i], DIGEST_HEX);
	return digests[i];
}

static unsigned pick(unsigned n)
{
	return (unsigned)rand() % n;
}

static void random_scope(struct scope *ret)
{
	char text[64];

	if (pick(2))
		(void)snprintf(text, sizeof(text), "unit %s", unit_names[pick(3)]);
	else
		(void)snprintf(text, sizeof(text), "user %u", (unsigned)uids[pick(3)]);
	*ret = scope(text);
}

static int64_t random_end(void)
{
	return pick(3) == 0 ? 0 : NOW - 2 + (int64_t)pick(5);
}

static void random_overrides(struct active *a)
{
	for (unsigned i = pick(6); i > 0; i--) {
		char variable[32];
		struct override o;

		(void)snprintf(variable, sizeof(variable), "%c=%u", "ABC"[pick(3)], pick(1000));
		o = pick(2) ? make_set("user 0", variable, random_end())
			    : make_use("node", "p", digest_of(pick(PROFILES)), NOW - 1 + pick(3));
		if (o.action == OVERRIDE_SET || pick(3)) {
			random_scope(&o.scope);
			o.until = random_end();
		}
		check(put(&a->overrides, o) == 0);
	}
}

static struct config *random_settings(struct active *a)
{
	static const char *const conditions[] = {
		"unit = *.service\n", "unit = b@*.service c.scope\n", "user = 7\n", "user = 0 8\n",
		"exe = /opt/*\n",     "unit = a.service\nuser = 8\n",
	};
	struct words complaints = {0};
	struct config *c = NULL;
	char text[1024] = "";
	unsigned n = pick(4);

	for (unsigned i = 0; i < n; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       "[assign r%u]\n%sprofile = p%u\n", i,
			       conditions[pick(ARRAY_SIZE(conditions))], pick(PROFILES));
	for (unsigned i = 0; i < PROFILES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "p%u", i);
		check(active_set_applied(a, name, digest_of(i)) == 0);
	}
	check(config_new(&c) == 0);
	check(config_parse(c, "x.conf", text, strlen(text), &complaints) == 0);
	check(config_finish(c, &complaints) == 0 && complaints.n == 0);
	return c;
}

static bool concerns(const struct override *o, const struct process *p)
{
	if (o->until > 0 && o->until <= NOW)
		return false;
	return o->scope.kind == SCOPE_NODE ||
	       (o->scope.kind == SCOPE_USER ? o->scope.uid == p->uid
					    : p->unit && streq(o->scope.name, p->unit));
}

/* The last one that concerns P, of the node or not. */
static const struct override *last_use(const struct overrides *all, const struct process *p,
				       bool node)
{
	for (size_t i = all->n; i > 0; i--) {
		const struct override *o = &all->items[i - 1];

		if (o->action == OVERRIDE_USE && (o->scope.kind == SCOPE_NODE) == node &&
		    concerns(o, p))
			return o;
	}
	return NULL;
}

/* By the settings alone: the digest, NULL: no rule holds. */
static const char *by_settings(const struct config *c, const struct active *a,
			       const struct assign_subject *subject)
{
	struct active plain = *a;
	_cleanup_(freep) char *text = NULL;
	_cleanup_(assign_freep) struct assign *assign = NULL;
	struct rules rules = {0};
	const char *rule, *digest;
	size_t size;

	plain.overrides = (struct overrides){0};
	check(compile_rules(c, &plain, &rules) == 0);
	check(compile_assign(c, &plain, &rules, &text, &size) == 0);
	check(assign_parse(text, size, &assign, NULL) == 0);
	digest = assign_choose(assign, subject, &rule);
	rules_done(&rules);
	if (!rule)
		return NULL;
	for (unsigned i = 0; i < PROFILES; i++)
		if (streq(digest, digest_of(i)))
			return digest_of(i);
	return "";
}

/* "DIGEST A=1 B=2": what P should have. */
static void model(const struct config *c, const struct active *a, const struct process *p,
		  char ret[256])
{
	const struct assign_subject subject = {
		.now = NOW, .uid = p->uid, .unit = p->unit, .exe = p->exe};
	const struct override *use = last_use(&a->overrides, p, false),
			      *node = last_use(&a->overrides, p, true);
	const char *settings = by_settings(c, a, &subject);
	struct words variables = {0};

	for (size_t i = 0; i < a->overrides.n; i++) {
		const struct override *o = &a->overrides.items[i];
		struct words joined = {0};

		if (o->action != OVERRIDE_SET || !concerns(o, p))
			continue;
		check(override_join(&variables, &o->variables, &joined) == 0);
		words_done(&variables);
		variables = joined;
	}
	strcpy(ret, use ? use->digest : settings ? settings : node ? node->digest : a->digest);
	for (size_t i = 0; i < variables.n; i++)
		(void)snprintf(ret + strlen(ret), 256 - strlen(ret), " %s", variables.items[i]);
	words_done(&variables);
}

/* The same by the published text: each rule has a digest of its own in it, to be known by. */
static void by_text(const struct config *c, const struct active *a, struct rules *rules,
		    const struct process *p, char ret[256])
{
	const struct assign_subject subject = {
		.now = NOW, .uid = p->uid, .unit = p->unit, .exe = p->exe};
	_cleanup_(assign_freep) struct assign *assign = NULL;
	_cleanup_(freep) char *text = NULL;
	const struct rule *found = &rules->items[rules->n - 1];
	const char *name;
	size_t size;

	check(compile_assign(c, a, rules, &text, &size) == 0);
	check(assign_parse(text, size, &assign, NULL) == 0);
	(void)assign_choose(assign, &subject, &name);
	for (size_t i = 0; name && i < rules->n; i++)
		if (streq(rules->items[i].name, name))
			found = &rules->items[i];
	strcpy(ret, found->base);
	for (size_t i = 0; i < found->variables.n; i++)
		(void)snprintf(ret + strlen(ret), 256 - strlen(ret), " %s",
			       found->variables.items[i]);
}

static void compare(const struct config *c, const struct active *a, struct rules *rules)
{
	static const char *const exes[] = {"/opt/x", "/usr/bin/python3", NULL};

	for (size_t i = 0; i < ARRAY_SIZE(uids) * ARRAY_SIZE(unit_names) * ARRAY_SIZE(exes); i++) {
		const struct process p = {
			.uid = uids[i % ARRAY_SIZE(uids)],
			.unit = unit_names[i / ARRAY_SIZE(uids) % ARRAY_SIZE(unit_names)],
			.exe = exes[i / ARRAY_SIZE(uids) / ARRAY_SIZE(unit_names)],
		};
		char want[256], got[256];

		model(c, a, &p, want);
		by_text(c, a, rules, &p, got);
		check_streq(got, want);
	}
}

TEST(rules_say_what_the_overrides_mean)
{
	srand(1);
	for (unsigned round = 0; round < 300; round++) {
		struct active a = {.mode = MODE_ON, .profile = "p"};
		struct rules rules = {0};
		struct config *c;

		strcpy(a.digest, digest_of(pick(PROFILES)));
		random_overrides(&a);
		c = random_settings(&a);
		check(compile_rules(c, &a, &rules) == 0);
		for (size_t i = 0; i + 1 < rules.n; i++)
			check(!rules.items[i].override ==
			      !startswith(rules.items[i].name, CONFIG_OVERRIDE));
		compare(c, &a, &rules);
		rules_done(&rules);
		active_done(&a);
		config_free(c);
	}
}

/* What no start may look at is refused before it is published. */
TEST(too_many_rules)
{
	struct active a = {.mode = MODE_ON};
	struct rules rules = {0};
	struct words complaints = {0};
	struct config *c = NULL;
	char text[64];

	check(config_new(&c) == 0 && config_finish(c, &complaints) == 0);
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(text, sizeof(text), "unit u%u", i);
		check(put(&a.overrides, make_set(text, "A=1", 0)) == 0);
	}
	check(compile_rules(c, &a, &rules) == 0 && rules.n == 21);
	rules_done(&rules);
	/* Each user's is there for each of those units as well. */
	for (unsigned i = 0; i < 23; i++) {
		(void)snprintf(text, sizeof(text), "user %u", 100 + i);
		check(put(&a.overrides, make_set(text, "B=1", 0)) == 0);
	}
	check(compile_rules(c, &a, &rules) == 0 && rules.n == 21 * 24);
	rules_done(&rules);
	check(put(&a.overrides, make_set("user 200", "B=1", 0)) == 0);
	check(compile_rules(c, &a, &rules) == -E2BIG && !rules.items);
	active_done(&a);
	config_free(c);
}

/* A backslash of a unit's name is none of the pattern. */
TEST(units_are_exact)
{
	struct active a = {.mode = MODE_ON};
	struct words complaints = {0};
	struct rules rules = {0};
	struct config *c = NULL;

	check(config_new(&c) == 0 && config_finish(c, &complaints) == 0);
	check(put(&a.overrides, make_use("unit a\\x2db", "a", D1, 0)) == 0);
	check(compile_rules(c, &a, &rules) == 0);
	check_streq(rules.items[0].when[RULE_UNIT].items[0], "a\\\\x2db.service");
	check(assign_glob_match(rules.items[0].when[RULE_UNIT].items[0], "a\\x2db.service"));
	rules_done(&rules);
	active_done(&a);
	config_free(c);
}

TEST_MAIN
