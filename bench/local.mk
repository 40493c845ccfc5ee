## bench/: built and run by `make bench`, never part of a test
EXTRA_PROGRAMS = bench/bench-client
bench_bench_client_SOURCES = bench/bench-client.c
bench_bench_client_LDADD = client/libclient.la
