/* SPDX-License-Identifier: MIT */
#ifndef CUDAENV_H
#define CUDAENV_H

/*
 * libcudaenv: gives the calling process the environment of its job's snapshot.
 *
 *     struct cudaenv_result *result = NULL;
 *
 *     if (cudaenv_start(NULL, &result) == 0 && cudaenv_result_outcome(result) == CUDAENV_APPLIED)
 *             ...                              getenv() now sees the job's variables
 *     cudaenv_result_free(result);
 *
 * Call it once, early: before libcuda, libcudart and libnccl read the environment. It is a guest in
 * the process: libc only, no constructor, no thread, no descriptor kept, nothing on standard output
 * or error, no signal raised or blocked, errno as it was. Without a daemon, a profile or rights it
 * does nothing, and says so only in its result.
 *
 * Threads: getenv() in other threads is safe while cudaenv_start() runs: the new environment is
 * built beside the old one, put in place by one atomic store to `environ`, and the old one is never
 * freed. setenv(), putenv() and unsetenv() in other threads at that moment are not safe (as they
 * never are). A result may be read by several threads at once; it must be freed by one. No function
 * here may be called from a signal handler. cudaenv_start() needs 64 KiB of stack.
 *
 * Errors are negative errno values; no function sets errno. Strings are bytes (in no certain
 * encoding), NUL-terminated, owned by the result and valid until cudaenv_result_free().
 *
 * Compatibility: functions and enumerators are added, never changed or removed; new enumerators may
 * appear in answers.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CUDAENV_PUBLIC __attribute__((visibility("default")))
#else
#define CUDAENV_PUBLIC
#endif

/* What happened to one variable. */
enum cudaenv_state {
	/* It was absent and now has the snapshot's value. */
	CUDAENV_SET = 1,
	/* It had that value. */
	CUDAENV_ALREADY = 2,
	/* The process's own value stays, or its absence where a program deleted the variable. Of a
	 * group: one member has a value of its own, so none is set. */
	CUDAENV_KEPT = 3,
	/* It had another value and was replaced: by force, or because that was a former snapshot's;
	 * or it is a list that was extended. */
	CUDAENV_REPLACED = 4,
	/* It was removed: by unset, or because it was a former snapshot's. */
	CUDAENV_REMOVED = 5,
	/* It is of a toolkit that does not exist in this mount namespace. */
	CUDAENV_ABSENT_HERE = 6,
	/* LD_*, PYTHON*, MALLOC_*, GLIBC_TUNABLES: it would act only in an exec (cudaenvctl exec).
	 */
	CUDAENV_TOO_LATE = 7,
};

enum cudaenv_outcome {
	/* The snapshot is in force, also where every variable already stood. */
	CUDAENV_APPLIED = 1,
	/* Mode off or observe, no profile, no cudaenv on this node, or a job pinned to none. */
	CUDAENV_NOTHING = 2,
	/* CUDAENV_DISABLE=1, or the process is AT_SECURE (set-user-ID and the like). */
	CUDAENV_DISABLED = 3,
	/* cudaenv_start() was called before in this process, or in the one it was forked from. */
	CUDAENV_AGAIN = 4,
};

/* What became of CUDAENV_REQUIRE, by which a launcher asks for one snapshot, or one rank digest, on
 * all nodes of a job. */
enum cudaenv_required {
	/* It is not in the environment, or the mode is off or observe. */
	CUDAENV_NOT_REQUIRED = 0,
	/* The snapshot that was applied is that one, or has that rank digest. */
	CUDAENV_MET = 1,
	/* It is not: the node has none such, or the value is no digest. */
	CUDAENV_UNMET = 2,
	/* Likewise, and the node's settings say on_mismatch = fail: a program should end, as the
	 * Python hook does, with a line on stderr and status 78 (EX_CONFIG). */
	CUDAENV_UNMET_FAILS = 3,
};

struct cudaenv_result;

