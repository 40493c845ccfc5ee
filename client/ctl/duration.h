/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How long something lasts, as systemd writes it: 2h, 90min, 1d 12h, a number alone is seconds. And
 * when something is: in UTC, as in the history, whatever the reader's zone.
 */

#include <stdint.h>

#define DURATION_MAX      ((uint64_t)3650 * 24 * 3600) /* ten years */
#define DURATION_SIZE     32
#define TIME_SIZE         32
#define DURATION_EXAMPLES "2h, 90min, 1d 12h"

/* 0, -EINVAL (no duration), -ERANGE (nothing at all, or more than DURATION_MAX). */
int duration_parse(const char *text, uint64_t *ret_seconds);
/* The two largest units that are not zero: "1h 59min". */
void duration_format(int64_t seconds, char ret[DURATION_SIZE]);
/* "2026-01-01T12:00:00Z"; "?" for what no calendar has. */
void time_format(int64_t when, char ret[TIME_SIZE]);
