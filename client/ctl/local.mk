## client/ctl/: cudaenvctl; everything but main() is libctl
noinst_LTLIBRARIES += client/ctl/libctl.la
client_ctl_libctl_la_SOURCES = \
	client/ctl/check.c \
	client/ctl/child.c client/ctl/child.h \
	client/ctl/compare.c client/ctl/compare.h \
	client/ctl/complete.c \
	client/ctl/change.c client/ctl/change.h \
	client/ctl/control.c client/ctl/control.h \
	client/ctl/ctl.c client/ctl/ctl.h \
	client/ctl/diff.c \
	client/ctl/doctor-daemon.c \
	client/ctl/doctor-install.c \
	client/ctl/doctor-python.c \
	client/ctl/doctor-setters.c \
	client/ctl/doctor.c client/ctl/doctor.h \
	client/ctl/duration.c client/ctl/duration.h \
	client/ctl/examples.c client/ctl/examples.h \
	client/ctl/exec.c \
	client/ctl/execblock.c client/ctl/execblock.h \
	client/ctl/expect.c client/ctl/expect.h \
	client/ctl/export.c client/ctl/export.h \
	client/ctl/export-plain.c \
	client/ctl/export-shell.c \
	client/ctl/fallback.c client/ctl/fallback.h \
	client/ctl/findings.c client/ctl/findings.h \
	client/ctl/holders.c client/ctl/holders.h \
	client/ctl/import.c client/ctl/import.h \
	client/ctl/import-env.c \
	client/ctl/import-kind.c \
	client/ctl/import-list.c \
	client/ctl/import-nccl-conf.c \
	client/ctl/import-number.c client/ctl/import-number.h \
	client/ctl/import-profile.c client/ctl/import-profile.h \
	client/ctl/import-python-elements.c \
	client/ctl/import-python-env.c \
	client/ctl/import-python-expr.c client/ctl/import-python-internal.h \
	client/ctl/import-python-lex.c client/ctl/import-python-lex.h \
	client/ctl/import-python-format.c \
	client/ctl/import-python-names.c \
	client/ctl/import-python-run.c \
	client/ctl/import-python-value.c \
	client/ctl/import-python.c \
	client/ctl/import-shell-expand.c \
	client/ctl/import-shell-variable.c client/ctl/import-shell-variable.h \
	client/ctl/import-shell-word.c client/ctl/import-shell-word.h \
	client/ctl/import-shell.c \
	client/ctl/import-unit.c \
	client/ctl/jsonutil.c client/ctl/jsonutil.h \
	client/ctl/list.c \
	client/ctl/mode.c \
	client/ctl/missing.c client/ctl/missing.h \
	client/ctl/mounts.c client/ctl/mounts.h \
	client/ctl/off.c client/ctl/off.h \
	client/ctl/override.c client/ctl/override.h \
	client/ctl/pick.c client/ctl/pick.h \
	client/ctl/place.c client/ctl/place.h \
	client/ctl/published.c client/ctl/published.h \
	client/ctl/pyall.c client/ctl/pyall.h \
	client/ctl/pycompile.c client/ctl/pycompile.h \
	client/ctl/pyexe.c client/ctl/pyexe.h \
	client/ctl/pycover.c client/ctl/pycover.h \
	client/ctl/pyfind.c client/ctl/pyfind.h \
	client/ctl/pyjudge.c client/ctl/pyjudge.h \
	client/ctl/pyhook.c client/ctl/pyhook.h \
	client/ctl/pylog.c client/ctl/pylog.h \
	client/ctl/pyplace-change.c client/ctl/pyplace-internal.h \
	client/ctl/pyplace-look.c client/ctl/pyplace.h \
	client/ctl/python.c \
	client/ctl/pyshow.c client/ctl/pyshow.h \
	client/ctl/pytrust.c client/ctl/pytrust.h \
	client/ctl/pywork.c client/ctl/pywork.h \
	client/ctl/release.c \
	client/ctl/report.c client/ctl/report.h \
	client/ctl/rules.c client/ctl/rules.h \
	client/ctl/reach.c client/ctl/reach.h \
	client/ctl/set.c \
	client/ctl/show.c \
	client/ctl/slurp.c client/ctl/slurp.h \
	client/ctl/stays.c client/ctl/stays.h \
	client/ctl/started.c client/ctl/started.h \
	client/ctl/status.c \
	client/ctl/subject.c client/ctl/subject.h \
	client/ctl/table.c client/ctl/table.h \
	client/ctl/text.c client/ctl/text.h \
	client/ctl/unitfiles.c client/ctl/unitfiles.h \
	client/ctl/use.c \
	client/ctl/why.c client/ctl/why.h \
	client/ctl/why-judge.c \
	client/ctl/why-print.c \
	client/ctl/workers.c client/ctl/workers.h \
	client/ctl/worklist.c
client_ctl_libctl_la_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSON_CFLAGS)
client_ctl_libctl_la_LIBADD = client/libclient.la common/libprofile.la $(SYSTEMD_LIBS) $(JSON_LIBS)

bin_PROGRAMS += cudaenvctl
cudaenvctl_SOURCES = client/ctl/main.c
cudaenvctl_LDADD = client/ctl/libctl.la

