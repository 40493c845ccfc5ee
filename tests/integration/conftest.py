# SPDX-License-Identifier: MIT
"""Fixtures over node.py."""
import pathlib
import shutil
import sys
import tempfile

import pytest

import box
import pythons
import schemas

import node as plain_node
from node import (  # noqa: F401  tests import these from here
    BROKER, CTL, LIBEXEC, MANAGER, PCIE8, PREFIX, SRC, clean_environ, wait_until)


class Node(plain_node.Node):
    """Every document that cudaenvctl prints in a test must fit the schema of its verb."""

    def json(self, verb, *arguments, ok=0):
        return schemas.fits(verb, self.ctl(verb, *arguments, "--json", ok=ok).stdout)


@pytest.fixture(scope="session", autouse=True)
def templates():
    """What tests share stays as it is."""
    yield
    changed = pythons.changed_templates()
    assert not changed, f"a test changed shared files in place, which needs copy_base(..., own=True): {changed[:5]}"


@pytest.fixture
def node():
    # A short path: a socket's address holds 107 bytes. Passable for everyone, for tests with other uids.
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    n = Node(root)
    yield n
    n.stop()
    log = root / "manager.log"
    if log.exists():
        sys.stdout.write(log.read_text(errors="replace"))
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def pcie8(node):
    """A running node, mode on, with the profile pcie8 in use."""
    node.profile("pcie8", (SRC / "tests/data/profiles/pcie8.ini").read_text())
    node.start()
    node.ctl("use", "pcie8")
    node.ctl("on")
    return node


@pytest.fixture(scope="session")
def node_build():
    """The build directory of README's node section."""
    box.needs_box()
    return box.build_for_node()


@pytest.fixture(scope="module")
def booted(node_build):
    """A booted container that knows nothing of cudaenv yet; a module's tests use it one after the other."""
    b = box.Box()
    try:
        yield b.boot()
    finally:
        sys.stdout.write(b.console.read_text(errors="replace")[-4000:])
        b.close()
