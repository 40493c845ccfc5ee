/* SPDX-License-Identifier: MIT */
/*
 * What the manager reads of its own files and of its settings; the first byte says which. What
 * parses is written again as it was, and settings of any bytes, if not too many, give rules that
 * clients take.
 */
#undef NDEBUG
#include <assert.h>

#include "common/profile-derive.h"
#include "common/util.h"
#include "daemon/manager/compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct config no_settings = {.profile = (char *)"none"};

static void ask_overrides(const struct overrides *all)
{
	struct overrides copy;

	assert(overrides_copy(all, &copy) == 0 && overrides_same(all, &copy));
	for (size_t i = 0; i < copy.n; i++) {
		_cleanup_(json_putp) json_object *o = json_object_new_object();
		_cleanup_(freep) char *shown = override_variables_text(&copy.items[i]);

		assert(shown && strlen(shown) <= 1000);
		assert(o && override_to_json(&copy.items[i], o) == 0);
	}
	overrides_remove_ended(&copy, overrides_first_end(&copy));
	overrides_done(&copy);
}

static void fuzz_active(const char *text, size_t size)
{
	struct active a;
	char *again = NULL;

	struct rules rules = {0};

	if (active_parse(text, size, &a) < 0)
		return;
	assert(active_format(&a, &again) == 0);
	active_done(&a);
	assert(active_parse(again, strlen(again), &a) == 0);
	ask_overrides(&a.overrides);
	if (compile_rules(&no_settings, &a, &rules) == 0)
		assert(rules.n >= 1 && rules.n <= ASSIGN_MAX_EACH + 1);
	rules_done(&rules);
	active_done(&a);
	free(again);
}

/* Assignments, one a line, over a snapshot that has some of those names. */
static void fuzz_derive(const char *text, size_t size)
{
	static const char base[] = "cudaenv-snapshot 1\nprofile p\nscope any\nforce A=1\n"
				   "unset B\nprepend C=/x\nappend C=/y\n";
	_cleanup_(freep) char *copy = strndup(text, size), *fault = NULL;
	_cleanup_(snapshot_freep) struct snapshot *s = NULL, *proof = NULL;
	_cleanup_(profile_freep) struct profile *p = NULL;
	const char *list[8];
	size_t n = 0;

	assert(copy && snapshot_parse(base, sizeof base - 1, &s) == 0);
	for (char *line = copy; line && n < ARRAY_SIZE(list); n++)
		list[n] = strsep(&line, "\n");
	if (derive_check(list, n, NULL, &fault) < 0) {
		assert(fault);
		return;
	}
	assert(!fault && derive_snapshot(s, list, n, NULL, &p) == 0 && p->valid);
	assert(snapshot_parse(p->snapshot_text, p->snapshot_size, &proof) == 0);
}

static void fuzz_history(const char *text, size_t size)
{
	_cleanup_(freep) char *line = strndup(text, size), *first = NULL, *second = NULL;
	struct history_entry e;

	assert(line);
	if (history_parse(line, &e) < 0)
		return;
	if (history_format(&e, &first) == 0) {
		history_entry_done(&e);
		assert(!strchr(first, '\n'));
		assert(history_parse(first, &e) == 0);
		assert(history_format(&e, &second) == 0 && streq(first, second));
	}
	history_entry_done(&e);
}

static void fuzz_config(const char *text, size_t size)
{
	static const struct active nothing = {.mode = MODE_OBSERVE};
	_cleanup_(config_freep) struct config *c = NULL;
	_cleanup_(freep) char *assign = NULL;
	struct words complaints = {0};
	struct rules rules = {0};
	size_t assign_size;
	int r;

	assert(config_new(&c) == 0);
	assert(config_parse(c, "x.conf", text, size, &complaints) == 0);
	assert(config_finish(c, &complaints) == 0);
	r = compile_rules(c, &nothing, &rules);
	if (r == 0)
		r = compile_assign(c, &nothing, &rules, &assign, &assign_size);
	assert(r == 0 || size > 800);
	rules_done(&rules);
	words_done(&complaints);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (size == 0)
		return 0;
	if (data[0] == 'a')
		fuzz_active(text, size - 1);
	else if (data[0] == 'd')
		fuzz_derive(text, size - 1);
	else if (data[0] == 'h')
		fuzz_history(text, size - 1);
	else
		fuzz_config(text, size - 1);
	return 0;
}
