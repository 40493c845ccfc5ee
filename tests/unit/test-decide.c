/* SPDX-License-Identifier: MIT */
#include "common/decide.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/unit/node.h"

#define RACERS 8
#define ROUNDS 40

static struct decision d; /* the last one */

static const char *decide_as(const struct node *n, const struct job_subject *subject,
			     const struct assign_subject *match)
{
	struct job_source source = node_source(n);

	memset(&d, 0xff, sizeof d);
	check(decide(&source, subject, match, &d) == 0);
	return d.digest;
}

static const char *decide_for(const struct node *n, pid_t pid, const char *token)
{
	struct job_subject subject = node_subject(pid);

	subject.token = token;
	return decide_as(n, &subject, NULL);
}

/* A script P(2) below a boundary, its programs P(3) and P(4); another command P(5). */
static void start(struct node *n)
{
	node_init(n);
	node_add(n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "sshd"});
	node_add(n, (struct node_process){.pid = P(2), .ppid = P(1), .comm = "bash"});
	node_add(n, (struct node_process){.pid = P(3), .ppid = P(2), .session = P(2)});
	node_add(n, (struct node_process){.pid = P(4), .ppid = P(2), .session = P(2)});
	node_add(n, (struct node_process){.pid = P(5), .ppid = P(1)});
}

static const char *with_token(const char *key, const char *token)
{
	static char ret[JOB_KEY_SIZE];

	(void)snprintf(ret, sizeof ret, "%s.%s", key, token);
	return ret;
}

static bool has_pin(const struct node *n, const char *key, const char *digest)
{
	struct pin pin;

	return pin_read(&n->rt, key, geteuid(), &pin) == 0 && streq(pin.digest, digest);
}

TEST(a_job_keeps_its_pin)
{
	struct node n;

	start(&n);
	check_streq(decide_for(&n, P(3), NULL), A64);
	check(d.reason == DECIDED_DEFAULT && d.pinned && !d.below);
	check(d.nspid == P(3) && d.start == 1000 && d.uid == geteuid());
	check_streq(d.key, node_tree(P(2), 0));
	check_streq(d.rule, "");
	check(has_pin(&n, node_tree(P(2), 0), A64));
	/* A switch: the job stays, a new one follows. */
	node_assign(&n, NODE_ASSIGN("on", B64, NODE_BOUNDARIES));
	check_streq(decide_for(&n, P(4), NULL), A64);
	check(d.reason == DECIDED_PIN && d.pinned);
	check_streq(decide_for(&n, P(5), NULL), B64);
	node_done(&n);
}

TEST(modes)
{
	struct node n;

	start(&n);
	node_assign(&n, NODE_ASSIGN("off", A64, NODE_BOUNDARIES));
	check_streq(decide_for(&n, P(3), B64), "");
	check(d.reason == DECIDED_OFF);
	check_streq(d.key, "");
	check(!node_has_link(&n, "jobs", node_tree(P(2), 0)));

	node_assign(&n, NODE_ASSIGN("observe", A64, NODE_BOUNDARIES));
	check_streq(decide_for(&n, P(3), NULL), "");
	check(d.reason == DECIDED_OBSERVE && d.pinned);
	check(has_pin(&n, node_tree(P(2), 0), ""));
	check_streq(decide_for(&n, P(3), B64), "");
	check_streq(d.key, with_token(node_tree(P(2), 0), B64));

	/* It began without its variables: it never gets them. One with a pin keeps it. */
	node_assign(&n, NODE_ASSIGN("on", A64, NODE_BOUNDARIES));
	check_streq(decide_for(&n, P(4), NULL), "");
	check(d.reason == DECIDED_PIN);
	check_streq(decide_for(&n, P(5), NULL), A64);
	node_assign(&n, NODE_ASSIGN("observe", B64, NODE_BOUNDARIES));
	check_streq(decide_for(&n, P(5), NULL), A64);
	check(d.reason == DECIDED_PIN);

	/* On, with no profile. */
	node_assign(&n, NODE_ASSIGN("on", "none", ""));
	check_streq(decide_for(&n, P(1), NULL), "");
	check(d.reason == DECIDED_DEFAULT && d.pinned);
	node_done(&n);
}

