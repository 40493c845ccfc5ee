## systemd/: units, users, directories
dist_systemdsystemunit_DATA = systemd/cudaenvd.socket systemd/cudaenv-broker.socket \
	systemd/run-cudaenv-jobs.mount systemd/run-cudaenv-procs.mount
nodist_systemdsystemunit_DATA = systemd/cudaenvd.service systemd/cudaenv-broker.service
EXTRA_DIST += systemd/cudaenvd.service.in systemd/cudaenv-broker.service.in
CLEANFILES += systemd/cudaenvd.service systemd/cudaenv-broker.service
# Not AC_CONFIG_FILES: directories are fully expanded only at make time.
EDIT_UNIT = $(AM_V_GEN)$(MKDIR_P) systemd && sed -e 's|@sbindir[@]|$(sbindir)|g' \
	-e 's|@pkglibexecdir[@]|$(pkglibexecdir)|g'
systemd/cudaenvd.service: systemd/cudaenvd.service.in Makefile
	$(EDIT_UNIT) $(srcdir)/systemd/cudaenvd.service.in >$@
systemd/cudaenv-broker.service: systemd/cudaenv-broker.service.in Makefile
	$(EDIT_UNIT) $(srcdir)/systemd/cudaenv-broker.service.in >$@

# One name in both directories.
dist_sysusers_DATA = systemd/sysusers.d/cudaenv.conf
dist_tmpfiles_DATA = systemd/tmpfiles.d/cudaenv.conf
dist_systempreset_DATA = systemd/90-cudaenv.preset
