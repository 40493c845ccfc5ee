/* SPDX-License-Identifier: MIT */
/* The reader of kind python, and the profile made of what it read. */
#include "tests/fuzz/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_fuzz(IMPORT_PYTHON, data, size);
	return 0;
}
