## common/: libcommon (libc alone, in every piece and in libcudaenv) and libprofile (libinih, libcrypto)
noinst_LTLIBRARIES += common/libcommon.la common/libprofile.la
common_libcommon_la_SOURCES = \
	common/assign.c common/assign.h \
	common/cgroup.c common/cgroup.h \
	common/decide.c common/decide.h \
	common/ranks.c common/ranks.h \
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
	common/known.c common/known.h \
	common/near.c common/near.h \
	common/paths.c common/paths.h \
	common/profile.c common/profile.h common/profile-internal.h \
	common/profile-check.c \
	common/profile-derive.c common/profile-derive.h \
	common/profile-finish.c \
	common/profile-join.c \
	common/profile-list.c common/profile-list.h \
	common/profile-names.c common/profile-names.h \
	common/profile-path.c common/profile-path.h \
	common/profile-set.c \
	common/profile-text.c common/profile-text.h \
	common/profile-toolkit.c \
	common/scope.c common/scope.h
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
JOB_TESTS = tests/unit/test-cgroup tests/unit/test-decide tests/unit/test-job \
	tests/unit/test-job-cgroup tests/unit/test-job-self tests/unit/test-job-token \
	tests/unit/test-pin tests/unit/test-procfs tests/unit/test-ranks
check_PROGRAMS += $(JOB_TESTS)
TESTS += $(JOB_TESTS)
tests_unit_test_cgroup_SOURCES = tests/unit/test-cgroup.c tests/unit/node.h tests/unit/test.h
tests_unit_test_cgroup_LDADD = common/libcommon.la
tests_unit_test_decide_SOURCES = tests/unit/test-decide.c tests/unit/node.h tests/unit/test.h
tests_unit_test_decide_LDADD = common/libcommon.la
JOB_LOOK = tests/unit/job-look.h tests/unit/node.h tests/unit/test.h
tests_unit_test_job_cgroup_SOURCES = tests/unit/test-job-cgroup.c $(JOB_LOOK)
tests_unit_test_job_cgroup_LDADD = common/libcommon.la
tests_unit_test_job_token_SOURCES = tests/unit/test-job-token.c $(JOB_LOOK)
tests_unit_test_job_token_LDADD = common/libcommon.la
tests_unit_test_job_self_SOURCES = tests/unit/test-job-self.c tests/unit/node.h tests/unit/test.h
tests_unit_test_job_self_LDADD = common/libcommon.la
tests_unit_test_pin_SOURCES = tests/unit/test-pin.c tests/unit/node.h tests/unit/test.h
tests_unit_test_pin_LDADD = common/libcommon.la
tests_unit_test_ranks_SOURCES = tests/unit/test-ranks.c tests/unit/node.h tests/unit/test.h
tests_unit_test_ranks_LDADD = common/libcommon.la
tests_unit_test_job_SOURCES = tests/unit/test-job.c $(JOB_LOOK)
tests_unit_test_job_LDADD = common/libcommon.la
tests_unit_test_procfs_SOURCES = tests/unit/test-procfs.c tests/unit/node.h tests/unit/test.h
tests_unit_test_procfs_LDADD = common/libcommon.la

FUZZERS += tests/fuzz/fuzz-procfs
tests_fuzz_fuzz_procfs_SOURCES = tests/fuzz/fuzz-procfs.c $(REPLAY)
tests_fuzz_fuzz_procfs_LDADD = common/libcommon.la $(LIB_FUZZING_ENGINE)

# --- libprofile
check_PROGRAMS += tests/unit/test-finding
TESTS += tests/unit/test-finding
tests_unit_test_finding_SOURCES = tests/unit/test-finding.c tests/unit/test.h
tests_unit_test_finding_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-facts
TESTS += tests/unit/test-facts
tests_unit_test_facts_SOURCES = tests/unit/test-facts.c tests/unit/test.h
tests_unit_test_facts_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-paths
TESTS += tests/unit/test-paths
tests_unit_test_paths_SOURCES = tests/unit/test-paths.c tests/unit/test.h
tests_unit_test_paths_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-ini
TESTS += tests/unit/test-ini
tests_unit_test_ini_SOURCES = tests/unit/test-ini.c tests/unit/test.h
tests_unit_test_ini_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile
TESTS += tests/unit/test-profile
tests_unit_test_profile_SOURCES = tests/unit/test-profile.c tests/unit/test.h
tests_unit_test_profile_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile-limits
TESTS += tests/unit/test-profile-limits
tests_unit_test_profile_limits_SOURCES = tests/unit/test-profile-limits.c tests/unit/test.h
tests_unit_test_profile_limits_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile-set
TESTS += tests/unit/test-profile-set
tests_unit_test_profile_set_SOURCES = tests/unit/test-profile-set.c tests/unit/test.h
tests_unit_test_profile_set_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile-path
TESTS += tests/unit/test-profile-path
tests_unit_test_profile_path_SOURCES = tests/unit/test-profile-path.c tests/unit/test.h
tests_unit_test_profile_path_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile-list
TESTS += tests/unit/test-profile-list
tests_unit_test_profile_list_SOURCES = tests/unit/test-profile-list.c tests/unit/test.h
tests_unit_test_profile_list_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-near
TESTS += tests/unit/test-near
tests_unit_test_near_SOURCES = tests/unit/test-near.c tests/unit/test.h
tests_unit_test_near_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-derive
TESTS += tests/unit/test-derive
tests_unit_test_derive_SOURCES = tests/unit/test-derive.c tests/unit/test.h
tests_unit_test_derive_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-scope
TESTS += tests/unit/test-scope
tests_unit_test_scope_SOURCES = tests/unit/test-scope.c tests/unit/test.h
tests_unit_test_scope_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-profile-names
TESTS += tests/unit/test-profile-names
tests_unit_test_profile_names_SOURCES = tests/unit/test-profile-names.c tests/unit/test.h
tests_unit_test_profile_names_LDADD = common/libprofile.la
check_PROGRAMS += tests/unit/test-known
TESTS += tests/unit/test-known
tests_unit_test_known_SOURCES = tests/unit/test-known.c tests/unit/test.h
tests_unit_test_known_LDADD = common/libprofile.la
FUZZERS += tests/fuzz/fuzz-ini
tests_fuzz_fuzz_ini_SOURCES = tests/fuzz/fuzz-ini.c $(REPLAY)
tests_fuzz_fuzz_ini_LDADD = common/libprofile.la $(LIB_FUZZING_ENGINE)
FUZZERS += tests/fuzz/fuzz-profile
tests_fuzz_fuzz_profile_SOURCES = tests/fuzz/fuzz-profile.c $(REPLAY)
tests_fuzz_fuzz_profile_LDADD = common/libprofile.la $(LIB_FUZZING_ENGINE)