/*
 * Finds the snapshot of the job that this process belongs to, applies it to the environment, and
 * registers the process.
 *
 * RUNTIME_DIR is a directory to look in before /run/cudaenv, or NULL. The environment variable
 * CUDAENV_RUNTIME_DIR comes before it. Only a directory owned by root or by the effective user, and
 * writable by nobody else, is believed.
 *
 * The snapshot's name comes from the broker (SOCK_SEQPACKET socket in that directory) or, where no
 * answer has come within 8 ms, where there is no broker, or where a seccomp filter is in force,
 * from the published files by the same rules. The values come from the published file of that name,
 * whose digest is proved; from the socket, proved as well, only where that directory is not visible
 * or that file is damaged, and never for uid 0. With CUDAENV_DISABLE=1 in the environment nothing
 * is looked at.
 *
 * Blocks: 10 ms at most, whatever the broker does; the only files opened outside the runtime
 * directory are in /proc and /sys/fs/cgroup, and access(2) is asked about the profile's toolkit
 * directory if it has one.
 *
 * Returns 0, and in *RET (unless RET is NULL) a result to be freed with cudaenv_result_free().
 * Negative errno: the environment is as it was, *RET untouched; -ENOMEM, -EMFILE, or why the
 * published files could not be read or believed: -ENOENT, -EPERM, -EBADMSG, -EUCLEAN (damaged),
 * -EKEYREJECTED (not for root) and others. A caller need not tell them apart: the process goes on
 * without the variables. Later calls return 0 with CUDAENV_AGAIN.
 */
CUDAENV_PUBLIC int cudaenv_start(const char *runtime_dir, struct cudaenv_result **ret);

/* Frees RESULT; NULL is accepted. The environment stays as it is. Never blocks. */
CUDAENV_PUBLIC void cudaenv_result_free(struct cudaenv_result *result);

/* What came of it. This and the functions below only read RESULT: none of them blocks. */
CUDAENV_PUBLIC enum cudaenv_outcome cudaenv_result_outcome(const struct cudaenv_result *result);

/* CUDAENV_NOT_REQUIRED also where the outcome is CUDAENV_DISABLED or CUDAENV_AGAIN. */
CUDAENV_PUBLIC enum cudaenv_required cudaenv_result_required(const struct cudaenv_result *result);

/* The snapshot's digest: 64 lower-case hex digits. "" unless the outcome is CUDAENV_APPLIED. */
CUDAENV_PUBLIC const char *cudaenv_result_digest(const struct cudaenv_result *result);

/* Name of the profile that the snapshot was made from. "" unless the outcome is CUDAENV_APPLIED. */
CUDAENV_PUBLIC const char *cudaenv_result_profile(const struct cudaenv_result *result);

/* Key of the job, as in the directory jobs/. "" if none was found, or in mode off. */
CUDAENV_PUBLIC const char *cudaenv_result_job(const struct cudaenv_result *result);

/* 1: the broker named the snapshot; 0: this process decided by the published files. */
CUDAENV_PUBLIC int cudaenv_result_by_broker(const struct cudaenv_result *result);

/* How many variables cudaenv_result_variable() knows: those of the snapshot, sorted by name, then
 * those of a former snapshot that were taken back. 0 unless the outcome is CUDAENV_APPLIED. */
CUDAENV_PUBLIC size_t cudaenv_result_count(const struct cudaenv_result *result);

/*
 * Variable number INDEX, from 0. Each of the three outputs may be NULL. *RET_VALUE is the value
 * that stood in the environment when cudaenv_start() returned, NULL if the variable was absent.
 * Returns 0, or -ERANGE with the outputs untouched.
 */
CUDAENV_PUBLIC int cudaenv_result_variable(const struct cudaenv_result *result, size_t index,
					   const char **ret_name, const char **ret_value,
					   enum cudaenv_state *ret_state);

/*
 * Walks over what changed in the environment, and over nothing else: for languages that keep a copy
 * of it, such as Python's os.environ. Includes CUDAENV_SNAPSHOT, CUDAENV_PROFILE and
 * CUDAENV_APPLIED, by which children know what was set. *CURSOR is 0 before the first call. Returns
 * 1 with the next name and its new value (NULL: the variable was removed), 0 at the end with the
 * outputs untouched. A name comes once.
 *
 *     size_t cursor = 0;
 *
 *     while (cudaenv_result_change(result, &cursor, &name, &value) > 0)
 *             ...
 */
CUDAENV_PUBLIC int cudaenv_result_change(const struct cudaenv_result *result, size_t *cursor,
					 const char **ret_name, const char **ret_value);

/* The library's version, such as "0.1.0": a static string. */
CUDAENV_PUBLIC const char *cudaenv_version(void);

#ifdef __cplusplus
}
#endif

#endif
