## man/: the manual pages; tests/check-man.sh holds them against the programs' own --help, tables and header
dist_man_MANS = man/cudaenvctl.1 man/libcudaenv.3 man/cudaenv.profile.5 man/cudaenvd.conf.5 man/cudaenv-broker.8 man/cudaenvd.8
TESTS += tests/check-man.sh
EXTRA_DIST += tests/check-man.sh
