## etc/: data files. No profile is active after an installation: the shipped ones are examples
dist_facts_DATA = etc/facts/must-match
examplesdir = $(pkgdatadir)/examples
dist_examples_DATA = etc/examples/pcie8.ini
