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

check_PROGRAMS += tests/unit/test-apply
TESTS += tests/unit/test-apply
tests_unit_test_apply_SOURCES = tests/unit/test-apply.c tests/unit/test.h
tests_unit_test_apply_LDADD = client/libclient.la
