/* SPDX-License-Identifier: MIT */
#include "common/profile-names.h"

#include <ctype.h>

#include "common/util.h"

/* Exact names, and prefixes where the last character is '*'. */
static bool in_table(const char *name, const char *const *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t size = strlen(table[i]);

		if (table[i][size - 1] == '*') {
			if (strncmp(name, table[i], size - 1) == 0)
				return true;
		} else if (streq(name, table[i])) {
			return true;
		}
	}
	return false;
}

static bool ends_with(const char *name, size_t size, const char *word)
{
	size_t n = strlen(word);

	return size >= n && strncasecmp(name + size - n, word, n) == 0;
}

bool profile_name_is_secret(const char *name)
{
	/* TOKEN at the end, not TOKENIZERS_PARALLELISM and not HF_TOKEN_PATH, which name no secret
	 * itself. */
	static const char *const words[] = {
		"TOKEN",      "SECRET",        "PASSWORD",   "PASSWD",      "PASSPHRASE",
		"API_KEY",    "APIKEY",        "ACCESS_KEY", "PRIVATE_KEY", "ACCESS_KEY_ID",
		"SECRET_KEY", "SIGNING_KEY",   "AUTH_KEY",   "SSH_KEY",     "ENCRYPTION_KEY",
		"_PWD",       "AUTHORIZATION", "BEARER",     "WANDB_KEY",   "_PASS",
		"_AUTH",      "COOKIE",        "COOKIES",    "_CREDENTIAL", "_CREDENTIALS",
	};
	size_t size = strlen(name), n = size;

	while (n > 0 && isdigit((unsigned char)name[n - 1]))
		n--;
	if (n < size && n > 0 && name[n - 1] == '_')
		n--; /* HF_TOKEN_2, like HF_TOKEN2 */
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (ends_with(name, n, words[i]))
			return true;
	return false;
}

/* What stands between AT, which is behind "://", and the path is USER:PASSWORD@HOST. */
static bool has_password(const char *at)
{
	size_t size = strcspn(at, "/?# \t");
	const char *colon = memchr(at, ':', size), *host = memrchr(at, '@', size);

	return colon && host && colon + 1 < host;
}

bool profile_value_is_secret(const char *value)
{
	for (const char *s = value; (s = strstr(s, "://"));) {
		s += strlen("://");
		if (has_password(s))
			return true;
	}
	return false;
}

bool profile_name_is_reserved(const char *name)
{
	static const char *const names[] = {
		/* which GPUs: the scheduler and the container runtime */
		"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
		"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
		/* which rank: launchers */
		"RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME",
		"WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE",
		"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*", "OMPI_COMM_*", "OMPI_UNIVERSE_SIZE",
		"PMI_*", "PMIX_*", "PRTE_*", "MV2_COMM_*", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"PALS_*", "FLUX_*", "JSM_NAMESPACE_*",
		/* which job: schedulers */
		"SLURM_*", "SLURMD_*", "PBS_*", "LSB_*", "SGE_TASK_ID", "JOB_ID",
		"JOB_COMPLETION_INDEX", "KUBERNETES_*", "RAY_JOB_ID",
		/* which person, terminal or service: login and service manager */
		"HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "TERM",
		"HOSTNAME", "DISPLAY", "SSH_*", "XDG_RUNTIME_DIR", "XDG_SESSION_*",
		"DBUS_SESSION_BUS_ADDRESS", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
		"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM",
		"MAINPID", "MANAGERPID", "CREDENTIALS_DIRECTORY"};

	return in_table(name, names, ARRAY_SIZE(names));
}

bool profile_name_is_own(const char *name)
{
	return startswith(name, "CUDAENV_");
}

bool profile_name_is_search_path(const char *name)
{
	static const char *const names[] = {
		"PATH",  "LD_LIBRARY_PATH", "LIBRARY_PATH",       "PYTHONPATH",
		"CPATH", "C_INCLUDE_PATH",  "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH",
	};

	return in_table(name, names, ARRAY_SIZE(names));
}

bool profile_name_is_one_path(const char *name)
{
	static const char *const names[] = {
		"CUDA_HOME",
		"CUDA_PATH",
		"CUDA_ROOT",
		"CUDA_CACHE_PATH",
		"CUDA_MPS_PIPE_DIRECTORY",
		"CUDA_MPS_LOG_DIRECTORY",
		"CUDNN_HOME",
		"NCCL_HOME",
		"TRITON_PTXAS_PATH",
		"TRITON_PTXAS_BLACKWELL_PATH",
		"TRITON_CUOBJDUMP_PATH",
		"TRITON_NVDISASM_PATH",
		"TRITON_LIBDEVICE_PATH",
		"TRITON_CACHE_DIR",
		"TRITON_HOME",
		"VLLM_NCCL_SO_PATH",
		"VLLM_CUDART_SO_PATH",
	};

	return in_table(name, names, ARRAY_SIZE(names));
}
