## common/: libcommon (libc alone, in every piece and in libcudaenv) and libprofile (libinih, libcrypto)
noinst_LTLIBRARIES += common/libcommon.la common/libprofile.la
common_libcommon_la_SOURCES = \
	common/assign.c common/assign.h \
	common/decide.c common/decide.h \
	common/digest.c common/digest.h \
	common/job.c common/job.h \
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
	common/profile-join.c \
	common/profile-list.c common/profile-list.h \
	common/profile-names.c common/profile-names.h \
	common/profile-path.c common/profile-path.h \
	common/profile-set.c \
	common/profile-text.c common/profile-text.h \
	common/profile-toolkit.c
common_libprofile_la_CFLAGS = $(AM_CFLAGS) $(INIH_CFLAGS) $(CRYPTO_CFLAGS)
common_libprofile_la_LIBADD = common/libcommon.la $(INIH_LIBS) $(CRYPTO_LIBS)
