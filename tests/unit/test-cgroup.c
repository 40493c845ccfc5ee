/* SPDX-License-Identifier: MIT */
#include "common/cgroup.h"

#include "tests/unit/node.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *path;
	enum cgroup_kind kind;
	const char *directory; /* NULL: none */
	const char *unit;
	bool service;
} paths[] = {
	{"/",										      CGROUP_NONE,      NULL,									   "",                           false																													   },
	{"/init.scope",									    CGROUP_NONE,      NULL,									   "",                           false																													   },
	{"/system.slice",									  CGROUP_NONE,      NULL,									   "",                           false																													   },
	{"/mine/deep/down",									CGROUP_NONE,      NULL,									   "",                           false																													   },
 /* units */
	{"/system.slice/vllm.service",							     CGROUP_UNIT,      "/system.slice/vllm.service",                                                   "vllm.service",
	 true																																																								      },
	{"/system.slice/system-vllm.slice/vllm@1.service/a/b.scope",                               CGROUP_UNIT,
	 "/system.slice/system-vllm.slice/vllm@1.service",																	   "vllm@1.service",             false																													   },
	{"/system.slice/run-r1.scope",							     CGROUP_UNIT,      "/system.slice/run-r1.scope",                                                   "run-r1.scope",
	 false																																																								     },
	{"/own.slice/a.service/b.service",							 CGROUP_UNIT,      "/own.slice/a.service",                                                         "a.service",                  true																													    },
	{"//system.slice//a.service//",							    CGROUP_UNIT,      "//system.slice//a.service",                                                    "a.service",
	 true																																																								      },
	{"/system.slice/cri.service.d",							    CGROUP_NONE,      NULL,									   "",                           false																													   },
 /* users */
	{"/user.slice/user-1000.slice/session-3.scope",                                            CGROUP_SHARED,    NULL,                                                                           "session-3.scope",
	 false																																																								     },
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",                      CGROUP_SHARED,    NULL,
	 "user@1000.service",																								      true																													    },
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope",                    CGROUP_SHARED,    NULL,
	 "user@1000.service",																								      false																													   },
 /* Slurm, both generations */
	{"/system.slice/slurmstepd.scope",							 CGROUP_SHARED,    NULL,									   "slurmstepd.scope",           false																													   },
	{"/system.slice/slurmstepd.scope/job_42/step_0/user/task_0",                               CGROUP_SLURM,
	 "/system.slice/slurmstepd.scope/job_42/step_0",																	     "",                           false																													   },
	{"/system.slice/n1_slurmstepd.scope/job_42/step_batch/user/task_0",                        CGROUP_SLURM,
	 "/system.slice/n1_slurmstepd.scope/job_42/step_batch",																      "",                           false																													   },
	{"/slurm/uid_1000/job_42/step_17",							 CGROUP_SLURM,     "/slurm/uid_1000/job_42/step_17",                                               "",
	 false																																																								     },
	{"/system.slice/slurmstepd.scope/job_42/step_extern/user/task_0",                          CGROUP_SHARED,    NULL,
	 "slurmstepd.scope",																								       false																													   },
	{"/system.slice/slurmstepd.scope/job_42/step_interactive/user/task_0",                     CGROUP_SHARED,    NULL,
	 "slurmstepd.scope",																								       false																													   },
	{"/a/step_0",									      CGROUP_NONE,      NULL,									   "",                           false																													   },
	{"/job_1/step_",									   CGROUP_NONE,      NULL,									   "",                           false																													   },
 /* containers */
	{"/docker/" ID,									    CGROUP_CONTAINER, "/docker/" ID,								  "",                           false																													   },
	{"/docker/" ID "/sub",								     CGROUP_CONTAINER, "/docker/" ID,								  "",                           false																													   },
	{"/docker/" ID "/docker/" ID "/x",							 CGROUP_CONTAINER, "/docker/" ID "/docker/" ID,                                                    "",
	 false																																																								     },
	{"/system.slice/docker-" ID ".scope",						      CGROUP_CONTAINER, "/system.slice/docker-" ID ".scope",
	 "",																										       false																													   },
	{"/machine.slice/libpod-" ID ".scope/container",                                           CGROUP_CONTAINER,
	 "/machine.slice/libpod-" ID ".scope",																		       "",                           false																													   },
	{"/machine.slice/libpod-conmon-" ID ".scope",                                              CGROUP_UNIT,
	 "/machine.slice/libpod-conmon-" ID ".scope",																		"libpod-conmon-" ID ".scope", false																													   },
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
	 CGROUP_CONTAINER,											   "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "",                           false																													   },
	{"/libpod_parent/libpod-" ID,							      CGROUP_CONTAINER, "/libpod_parent/libpod-" ID,                                                    "",                           false																													   },
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
	 "cri-containerd-" ID ".scope",
	 CGROUP_CONTAINER,									      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
	 "cri-containerd-" ID ".scope",
	 "",																									false																																																					     },
	{"/kubepods.slice/kubepods-pod1_2.slice/crio-" ID ".scope/container",										   CGROUP_CONTAINER,
	 "/kubepods.slice/kubepods-pod1_2.slice/crio-" ID ".scope",													       "",false																																																		 },
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",
	 CGROUP_CONTAINER,												   "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",													"",																									 false																																	    },
	{"/kubepods.slice/kubepods-burstable.slice",										   CGROUP_NONE,												   NULL,																	"",false},
	{"/kubepods/burstable/pod12ab-34/" ID,										   CGROUP_CONTAINER,
	 "/kubepods/burstable/pod12ab-34/" ID,																	      "",																									  false																																																				      },
	{"/kubepods/pod12ab-34",										   CGROUP_CONTAINER,												   "/kubepods/pod12ab-34",																			    "",false},
	{"/podium",										   CGROUP_NONE,												   NULL,																					 "",																											    false																																																																																																       },
	{"/ecs/task/" ID,										   CGROUP_CONTAINER,												   "/ecs/task/" ID,																				   "",false},
	{"/default/" ID,										   CGROUP_CONTAINER,												   "/default/" ID,																				    "",																											     false																																																																																																																																												   },
	{"/default/X" ID,										   CGROUP_NONE,												   NULL,																				   "",false},
	{"/lxc.payload.web/x",										   CGROUP_CONTAINER,												   "/lxc.payload.web",																			      "",																										   false																																																																																																																																																																																				  },
	{"/lxc.payload/web/x",										   CGROUP_CONTAINER,												   "/lxc.payload/web",																			      "",false},
	{"/lxc/web",										   CGROUP_CONTAINER,												   "/lxc/web",																					"",																											     false																																																																																																																																																																																																																																 },
	{"/lxc.monitor.web",										   CGROUP_NONE,												   NULL,																				"",false},
	{"/machine.slice/machine-deb.scope/payload/init.scope",										   CGROUP_CONTAINER,
	 "/machine.slice/machine-deb.scope",															     "",																						     false																																																					},
	{"/machine.slice/systemd-nspawn@deb.service/payload",										   CGROUP_CONTAINER,
	 "/machine.slice/systemd-nspawn@deb.service",															       "",false																																																			       },
 /* a systemd in a container */
	{"/machine.slice/machine-deb.scope/payload/system.slice/vllm.service",										   CGROUP_UNIT,
	 "/machine.slice/machine-deb.scope/payload/system.slice/vllm.service",													      "vllm.service",
	 true																																																      },
	{"/lxc.payload.web/user.slice/user-0.slice/session-1.scope",										     CGROUP_SHARED,												   NULL,
	 "session-1.scope",						     false},
	{"/docker/" ID "/system.slice/slurmstepd.scope/job_1/step_2",										   CGROUP_SLURM,
	 "/docker/" ID "/system.slice/slurmstepd.scope/job_1/step_2",														       "", false																																																	       },
	{"/system.slice/slurmstepd.scope/job_1/step_2/user/" ID,										   CGROUP_CONTAINER,
	 "/system.slice/slurmstepd.scope/job_1/step_2/user/" ID,															    "",                                                      false																																																		    },
};

TEST(what_paths_say)
{
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct cgroup_place p;

		cgroup_classify(paths[i].path, &p);
		if (p.kind != paths[i].kind || p.service != paths[i].service)
			fprintf(stderr, "%s is %d\n", paths[i].path, p.kind);
		check(p.kind == paths[i].kind && p.service == paths[i].service);
		check_streq(p.unit, paths[i].unit);
		if (paths[i].directory)
			check(p.length == strlen(paths[i].directory) &&
			      strncmp(paths[i].path, paths[i].directory, p.length) == 0);
	}
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
	check(cgroup_search(n.cgroup_fd, node_inode(&n, "cgroup/unified/a/b/c")) == 1);
	check(cgroup_search(n.cgroup_fd, node_inode(&n, "cgroup/unified/a/file")) == 0);
	check(cgroup_search(-EBADF, 1) == -EBADF);
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
