## daemon/broker/: answers clients, keeps the register; all but main() is libbroker
noinst_LTLIBRARIES += daemon/broker/libbroker.la
daemon_broker_libbroker_la_SOURCES = \
	daemon/broker/account.c daemon/broker/account.h \
	daemon/broker/adopt.c daemon/broker/adopt.h \
	daemon/broker/ancestors.c daemon/broker/ancestors.h \
	daemon/broker/broker.c daemon/broker/broker.h \
	daemon/broker/listener.c daemon/broker/listener.h \
	daemon/broker/operator.c daemon/broker/operator.h \
	daemon/broker/pidfd.c daemon/broker/pidfd.h \
	daemon/broker/registry.c daemon/broker/registry.h \
	daemon/broker/request.c daemon/broker/request.h \
	daemon/broker/roots.c daemon/broker/roots.h \
	daemon/broker/search.c daemon/broker/search.h \
	daemon/broker/server.c daemon/broker/server.h \
	daemon/broker/table.c daemon/broker/table.h
daemon_broker_libbroker_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
daemon_broker_libbroker_la_LIBADD = common/libcommon.la daemon/liblog.la $(SYSTEMD_LIBS)

# The paths alone, without the parsers and libcrypto behind libprofile: the broker stays small.
pkglibexec_PROGRAMS += daemon/broker/cudaenv-broker
daemon_broker_cudaenv_broker_SOURCES = daemon/broker/main.c common/paths.c
daemon_broker_cudaenv_broker_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
daemon_broker_cudaenv_broker_LDADD = daemon/broker/libbroker.la

check_PROGRAMS += tests/unit/test-adopt tests/unit/test-registry tests/unit/test-request \
	tests/unit/test-hostile
TESTS += tests/unit/test-adopt tests/unit/test-registry tests/unit/test-request \
	tests/unit/test-hostile
tests_unit_test_adopt_SOURCES = tests/unit/test-adopt.c tests/unit/broker-fixture.h \
	tests/unit/broker-peer.h tests/unit/test.h
tests_unit_test_adopt_LDADD = daemon/broker/libbroker.la
tests_unit_test_registry_SOURCES = tests/unit/test-registry.c tests/unit/test.h
tests_unit_test_registry_LDADD = daemon/broker/libbroker.la
tests_unit_test_hostile_SOURCES = tests/unit/test-hostile.c tests/unit/broker-fixture.h \
	tests/unit/broker-peer.h tests/unit/test.h
tests_unit_test_hostile_LDADD = daemon/broker/libbroker.la
tests_unit_test_request_SOURCES = tests/unit/test-request.c tests/unit/broker-fixture.h \
	tests/unit/broker-peer.h tests/unit/test.h
tests_unit_test_request_LDADD = daemon/broker/libbroker.la

FUZZERS += tests/fuzz/fuzz-request
tests_fuzz_fuzz_request_SOURCES = tests/fuzz/fuzz-request.c tests/unit/broker-fixture.h $(REPLAY)
tests_fuzz_fuzz_request_LDADD = daemon/broker/libbroker.la $(LIB_FUZZING_ENGINE)