TEST(no_rules_no_decision)
{
	struct job_subject subject = node_subject(P(3));
	struct job_source source;
	struct node n;

	start(&n);
	source = node_source(&n);
	source.assign = NULL;
	check(decide(&source, &subject, NULL, &d) == -ENODATA);
	source = node_source(&n);
	subject = node_subject(P(77));
	check(decide(&source, &subject, NULL, &d) == -ESRCH);
	node_done(&n);
}

TEST(rules)
{
	struct assign_subject match = {.exe = "/usr/bin/vllm", .unit = "lie.service"};
	struct job_subject subject = node_subject(P(3));
	struct node n;

	start(&n);
	node_assign(&n, NODE_ASSIGN("on", A64,
				    "rule unit " B64 "\nwhen unit vllm.service\nrule lie " C64
				    "\nwhen unit lie.service\nrule exe none\nwhen exe "
				    "*/vllm\n" NODE_BOUNDARIES));
	check_streq(decide_as(&n, &subject, &match), "");
	check(d.reason == DECIDED_RULE && d.pinned);
	check_streq(d.rule, "exe");
	/* The unit is what the cgroup says, not what the caller does. */
	node_mkdir(&n, "cgroup/system.slice/vllm.service");
	node_write(&n, "proc/5000005/cgroup", "0::/system.slice/vllm.service\n", 30);
	subject = node_subject(P(5));
	check_streq(decide_as(&n, &subject, NULL), B64);
	check_streq(d.rule, "unit");
	check_streq(d.cgroup_dir, "./system.slice/vllm.service");
	/* Also where the job was found by a registered ancestor and lost its pin. */
	check(unlinkat(n.rt.jobs_fd, d.key, 0) == 0);
	check(decide_register(&n.rt, NODE_PIDNS, &d) == 0);
	check_streq(decide_as(&n, &subject, NULL), B64);
	check(d.below);
	check_streq(d.rule, "unit");
	node_done(&n);
}

TEST(tokens)
{
	const char *job;
	struct node n;

	start(&n);
	job = node_tree(P(2), 0);
	/* All ranks below an unregistered launcher with one token are one job, and the rest is
	 * another. */
	check_streq(decide_for(&n, P(3), B64), B64);
	check(d.reason == DECIDED_TOKEN && d.pinned && d.below);
	check_streq(d.key, with_token(job, B64));
	check_streq(decide_for(&n, P(4), B64), B64);
	check(d.reason == DECIDED_PIN && d.below);
	check_streq(d.key, with_token(job, B64));
	check_streq(decide_for(&n, P(4), NULL), A64);
	check_streq(d.key, job);
	/* The job's own token. */
	check_streq(decide_for(&n, P(4), A64), A64);
	check_streq(d.key, job);
	check(d.below);
	/* One that is not published here, and what is no token. */
	check_streq(decide_for(&n, P(4), C64), A64);
	check_streq(d.key, job);
	check(!d.below);
	check_streq(decide_for(&n, P(4), "../../etc/passwd"), A64);
	check_streq(decide_for(&n, P(4), ""), A64);
	node_done(&n);
}

TEST(a_released_job_takes_its_old_token)
{
	struct node n;

	start(&n);
	node_link(&n, "jobs", node_tree(P(2), 0), A64 " " B64, 0);
	check_streq(decide_for(&n, P(3), B64), A64);
	check_streq(d.key, node_tree(P(2), 0));
	check(!d.below);
	node_done(&n);
}

TEST(a_token_below_a_token)
{
	char key[JOB_KEY_SIZE];
	struct node n;

	start(&n);
	(void)strcpy(key, with_token(node_tree(P(2), 0), A64));
	node_link(&n, "jobs", key, A64, 0);
	node_link(&n, "procs", "4026531836-5000003-1000", key, 0);
	node_add(&n, (struct node_process){.pid = P(6), .ppid = P(3)});
	check_streq(decide_for(&n, P(6), NULL), A64);
	check_streq(d.key, key);
	check_streq(decide_for(&n, P(6), B64), B64);
	check_streq(d.key, with_token(node_tree(P(2), 0), B64));
	node_done(&n);
}

