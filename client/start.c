/* SPDX-License-Identifier: MIT */
/*
 * cudaenv_start() and the accessors of its result. The order of a start: runtime directory;
 * `assign` (mode off ends here, without a socket); the broker's word within 8 ms, or the same
 * decision from the files; the snapshot; the new environment by one store; the report. Nothing
 * stays behind but the new strings, which are never freed, because other threads may hold pointers
 * into them.
 */

#include "config.h"

#include <limits.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "client/apply.h"
#include "client/cudaenv.h"
#include "client/fetch.h"
#include "client/self.h"
#include "common/ranks.h"
#include "common/util.h"

#define WAIT_USEC 8000

/* In force where the tree is there and its rules are not yet (a unit early at boot): this job
 * begins without variables, so it is pinned to none and its later processes do not differ from it.
 */
#define NO_RULES "cudaenv-assign 1\ngeneration 0\nmode observe\ndefault none\nend\n"

extern char **environ;

struct cudaenv_result {
	enum cudaenv_outcome outcome;
	enum cudaenv_required required;
	bool by_broker;
	char key[JOB_KEY_SIZE];
	struct snapshot *snapshot; /* NULL unless applied */
	struct applied applied;
};

/* On the heap: a caller's thread may have a small stack. */
struct start {
	struct runtime rt;
	char path[PATH_MAX];
	struct assign *assign;   /* NULL: not to be read */
	const char *required;    /* CUDAENV_REQUIRE; NULL: not there */
	char token[DIGEST_SIZE]; /* what it stands for here */
	uint64_t deadline_nsec;
	struct fetch fetch;
	struct self self;
};

static struct start *start_free(struct start *s)
{
	if (!s)
		return NULL;
	fetch_done(&s->fetch);
	self_done(&s->self);
	(void)assign_free(s->assign);
	runtime_done(&s->rt);
	free(s);
	return NULL;
}

static void start_freep(struct start **s)
{
	*s = start_free(*s);
}

static void result_freep(struct cudaenv_result **r)
{
	cudaenv_result_free(*r);
}

/* A filter may kill who calls socket(2). */
static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
}

/* The snapshot DIGEST from its file. Over the socket only where the directory is not to be seen, or
 * where the publisher's file of that name is damaged: so a broker cannot bring in what was never
 * published. */
static int load(struct start *s, const char *digest, struct snapshot **ret)
{
	int r = snapshot_load(&s->rt, digest, ret);
	bool unseen = r < 0 && s->rt.snapshots_fd < 0;

	if (r == 0 || s->rt.self == 0 || s->fetch.fd < 0 || (!unseen && r != -EUCLEAN))
		return r;
	return fetch_get(&s->fetch, digest, ret);
}

/* The broker's word. 0, also with a job that is pinned none; else the files decide. */
static int ask_broker(struct start *s, struct cudaenv_result *result)
{
	struct fetch_answer answer;
	struct job_key key;
	struct wire_fetch question;
	int r = 0;

	if (is_filtered())
		return -EPERM;
	if (s->fetch.fd < 0)
		r = fetch_open(&s->rt, s->path, s->deadline_nsec, &s->fetch);
	if (r < 0)
		return r;
	self_question(&s->self, &question);
	r = fetch_ask(&s->fetch, &question, &answer);
	if (r < 0)
		return r;
	if (*answer.key && job_key_parse(answer.key, &key) < 0)
		return -EBADMSG;
	if (*answer.digest) {
		r = load(s, answer.digest, &result->snapshot);
		if (r < 0)
			return r;
	}
	memcpy(result->key, answer.key, sizeof result->key);
	result->by_broker = true;
	return 0;
}

static int decide_alone(struct start *s, struct cudaenv_result *result)
{
	struct decision d;
	int r;

	if (!s->assign)
		return -ENOENT;
	r = self_decide(&s->self, &s->rt, s->assign, &d);
	if (r < 0)
		return r;
	memcpy(result->key, d.key, sizeof result->key);
	return *d.digest ? load(s, d.digest, &result->snapshot) : 0;
}

static int obtain(struct start *s, struct cudaenv_result *result)
{
	int r = ask_broker(s, result);

	return r < 0 ? decide_alone(s, result) : r;
}

static bool is_met(const struct start *s, const struct cudaenv_result *result)
{
	return ranks_met(&s->rt, s->required, result->snapshot ? result->snapshot->digest : "");
}

