/* SPDX-License-Identifier: MIT */
/*
 * Keys and names, and what a process says about itself. Which job a process belongs to is found in
 * job-find.c.
 */
#include "common/job.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/util.h"

#define LINK_INLINE 127 /* bytes of a link's text that tmpfs keeps with the inode */
#define LINK_DIGEST 12

#define NODE_FILE   ".node"
#define NODE_CGROUP "cgroupns "
#define NODE_USER   " userns "

/* Inodes that the kernel gives the initial namespaces (proc_ns.h). */
#define INIT_CGROUP_NS 0xEFFFFFFBu
#define INIT_USER_NS   0xEFFFFFFDu

static const char *const kind_names[JOB_KIND_MAX_] = {
	[JOB_TREE] = "tree",
	[JOB_SLURM] = "slurm",
	[JOB_CONTAINER] = "container",
	[JOB_UNIT] = "unit",
};

const char *job_kind_name(enum job_kind kind)
{
	return (unsigned)kind < JOB_KIND_MAX_ ? kind_names[kind] : NULL;
}

/* A '-' and a number. */
static int dash_number(const char **s, uint64_t max, uint64_t *ret)
{
	if (**s != '-')
		return -EINVAL;
	(*s)++;
	return procfs_number(s, max, ret) < 0 ? -EINVAL : 0;
}