/* cudaenvctl exec: a job of its own also with the job's own digest. */
TEST(a_token_of_ones_own_choice)
{
	struct job_subject subject = node_subject(P(3));
	struct node n;

	start(&n);
	check_streq(decide_for(&n, P(3), NULL), A64);
	subject.token = A64;
	subject.token_chosen = true;
	check_streq(decide_as(&n, &subject, NULL), A64);
	check_streq(d.key, with_token(node_tree(P(2), 0), A64));
	/* Asked for by name, it is one in mode observe too. */
	node_assign(&n, NODE_ASSIGN("observe", A64, NODE_BOUNDARIES));
	subject.token = B64;
	check_streq(decide_as(&n, &subject, NULL), B64);
	check(has_pin(&n, d.key, B64));
	node_done(&n);
}

TEST(a_units_first_process_and_its_token)
{
	struct node n;

	start(&n);
	node_mkdir(&n, "cgroup/system.slice/vllm.service");
	node_add(&n, (struct node_process){
			     .pid = P(6), .ppid = 1, .cgroup = "0::/system.slice/vllm.service\n"});
	check_streq(decide_for(&n, P(6), B64), A64);
	check(!d.below && d.reason == DECIDED_DEFAULT);
	node_done(&n);
}

TEST(where_no_pin_can_be_made)
{
	static const char *const ends[] = {"", "~1", "~2", "~3"};
	struct job_subject subject = {.pid = P(3), .uid = 4242, .pidns = NODE_PIDNS};
	char name[JOB_KEY_SIZE];
	struct node n;

	start(&n);
	n.rt.jobs_fd = safe_close(n.rt.jobs_fd);
	check_streq(decide_for(&n, P(3), NULL), A64);
	check(!d.pinned && d.reason == DECIDED_DEFAULT);
	check_streq(decide_for(&n, P(3), B64), B64);
	check(!d.pinned && d.reason == DECIDED_TOKEN);
	node_done(&n);

	if (geteuid() != 0)
		skip("the rest needs root");
	/* A stranger has all of the names: neither denied nor steered. */
	start(&n);
	node_add(&n, (struct node_process){.pid = P(2), .ppid = P(1), .uid = 4242});
	node_add(&n, (struct node_process){.pid = P(3), .ppid = P(2), .uid = 4242});
	n.rt.self = 4242;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		(void)snprintf(name, sizeof name, "tree-4242-4026531836-5000002-1000%s", ends[i]);
		node_link(&n, "jobs", name, B64, 1234);
	}
	check_streq(decide_as(&n, &subject, NULL), A64);
	check(!d.pinned);
	check_streq(d.key, "tree-4242-4026531836-5000002-1000");
	n.rt.self = 0;
	check_streq(decide_as(&n, &subject, NULL), A64);
	check(d.pinned);
	node_done(&n);
}

TEST(registering)
{
	static const char *const name = "4026531836-5000003-1000";
	struct decision other;
	struct node n;

	start(&n);
	(void)decide_for(&n, P(3), NULL);
	check(decide_register(&n.rt, NODE_PIDNS, &d) == 0);
	check(node_has_link(&n, "procs", name));
	check(decide_register(&n.rt, NODE_PIDNS, &d) == 0);
	other = d;
	(void)strcpy(other.key, "unit-0-1");
	check(decide_register(&n.rt, NODE_PIDNS, &other) == -EEXIST);
	/* Children find it. */
	node_add(&n, (struct node_process){.pid = P(6), .ppid = P(3)});
	(void)decide_for(&n, P(6), NULL);
	check(d.below);
	if (geteuid() == 0) {
		check(unlinkat(n.rt.procs_fd, name, 0) == 0);
		node_link(&n, "procs", name, "unit-0-1", 1234);
		d = other;
		d.uid = 4242;
		n.rt.self = 4242;
		check(decide_register(&n.rt, NODE_PIDNS, &d) == -EPERM);
		n.rt.self = 0;
		check(decide_register(&n.rt, NODE_PIDNS, &d) == 0);
	}
	n.rt.procs_fd = safe_close(n.rt.procs_fd);
	check(decide_register(&n.rt, NODE_PIDNS, &d) == -EBADF);
	node_done(&n);
}

