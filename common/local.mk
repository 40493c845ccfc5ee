## common/: libcommon (libc alone, in every piece and in libcudaenv) and libprofile (libinih, libcrypto)
noinst_LTLIBRARIES += common/libcommon.la common/libprofile.la
common_libcommon_la_SOURCES = \
	common/assign.c common/assign.h \
	common/cgroup.c common/cgroup.h \
	common/decide.c common/decide.h \
	common/digest.c common/digest.h \
	common/job.c common/job.h \
	common/job-find.c \
	common/pin.c common/pin.h \
	common/procfs.c common/procfs.h \
	common/runtime.c common/runtime.h \
	common/snapshot.c common/snapshot.h \
	common/util.h \
	common/wire.c common/wire.h
common_libprofile_la_SOURCES = \
	common/facts.c common/facts.h \
	common/finding.c common/finding.h \
	common/ini.c common/ini.h \
	common/paths.c common/paths.h \
	common/profile.c common/profile.h common/profile-internal.h \
	common/profile-check.c \
	common/profile-finish.c \
	common/profile-join.c \
	common/profile-list.c common/profile-list.h \
	common/profile-names.c common/profile-names.h \
	common/profile-path.c common/profile-path.h \
	common/profile-set.c \
	common/profile-text.c common/profile-text.h \
	common/profile-toolkit.c
common_libprofile_la_CFLAGS = $(AM_CFLAGS) $(INIH_CFLAGS) $(CRYPTO_CFLAGS)
common_libprofile_la_LIBADD = common/libcommon.la $(INIH_LIBS) $(CRYPTO_LIBS)

# --- digest, runtime, snapshot, assign
check_PROGRAMS += tests/unit/test-assign tests/unit/test-digest tests/unit/test-runtime \
	tests/unit/test-runtime-trust tests/unit/test-snapshot
TESTS += tests/unit/test-assign tests/unit/test-digest tests/unit/test-runtime \
	tests/unit/test-runtime-trust tests/unit/test-snapshot
tests_unit_test_assign_SOURCES = tests/unit/test-assign.c tests/unit/test.h
tests_unit_test_assign_LDADD = common/libcommon.la
tests_unit_test_digest_SOURCES = tests/unit/test-digest.c tests/unit/test.h
tests_unit_test_digest_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_unit_test_digest_LDADD = common/libcommon.la $(CRYPTO_LIBS)
tests_unit_test_runtime_SOURCES = tests/unit/test-runtime.c tests/unit/runtime-tree.h tests/unit/test.h
tests_unit_test_runtime_LDADD = common/libcommon.la
tests_unit_test_runtime_trust_SOURCES = tests/unit/test-runtime-trust.c tests/unit/runtime-tree.h tests/unit/test.h
tests_unit_test_runtime_trust_LDADD = common/libcommon.la
tests_unit_test_snapshot_SOURCES = tests/unit/test-snapshot.c tests/unit/test.h
tests_unit_test_snapshot_LDADD = common/libcommon.la
FUZZERS += tests/fuzz/fuzz-assign tests/fuzz/fuzz-snapshot
tests_fuzz_fuzz_assign_SOURCES = tests/fuzz/fuzz-assign.c $(REPLAY)
tests_fuzz_fuzz_assign_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_snapshot_SOURCES = tests/fuzz/fuzz-snapshot.c $(REPLAY)
tests_fuzz_fuzz_snapshot_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)

# --- wire
check_PROGRAMS += tests/unit/test-wire
TESTS += tests/unit/test-wire
tests_unit_test_wire_SOURCES = tests/unit/test-wire.c tests/unit/test.h
tests_unit_test_wire_LDADD = common/libcommon.la
FUZZERS += tests/fuzz/fuzz-wire-broker tests/fuzz/fuzz-wire-client
tests_fuzz_fuzz_wire_broker_SOURCES = tests/fuzz/fuzz-wire-broker.c $(REPLAY)
tests_fuzz_fuzz_wire_broker_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_wire_client_SOURCES = tests/fuzz/fuzz-wire-client.c $(REPLAY)
tests_fuzz_fuzz_wire_client_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)

# --- job
JOB_TESTS = tests/unit/test-cgroup tests/unit/test-decide tests/unit/test-job tests/unit/test-job-self tests/unit/test-pin tests/unit/test-procfs
check_PROGRAMS += $(JOB_TESTS)
TESTS += $(JOB_TESTS)
tests_unit_test_cgroup_SOURCES = tests/unit/test-cgroup.c tests/unit/node.h tests/unit/test.h
tests_unit_test_cgroup_LDADD = common/libcommon.la
tests_unit_test_decide_SOURCES = tests/unit/test-decide.c tests/unit/node.h tests/unit/test.h
tests_unit_test_decide_LDADD = common/libcommon.la
tests_unit_test_job_self_SOURCES = tests/unit/test-job-self.c tests/unit/node.h tests/unit/test.h
tests_unit_test_job_self_LDADD = common/libcommon.la
tests_unit_test_pin_SOURCES = tests/unit/test-pin.c tests/unit/node.h tests/unit/test.h
tests_unit_test_pin_LDADD = common/libcommon.la
tests_unit_test_job_SOURCES = tests/unit/test-job.c tests/unit/node.h tests/unit/test.h
tests_unit_test_job_LDADD = common/libcommon.la
tests_unit_test_procfs_SOURCES = tests/unit/test-procfs.c tests/unit/node.h tests/unit/test.h
tests_unit_test_procfs_LDADD = common/libcommon.la

FUZZERS += tests/fuzz/fuzz-procfs
tests_fuzz_fuzz_procfs_SOURCES = tests/fuzz/fuzz-procfs.c $(REPLAY)
tests_fuzz_fuzz_procfs_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)
