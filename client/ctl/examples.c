/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/examples.h"

#include "common/util.h"

#define EXAMPLES_MAX 2

static const struct {
	const char *verb;
	const char *lines[EXAMPLES_MAX];
} examples[] = {
	{"status", {"cudaenvctl status", "cudaenvctl status --json"}},
	{"list", {"cudaenvctl list", "cudaenvctl list --why --pid 4711"}},
	{"show", {"cudaenvctl show pcie8"}},
	{"diff", {"cudaenvctl diff pcie8", "cudaenvctl diff base ./mine.ini"}},
	{"check", {"cudaenvctl check mine.ini"}},
	{"on", {"cudaenvctl on --dry-run", "cudaenvctl on --reason \"observed for a week\""}},
	{"observe", {"cudaenvctl observe"}},
	{"off", {"cudaenvctl off --reason \"a job hangs\""}},
	{"use",
	 {"cudaenvctl use pcie8 --reason \"measured on node 7\"",
	  "cudaenvctl use pcie8 --user alice --for 2h"}},
	{"set", {"cudaenvctl set NCCL_DEBUG=INFO --unit vllm.service --for 30min"}},
	{"rollback", {"cudaenvctl rollback --dry-run"}},
	{"history", {"cudaenvctl history"}},
	{"workers", {"cudaenvctl workers --tree", "cudaenvctl workers --stale"}},
	{"why", {"cudaenvctl why 4711", "cudaenvctl why 4711 NCCL_DEBUG"}},
	{"release", {"cudaenvctl release 4711 --dry-run"}},
	{"exec",
	 {"cudaenvctl exec -p pcie8 -- python3 serve.py",
	  "cudaenvctl exec --dry-run -p pcie8 env"}},
	{"export",
	 {"eval \"$(cudaenvctl export --format sh)\"",
	  "cudaenvctl export -p pcie8 --format k8s >pcie8.json"}},
	{"import",
	 {"cudaenvctl import 4711 --as mine -o profile.ini", "cudaenvctl import nccl.conf"}},
	{"python", {"cudaenvctl python install", "cudaenvctl python install --all --dry-run"}},
	{"doctor", {"cudaenvctl doctor"}},
	{"help", {"cudaenvctl help use"}},
};

const char *ctl_example(const char *name, size_t i)
{
	for (size_t k = 0; i < EXAMPLES_MAX && k < ARRAY_SIZE(examples); k++)
		if (streq(examples[k].verb, name))
			return examples[k].lines[i];
	return NULL;
}
