/* SPDX-License-Identifier: MIT */
#include "daemon/manager/compile.h"
#include "daemon/manager/config-missing.h"
#include "daemon/manager/config.h"
#include "tests/unit/temp.h"

static struct config *parse(const char *text, struct words *complaints)
{
	struct config *c = NULL;

	check(config_new(&c) == 0);
	check(config_parse(c, "x.conf", text, strlen(text), complaints) == 0);
	check(config_finish(c, complaints) == 0);
	return c;
}

static int compile(const struct config *c, const struct active *a, char **ret, size_t *ret_size)
{
	struct rules rules = {0};
	int r = compile_rules(c, a, &rules);

	if (r == 0)
		r = compile_assign(c, a, &rules, ret, ret_size);
	rules_done(&rules);
	return r;
}

/* Exactly one complaint, which begins with PREFIX. */
static void check_complaint(struct words *complaints, const char *prefix)
{
	if (complaints->n != 1 || !startswith(complaints->items[0], prefix)) {
		for (size_t i = 0; i < complaints->n; i++)
			fprintf(stderr, "%s\n", complaints->items[i]);
		check(!"complaint");
	}
	words_done(complaints);
}

TEST(defaults)
{
	struct words complaints = {0};
	struct config *c = parse("", &complaints);

	check(complaints.n == 0);
	check_streq(c->profile, "none");
	check(!c->apply_on_change && c->n_rules == 0);
	check(words_contain(&c->boundaries, "sshd") && words_contain(&c->boundaries, "tmux*"));
	check(words_contain(&c->supervisors, "slurmd.service"));
	config_free(c);
}

TEST(values)
{
	struct words complaints = {0};
	struct config *c =
		parse("[cudaenvd]\nprofile = base\napply_on_change = yes\n"
		      "[jobs]\nboundaries = myrunner !sshd\nsupervisors = !* only.service\n",
		      &complaints);

	check(complaints.n == 0);
	check_streq(c->profile, "base");
	check(c->apply_on_change);
	check(words_contain(&c->boundaries, "myrunner") && !words_contain(&c->boundaries, "sshd"));
	check(words_contain(&c->boundaries, "cron"));
	check(c->supervisors.n == 1);
	check_streq(c->supervisors.items[0], "only.service");
	config_free(c);
}

