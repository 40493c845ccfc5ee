## daemon/manager/: cudaenvd; everything but main() is libmanager, which tests link
noinst_LTLIBRARIES += daemon/libmanager.la
daemon_libmanager_la_SOURCES = \
	daemon/manager/active.c \
	daemon/manager/children.c daemon/manager/children.h \
	daemon/manager/compile.c daemon/manager/compile.h \
	daemon/manager/config.c daemon/manager/config.h \
	daemon/manager/control.c daemon/manager/control.h \
	daemon/manager/documents.c \
	daemon/manager/files.c daemon/manager/files.h \
	daemon/manager/history.c \
	daemon/manager/json.c daemon/manager/json.h \
	daemon/manager/manager.c daemon/manager/manager.h \
	daemon/manager/operations.c \
	daemon/manager/peer.c daemon/manager/peer.h \
	daemon/manager/publish.c daemon/manager/publish.h \
	daemon/manager/state.c daemon/manager/state.h \
	daemon/manager/switch.c \
	daemon/manager/watch.c daemon/manager/watch.h \
	daemon/manager/words.c daemon/manager/words.h
daemon_libmanager_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
daemon_libmanager_la_LIBADD = common/libprofile.la common/libcommon.la daemon/liblog.la \
	$(SYSTEMD_LIBS) $(JSON_LIBS)

sbin_PROGRAMS += cudaenvd
cudaenvd_SOURCES = daemon/manager/main.c
cudaenvd_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
cudaenvd_LDADD = daemon/libmanager.la
