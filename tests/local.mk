## tests/: what belongs to no single module; unit tests and fuzzers stand in the local.mk of what they test
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/replay.c tests/integration tests/data tests/gpu tests/launchers tests/schemas \
	tests/valgrind.sh tests/valgrind.supp

# Runs on an installed tree, so it is no part of `make check` (and of distcheck); ./dev test runs both.
integration: all tests/start-client tests/model-agent
	SRCDIR='$(abs_top_srcdir)' BUILDDIR='$(abs_top_builddir)' PYTEST='$(PYTEST)' \
		$(top_srcdir)/tests/integration/run.sh $(PYTEST_ARGS)
.PHONY: integration

# A program of libcudaenv's users, for the integration tests.
check_PROGRAMS += tests/start-client
tests_start_client_SOURCES = tests/start-client.c
tests_start_client_LDADD = client/libclient.la

# The processes of the model test.
check_PROGRAMS += tests/model-agent
tests_model_agent_SOURCES = tests/model/agent.c
tests_model_agent_LDADD = client/libclient.la
EXTRA_DIST += tests/model/model.py

# It reads the other logs of this run.
TESTS += tests/check-left-out.sh
EXTRA_DIST += tests/check-left-out.sh
tests/check-left-out.log: $(UNIT_LOGS)
UNIT_LOGS = $(TEST_LOGS:tests/check-%.log=)