TEST(faults_keep_the_default)
{
	static const struct {
		const char *text, *complaint;
	} cases[] = {
		{"[cudaenvd]\nprofil = base\n", "x.conf:2: unknown key 'profil'"},
		{"[cudaenvd]\n\nprofile = no such name\n",
		 "x.conf:3: profile = no such name is not"},
		{"[cudaenvd]\napply_on_change = maybe\n",
		 "x.conf:2: apply_on_change = maybe is not"},
		{"[nonsense]\nprofile = base\n", "x.conf:1: unknown section [nonsense]"},
		{"[jobs\nboundaries = x\n", "x.conf:1:"},
		{"profile = base\n", "x.conf:1:"},
		{"[cudaenvd]\nprofile\n", "x.conf:2:"},
		{"[assign ../x]\nuser = 0\n", "x.conf:1: unknown section"},
		/* What was meant, where that can be told. */
		{"[cudaenvd]\nprofil = base\n",
		 "x.conf:2: unknown key 'profil' in [cudaenvd], did you mean 'profile'?: left out"},
		{"[cudaenvd]\napply-on-change = yes\n",
		 "x.conf:2: unknown key 'apply-on-change' in [cudaenvd], did you mean "
		 "'apply_on_change'?"},
		{"[cudaenvd]\nboundaries = x\n",
		 "x.conf:2: unknown key 'boundaries' in [cudaenvd], it belongs to [jobs]: left"},
		{"[cudaenvd]\nunrelated = x\n",
		 "x.conf:2: unknown key 'unrelated' in [cudaenvd]: left out"},
		{"[job]\nboundaries = x\n",
		 "x.conf:1: unknown section [job], did you mean [jobs]?"},
		{"[asign a]\nuser = 0\n",
		 "x.conf:1: unknown section [asign a], a rule is [assign NAME]"},
		{"[unrelated]\nuser = 0\n", "x.conf:1: unknown section [unrelated]: left out"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct words complaints = {0};
		struct config *c = parse(cases[i].text, &complaints);

		check_complaint(&complaints, cases[i].complaint);
		check_streq(c->profile, "none");
		check(!c->apply_on_change && c->n_rules == 0);
		config_free(c);
	}
}

TEST(rules)
{
	struct words complaints = {0};
	struct config *c =
		parse("[assign vllm]\nunit = vllm@*.service sglang*.service\nuser = root 1234\n"
		      "profile = fast\n"
		      "[assign plain]\nexe = /usr/bin/*\nprofile = none\n",
		      &complaints);

	check(complaints.n == 0 && c->n_rules == 2);
	check_streq(c->rules[0].name, "vllm");
	check(c->rules[0].unit.n == 2 && c->rules[0].uid.n == 2);
	check_streq(c->rules[0].uid.items[0], "0");
	check_streq(c->rules[0].uid.items[1], "1234");
	check_streq(c->rules[1].profile, "none");
	config_free(c);
}

/* Half a rule would match processes that the whole does not: it is left out. */
TEST(half_rules_are_left_out)
{
	static const char *const cases[] = {
		"[assign a]\nunit = x.service\n",
		"[assign a]\nprofile = p\n",
		"[assign a]\nunit = x.service\nusr = alice\nprofile = p\n",
		"[assign a]\nunit = x.service\nuser = nobody-has-this-name\nprofile = p\n",
		"[assign a]\nuser = 4294967295\nprofile = p\n",
		"[assign a]\nunit = x.service\nprofile = bad name\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct words complaints = {0};
		struct config *c = parse(cases[i], &complaints);

		check(complaints.n >= 1 && c->n_rules == 0);
		check(startswith(complaints.items[0], "x.conf:"));
		words_done(&complaints);
		config_free(c);
	}
	{
		struct words complaints = {0};
		struct config *c = parse(
			"[assign a]\nuser = root nobody-has-this-name\nprofile = p\n", &complaints);

		check(c->n_rules == 1 && c->rules[0].uid.n == 1);
		check_complaint(&complaints,
				"x.conf:1: [assign a]: no user 'nobody-has-this-name'");
		config_free(c);
	}
}

/* Only where nothing is given: what has errors now and was applied before still gives that. */
TEST(profiles_that_are_missing)
{
	static const char *const expected[] = {
		"x.conf:3: warning: there is no profile 'pcie', did you mean 'pcie8'; new jobs get "
		"nothing from it",
		"x.conf:6: warning: there is no profile 'gone'; jobs of this rule get nothing",
		"x.conf:12: warning: profile 'broken' has errors, and no version of it is in "
		"force; jobs of this rule get nothing",
	};
	struct words complaints = {0}, missing = {0};
	struct profile good = {.name = (char *)"pcie8", .valid = true},
		       broken = {.name = (char *)"broken"}, old = {.name = (char *)"old"};
	struct profile *profiles[] = {&broken, &old, &good};
	const struct profile_set set = {profiles, ARRAY_SIZE(profiles)};
	struct active a = {0};
	struct config *c = parse("[cudaenvd]\n\nprofile = pcie\n"
				 "[assign a]\nuser = 1\nprofile = gone\n"
				 "[assign b]\nuser = 2\nprofile = old\n"
				 "[assign c]\nuser = 3\nprofile = broken\n"
				 "[assign d]\nuser = 4\nprofile = none\n"
				 "[assign e]\nuser = 5\nprofile = pcie8\n",
				 &complaints);

	check(complaints.n == 0 && c->n_rules == 5);
	check(active_set_applied(
		      &a, "old",
		      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef") == 0);
	check(config_missing(c, &set, &a, &missing) == 0 && missing.n == ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		check_streq(missing.items[i], expected[i]);
	words_done(&missing);
	config_free(c);

	c = parse("[cudaenvd]\nprofile = auto\n", &complaints);
	check(config_missing(c, &set, &a, &missing) == 0 && missing.n == 0);
	config_free(c);
	active_done(&a);
}

/* The system's layout in the temporary directory: etc over run over lib. */
static int load(struct config **ret, struct words *complaints)
{
	struct paths paths = {.config = temp_dir};

	paths.drop_ins[0] = strdup(temp_path("cudaenvd.conf.d"));
	paths.drop_ins[1] = strdup(temp_path("run.d"));
	paths.drop_ins[2] = strdup(temp_path("lib.d"));
	int r = config_load(&paths, ret, complaints);

	for (int i = 0; i < 3; i++)
		free(paths.drop_ins[i]);
	return r;
}

TEST(drop_ins)
{
	struct words complaints = {0};
	struct config *c = NULL;

	temp_begin();
	check(load(&c, &complaints) == 0 && complaints.n == 0);
	config_free(c);

	check(mkdir(temp_path("cudaenvd.conf.d"), 0755) == 0);
	temp_put(temp_path("cudaenvd.conf"),
		 "[cudaenvd]\nprofile = one\n[assign a]\nuser = 1\nprofile = p\n"
		 "[assign b]\nuser = 2\nprofile = p\n");
	temp_put(temp_path("cudaenvd.conf.d/20-late.conf"), "[cudaenvd]\nprofile = three\n");
	temp_put(temp_path("cudaenvd.conf.d/10-early.conf"),
		 "[cudaenvd]\nprofile = two\nwrong = 1\n[assign a]\nuser = 7\nprofile = q\n");
	temp_put(temp_path("cudaenvd.conf.d/30-not.conf~"), "[cudaenvd]\nprofile = four\n");
	temp_put(temp_path("cudaenvd.conf.d/.hidden.conf"), "[cudaenvd]\nprofile = five\n");
	check(load(&c, &complaints) == 0);
	check(complaints.n == 1 &&
	      strstr(complaints.items[0], "10-early.conf:3: unknown key 'wrong'"));
	words_done(&complaints);
	check_streq(c->profile, "three");
	check(c->n_rules == 2);
	check_streq(c->rules[0].name, "a"); /* replaced in its place */
	check_streq(c->rules[0].profile, "q");
	check_streq(c->rules[0].uid.items[0], "7");
	config_free(c);
}

/* The operator's directory hides files of the same name in the others, all are read by name, and
 * /dev/null masks. */
TEST(precedence_of_drop_ins)
{
	struct words complaints = {0};
	struct config *c = NULL;

	check(mkdir(temp_path("run.d"), 0755) == 0 && mkdir(temp_path("lib.d"), 0755) == 0);
	temp_put(temp_path("lib.d/20-late.conf"), "[cudaenvd]\nwrong = hidden by the operator's\n");
	temp_put(temp_path("lib.d/50-masked.conf"), "[cudaenvd]\nprofile = masked\n");
	temp_put(temp_path("run.d/40-run.conf"), "[cudaenvd]\napply_on_change = yes\n");
	temp_put(temp_path("lib.d/40-run.conf"), "[cudaenvd]\nprofile = hidden\n");
	temp_put(temp_path("lib.d/15-vendor.conf"),
		 "[cudaenvd]\nprofile = vendor\n[jobs]\nboundaries = vendors\n");
	check(symlink("/dev/null", temp_path("cudaenvd.conf.d/50-masked.conf")) == 0);
	check(unlink(temp_path("cudaenvd.conf.d/10-early.conf")) == 0);
	check(load(&c, &complaints) == 0 && complaints.n == 0);
	check_streq(c->profile, "three"); /* of 20-late.conf, after 15-vendor.conf */
	check(c->apply_on_change && words_contain(&c->boundaries, "vendors"));
	config_free(c);

	/* The main file may be masked as well. */
	check(rename(temp_path("cudaenvd.conf"), temp_path("kept")) == 0);
	check(symlink("/dev/null", temp_path("cudaenvd.conf")) == 0);
	check(load(&c, &complaints) == 0 && complaints.n == 0 && c->n_rules == 0);
	config_free(c);
	check(rename(temp_path("kept"), temp_path("cudaenvd.conf")) == 0);
}

TEST(unreadable_and_too_large)
{
	struct words complaints = {0};
	struct config *c = NULL;
	_cleanup_(freep) char *path = strdup(temp_path("cudaenvd.conf.d/60-large.conf"));
	char *line = malloc(1 << 20);

	check(line != NULL);
	memset(line, 'x', 1 << 20);
	memcpy(line, "[cudaenvd]\nprofile = ", 21);
	line[(1 << 20) - 1] = '\0';
	temp_put(path, line); /* a line beyond what a line may be, in a file that may be read */
	check(load(&c, &complaints) == 0);
	check_streq(c->profile, "three");
	check(complaints.n == 1 && strstr(complaints.items[0], "60-large.conf:2:"));
	words_done(&complaints);
	config_free(c);

	{
		FILE *f = fopen(path, "ae");

		check(f && fputs("xx", f) >= 0 && fclose(f) == 0);
	}
	check(load(&c, &complaints) == 0);
	check(complaints.n == 1 &&
	      strstr(complaints.items[0],
		     "60-large.conf:0: cannot be read: it is larger than 1 MiB"));
	words_done(&complaints);
	config_free(c);
	free(line);

	check(unlink(path) == 0 && mkdir(path, 0755) == 0);
	check(load(&c, &complaints) == 0);
	check(complaints.n == 1 && strstr(complaints.items[0], "60-large.conf:0: cannot be read"));
	words_done(&complaints);
	config_free(c);
	check(rmdir(path) == 0 && symlink("nowhere", path) == 0);
	check(load(&c, &complaints) == 0);
	check(complaints.n == 1 &&
	      strstr(complaints.items[0], "60-large.conf:0: cannot be read: No such file"));
	words_done(&complaints);
	config_free(c);
	check(unlink(path) == 0);
	if (geteuid() == 0)
		return;
	check(chmod(temp_path("cudaenvd.conf.d/20-late.conf"), 0) == 0);
	check(load(&c, &complaints) == 0 && complaints.n == 1);
	check(strstr(complaints.items[0], "20-late.conf:0: cannot be read: Permission denied"));
	words_done(&complaints);
	config_free(c);
	check(chmod(temp_path("cudaenvd.conf.d/20-late.conf"), 0644) == 0);
}

TEST(strange_files)
{
	struct words complaints = {0};
	struct config *c = NULL;
	const char *path = temp_path("cudaenvd.conf");

	check(unlink(path) == 0 && mkfifo(path, 0644) == 0);
	check(load(&c, &complaints) == 0); /* returns at all */
	check(complaints.n >= 1 && strstr(complaints.items[0], "cudaenvd.conf:0: cannot be read"));
	check_streq(c->profile, "three");
	words_done(&complaints);
	config_free(c);
	check(unlink(path) == 0 && symlink("cudaenvd.conf.d/20-late.conf", path) == 0);
	check(load(&c, &complaints) == 0);
	check(complaints.n == 0);
	words_done(&complaints);
	config_free(c);
}

TEST(compiled)
{
	static const char d1[] = "1111111111111111111111111111111111111111111111111111111111111111";
	static const char d2[] = "2222222222222222222222222222222222222222222222222222222222222222";
	static const gid_t gids[] = {5};
	_cleanup_(assign_freep) struct assign *a = NULL;
	_cleanup_(freep) char *text = NULL;
	struct active active = {.generation = 7, .mode = MODE_ON};
	struct assign_subject subject = {
		.uid = 1000, .gids = gids, .n_gids = 1, .unit = "v@1.service"};
	struct words complaints = {0}, digests = {0};
	const char *rule = NULL;
	struct config *c = parse("[assign v]\nunit = v@*.service\ngroup = 5\nprofile = fast\n"
				 "[assign lost]\nuser = 1\nprofile = unknown\n"
				 "[jobs]\nboundaries = !* edge\nsupervisors = !* s.service\n",
				 &complaints);
	size_t size;

	check(complaints.n == 0);
	strcpy(active.digest, d1);
	check(active_set_applied(&active, "fast", d2) == 0);
	check(compile(c, &active, &text, &size) == 0);
	check(assign_parse(text, size, &a, NULL) == 0);
	check(a->generation == 7 && a->mode == MODE_ON);
	check_streq(a->fallback, d1);
	check_streq(assign_choose(a, &subject, &rule), d2);
	check_streq(rule, "v");
	subject.unit = NULL;
	check_streq(assign_choose(a, &subject, &rule), d1);
	subject.uid = 1;
	check_streq(assign_choose(a, &subject, &rule), "");
	check(assign_is_boundary(a, "edge") && !assign_is_boundary(a, "sshd"));
	check(assign_is_supervisor(a, "s.service"));
	check(compile_rule_digests(text, &digests) == 0 && digests.n == 1);
	check_streq(digests.items[0], d2);
	words_done(&digests);
	active_done(&active);
	config_free(c);
}

/* Each rule tells where it stands, in the order in which they are asked. */
TEST(rules_tell_where_they_stand)
{
	static const char d1[] = "1111111111111111111111111111111111111111111111111111111111111111";
	struct active active = {.mode = MODE_ON, .profile = "base"};
	json_object *list = json_object_new_array();
	struct words complaints = {0};
	struct rules rules = {0};
	struct config *c = parse("# comment\n[cudaenvd]\nprofile = base\n\n[assign v]\n"
				 "unit = v@*.service w.service\nuser = 7\nprofile = fast\n"
				 "[assign n]\nuser = 1\nprofile = none\n",
				 &complaints);

	check(complaints.n == 0);
	check(active_set_applied(&active, "fast", d1) == 0);
	check(compile_rules(c, &active, &rules) == 0 && rules.n == 3);
	check(rules_to_json(&rules, list) == 0);
	check_streq(
		json_object_to_json_string_ext(list, JSON_C_TO_STRING_NOSLASHESCAPE),
		"[{\"name\":\"v\",\"profile\":\"fast\",\"digest\":"
		"\"1111111111111111111111111111111111111111111111111111111111111111\","
		"\"conditions\":[{\"kind\":\"unit\",\"value\":\"v@*.service\"},"
		"{\"kind\":\"unit\",\"value\":\"w.service\"},{\"kind\":\"uid\","
		"\"value\":\"7\"}],\"until\":null,\"file\":\"x.conf\",\"line\":5,"
		"\"by\":null,\"override\":null},"
		"{\"name\":\"n\",\"profile\":null,\"digest\":null,\"conditions\":"
		"[{\"kind\":\"uid\",\"value\":\"1\"}],\"until\":null,"
		"\"file\":\"x.conf\",\"line\":9,\"by\":null,\"override\":null},"
		"{\"name\":null,\"profile\":\"base\",\"digest\":null,\"conditions\":"
		"[],\"until\":null,\"file\":\"x.conf\",\"line\":3,\"by\":null,\"override\":null}]");
	rules_done(&rules);
	/* What somebody chose stands in no file. */
	active.chosen = true;
	check(compile_rules(c, &active, &rules) == 0 && !rules.items[2].file);
	rules_done(&rules);
	(void)json_object_put(list);
	active_done(&active);
	config_free(c);
}

/* More than the reader takes is refused here, not by every client. */
TEST(compiled_too_large)
{
	struct active active = {.mode = MODE_ON};
	struct words complaints = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct config *c;

	check(f && fputs("[jobs]\nboundaries =", f) >= 0);
	for (int i = 0; i < 1000; i++)
		fprintf(f, " word%d", i);
	check(fclose(f) == 0);
	c = parse(text, &complaints);
	free(text);
	text = NULL;
	check(complaints.n == 0);
	check(compile(c, &active, &text, &size) < 0 && !text);
	config_free(c);
}

TEST_MAIN
