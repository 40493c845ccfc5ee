## etc/: data files. No profile is active after an installation: the shipped ones are examples
dist_facts_DATA = etc/facts/must-match
examplesdir = $(pkgdatadir)/examples
dist_examples_DATA = etc/examples/pcie8.ini
# The commented defaults; tests/check-config.sh holds it against the table in daemon/manager/config.c. It is the operator's file:
# installed where there is none, removed only as it was shipped.
cudaenvconfdir = $(sysconfdir)/cudaenv
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(cudaenvconfdir)/profiles.d'
	test -e '$(DESTDIR)$(cudaenvconfdir)/cudaenvd.conf' || \
		$(INSTALL_DATA) $(srcdir)/etc/cudaenvd.conf '$(DESTDIR)$(cudaenvconfdir)/cudaenvd.conf'
uninstall-local:
	! cmp -s $(srcdir)/etc/cudaenvd.conf '$(DESTDIR)$(cudaenvconfdir)/cudaenvd.conf' || \
		rm '$(DESTDIR)$(cudaenvconfdir)/cudaenvd.conf'
	-rmdir '$(DESTDIR)$(cudaenvconfdir)/profiles.d' '$(DESTDIR)$(cudaenvconfdir)' 2>/dev/null
TESTS += tests/check-config.sh
EXTRA_DIST += tests/check-config.sh etc/cudaenvd.conf
