/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Findings of common/finding for people and programs: as `check` prints them, and as a changing verb
 * warns of them beside its answer.
 */

#include "common/finding.h"

struct json_object;

/* FILE: NULL, where there is none. */
struct json_object *finding_json(const struct finding *f, const char *file);
/* All of ALL, of no file. */
struct json_object *findings_json(const struct findings *all);
/* To stdout: a line, and one more with the way out. */
void finding_print(const struct finding *f, const char *file);
/* "cudaenvctl: warning: text: the way out" to stderr, for each of ALL. */
void findings_warn(const struct findings *all);
