# SPDX-License-Identifier: MIT
"""The demo's program: starts workers in three ways, then, when told on standard input, one more."""
import json
import multiprocessing
import subprocess
import sys

import worker


def by_multiprocessing(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=worker.report, args=(queue,))
    process.start()
    seen = queue.get(timeout=30)
    process.join()
    return seen


def by_subprocess():
    done = subprocess.run([sys.executable, worker.__file__], env={}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def table(columns, origins):
    """One row a variable: its value in each worker, and where that value was written."""
    rows = [["variable", *columns, "from"]]
    for name in worker.NAMES:
        value, origin = origins.get(name, (None, ""))
        values = [seen[name] or "-" for seen in columns.values()]
        rows.append([name, *values, origin if set(values) == {value} else "?"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        origins = {v["name"]: (v["value"], f"{v['file'].rsplit('/', 1)[-1]}:{v['line']}") for v in json.load(f)["variables"]}
    table({"spawn": by_multiprocessing("spawn"), "subprocess env={}": by_subprocess(), "forkserver": by_multiprocessing("forkserver")},
          origins)
    print("ready", flush=True)
    sys.stdin.readline()
    print("next child of the running job: NCCL_PROTO=%(NCCL_PROTO)s NCCL_ALGO=%(NCCL_ALGO)s" % by_multiprocessing("spawn"), flush=True)
    print("ready", flush=True)
    sys.stdin.readline()
