/* SPDX-License-Identifier: MIT */
#include "common/cgroup.h"

#include "tests/unit/node.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* PATH is of KIND; a '!' in it stands behind the directory that is the job's. */
static void says(const char *path, enum cgroup_kind kind, const char *unit, bool service)
{
	const char *mark = strchr(path, '!');
	struct cgroup_place p;
	char plain[512];

	if (mark)
		(void)snprintf(plain, sizeof plain, "%.*s%s", (int)(mark - path), path, mark + 1);
	else
		(void)snprintf(plain, sizeof plain, "%s", path);
	cgroup_classify(plain, &p);
	if (p.kind != kind)
		fprintf(stderr, "%s is %d\n", plain, p.kind);
	check(p.kind == kind && p.service == service);
	check_streq(p.unit, unit);
	check(mark ? p.length == (size_t)(mark - path)
		   : kind == CGROUP_NONE || kind == CGROUP_SHARED);
}

TEST(paths_that_name_nothing)
{
	says("/", CGROUP_NONE, "", false);
	says("/init.scope", CGROUP_NONE, "", false);
	says("/system.slice", CGROUP_NONE, "", false);
	says("/mine/deep/down", CGROUP_NONE, "", false);
}

TEST(units)
{
	says("/system.slice/vllm.service!", CGROUP_UNIT, "vllm.service", true);
	says("/system.slice/system-vllm.slice/vllm@1.service!/a/b.scope", CGROUP_UNIT,
	     "vllm@1.service", false);
	says("/system.slice/run-r1.scope!", CGROUP_UNIT, "run-r1.scope", false);
	says("/own.slice/a.service!/b.service", CGROUP_UNIT, "a.service", true);
	says("//system.slice//a.service!//", CGROUP_UNIT, "a.service", true);
	says("/system.slice/cri.service.d", CGROUP_NONE, "", false);
}

TEST(users)
{
	says("/user.slice/user-1000.slice/session-3.scope", CGROUP_SHARED, "session-3.scope",
	     false);
	says("/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", CGROUP_SHARED,
	     "user@1000.service", true);
	says("/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope", CGROUP_SHARED,
	     "user@1000.service", false);
}

TEST(slurm_of_both_generations)
{
	says("/system.slice/slurmstepd.scope", CGROUP_SHARED, "slurmstepd.scope", false);
	says("/system.slice/slurmstepd.scope/job_42/step_0!/user/task_0", CGROUP_SLURM, "", false);
	says("/system.slice/n1_slurmstepd.scope/job_42/step_batch!/user/task_0", CGROUP_SLURM, "",
	     false);
	says("/slurm/uid_1000/job_42/step_17!", CGROUP_SLURM, "", false);
	says("/system.slice/slurmstepd.scope/job_42/step_extern/user/task_0", CGROUP_SHARED,
	     "slurmstepd.scope", false);
	says("/system.slice/slurmstepd.scope/job_42/step_interactive/user/task_0", CGROUP_SHARED,
	     "slurmstepd.scope", false);
	says("/a/step_0", CGROUP_NONE, "", false);
	says("/job_1/step_", CGROUP_NONE, "", false);
}

TEST(containers)
{
	says("/docker/" ID "!", CGROUP_CONTAINER, "", false);
	says("/docker/" ID "!/sub", CGROUP_CONTAINER, "", false);
	says("/docker/" ID "/docker/" ID "!/x", CGROUP_CONTAINER, "", false);
	says("/system.slice/docker-" ID ".scope!", CGROUP_CONTAINER, "", false);
	says("/machine.slice/libpod-" ID ".scope!/container", CGROUP_CONTAINER, "", false);
	says("/machine.slice/libpod-conmon-" ID ".scope!", CGROUP_UNIT,
	     "libpod-conmon-" ID ".scope", false);
	says("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
	     ".scope!/container",
	     CGROUP_CONTAINER, "", false);
	says("/libpod_parent/libpod-" ID "!", CGROUP_CONTAINER, "", false);
	says("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
	     "cri-containerd-" ID ".scope!",
	     CGROUP_CONTAINER, "", false);
	says("/kubepods.slice/kubepods-pod1_2.slice/crio-" ID ".scope!/container", CGROUP_CONTAINER,
	     "", false);
	says("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice!",
	     CGROUP_CONTAINER, "", false);
	says("/kubepods.slice/kubepods-burstable.slice", CGROUP_NONE, "", false);
	says("/kubepods/burstable/pod12ab-34/" ID "!", CGROUP_CONTAINER, "", false);
	says("/kubepods/pod12ab-34!", CGROUP_CONTAINER, "", false);
	says("/podium", CGROUP_NONE, "", false);
	says("/ecs/task/" ID "!", CGROUP_CONTAINER, "", false);
	says("/default/" ID "!", CGROUP_CONTAINER, "", false);
	says("/default/X" ID, CGROUP_NONE, "", false);
	says("/lxc.payload.web!/x", CGROUP_CONTAINER, "", false);
	says("/lxc.payload/web!/x", CGROUP_CONTAINER, "", false);
	says("/lxc/web!", CGROUP_CONTAINER, "", false);
	says("/lxc.monitor.web", CGROUP_NONE, "", false);
	says("/machine.slice/machine-deb.scope!/payload/init.scope", CGROUP_CONTAINER, "", false);
	says("/machine.slice/systemd-nspawn@deb.service!/payload", CGROUP_CONTAINER, "", false);
}