# What they offer comes from the program itself (complete.c), so they need no change with it.
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = client/ctl/completion/cudaenvctl
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = client/ctl/completion/_cudaenvctl
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = client/ctl/completion/cudaenvctl.fish

LIBCTL_TESTS = tests/unit/test-control tests/unit/test-duration tests/unit/test-execblock tests/unit/test-holders tests/unit/test-started tests/unit/test-table tests/unit/test-text
check_PROGRAMS += $(LIBCTL_TESTS)
TESTS += $(LIBCTL_TESTS)
tests_unit_test_control_SOURCES = tests/unit/test-control.c tests/unit/test.h
tests_unit_test_control_LDADD = client/ctl/libctl.la
tests_unit_test_execblock_SOURCES = tests/unit/test-execblock.c tests/unit/test.h
tests_unit_test_execblock_LDADD = client/ctl/libctl.la
tests_unit_test_duration_SOURCES = tests/unit/test-duration.c tests/unit/test.h
tests_unit_test_duration_LDADD = client/ctl/libctl.la
tests_unit_test_started_SOURCES = tests/unit/test-started.c tests/unit/test.h
tests_unit_test_started_LDADD = client/ctl/libctl.la
tests_unit_test_table_SOURCES = tests/unit/test-table.c tests/unit/test.h
tests_unit_test_table_LDADD = client/ctl/libctl.la
tests_unit_test_text_SOURCES = tests/unit/test-text.c tests/unit/test.h
tests_unit_test_text_LDADD = client/ctl/libctl.la
tests_unit_test_holders_SOURCES = tests/unit/test-holders.c tests/unit/test.h
tests_unit_test_holders_LDADD = client/ctl/libctl.la

FUZZERS += tests/fuzz/fuzz-ctl
tests_fuzz_fuzz_ctl_SOURCES = tests/fuzz/fuzz-ctl.c $(REPLAY)
tests_fuzz_fuzz_ctl_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_fuzz_fuzz_ctl_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)

IMPORT_TESTS = tests/unit/test-import tests/unit/test-import-files tests/unit/test-import-profile \
	tests/unit/test-import-python tests/unit/test-import-python-names \
	tests/unit/test-unitfiles
check_PROGRAMS += $(IMPORT_TESTS)
TESTS += $(IMPORT_TESTS)
tests_unit_test_import_SOURCES = tests/unit/test-import.c tests/unit/import-show.h tests/unit/test.h
tests_unit_test_import_LDADD = client/ctl/libctl.la
tests_unit_test_import_files_SOURCES = tests/unit/test-import-files.c tests/unit/test.h
tests_unit_test_import_files_LDADD = client/ctl/libctl.la
tests_unit_test_import_profile_SOURCES = tests/unit/test-import-profile.c tests/unit/test.h
tests_unit_test_import_profile_LDADD = client/ctl/libctl.la
tests_unit_test_import_python_SOURCES = tests/unit/test-import-python.c tests/unit/import-show.h tests/unit/test.h
tests_unit_test_import_python_LDADD = client/ctl/libctl.la
tests_unit_test_import_python_names_SOURCES = tests/unit/test-import-python-names.c tests/unit/import-show.h \
	tests/unit/test.h
tests_unit_test_import_python_names_LDADD = client/ctl/libctl.la
tests_unit_test_unitfiles_SOURCES = tests/unit/test-unitfiles.c tests/unit/temp.h tests/unit/test.h
tests_unit_test_unitfiles_LDADD = client/ctl/libctl.la

FUZZERS += tests/fuzz/fuzz-import-env tests/fuzz/fuzz-import-nccl-conf tests/fuzz/fuzz-import-python \
	tests/fuzz/fuzz-import-shell tests/fuzz/fuzz-import-unit
tests_fuzz_fuzz_import_env_SOURCES = tests/fuzz/fuzz-import-env.c tests/fuzz/import.h $(REPLAY)
tests_fuzz_fuzz_import_env_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_import_nccl_conf_SOURCES = tests/fuzz/fuzz-import-nccl-conf.c tests/fuzz/import.h $(REPLAY)
tests_fuzz_fuzz_import_nccl_conf_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_import_python_SOURCES = tests/fuzz/fuzz-import-python.c tests/fuzz/import.h $(REPLAY)
tests_fuzz_fuzz_import_python_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_import_shell_SOURCES = tests/fuzz/fuzz-import-shell.c tests/fuzz/import.h $(REPLAY)
tests_fuzz_fuzz_import_shell_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
tests_fuzz_fuzz_import_unit_SOURCES = tests/fuzz/fuzz-import-unit.c tests/fuzz/import.h $(REPLAY)
tests_fuzz_fuzz_import_unit_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
FUZZERS += tests/fuzz/fuzz-export
tests_fuzz_fuzz_export_SOURCES = tests/fuzz/fuzz-export.c $(REPLAY)
tests_fuzz_fuzz_export_CFLAGS = $(AM_CFLAGS) $(JSON_CFLAGS)
tests_fuzz_fuzz_export_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)

FUZZERS += tests/fuzz/fuzz-mounts
tests_fuzz_fuzz_mounts_SOURCES = tests/fuzz/fuzz-mounts.c $(REPLAY)
tests_fuzz_fuzz_mounts_LDADD = client/ctl/libctl.la $(LIB_FUZZING_ENGINE)
