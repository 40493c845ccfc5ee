/* SPDX-License-Identifier: MIT */
#ifndef CUDAENV_H
#define CUDAENV_H

/*
 * libcudaenv: gives the calling process the environment of its job's snapshot.
 *
 * A guest in the process: libc only, no constructor, no thread, no descriptor kept, no output, errno and signal state
 * untouched. No function here blocks longer than 10 ms.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happened to one variable of the snapshot. */
enum cudaenv_state {
	CUDAENV_SET = 1,         /* was absent, now has the snapshot's value */
	CUDAENV_ALREADY = 2,     /* had that value */
	CUDAENV_KEPT = 3,        /* the process's own value stays (or, for a group, one member's does, so none is set) */
	CUDAENV_REPLACED = 4,    /* had another value, replaced (force, or a former snapshot's value) */
	CUDAENV_REMOVED = 5,     /* removed (unset, or a former snapshot's variable) */
	CUDAENV_ABSENT_HERE = 6, /* toolkit that does not exist in this mount namespace */
	CUDAENV_TOO_LATE = 7,    /* LD_*, PYTHON*, ...: would act only in an exec, see cudaenvctl exec */
};

enum cudaenv_outcome {
	CUDAENV_APPLIED = 1,  /* the snapshot was applied */
	CUDAENV_NOTHING = 2,  /* mode off or observe, no profile, or a job pinned to none */
	CUDAENV_DISABLED = 3, /* CUDAENV_DISABLE=1, AT_SECURE */
	CUDAENV_AGAIN = 4,    /* this process has called cudaenv_start() before */
};

struct cudaenv_result;

int cudaenv_start(const char *runtime_dir, struct cudaenv_result **ret);
void cudaenv_result_free(struct cudaenv_result *result);
enum cudaenv_outcome cudaenv_result_outcome(const struct cudaenv_result *result);
const char *cudaenv_result_digest(const struct cudaenv_result *result);
const char *cudaenv_result_profile(const struct cudaenv_result *result);
const char *cudaenv_result_job(const struct cudaenv_result *result);
int cudaenv_result_by_broker(const struct cudaenv_result *result);
size_t cudaenv_result_count(const struct cudaenv_result *result);
int cudaenv_result_variable(const struct cudaenv_result *result, size_t index, const char **ret_name,
			    const char **ret_value, enum cudaenv_state *ret_state);
const char *cudaenv_version(void);

#ifdef __cplusplus
}
#endif

#endif
