/* SPDX-License-Identifier: MIT */
#include "common/known.h"
#include "common/profile-names.h"
#include "common/profile.h"
#include "common/util.h"
#include "tests/unit/test.h"

TEST(the_table)
{
	const char *name;
	size_t n = 0;

	for (; (name = known_name(n)); n++) {
		check(known_family(name));
		/* Each is found, so each part is sorted; and is near nothing. */
		check(known_kind(name) != KNOWN_NOT);
		check(!known_near(name));
		/* No rule about secrets takes one that exists. */
		if (profile_name_is_secret(name))
			check_streq(name, "no secret");
	}
	check(n > 350 && !known_name(n) && !known_name(n + 1));
}

TEST(kinds)
{
	static const char *const others[] = {
		"CUDA_HOME",
		"CUDA_PATH",
		"CUDA_INJECTION64_PATH",
		"NCCL_NET_PLUGIN",
		"NCCL_TUNER_PLUGIN",
		"NCCL_ENV_PLUGIN",
		"NCCL_PROFILER_PLUGIN",
		"NCCL_CONF_FILE",
		"NCCL_DEBUG_FILE",
		"TRITON_PTXAS_PATH",
		"TRITON_LIBCUDA_PATH",
		"TRITON_CACHE_DIR",
		"TRITON_CACHE_MANAGER",
		"NCCL_COMM_ID",
		"NCCL_IBVERBS_LIB",
		"CUDA_CACHE_PATH",
		"TRITON_OVERRIDE_DIR",
		"CUDA_MPS_PIPE_DIRECTORY",
		"NCCL_TOPO_DUMP_FILE",
		"CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
	};

	static const char *const ends[] = {"_PATH", "_DIR", "_HOME",     "_PLUGIN",
					   "_FILE", "_LIB", "_DIRECTORY"};

	check(known_kind("NCCL_PROTO") == KNOWN_PLAIN);
	check(known_kind("TORCH_NCCL_BLOCKING_WAIT") == KNOWN_PLAIN);
	check(known_kind("TRITON_CACHE_MANAGER") == KNOWN_CODE);
	check(known_kind("NCCL_DEBUG_FILE") == KNOWN_PATH);
	check(known_kind("NCCL_DEBU") == KNOWN_NOT && known_kind("PATH") == KNOWN_NOT);
	check(known_kind("nccl_debug") == KNOWN_NOT && known_kind("") == KNOWN_NOT);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		check(known_kind(others[i]) != KNOWN_PLAIN && known_kind(others[i]) != KNOWN_NOT);
	/* No word that files go by is among the plain ones. */
	for (size_t i = 0; known_name(i); i++) {
		const char *s = known_name(i);
		size_t n = strlen(s);

		if (known_kind(s) != KNOWN_PLAIN)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(ends); k++)
			check(n < strlen(ends[k]) || !streq(s + n - strlen(ends[k]), ends[k]));
	}
}

static void near_is(const char *name, const char *want)
{
	const char *near = known_near(name);

	check_streq(near ? near : "-", want ? want : "-");
}

TEST(slips)
{
	near_is("NCCL_DEBGU", "NCCL_DEBUG");
	near_is("NCCL_DEBUF", "NCCL_DEBUG");
	near_is("NCCL_PROTOS", "NCCL_PROTO");
	near_is("nccl_proto", "NCCL_PROTO");
	near_is("NCCL_P2P_LEVLE", "NCCL_P2P_LEVEL");
	near_is("TORCH_NCCL_BLOCKNG_WAIT", "TORCH_NCCL_BLOCKING_WAIT");
	near_is("TRITON_PTXAS_PAHT", "TRITON_PTXAS_PATH");
	near_is("CUDA_HOEM", "CUDA_HOME");
	near_is("CUDA_MODULE_LOADNIG", "CUDA_MODULE_LOADING");
	/* What a later release may have. */
	near_is("NCCL_FUSE_KERNELS", NULL);
	near_is("NCCL_IB_TIMEOUT_SCALE", NULL);
	near_is("NCCL_", NULL);
	near_is("NCCL", NULL);
	/* No family, or another. */
	near_is("CUDNN_HOME", NULL);
	near_is("DEBGU", NULL);
	near_is("", NULL);
}

/* `check` says where. */
TEST(the_finding)
{
	static const char text[] = "[env]\nNCCL_DEBUG = INFO\n[env.force]\n  NCCL_PRTO = LL\n"
				   "[env.unset]\nNCCL_ALOG =\n";
	_cleanup_(profile_freep) struct profile *p = NULL;
	_cleanup_(freep) char *line = NULL;

	check(profile_parse("p", "p.ini", text, strlen(text), NULL, &p) == 0);
	check(p->valid && p->findings.warnings == 2);
	check_streq(p->findings.items[0].rule, "unknown-name");
	check(finding_format(&p->findings.items[0], "p.ini", &line) == 0);
	check_streq(line, "p.ini:4:3: warning: NCCL_PRTO is no variable that cudaenv knows: "
			  "did you mean NCCL_PROTO?");
	check(p->findings.items[1].line == 6);
}

TEST_MAIN
