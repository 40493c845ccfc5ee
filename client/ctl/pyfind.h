/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interpreters of this machine: bases and venvs in the usual places, each once, none of them
 * run. Used by `python install|remove --all`, `python status` and `doctor`.
 *
 * Looked at: /usr/bin, /usr/local/bin, /usr/local/NAME/bin, /opt/NAME/bin and its venv/ or .venv/;
 * pyenv (PYENV_ROOT, ~/.pyenv, /opt/pyenv, /usr/local/pyenv) with its virtualenvs; conda
 * (anaconda3, miniconda3, miniforge3, mambaforge, conda and the like in ~, /opt, /usr/local) with
 * its envs/; uv's interpreters (UV_PYTHON_INSTALL_DIR, ~/.local/share/uv/python); VIRTUAL_ENV and
 * CONDA_PREFIX. Then the base of each venv that was found. No other user's home.
 *
 * Bounded: no recursion, PYFIND_MAX interpreters, PYFIND_NAMES_MAX names of a directory, a
 * deadline. A mount of the network (or of the automounter) is not entered, so that a server that
 * does not answer stops nobody: it becomes one item of kind PYFIND_PLACE.
 */

#include "client/ctl/pyexe.h"

#define PYFIND_MAX       256
#define PYFIND_NAMES_MAX 1024

enum pyfind_kind {
	PYFIND_BASE,
	PYFIND_VENV,
	PYFIND_BROKEN, /* looks like one, but cannot be told: skip says why; of exe only .exe */
	PYFIND_PLACE,  /* a directory that was not looked into: skip says why; of exe only .exe */
};

struct pyfind_item {
	enum pyfind_kind kind;
	struct pyexe exe;
	const char *source; /* "system", "local", "opt", "pyenv", "conda", "uv", "active", "venv"
			       (the base of one that was found) */
	size_t base;        /* of a venv: the index of its base; else its own, or SIZE_MAX */
	char *skip; /* why `--all` leaves it alone, a sentence without a dot; NULL: it does not.
		       Venvs are judged like bases. */
};

struct pyfind {
	struct pyfind_item *items;
	size_t n;
	const char *cut; /* NULL, or which bound was met: there may be more */
};

struct pyfind_options {
	const char *root; /* in front of the fixed places; NULL: "" */
	const char *home; /* NULL: no places in it; the others likewise */
	const char *pyenv_root;
	const char *uv_root;
	const char *active[2];  /* VIRTUAL_ENV, CONDA_PREFIX */
	const char *mountinfo;  /* NULL: /proc/self/mountinfo */
	unsigned deadline_msec; /* 0: 10 s */
};

/* Fills in what the environment says. */
void pyfind_environment(struct pyfind_options *ret);
/* 0, or -ENOMEM. */
int pyfind(const struct pyfind_options *options, struct pyfind *ret);
void pyfind_done(struct pyfind *f);

/* "base", "venv", "unknown", "place" */
const char *pyfind_kind_name(enum pyfind_kind kind);
