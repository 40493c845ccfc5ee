# SPDX-License-Identifier: MIT
"""README's first profile, typed as it stands there, by one shell; the build's two commands are the fixture's."""
import subprocess

import documents
from node import PREFIX, SRC, clean_environ


def test_first_profile(tmp_path):
    lines = documents.indented_commands(SRC / "README.md", "Without root, in a login session, for one venv of yours:")
    assert lines[0].startswith("./dev build && ")
    script = "\n".join(line.replace("build/root", str(PREFIX)) for line in lines[1:])
    (tmp_path / "run").mkdir(mode=0o700)
    environ = clean_environ(HOME=tmp_path, XDG_RUNTIME_DIR=tmp_path / "run", PATH=f"{PREFIX}/bin:{PREFIX}/sbin:/usr/bin:/bin")
    done = subprocess.run(["bash", "-e", "-c", f"trap 'kill %1; wait' EXIT\n{script}"], env=environ, cwd=tmp_path,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "LL", done
