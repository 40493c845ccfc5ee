## etc/: data files. No profile is active after an installation: the shipped ones are examples
dist_facts_DATA = etc/facts/must-match
examplesdir = $(pkgdatadir)/examples
dist_examples_DATA = etc/examples/pcie8.ini
# The commented defaults; tests/check-config.sh holds it against the table in daemon/manager/config.c.
cudaenvconfdir = $(sysconfdir)/cudaenv
dist_cudaenvconf_DATA = etc/cudaenvd.conf
TESTS += tests/check-config.sh
EXTRA_DIST += tests/check-config.sh
