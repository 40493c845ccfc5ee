/* SPDX-License-Identifier: MIT */
/*
 * [toolkit]: one root directory becomes the variables by which programs find it, as one
 * together-group. Triton falls back to its own tools without a word where a path is not usable, so
 * a tool that the root does not have gets no variable.
 */
#include <sys/stat.h>

#include "common/profile-internal.h"
#include "common/util.h"

static const struct {
	const char *name;
	const char *below; /* the root */
	bool always;       /* every toolkit has it, else only where it is there */
} members[] = {
	{"CUDA_HOME", "", true},
	{"CUDA_PATH", "", true},
	{"TRITON_PTXAS_PATH", "/bin/ptxas", true},
	{"TRITON_PTXAS_BLACKWELL_PATH", "/bin/ptxas", true},
	{"TRITON_CUOBJDUMP_PATH", "/bin/cuobjdump", false},
	{"TRITON_NVDISASM_PATH", "/bin/nvdisasm", false},
	{"PATH", "/bin", true},
};

static int add_member(struct profile *p, const char *name, const char *path)
{
	struct profile_variable v = {
		.rule = SNAPSHOT_TOGETHER,
		.group = (char *)PROFILE_TOOLKIT_GROUP,
		.name = (char *)name,
		.value = (char *)path,
		.file = p->path,
		.line = p->toolkit_line,
		.column = 1,
	};

	return profile_add_variable(p, &v);
}

static int incomplete(struct profile *p, size_t i)
{
	return findings_add(&p->findings, FINDING_WARNING, p->toolkit_line, 1, "toolkit-incomplete",
			    members[i].name, "install the toolkit's compiler package",
			    "the toolkit has no usable %s: %s is not set", members[i].below + 1,
			    members[i].name);
}

/* A root that is not THERE may be in a process's own mount namespace: it gets what every toolkit
 * has. */
static int add_members(struct profile *p, bool there)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(members); i++) {
		_cleanup_(freep) char *path = NULL;
		bool is_root = members[i].below[0] == '\0';

		if (asprintf(&path, "%s%s", p->toolkit_root, members[i].below) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (is_root || access(path, X_OK) == 0 || (!there && members[i].always))
			r = add_member(p, members[i].name, path);
		else if (members[i].always)
			r = incomplete(p, i);
	}
	return r;
}

int profile_toolkit(struct profile *p)
{
	struct stat st;
	bool there;
	int r = 0;

	if (!p->toolkit_root)
		return 0;
	there = stat(p->toolkit_root, &st) == 0;
	if (there && !S_ISDIR(st.st_mode))
		return findings_add(&p->findings, FINDING_ERROR, p->toolkit_line, 1, "toolkit-root",
				    NULL, "write root = /usr/local/cuda-13.0",
				    "the toolkit's root is not a directory");
	if (!there)
		r = findings_add(&p->findings, FINDING_WARNING, p->toolkit_line, 1, "toolkit-root",
				 NULL, "install it, or correct the path",
				 "the toolkit's root is not on this node: its variables are set "
				 "only where a process sees it");
	return r < 0 ? r : add_members(p, there);
}
