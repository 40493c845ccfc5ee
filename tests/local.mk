## tests/: what belongs to no single module; unit tests and fuzzers stand in the local.mk of what they test
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/replay.c