/* With SPARE descriptors left: the right answer, or none. */
static void decide_short(const struct node *n, const struct job_subject *subject, const char *key,
			 const char *digest, int spare)
{
	struct job_source source = node_source(n);
	int fds[1024], n_fds = 0, r, status;
	pid_t pid;

	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		struct rlimit limit;

		check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
		limit.rlim_cur = limit.rlim_cur < 512 ? limit.rlim_cur : 512;
		check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		while (n_fds < 1024 && (fds[n_fds] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
			n_fds++;
		check(errno == EMFILE && n_fds > spare);
		for (int i = 0; i < spare; i++)
			close(fds[--n_fds]);
		r = decide(&source, subject, NULL, &d);
		check(r == -EMFILE ||
		      (r == 0 && streq(d.key, key) && streq(d.digest, digest) && d.pinned));
		check(spare < 2 || r == 0);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(without_descriptors)
{
	struct job_subject subject = node_subject(P(3)), orphan = node_subject(P(7));
	struct node n;

	start(&n);
	orphan.token = B64;
	node_add(&n, (struct node_process){.pid = P(7), .ppid = 1, .session = P(6), .start = 2000});
	node_link(&n, "jobs", node_tree(P(8), 0), B64, 0);
	for (int spare = 0; spare < 4; spare++) {
		node_link(&n, "jobs", node_tree(P(2), 0), B64, 0);
		decide_short(&n, &subject, node_tree(P(2), 0), B64, spare);
		check(has_pin(&n, node_tree(P(2), 0), B64));
		check(unlinkat(n.rt.jobs_fd, node_tree(P(2), 0), 0) == 0);
		decide_short(&n, &orphan, node_tree(P(8), 0), B64, spare);
		check(has_pin(&n, node_tree(P(8), 0), B64));
	}
	node_done(&n);
}

/* --- many at once --- */

/* One of the racers: has rules of its own, waits for the start, says what it got. */
static void race(struct node *n, unsigned i, int go_fd, int answer_fd)
{
	static const char digits[] = "0123456789abcdef";
	char text[512], mine[DIGEST_SIZE];
	char c;

	memset(mine, digits[i % 16], DIGEST_HEX);
	mine[DIGEST_HEX] = '\0';
	(void)snprintf(text, sizeof text,
		       "cudaenv-assign 1\ngeneration %u\nmode on\ndefault %s\nend\n", i + 1, mine);
	node_assign(n, text);
	if (read(go_fd, &c, 1) != 0)
		_exit(1);
	(void)decide_for(n, P(10 + (int)i), NULL);
	if (!d.pinned || write(answer_fd, d.digest, DIGEST_HEX) != DIGEST_HEX)
		_exit(1);
	_exit(0);
}

static void run_race(struct node *n)
{
	char first[DIGEST_SIZE] = "", digest[DIGEST_SIZE] = "";
	int go[2], answer[2], status;
	struct pin pin;

	check(pipe(go) == 0 && pipe(answer) == 0);
	for (unsigned i = 0; i < RACERS; i++) {
		pid_t pid = fork();

		check(pid >= 0);
		if (pid == 0) {
			close(go[1]);
			race(n, i, go[0], answer[1]);
		}
	}
	close(go[0]);
	close(go[1]); /* the start */
	for (unsigned i = 0; i < RACERS; i++) {
		check(read(answer[0], digest, DIGEST_HEX) == DIGEST_HEX);
		if (i == 0)
			memcpy(first, digest, sizeof first);
		check_streq(digest, first);
	}
	for (unsigned i = 0; i < RACERS; i++)
		check(wait(&status) > 0 && status == 0);
	check(pin_read(&n->rt, node_tree(P(2), 0), geteuid(), &pin) == 0);
	check_streq(pin.digest, first);
	close(answer[0]);
	close(answer[1]);
}

TEST(all_of_a_job_at_once)
{
	struct node n;

	for (unsigned round = 0; round < ROUNDS; round++) {
		start(&n);
		for (int i = 0; i < RACERS; i++)
			node_add(&n, (struct node_process){
					     .pid = P(10 + i), .ppid = P(2), .session = P(2)});
		node_add(&n, (struct node_process){.pid = P(1), .ppid = 1, .comm = "systemd"});
		run_race(&n);
		node_done(&n);
	}
}

TEST_MAIN