/* What CUDAENV_REQUIRE stands for here. A snapshot that root may not take (scope user) is not to be
 * had for root. */
static int resolve(struct start *s, char ret[DIGEST_SIZE])
{
	_cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
	int r = s->required ? ranks_resolve(&s->rt, s->required, ret) : -ENOENT;

	return r == 0 && s->rt.self == 0 ? snapshot_load(&s->rt, ret, &snapshot) : r;
}

/* A snapshot that CUDAENV_REQUIRE names goes before an inherited token. A rank digest may be that of
 * what the job gets anyway; only where it is not, the node's snapshot with it is asked for. */
static int obtain_required(struct start *s, struct cudaenv_result *result)
{
	struct job_subject *subject = &s->self.subject;
	char digest[DIGEST_SIZE];
	int r;

	if (resolve(s, digest) < 0)
		return obtain(s, result);
	if (!streq(digest, s->required)) {
		r = obtain(s, result);
		if (r < 0 || is_met(s, result))
			return r;
		result->snapshot = snapshot_free(result->snapshot);
		result->by_broker = false;
	}
	memcpy(s->token, digest, sizeof s->token);
	subject->token = s->token;
	subject->token_required = true;
	return obtain(s, result);
}

/* Modes in which nothing is set promise nothing. */
static enum cudaenv_required judge(const struct start *s, const struct cudaenv_result *result)
{
	if (!s->required || !s->assign || s->assign->mode != MODE_ON)
		return CUDAENV_NOT_REQUIRED;
	if (result->outcome == CUDAENV_APPLIED && is_met(s, result))
		return CUDAENV_MET;
	return s->assign->mismatch_fails ? CUDAENV_UNMET_FAILS : CUDAENV_UNMET;
}

static int put_in_force(struct start *s, struct cudaenv_result *result)
{
	int r = apply(environ, result->snapshot, s->rt.self, 0, &result->applied);

	if (r < 0)
		return r;
	if (result->applied.env)
		__atomic_store_n(&environ, result->applied.env, __ATOMIC_RELEASE);
	result->outcome = CUDAENV_APPLIED;
	return 0;
}

/* What the entries of a report take; those beyond the largest message are left out. */
static size_t report_size(const struct cudaenv_result *result, bool *ret_cut)
{
	size_t size = WIRE_HEADER_SIZE + 90 + strlen(result->key);

	for (size_t i = 0; i < result->applied.n_variables; i++)
		size += 4 + strlen(result->applied.changes[i].name);
	*ret_cut = size > WIRE_HEADER_SIZE + WIRE_REPORT_MAX ||
		   result->applied.n_variables > UINT16_MAX;
	return *ret_cut ? WIRE_HEADER_SIZE + WIRE_REPORT_MAX : size;
}

static void report(struct start *s, const struct cudaenv_result *result, int error)
{
	_cleanup_(freep) char *buf = NULL;
	struct wire_report m = {
		.flags = result->by_broker ? 0 : REPORT_ALONE,
		.result = (uint32_t)-error,
		.environ_address = (uint64_t)(uintptr_t)&environ,
		.nspid = (uint32_t)getpid(),
		.key = {result->key, strlen(result->key)},
	};
	bool cut;
	size_t size = report_size(result, &cut);
	ssize_t n;

	if (s->fetch.fd < 0)
		return;
	buf = malloc(size);
	if (!buf)
		return;
	if (cut)
		m.flags |= REPORT_CUT;
	if (result->outcome == CUDAENV_APPLIED)
		memcpy(m.digest, result->snapshot->digest, DIGEST_SIZE);
	n = wire_encode_report(buf, size, ++s->fetch.id, &m);
	for (size_t i = 0; n > 0 && i < result->applied.n_variables; i++) {
		const struct apply_change *c = &result->applied.changes[i];
		ssize_t more = wire_report_add(buf, size, (size_t)n, (uint8_t)c->state, c->name);

		if (more < 0)
			break;
		n = more;
	}
	if (n > 0)
		fetch_report(&s->fetch, buf, (size_t)n);
}

/* Rules that are there and cannot be read are no rules: then only the broker can tell. */
static void load_rules(struct start *s)
{
	if (assign_load(&s->rt, &s->assign) == -ENOENT && s->rt.snapshots_fd >= 0)
		(void)assign_parse(NO_RULES, STRLEN(NO_RULES), &s->assign, NULL);
}

