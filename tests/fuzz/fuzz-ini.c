/* SPDX-License-Identifier: MIT */
/*
 * The INI reader: entries and findings must lie inside the text, and every value must stand in it
 * byte for byte.
 */
#include "common/ini.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct findings findings = {0};
	struct ini ini;
	unsigned lines = 1;

	require(ini_read((const char *)data, size, &ini, &findings) == 0);
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	for (size_t i = 0; i < ini.n_entries; i++) {
		const struct ini_entry *e = &ini.entries[i];

		require(e->line > e->section_line && e->line <= lines && e->column > 0);
		require(e->key[0] != '\0' && !strpbrk(e->key, "=\n\r"));
		require(!strpbrk(e->value, "\n\r"));
		require(memmem(data, size, e->value, strlen(e->value)) || e->value[0] == '\0');
		require(i == 0 || ini.entries[i - 1].line < e->line);
	}
	for (size_t i = 0; i < findings.n; i++)
		require(findings.items[i].line <= lines && findings.items[i].message[0] != '\0');
	ini_done(&ini);
	findings_done(&findings);
	return 0;
}
