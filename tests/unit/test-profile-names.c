/* SPDX-License-Identifier: MIT */
#include "common/profile-names.h"
#include "common/util.h"
#include "tests/unit/test.h"

TEST(secrets)
{
	static const char *const yes[] = {
		"HF_TOKEN",          "TOKEN",           "GITHUB_TOKEN",
		"OPENAI_API_KEY",    "WANDB_API_KEY",   "AWS_SECRET_ACCESS_KEY",
		"AWS_ACCESS_KEY_ID", "PGPASSWORD",      "MYSQL_PWD",
		"DB_PASSWD",         "db_password",     "CLIENT_SECRET",
		"SSH_PRIVATE_KEY",   "HF_TOKEN_2",      "API_KEY3",
		"KEY_PASSPHRASE",    "DB_PASS",         "SMTP_PASS_1",
		"HF_AUTH",           "SESSION_COOKIE",  "REGISTRY_CREDENTIALS",
		"AWS_CREDENTIAL",    "TLS_PRIVATE_KEY", "db_pwd",
	};
	static const char *const no[] = {
		"TOKENIZERS_PARALLELISM",
		"HF_TOKEN_PATH",
		"VLLM_MAX_NUM_BATCHED_TOKENS",
		"NCCL_PROTO",
		"PWD",
		"OLDPWD",
		"A",
		"KEY",
		"AWS_WEB_IDENTITY_TOKEN_FILE",
		"SECRETS_DIR",
		"_",
		"2",
		"NCCL_KEY",
		"BYPASS",
		"COMPASS",
		"GIT_ASKPASS",
		"XAUTHORITY",
		"AUTHOR",
		"CREDENTIALS_DIR",
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!profile_name_is_secret(yes[i]))
			check_streq(yes[i], "refused");
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (profile_name_is_secret(no[i]))
			check_streq(no[i], "accepted");
}

TEST(values_with_passwords)
{
	static const char *const yes[] = {
		"http://user:pass@proxy:3128",   "redis://:pass@host/0", "postgres://u:p@h",
		"a,https://h/x,https://u:p@h/x", "http://u:p:q@h",       "http://u:p@q@h:1",
	};
	static const char *const no[] = {
		"",
		"http://proxy:3128",
		"https://user@host:80/",
		"https://host/a:b@c",
		"https://host?x=a:b@c",
		"https://u:@host",
		"://",
		"user:pass@host",
		"tcp://10.0.0.1:80",
		"expandable_segments:True",
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!profile_value_is_secret(yes[i]))
			check_streq(yes[i], "refused");
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (profile_value_is_secret(no[i]))
			check_streq(no[i], "accepted");
}

TEST(reserved)
{
	check(profile_name_is_reserved("CUDA_VISIBLE_DEVICES"));
	check(profile_name_is_reserved("RANK"));
	check(profile_name_is_reserved("MASTER_ADDR"));
	check(profile_name_is_reserved("SLURM_JOB_ID"));
	check(profile_name_is_reserved("TORCHELASTIC_RUN_ID"));
	check(profile_name_is_reserved("HOME"));
	check(!profile_name_is_reserved("CUDA_VISIBLE_DEVICES_X"));
	check(!profile_name_is_reserved("RANKS"));
	check(!profile_name_is_reserved("rank"));
	check(!profile_name_is_reserved("CUDA_DEVICE_ORDER"));
	check(!profile_name_is_reserved("NCCL_PROTO"));
	check(profile_name_is_own("CUDAENV_X") && !profile_name_is_own("CUDAENV"));
}

TEST_MAIN
