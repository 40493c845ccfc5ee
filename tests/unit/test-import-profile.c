/* SPDX-License-Identifier: MIT */
/* From a list to a profile: groups, what is left out, and that the text is always a good profile
 * with the very values. */
#include "client/ctl/import-profile.h"
#include "tests/unit/test.h"

#include "common/util.h"

static struct import im;
static struct import_profile made;
static struct profile *parsed;
static struct facts *facts;

static void make(enum import_kind kind, bool process, const char *text, size_t size)
{
	struct import_profile_options options = {
		.name = "p", .source = "F", .kind = kind, .process = process, .facts = facts};

	import_profile_done(&made);
	import_done(&im);
	parsed = parsed ? profile_free(parsed) : NULL;
	if (!facts) {
		char path[4096];

		snprintf(path, sizeof path, "%s/etc/facts/must-match", getenv("SRCDIR"));
		check(facts_load(path, &facts) == 0);
		options.facts = facts;
	}
	check(import_begin_file(&im, "F") == 0);
	check(import_read(&im, kind, text, size) == 0);
	check(import_profile_make(&im, &options, &made) == 0);
	check(profile_parse("p", "p", made.text, strlen(made.text), NULL, &parsed) == 0);
	check(parsed->valid);
	for (size_t i = 0; i < made.n_chosen; i++)
		check(made.chosen[i].group || made.chosen[i].line > 0);
}

static void make_text(enum import_kind kind, const char *text)
{
	make(kind, false, text, strlen(text));
}

/* "default VALUE", "nccl VALUE" (a group), or "absent" */
static const char *at(const char *name)
{
	static char shown[4096];

	for (size_t i = 0; i < parsed->n_variables; i++) {
		const struct profile_variable *v = &parsed->variables[i];

		if (!streq(v->name, name))
			continue;
		(void)snprintf(shown, sizeof shown, "%s %s",
			       v->group ? v->group : snapshot_rule_name(v->rule), v->value);
		return shown;
	}
	return "absent";
}

static bool noted(const char *name, const char *reason)
{
	for (size_t i = 0; i < im.n_notes; i++)
		if (strstr(im.notes[i].reason, reason) &&
		    (!name ? !im.notes[i].name : im.notes[i].name && streq(im.notes[i].name, name)))
			return strstr(made.text, reason) != NULL;
	return false;
}

TEST(seed)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	size_t size = 0;
	FILE *f;

	check(asprintf(&path, "%s/tests/data/import/sitecustomize.py", getenv("SRCDIR")) > 0);
	f = fopen(path, "re");
	check(f && getdelim(&text, &size, '\0', f) > 0 && fclose(f) == 0);
	make_text(IMPORT_PYTHON, text);
	check(made.n_chosen == 8);
	check_streq(at("NCCL_PROTO"), "nccl LL");
	check_streq(at("NCCL_ALGO"), "nccl Ring");
	check_streq(at("NCCL_P2P_LEVEL"), "nccl SYS");
	check_streq(at("NCCL_MAX_NCHANNELS"), "nccl 16");
	check_streq(at("NCCL_BUFFSIZE"), "nccl 16777216");
	check_streq(at("NCCL_NTHREADS"), "nccl 512");
	/* [toolkit] only where it gives both on this machine. */
	check(streq(at("CUDA_HOME"), made.toolkit_root ? "toolkit /usr/local/cuda-13.0"
						       : "default /usr/local/cuda-13.0"));
	check(streq(at("TRITON_PTXAS_PATH"), made.toolkit_root
						     ? "toolkit /usr/local/cuda-13.0/bin/ptxas"
						     : "default /usr/local/cuda-13.0/bin/ptxas"));
	check(strstr(made.text, "\n# F:5\nNCCL_PROTO = LL\n"));
}

TEST(rules)
{
	make_text(IMPORT_PYTHON, "os.environ['NCCL_ALGO'] = 'Ring'\nos.environ['NCCL_PROTO'] = ''\n"
				 "os.environ.setdefault('A', 'b')\nos.environ.pop('C')\n");
	check_streq(at("NCCL_ALGO"), "force Ring");
	check_streq(at("NCCL_PROTO"), "force ");
	check_streq(at("A"), "default b");
	check_streq(at("C"), "unset ");
}

TEST(together)
{
	make_text(IMPORT_ENV, "NCCL_ALGO=Ring\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth0\n");
	check_streq(at("NCCL_ALGO"), "default Ring");
	make_text(IMPORT_ENV, "NCCL_ALGO=Ring\nNCCL_DEBUG=WARN\nNCCL_PROTO=LL\n");
	check_streq(at("NCCL_ALGO"), "nccl Ring");
	check_streq(at("NCCL_DEBUG"), "default WARN");
}

