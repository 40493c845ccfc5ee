/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzzer over its corpus: main() for the normal test run. The corpus directory is
 * $SRCDIR/tests/fuzz/corpus/NAME for the program fuzz-NAME; a missing or empty one is a failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t *data;
	long size;

	if (!f)
		return -1;
	if (fseek(f, 0, SEEK_END) < 0 || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) < 0) {
		fclose(f);
		return -1;
	}
	/* Exactly as long as the input, so that a sanitizer sees a read beyond it. */
	data = malloc(size > 0 ? (size_t)size : 1);
	if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
		free(data);
		fclose(f);
		return -1;
	}
	fclose(f);
	(void)LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
	return 0;
}

int main(int argc, char *argv[])
{
	const char *src = getenv("SRCDIR"), *name = strrchr(argv[0], '/');
	char dir[4096], path[8192];
	unsigned n = 0;
	DIR *d;

	name = name ? name + 1 : argv[0];
	if (strncmp(name, "lt-", 3) == 0)
		name += 3;
	if (strncmp(name, "fuzz-", 5) == 0)
		name += 5;
	snprintf(dir, sizeof dir, "%s/tests/fuzz/corpus/%s", src ? src : ".", name);
	d = opendir(dir);
	if (!d) {
		perror(dir);
		return 1;
	}
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (replay_file(path) < 0) {
			perror(path);
			closedir(d);
			return 1;
		}
		n++;
	}
	closedir(d);
	printf("%u inputs replayed from %s\n", n, dir);
	return n > 0 ? 0 : 1;
}