static int run(const char *runtime_dir, struct cudaenv_result *result)
{
	_cleanup_(start_freep) struct start *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->rt = (struct runtime)RUNTIME_NULL;
	s->fetch = (struct fetch)FETCH_NULL;
	s->self = (struct self)SELF_NULL;
	if (runtime_find(runtime_dir, geteuid(), &s->rt, s->path) < 0)
		return 0;
	load_rules(s);
	if (s->assign && s->assign->mode == MODE_OFF)
		return 0;
	s->required = getenv("CUDAENV_REQUIRE");
	r = self_init(&s->rt, &s->self);
	if (r < 0)
		return r;
	s->deadline_nsec = fetch_deadline(WAIT_USEC);
	r = obtain_required(s, result);
	if (r == 0 && result->snapshot)
		r = put_in_force(s, result);
	result->required = judge(s, result);
	report(s, result, r);
	/* The caller is to know, and for it this comes to the same as another snapshot. */
	return result->required == CUDAENV_UNMET_FAILS ? 0 : r;
}

static bool is_disabled(void)
{
	const char *disable = getenv("CUDAENV_DISABLE");

	return getauxval(AT_SECURE) != 0 || (disable && streq(disable, "1"));
}

int cudaenv_start(const char *runtime_dir, struct cudaenv_result **ret)
{
	static int started;
	_cleanup_(result_freep) struct cudaenv_result *result = NULL;
	int saved = errno, r = 0;

	result = calloc(1, sizeof *result);
	if (!result) {
		errno = saved;
		return -ENOMEM;
	}
	if (__atomic_exchange_n(&started, 1, __ATOMIC_SEQ_CST))
		result->outcome = CUDAENV_AGAIN;
	else if (is_disabled())
		result->outcome = CUDAENV_DISABLED;
	else {
		result->outcome = CUDAENV_NOTHING;
		r = run(runtime_dir, result);
	}
	if (r == 0 && ret)
		*ret = TAKE_PTR(result);
	errno = saved;
	return r;
}

void cudaenv_result_free(struct cudaenv_result *result)
{
	int saved = errno;

	if (!result)
		return;
	/* The environment lives on. */
	if (result->applied.env)
		applied_release(&result->applied);
	applied_done(&result->applied);
	(void)snapshot_free(result->snapshot);
	free(result);
	errno = saved;
}

enum cudaenv_outcome cudaenv_result_outcome(const struct cudaenv_result *result)
{
	return result->outcome;
}

enum cudaenv_required cudaenv_result_required(const struct cudaenv_result *result)
{
	return result->required;
}

const char *cudaenv_result_digest(const struct cudaenv_result *result)
{
	return result->outcome == CUDAENV_APPLIED ? result->snapshot->digest : "";
}

const char *cudaenv_result_profile(const struct cudaenv_result *result)
{
	return result->outcome == CUDAENV_APPLIED ? result->snapshot->profile : "";
}

const char *cudaenv_result_job(const struct cudaenv_result *result)
{
	return result->key;
}

int cudaenv_result_by_broker(const struct cudaenv_result *result)
{
	return result->by_broker;
}

size_t cudaenv_result_count(const struct cudaenv_result *result)
{
	return result->applied.n_variables;
}

int cudaenv_result_variable(const struct cudaenv_result *result, size_t index,
			    const char **ret_name, const char **ret_value,
			    enum cudaenv_state *ret_state)
{
	const struct apply_change *c;

	if (index >= result->applied.n_variables)
		return -ERANGE;
	c = &result->applied.changes[index];
	if (ret_name)
		*ret_name = c->name;
	if (ret_value)
		*ret_value = c->value;
	if (ret_state)
		*ret_state = c->state;
	return 0;
}

int cudaenv_result_change(const struct cudaenv_result *result, size_t *cursor,
			  const char **ret_name, const char **ret_value)
{
	while (*cursor < result->applied.n_changes) {
		const struct apply_change *c = &result->applied.changes[(*cursor)++];

		if (!c->changed)
			continue;
		*ret_name = c->name;
		*ret_value = c->value;
		return 1;
	}
	return 0;
}

const char *cudaenv_version(void)
{
	return PACKAGE_VERSION;
}
