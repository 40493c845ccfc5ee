## daemon/: what all pieces share
noinst_LTLIBRARIES += daemon/liblog.la
daemon_liblog_la_SOURCES = daemon/log.c daemon/log.h daemon/userns.c daemon/userns.h
daemon_liblog_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
daemon_liblog_la_LIBADD = $(SYSTEMD_LIBS)

check_PROGRAMS += tests/unit/test-log
TESTS += tests/unit/test-log
tests_unit_test_log_SOURCES = tests/unit/test-log.c tests/unit/test.h
tests_unit_test_log_LDADD = daemon/liblog.la
