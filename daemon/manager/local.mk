## daemon/manager/: cudaenvd; everything but main() is libmanager, which tests link
noinst_LTLIBRARIES += daemon/libmanager.la
daemon_libmanager_la_SOURCES = \
	daemon/manager/active.c \
	daemon/manager/adopt.c \
	daemon/manager/children.c daemon/manager/children.h \
	daemon/manager/compile.c daemon/manager/compile.h \
	daemon/manager/config.c daemon/manager/config.h \
	daemon/manager/config-load.c \
	daemon/manager/config-missing.c daemon/manager/config-missing.h \
	daemon/manager/control.c daemon/manager/control.h \
	daemon/manager/derive.c \
	daemon/manager/documents.c \
	daemon/manager/files.c daemon/manager/files.h \
	daemon/manager/history.c \
	daemon/manager/json.c daemon/manager/json.h \
	daemon/manager/manager.c daemon/manager/manager.h \
	daemon/manager/operations.c \
	daemon/manager/override.c daemon/manager/override.h \
	daemon/manager/override-operations.c \
	daemon/manager/peer.c daemon/manager/peer.h \
	daemon/manager/publish.c daemon/manager/publish.h \
	daemon/manager/release.c daemon/manager/release.h \
	daemon/manager/state.c daemon/manager/state.h \
	daemon/manager/switch.c \
	daemon/manager/ranks.c \
	daemon/manager/watch.c daemon/manager/watch.h \
	daemon/manager/words.c daemon/manager/words.h
daemon_libmanager_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
daemon_libmanager_la_LIBADD = common/libprofile.la common/libcommon.la daemon/liblog.la \
	$(SYSTEMD_LIBS) $(JSON_LIBS)

sbin_PROGRAMS += cudaenvd
cudaenvd_SOURCES = daemon/manager/main.c
cudaenvd_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
cudaenvd_LDADD = daemon/libmanager.la

MANAGER_TESTS = tests/unit/test-config tests/unit/test-override tests/unit/test-override-crash tests/unit/test-peer tests/unit/test-publish tests/unit/test-state \
	tests/unit/test-switch tests/unit/test-watch
check_PROGRAMS += $(MANAGER_TESTS)
TESTS += $(MANAGER_TESTS)
tests_unit_test_config_SOURCES = tests/unit/test-config.c tests/unit/temp.h tests/unit/test.h
tests_unit_test_config_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_unit_test_config_LDADD = daemon/libmanager.la
tests_unit_test_override_SOURCES = tests/unit/test-override.c tests/unit/test.h
tests_unit_test_override_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_unit_test_override_LDADD = daemon/libmanager.la
# System calls that change files go through tests/unit/crash.c.
CRASH = tests/unit/crash.c tests/unit/crash.h tests/unit/temp.h tests/unit/test.h
CRASH_FLAGS = $(AM_LDFLAGS) -Wl,--wrap=write,--wrap=fsync,--wrap=fchmod,--wrap=ftruncate,--wrap=unlinkat \
	-Wl,--wrap=mkdirat,--wrap=symlinkat,--wrap=renameat,--wrap=utimensat
tests_unit_test_publish_SOURCES = tests/unit/test-publish.c $(CRASH)
tests_unit_test_publish_LDFLAGS = $(CRASH_FLAGS)
tests_unit_test_publish_LDADD = daemon/libmanager.la
tests_unit_test_state_SOURCES = tests/unit/test-state.c $(CRASH)
tests_unit_test_state_LDFLAGS = $(CRASH_FLAGS)
tests_unit_test_state_LDADD = daemon/libmanager.la
tests_unit_test_override_crash_SOURCES = tests/unit/test-override-crash.c tests/unit/switch-node.h $(CRASH)
tests_unit_test_override_crash_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
tests_unit_test_override_crash_LDFLAGS = $(CRASH_FLAGS)
tests_unit_test_override_crash_LDADD = daemon/libmanager.la
tests_unit_test_switch_SOURCES = tests/unit/test-switch.c tests/unit/switch-node.h $(CRASH)
tests_unit_test_switch_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
tests_unit_test_switch_LDFLAGS = $(CRASH_FLAGS)
tests_unit_test_switch_LDADD = daemon/libmanager.la
tests_unit_test_watch_SOURCES = tests/unit/test-watch.c tests/unit/temp.h tests/unit/test.h
tests_unit_test_watch_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
tests_unit_test_watch_LDADD = daemon/libmanager.la
tests_unit_test_peer_SOURCES = tests/unit/test-peer.c tests/unit/temp.h tests/unit/test.h
tests_unit_test_peer_LDADD = daemon/libmanager.la

FUZZERS += tests/fuzz/fuzz-manager
tests_fuzz_fuzz_manager_SOURCES = tests/fuzz/fuzz-manager.c $(REPLAY)
tests_fuzz_fuzz_manager_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_fuzz_fuzz_manager_LDADD = daemon/libmanager.la $(LIB_FUZZING_ENGINE)