TEST(a_systemd_in_a_container)
{
	says("/machine.slice/machine-deb.scope/payload/system.slice/vllm.service!", CGROUP_UNIT,
	     "vllm.service", true);
	says("/lxc.payload.web/user.slice/user-0.slice/session-1.scope", CGROUP_SHARED,
	     "session-1.scope", false);
	says("/docker/" ID "/system.slice/slurmstepd.scope/job_1/step_2!", CGROUP_SLURM, "", false);
	says("/system.slice/slurmstepd.scope/job_1/step_2/user/" ID "!", CGROUP_CONTAINER, "",
	     false);
}

TEST(a_unit_with_a_long_name)
{
	char path[600] = "/system.slice/";
	struct cgroup_place p;

	memset(path + 14, 'a', 400);
	(void)strcpy(path + 414, ".service");
	cgroup_classify(path, &p);
	check(p.kind == CGROUP_UNIT && p.length == 422);
	check_streq(p.unit, "");
}

TEST(where_hierarchies_are)
{
	struct node n;
	char mount[64];

	node_init(&n);
	cgroup_mount(n.cgroup_fd, "", mount);
	check_streq(mount, ".");
	node_mkdir(&n, "cgroup/unified");
	cgroup_mount(n.cgroup_fd, "", mount);
	check_streq(mount, "unified");
	cgroup_mount(n.cgroup_fd, "name=systemd", mount);
	check_streq(mount, "systemd");
	cgroup_mount(n.cgroup_fd, "cpu,cpuacct", mount);
	check_streq(mount, "cpu,cpuacct");
	cgroup_mount(n.cgroup_fd, "name=..", mount);
	check_streq(mount, "-");
	cgroup_mount(n.cgroup_fd, "name=a/b", mount);
	check_streq(mount, "-");
	cgroup_mount(n.cgroup_fd,
		     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", mount);
	check_streq(mount, "-");
	node_done(&n);
}

TEST(inodes)
{
	static const char path[] = "/a/b/c";
	static char longest[2 * CGROUP_PATH_SIZE];
	struct node n;
	size_t length = 77;

	node_init(&n);
	node_mkdir(&n, "cgroup/unified/a/b/c");
	node_write(&n, "cgroup/unified/a/file", "", 0);
	check(cgroup_inode(n.cgroup_fd, "unified", path, 4) ==
	      node_inode(&n, "cgroup/unified/a/b"));
	check(cgroup_inode(n.cgroup_fd, "unified", "/", 0) == node_inode(&n, "cgroup/unified"));
	check(cgroup_inode(n.cgroup_fd, "unified", "/a/file", 7) == 0);
	check(cgroup_inode(n.cgroup_fd, "unified", "/none", 5) == 0);
	check(cgroup_inode(n.cgroup_fd, "unified", "/../unified/a", 13) == 0);
	memset(longest, '/', sizeof longest - 1);
	check(cgroup_inode(n.cgroup_fd, "unified", longest, sizeof longest - 1) == 0);
	check(cgroup_find(n.cgroup_fd, "unified", path, node_inode(&n, "cgroup/unified/a/b"),
			  &length));
	check(length == 4);
	check(cgroup_find(n.cgroup_fd, "unified", path, node_inode(&n, "cgroup/unified"), &length));
	check(length == 0);
	length = 77;
	check(!cgroup_find(n.cgroup_fd, "unified", path, node_inode(&n, "cgroup"), &length));
	check(!cgroup_find(n.cgroup_fd, "unified", "/", 1234567, &length) && length == 77);
	node_done(&n);
}

/* The root of a kernel's hierarchy names no job: every process is below it. */
TEST(the_kernels_root_is_none)
{
	int fd = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char mount[64];
	struct stat st;

	if (fd < 0)
		skip("no /sys/fs/cgroup");
	cgroup_mount(fd, "", mount);
	if (fstatat(fd, mount, &st, 0) < 0 || st.st_ino != 1) {
		close(fd);
		skip("not the root of a hierarchy");
	}
	check(cgroup_inode(fd, mount, "/", 0) == 0);
	close(fd);
}

TEST_MAIN
