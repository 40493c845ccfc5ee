## client/: libcudaenv; its code is libclient.la, which the Python extension and cudaenvctl link as well
noinst_LTLIBRARIES += client/libclient.la
client_libclient_la_SOURCES = \
	client/apply.c client/apply.h client/apply-internal.h \
	client/apply-rules.c \
	client/apply-table.c \
	client/cudaenv.h \
	client/fetch.c client/fetch.h \
	client/marks.c client/marks.h \
	client/self.c client/self.h \
	client/start.c
client_libclient_la_LIBADD = common/libcommon.la

include_HEADERS = client/cudaenv.h
lib_LTLIBRARIES += libcudaenv.la
libcudaenv_la_SOURCES =
libcudaenv_la_LIBADD = client/libclient.la
libcudaenv_la_LDFLAGS = $(AM_LDFLAGS) $(NO_UNDEFINED) -version-info 0:0:0 \
	-Wl,--version-script=$(top_srcdir)/client/libcudaenv.map
EXTRA_libcudaenv_la_DEPENDENCIES = client/libcudaenv.map
EXTRA_DIST += client/libcudaenv.map
pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = client/libcudaenv.pc

check_PROGRAMS += tests/unit/test-apply tests/unit/test-apply-marks tests/unit/test-fetch tests/unit/test-guest \
	tests/unit/test-start tests/unit/test-start-files
# A sanitizer's build has its runtime's symbols.
if !SANITIZE
TESTS += tests/check-symbols.sh
endif
TESTS += tests/unit/test-apply tests/unit/test-apply-marks tests/unit/test-fetch \
	tests/unit/test-guest tests/unit/test-start tests/unit/test-start-files
EXTRA_DIST += tests/check-symbols.sh
tests_unit_test_apply_SOURCES = tests/unit/test-apply.c tests/unit/apply-process.h tests/unit/test.h
tests_unit_test_apply_LDADD = client/libclient.la
tests_unit_test_apply_marks_SOURCES = tests/unit/test-apply-marks.c tests/unit/apply-process.h tests/unit/test.h
tests_unit_test_apply_marks_LDADD = client/libclient.la
# Each of them uses a part of these headers.
client_test_headers = tests/unit/fake-broker.h tests/unit/runtime-tree.h tests/unit/start-node.h tests/unit/test.h
client_test_cflags = $(AM_CFLAGS) -pthread -Wno-unused-function
tests_unit_test_fetch_SOURCES = tests/unit/test-fetch.c $(client_test_headers)
tests_unit_test_fetch_CFLAGS = $(client_test_cflags)
tests_unit_test_fetch_LDADD = client/libclient.la
tests_unit_test_guest_SOURCES = tests/unit/test-guest.c $(client_test_headers)
tests_unit_test_guest_CFLAGS = $(client_test_cflags)
tests_unit_test_guest_LDADD = client/libclient.la
tests_unit_test_start_SOURCES = tests/unit/test-start.c $(client_test_headers)
tests_unit_test_start_CFLAGS = $(client_test_cflags)
tests_unit_test_start_LDADD = client/libclient.la
tests_unit_test_start_files_SOURCES = tests/unit/test-start-files.c $(client_test_headers)
tests_unit_test_start_files_CFLAGS = $(client_test_cflags)
tests_unit_test_start_files_LDADD = client/libclient.la

FUZZERS += tests/fuzz/fuzz-apply
tests_fuzz_fuzz_apply_SOURCES = tests/fuzz/fuzz-apply.c $(REPLAY)
tests_fuzz_fuzz_apply_LDADD = client/libclient.la $(LIB_FUZZING_ENGINE)
