## client/ctl/: cudaenvctl; everything but main() is libctl
noinst_LTLIBRARIES += client/ctl/libctl.la
client_ctl_libctl_la_SOURCES = \
	client/ctl/ctl.c client/ctl/ctl.h \
	client/ctl/text.c client/ctl/text.h
client_ctl_libctl_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
client_ctl_libctl_la_LIBADD = client/libclient.la common/libprofile.la $(SYSTEMD_LIBS) $(JSON_LIBS)

bin_PROGRAMS += cudaenvctl
cudaenvctl_SOURCES = client/ctl/main.c
cudaenvctl_LDADD = client/ctl/libctl.la
