/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * May an installation for the whole machine put a hook at an interpreter's place? It leaves alone
 * what is of the network, of users, open to all, not writable, or too old. Whoever names such an
 * interpreter with --python decides otherwise.
 */

#include "client/ctl/pyexe.h"

/* DIRECTORY: where the hook would be put; NULL: where it is put by default. False with WHY: a
 * sentence without its dot. */
bool pyjudge(const struct pyexe *exe, const char *directory, char why[PYEXE_WHY_SIZE]);
