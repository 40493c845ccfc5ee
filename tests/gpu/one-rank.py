# SPDX-License-Identifier: MIT
"""One of two ranks: one-rank.py RANK PREFIX; PREFIX.started.RANK is there as soon as it has its environment."""
import pathlib
import sys

rank, prefix = int(sys.argv[1]), sys.argv[2]
pathlib.Path(f"{prefix}.started.{rank}").touch()

import gpu_ranks  # noqa: E402: torch is imported after the switch, as in a slow start

gpu_ranks.reduce(rank, 2, prefix, limit=60)