TEST(toolkit)
{
	/* A root that is not on this node has what every toolkit has. */
	make_text(IMPORT_ENV, "CUDA_HOME=/nonexistent/cuda\nCUDA_PATH=/nonexistent/cuda\n"
			      "TRITON_PTXAS_PATH=/nonexistent/cuda/bin/ptxas\n");
	check_streq(made.toolkit_root, "/nonexistent/cuda");
	check_streq(at("CUDA_PATH"), "toolkit /nonexistent/cuda");
	check_streq(at("TRITON_PTXAS_PATH"), "toolkit /nonexistent/cuda/bin/ptxas");
	make_text(IMPORT_PYTHON, "os.environ['CUDA_HOME'] = '/nonexistent'\n"
				 "os.environ['CUDA_PATH'] = '/nonexistent'\n");
	check_streq(made.toolkit_root, "/nonexistent");
	check(parsed->toolkit_force);
	/* One that it would not give; two that differ; one alone; two rules; not absolute. */
	static const char *const none[] = {
		"CUDA_HOME=/nonexistent\nTRITON_NVDISASM_PATH=/nonexistent/bin/nvdisasm\n",
		"CUDA_HOME=/nonexistent/a\nCUDA_PATH=/nonexistent/b\n",
		"CUDA_HOME=/nonexistent\n",
		"CUDA_HOME=/nonexistent/\nCUDA_PATH=/nonexistent/\n",
		"CUDA_HOME=x\nCUDA_PATH=x\n",
		"CUDA_HOME=/dev/null\nCUDA_PATH=/dev/null\n",
		"CUDA_HOME=/\nCUDA_PATH=/\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		make_text(IMPORT_ENV, none[i]);
		check(!made.toolkit_root);
		check(strncmp(at("CUDA_HOME"), "default ", 8) == 0);
	}
	make_text(IMPORT_PYTHON, "os.environ['CUDA_HOME'] = '/nonexistent'\n"
				 "os.environ.setdefault('CUDA_PATH', '/nonexistent')\n");
	check(!made.toolkit_root);
	check_streq(at("CUDA_HOME"), "force /nonexistent");
}

TEST(left_out)
{
	make_text(IMPORT_PYTHON,
		  "e = os.environ\ne['HF_TOKEN'] = 'hunter2'\ne['CUDA_VISIBLE_DEVICES'] = '0'\n"
		  "e['A'] = ' b'\ne['B'] = 'b\\nC = d'\ne['D'] = '\\udcff'\ne['E'] = '\\x1b'\n"
		  "e['CUDAENV_DISABLE'] = '1'\ne['PATH'] = '/bin:'\ne['CUDA_HOME'] = '/a:/b'\n"
		  "e['F'] = 'good'\n");
	check(made.n_chosen == 1);
	check_streq(at("F"), "force good");
	check(noted("HF_TOKEN", "secret") && !strstr(made.text, "hunter2"));
	check(noted("CUDA_VISIBLE_DEVICES", "belongs to the scheduler"));
	check(noted("A", "begins or ends with a blank"));
	check(noted("B", "several lines"));
	check(noted("D", "not UTF-8"));
	check(noted("E", "control character"));
	check(noted("CUDAENV_DISABLE", "cudaenv's own"));
	check(noted("PATH", "empty element"));
	check(noted("CUDA_HOME", "one path"));
}

TEST(process)
{
	static const char block[] = "HOME=/root\0NCCL_ALGO=Ring\0CUDA_HOME=/x\0TORCH_NCCL_A=b\0"
				    "TRITON_A=b\0CUDA_VISIBLE_DEVICES=0\0NCCL_SECRET=hunter2\0"
				    "VLLM_NCCL_SO_PATH=/y\0CUDAENV_PROFILE=old\0EDITOR=vi";

	make(IMPORT_ENV, true, block, sizeof block);
	check(made.n_chosen == 5 && made.n_others == 3);
	check_streq(at("NCCL_ALGO"), "default Ring");
	check_streq(at("VLLM_NCCL_SO_PATH"), "default /y");
	check_streq(at("HOME"), "absent");
	check(noted("CUDA_VISIBLE_DEVICES", "belongs to the scheduler"));
	check(noted("NCCL_SECRET", "secret") && !strstr(made.text, "hunter2"));
	check(strstr(made.text, "profile old set"));
	check(strstr(made.text, "3 other variables"));
}

TEST(nothing)
{
	make_text(IMPORT_PYTHON, "import os\n");
	check(made.n_chosen == 0 && strstr(made.text, "[profile]"));
}

/* Names and values up to the limits of a profile, and beyond. */
TEST(large)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	check(f);
	for (unsigned i = 0; i < 3; i++)
		fprintf(f, "V%u=%0*d\n", i, 100000, 0);
	fprintf(f, "TOO_LONG=%0*d\n", 140000, 0);
	for (unsigned i = 0; i < 3000; i++)
		fprintf(f, "N%0*u=x\n", 500, i);
	check(fclose(f) == 0);
	make(IMPORT_ENV, false, text, size);
	check(made.n_chosen > 100 && noted("TOO_LONG", "longer than") &&
	      strstr(made.text, "too large with it"));
	check(strlen(at("V0")) > 100000 || at("V0")[0] == 'd');
}

/* A name of a file with anything in it stays in its comment. */
TEST(file_names)
{
	struct import_profile_options options = {
		.name = "p", .source = "a\nb = c\\", .kind = IMPORT_ENV, .facts = facts};

	import_profile_done(&made);
	import_done(&im);
	parsed = parsed ? profile_free(parsed) : NULL;
	check(import_begin_file(&im, "x\n[env]\nA = c\xff\\") == 0);
	check(import_env(&im, "B=d\nno\n", 7) == 0);
	check(import_profile_make(&im, &options, &made) == 0);
	check(profile_parse("p", "p", made.text, strlen(made.text), NULL, &parsed) == 0);
	check(parsed->valid && parsed->n_variables == 1);
	check_streq(at("B"), "default d");
	import_profile_done(&made);
	import_done(&im);
	parsed = profile_free(parsed);
	facts = facts_free(facts);
}

TEST_MAIN
