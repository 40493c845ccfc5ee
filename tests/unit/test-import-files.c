/* SPDX-License-Identifier: MIT */
/*
 * Files as they are written by hand for serving and training nodes, tests/data/import: each becomes
 * the profile beside it (expected/), and each line of it that names a variable of these families is
 * taken or named.
 */
#include <ctype.h>

#include "client/ctl/import-profile.h"
#include "common/util.h"
#include "tests/unit/test.h"

static const struct {
	const char *file;
	enum import_kind kind;
	const char *silent[3]; /* lines with this are neither: they only read, or set for others */
} files[] = {
	{"sglang-sitecustomize.py",
	 IMPORT_PYTHON,
	 {"os.environ.get(\"SGLANG_DEBUG_NCCL\")", "CUDA_ROOT"}},
	{"vllm-helper.py", IMPORT_PYTHON, {NULL}},
	{"nccl-update.py", IMPORT_PYTHON, {"EXTRA[\"NCCL_NET\"]"}},
	{"launcher.py", IMPORT_PYTHON, {"child["}},
	{"tuning.pth", IMPORT_PYTHON, {NULL}},
	{"cuda.sh", IMPORT_SHELL, {"CUDA_VERSION"}},
	{"nccl-env.sh", IMPORT_SHELL, {NULL}},
	{"train.sbatch", IMPORT_SHELL, {NULL}},
	{"start-sglang.sh", IMPORT_SHELL, {NULL}},
	{"vllm.service", IMPORT_UNIT, {NULL}},
	{"sglang-override.conf", IMPORT_UNIT, {NULL}},
	{"nccl.conf", IMPORT_NCCL_CONF, {NULL}},
	{"docker.env", IMPORT_ENV, {NULL}},
};

/* NUL-terminated. */
static char *read_all(const char *below)
{
	_cleanup_(freep) char *path = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *f;

	check(asprintf(&path, "%s/tests/data/import/%s", getenv("SRCDIR"), below) > 0);
	f = fopen(path, "re");
	check(f && getdelim(&text, &size, '\0', f) > 0 && fclose(f) == 0);
	return text;
}

static bool is_note_line(const struct import *im, unsigned line)
{
	for (size_t i = 0; i < im->n_notes; i++)
		if (im->notes[i].line == line)
			return true;
	return false;
}

/* The next name of a known family in LINE, from *AT on. */
static char *next_name(const char *line, size_t *at)
{
	static const char *const families[] = {"NCCL_",   "CUDA_",   "TORCH_",  "TRITON_",  "VLLM_",
					       "SGLANG_", "GLOO_",   "OMP_",    "PYTORCH_", "HF_",
					       "MASTER_", "LD_LIBR", "HUGGING_"};

	for (; line[*at]; (*at)++) {
		size_t n = 0;

		if (*at > 0 && (isalnum((unsigned char)line[*at - 1]) || line[*at - 1] == '_'))
			continue;
		while (isupper((unsigned char)line[*at + n]) || line[*at + n] == '_' ||
		       isdigit((unsigned char)line[*at + n]))
			n++;
		for (size_t i = 0; i < ARRAY_SIZE(families); i++)
			if (strncmp(line + *at, families[i], strlen(families[i])) == 0) {
				*at += n;
				return strndup(line + *at - n, n);
			}
	}
	return NULL;
}

static void check_line(const struct import *im, const char *text, const char *file, char *line,
		       unsigned number, const char *const *silent)
{
	size_t at = 0;

	line[strcspn(line, "#")] = '\0';
	for (size_t i = 0; i < 3 && silent[i]; i++)
		if (strstr(line, silent[i]))
			return;
	for (char *name; (name = next_name(line, &at)); free(name)) {
		if (!strstr(text, name) && !is_note_line(im, number))
			fprintf(stderr, "%s:%u: %s is neither taken nor named\n", file, number,
				name);
		check(strstr(text, name) || is_note_line(im, number));
	}
}

static void check_lines(const struct import *im, const char *text, const char *file, char *source,
			const char *const *silent)
{
	unsigned number = 0;

	for (char *line; (line = strsep(&source, "\n"));)
		check_line(im, text, file, line, ++number, silent);
}

static void check_file(const struct facts *facts, size_t i)
{
	const char *file = files[i].file;
	struct import_profile_options options = {
		.name = "imported", .source = file, .kind = files[i].kind, .facts = facts};
	_cleanup_(freep) char *source = read_all(file), *below = NULL, *expected = NULL;
	struct import im = {0};
	struct import_profile made = {0};
	enum import_kind kind;

	check(import_begin_file(&im, file) == 0);
	if (strstr(file, ".pth")) {
		im.assignments_force = true;
		check(import_pth(&im, source, strlen(source)) == 0);
	} else {
		check(import_read(&im, files[i].kind, source, strlen(source)) == 0);
	}
	check(import_kind_guess(file, source, strlen(source), &kind) < 0 || kind == files[i].kind);
	check(import_profile_make(&im, &options, &made) == 0);
	check(asprintf(&below, "expected/%s.ini", file) > 0);
	expected = read_all(below);
	check_streq(made.text, expected);
	check_lines(&im, made.text, file, source, files[i].silent);
	import_profile_done(&made);
	import_done(&im);
}

TEST(files)
{
	_cleanup_(freep) char *path = NULL;
	struct facts *facts = NULL;

	check(asprintf(&path, "%s/etc/facts/must-match", getenv("SRCDIR")) > 0);
	check(facts_load(path, &facts) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		check_file(facts, i);
	(void)facts_free(facts);
}

TEST_MAIN
