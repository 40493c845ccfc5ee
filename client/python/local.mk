## client/python/: the Python start hook: the extension, and the sources that `cudaenvctl python install` makes a hook of
hookdir = $(pkglibdir)/python
dist_hook_DATA = \
	client/python/00-cudaenv.pth \
	client/python/00-cudaenv.start \
	client/python/cudaenv_alone.py \
	client/python/cudaenv_apply.py \
	client/python/cudaenv_reader.py \
	client/python/cudaenv_start.py \
	client/python/sitecustomize.py
EXTRA_DIST += client/python/pymodule.map

if HAVE_PYTHON
hook_LTLIBRARIES = client/python/_cudaenv.abi3.la
client_python__cudaenv_abi3_la_SOURCES = client/python/pymodule.c
client_python__cudaenv_abi3_la_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CFLAGS:-I%=-isystem%)
client_python__cudaenv_abi3_la_LIBADD = client/libclient.la
client_python__cudaenv_abi3_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--version-script=$(top_srcdir)/client/python/pymodule.map
EXTRA_client_python__cudaenv_abi3_la_DEPENDENCIES = client/python/pymodule.map

# The interpreter loads the .so by its path; nobody links it.
install-data-hook:
	rm -f '$(DESTDIR)$(hookdir)/_cudaenv.abi3.la'
endif

PYTHON_TESTS = tests/unit/test-pyexe tests/unit/test-pyfind tests/unit/test-pyplace
check_PROGRAMS += $(PYTHON_TESTS)
TESTS += $(PYTHON_TESTS)
tests_unit_test_pyexe_SOURCES = tests/unit/test-pyexe.c tests/unit/test.h
tests_unit_test_pyexe_LDADD = client/ctl/libctl.la
tests_unit_test_pyfind_SOURCES = tests/unit/test-pyfind.c tests/unit/temp.h tests/unit/test.h
tests_unit_test_pyfind_LDADD = client/ctl/libctl.la
tests_unit_test_pyplace_SOURCES = tests/unit/test-pyplace.c tests/unit/test.h
tests_unit_test_pyplace_LDADD = client/ctl/libctl.la
