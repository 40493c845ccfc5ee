# SPDX-License-Identifier: MIT
"""A runtime directory written by hand, as a manager publishes it: starts decide by it alone, without any daemon."""
import hashlib
import os
import pathlib

VARIABLES = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_NTHREADS": "512"}


class Published:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        for name, mode in (("", 0o755), ("snapshots", 0o755), ("jobs", 0o1777), ("procs", 0o1777)):
            (self.path / name).mkdir()
            (self.path / name).chmod(mode)

    def snapshot(self, text):
        """Publishes a snapshot's text; returns its digest."""
        data = text.encode() if isinstance(text, str) else text
        digest = hashlib.sha256(data).hexdigest()
        file = self.path / "snapshots" / digest
        if not file.exists():
            file.write_bytes(data)
            file.chmod(0o444)
        return digest

    def variables(self, variables=None, profile="p"):
        lines = [f"default {n}={v}\n" for n, v in sorted((VARIABLES if variables is None else variables).items())]
        return self.snapshot(f"cudaenv-snapshot 1\nprofile {profile}\nscope any\n" + "".join(lines))

    def assign(self, default="none", mode="on", rules=(), boundaries=("cron",), supervisors=(), end="end\n"):
        lines = ["cudaenv-assign 1", "generation 1", f"mode {mode}", f"default {default}", *rules]
        lines += [f"boundary {b}" for b in boundaries] + [f"supervisor {u}" for u in supervisors]
        text = "".join(line + "\n" for line in lines)
        beside = self.path / ".assign"
        beside.write_text(text + end)
        beside.chmod(0o444)
        beside.rename(self.path / "assign")

    def ranks(self, **links):
        """ranks/ with these links: both kinds, by names and texts."""
        (self.path / "ranks").mkdir(mode=0o755, exist_ok=True)
        for name, text in links.items():
            (self.path / "ranks" / name).symlink_to(text)

    def links(self):
        """Every pin and every registered process: name, text."""
        def text(d, n):
            # Behind the key stands what the process was answered with.
            found = os.readlink(self.path / d / n)
            return found.split(" ")[0] if d == "procs" else found
        return {f"{d}/{n}": text(d, n) for d in ("jobs", "procs") for n in os.listdir(self.path / d)}

    def forget(self):
        for d in ("jobs", "procs"):
            for n in os.listdir(self.path / d):
                (self.path / d / n).unlink()
