# SPDX-License-Identifier: MIT
"""A short run of the model test (tests/model/model.py, ./dev model); what it prints has the seed."""
import os
import subprocess
import sys

import pytest

from node import SRC


def test_model():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs root and pid namespaces")
    done = subprocess.run([sys.executable, SRC / "tests/model/model.py", "--steps", "400", "--ranks", "10"], capture_output=True, text=True,
                          timeout=300)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[-2000:]