static int parse_kind(const char **s, enum job_kind *ret)
{
	for (unsigned i = 0; i < JOB_KIND_MAX_; i++) {
		const char *rest = startswith(*s, kind_names[i]);

		if (rest && *rest == '-') {
			*s = rest;
			*ret = (enum job_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* ".DIGEST" and "~SLOT", each where it stands. */
static int parse_tail(const char *s, struct job_key *ret)
{
	if (*s == '.') {
		if (strnlen(s + 1, DIGEST_HEX) < DIGEST_HEX)
			return -EINVAL;
		memcpy(ret->digest, s + 1, DIGEST_HEX);
		if (!digest_valid(ret->digest))
			return -EINVAL;
		s += 1 + DIGEST_HEX;
	}
	if (*s == '~') {
		if (s[1] < '1' || s[1] >= '0' + JOB_SLOTS)
			return -EINVAL;
		ret->slot = (unsigned)(s[1] - '0');
		s += 2;
	}
	return *s == '\0' ? 0 : -EINVAL;
}

int job_key_parse(const char *key, struct job_key *ret)
{
	struct job_key k = {0};
	uint64_t uid, pid;

	if (parse_kind(&key, &k.kind) < 0 || dash_number(&key, UINT32_MAX, &uid) < 0)
		return -EINVAL;
	k.uid = (uid_t)uid;
	if (k.kind != JOB_TREE) {
		if (dash_number(&key, UINT64_MAX, &k.inode) < 0)
			return -EINVAL;
	} else {
		if (dash_number(&key, UINT64_MAX, &k.pidns) < 0 ||
		    dash_number(&key, INT32_MAX, &pid) < 0 ||
		    dash_number(&key, UINT64_MAX, &k.start) < 0)
			return -EINVAL;
		k.pid = (pid_t)pid;
	}
	if (parse_tail(key, &k) < 0)
		return -EINVAL;
	*ret = k;
	return 0;
}

void job_key_format(const struct job_key *k, char ret[JOB_KEY_SIZE])
{
	char tail[DIGEST_SIZE + 1] = "", slot[] = "~0";

	if (k->digest[0]) {
		tail[0] = '.';
		memcpy(tail + 1, k->digest, DIGEST_SIZE);
	}
	slot[1] = (char)('0' + k->slot % 10);
	if (k->kind == JOB_TREE)
		(void)snprintf(ret, JOB_KEY_SIZE, "tree-%u-%llu-%d-%llu%s%s", (unsigned)k->uid,
			       (unsigned long long)k->pidns, (int)k->pid,
			       (unsigned long long)k->start, tail, k->slot ? slot : "");
	else
		(void)snprintf(ret, JOB_KEY_SIZE, "%s-%u-%llu%s%s", kind_names[k->kind],
			       (unsigned)k->uid, (unsigned long long)k->inode, tail,
			       k->slot ? slot : "");
}

void job_proc_format(uint64_t pidns, pid_t nspid, uint64_t start, char ret[JOB_PROC_SIZE])
{
	(void)snprintf(ret, JOB_PROC_SIZE, "%llu-%d-%llu", (unsigned long long)pidns, (int)nspid,
		       (unsigned long long)start);
}

void job_link_format(const char *key, const char *digest, char ret[JOB_LINK_SIZE])
{
	int shown = strlen(key) + 1 + DIGEST_HEX > LINK_INLINE ? LINK_DIGEST : DIGEST_HEX;

	(void)snprintf(ret, JOB_LINK_SIZE, "%s %.*s", key, shown, *digest ? digest : "none");
}

const char *job_link_cut(char *text)
{
	char *blank = strchr(text, ' ');

	if (!blank)
		return "";
	*blank = '\0';
	return blank + 1;
}

int job_proc_parse(const char *name, uint64_t *ret_pidns, pid_t *ret_nspid, uint64_t *ret_start)
{
	uint64_t pidns, pid, start;

	if (procfs_number(&name, UINT64_MAX, &pidns) < 0 ||
	    dash_number(&name, INT32_MAX, &pid) < 0 || dash_number(&name, UINT64_MAX, &start) < 0 ||
	    *name != '\0')
		return -EINVAL;
	*ret_pidns = pidns;
	*ret_nspid = (pid_t)pid;
	*ret_start = start;
	return 0;
}

/* Inode of a namespace of this process, from the text "TYPE:[INODE]" of its link; 0: not to be
 * seen. A stat would take three times as long. */
static uint64_t namespace_inode(int proc_fd, const char *path)
{
	char text[64];
	const char *s;
	uint64_t inode;
	ssize_t n;

	n = readlinkat(proc_fd, path, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	s = strchr(text, '[');
	if (!s++ || procfs_number(&s, UINT64_MAX, &inode) < 0 || !streq(s, "]"))
		return 0;
	return inode;
}

/* The namespaces of the node's own, as jobs/.node names them. */
struct node {
	uint64_t cgroup_ns; /* 0: not known */
	uint64_t user_ns;
};

static void read_node(const struct runtime *rt, uid_t self, struct node *ret)
{
	char text[80];
	const char *s;
	struct node node;

	*ret = (struct node){0};
	if (runtime_readlink(rt, rt->jobs_fd, NODE_FILE, self, text, sizeof text) < 0)
		return;
	s = startswith(text, NODE_CGROUP);
	if (!s || procfs_number(&s, UINT64_MAX, &node.cgroup_ns) < 0)
		return;
	s = startswith(s, NODE_USER);
	if (s && procfs_number(&s, UINT64_MAX, &node.user_ns) == 0 && *s == '\0')
		*ret = node;
}

int job_node_publish(const struct runtime *rt, int proc_fd)
{
	char text[80];
	int r;

	(void)snprintf(text, sizeof text, NODE_CGROUP "%llu" NODE_USER "%llu",
		       (unsigned long long)namespace_inode(proc_fd, "self/ns/cgroup"),
		       (unsigned long long)namespace_inode(proc_fd, "self/ns/user"));
	/* Whatever is there: of an earlier broker, or of somebody else. */
	r = runtime_clear(rt->jobs_fd, NODE_FILE);
	if (r < 0 && r != -ENOENT)
		return r;
	return symlinkat(text, rt->jobs_fd, NODE_FILE) < 0 ? -errno : 0;
}

/* A root that is that of a whole hierarchy has inode 0 here: the namespace's own tree is not
 * mounted. */
static uint64_t cgroup_claim(int cgroup_fd, uint64_t ns, const struct node *node)
{
	uint64_t root;
	struct statfs fs;
	char mount[64];

	/* Without a cgroup file system the directory is an empty one of sysfs. */
	if (cgroup_fd < 0 || fstatfs(cgroup_fd, &fs) < 0 || fs.f_type == SYSFS_MAGIC)
		return JOB_CGROUP_UNSEEN;
	if (ns == 0 || ns == INIT_CGROUP_NS || ns == node->cgroup_ns)
		return 0;
	root = cgroup_inode(cgroup_fd, "systemd", "", 0);
	if (root == 0) {
		cgroup_mount(cgroup_fd, "", mount);
		root = cgroup_inode(cgroup_fd, mount, "", 0);
	}
	return root ? root : JOB_CGROUP_UNSEEN;
}

/* Namespaces: where they are not the initial ones, jobs/.node tells whether they are those of the
 * daemon. */
static void find_namespaces(const struct runtime *rt, int proc_fd, int cgroup_fd,
			    struct job_subject *subject)
{
	uint64_t cgroup_ns = namespace_inode(proc_fd, "self/ns/cgroup");
	uint64_t user_ns = namespace_inode(proc_fd, "self/ns/user");
	struct node node = {0};

	if (cgroup_ns != INIT_CGROUP_NS || user_ns != INIT_USER_NS)
		read_node(rt, subject->uid, &node);
	subject->pidns = namespace_inode(proc_fd, "self/ns/pid");
	subject->cgroup_claim = cgroup_claim(cgroup_fd, cgroup_ns, &node);
	if (user_ns != 0 && user_ns != INIT_USER_NS && user_ns != node.user_ns)
		subject->has_key_uid =
			procfs_outer_uid(proc_fd, 0, subject->uid, &subject->key_uid) == 0;
}

int job_subject_self(const struct runtime *rt, int proc_fd, int cgroup_fd, const char *token,
		     struct job_subject *ret, bool *ret_same_pidns)
{
	struct job_subject subject = {.uid = geteuid(), .token = token};
	char text[16];
	const char *s = text;
	uint64_t pid;
	ssize_t n;

	n = readlinkat(proc_fd, "self", text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (procfs_number(&s, INT32_MAX, &pid) < 0 || *s != '\0')
		return -EBADMSG;
	subject.pid = (pid_t)pid;
	find_namespaces(rt, proc_fd, cgroup_fd, &subject);
	*ret = subject;
	*ret_same_pidns = subject.pid == getpid();
	return 0;
}
