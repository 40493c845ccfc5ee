#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Benchmarks: every figure beside a baseline of the same run, interleaved; medians and ratios. ./dev bench runs it.

  bench/run.py BUILD [starts|fetch|storm|many|down ...]
"""
import os
import pathlib
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
os.environ.setdefault("CUDAENV_TEST_PREFIX", str(BUILD / "root"))
os.environ.setdefault("SRCDIR", str(TOP))
sys.path.insert(0, str(TOP / "tests/integration"))
sys.dont_write_bytecode = True
import pythons  # noqa: E402
from node import CTL, PCIE8, Node, clean_environ, wait_until  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "200"))
CLIENT = BUILD / "bench/bench-client"

# The file that people write by hand, from the story that this project should end.
BY_HAND = "\nimport os\n" + "".join(f"os.environ.setdefault({k!r}, {v!r})\n" for k, v in PCIE8.items())


def start_usec(exe, env, *arguments):
    begin = time.perf_counter_ns()
    pid = os.posix_spawn(exe, [exe, *(arguments or ("-c", "pass"))], env, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return (time.perf_counter_ns() - begin) / 1000


def interleave(cases, rounds):
    """cases: name -> function returning microseconds. Runs them in a new random order each round; returns name -> list."""
    times = {name: [] for name in cases}
    for name, case in cases.items():
        for _ in range(5):
            case()
    for _ in range(rounds):
        for name in random.sample(list(cases), len(cases)):
            times[name].append(cases[name]())
    return times


def report(title, times, baseline):
    base = statistics.median(times[baseline])
    print(f"\n{title} ({len(times[baseline])} rounds, interleaved)")
    for name, values in times.items():
        median = statistics.median(values)
        p90 = sorted(values)[len(values) * 9 // 10]
        # The difference of each pair, since the machine drifts during a run.
        paired = statistics.median(a - b for a, b in zip(values, times[baseline]))
        print(f"  {name:34} median {median:9.0f} us  p90 {p90:9.0f} us  ratio {median / base:5.3f}  added {paired:+8.0f} us")


def fields(*command, env):
    out = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines())


class Bench:
    def __init__(self, root):
        self.root = root
        (root / "node").mkdir()
        self.node = Node(root / "node")
        self.node.profile("pcie8", (TOP / "tests/data/profiles/pcie8.ini").read_text())
        self.node.start()
        self.node.ctl("use", "pcie8")
        self.node.ctl("on")

    def base(self, name, python, hook=False, by_hand=False):
        exe = pythons.copy_base(python, self.root / name, own=True)
        library = self.root / name / f"lib/python{python.xy}"
        if by_hand:
            with open(library / "sitecustomize.py", "a") as f:
                f.write(BY_HAND)
        env = {k: v for k, v in clean_environ().items()}
        subprocess.run([exe, "-m", "compileall", "-q", str(library / "sitecustomize.py")], env=env, check=False,
                       stdout=subprocess.DEVNULL)
        if hook:
            self.node.ctl("python", "install", "--python", exe)
        return str(exe)

    def python(self):
        python = next((p for p in pythons.ALL if str(p).startswith("debian-")), pythons.ALL[0])
        print(f"interpreter: {python}")
        return python

    def starts(self):
        python = self.python()
        env = clean_environ()
        plain = self.base("plain", python)
        hand = self.base("hand", python, by_hand=True)
        hook = self.base("hook", python, hook=True)
        report("(a) interpreter start: base", interleave(
            {"none": lambda: start_usec(plain, env), "hand-written sitecustomize": lambda: start_usec(hand, env),
             "hook": lambda: start_usec(hook, env)}, ROUNDS), "none")
        plain = str(pythons.make_venv(python.exe, self.root / "venv-plain"))
        hook = str(pythons.make_venv(python.exe, self.root / "venv-hook"))
        self.node.ctl("python", "install", "--python", hook)
        report("(a) interpreter start: venv", interleave(
            {"none": lambda: start_usec(plain, env), "hook (.pth)": lambda: start_usec(hook, env)}, ROUNDS), "none")

    def fetch(self):
        f = fields(CLIENT, "fetch", str(ROUNDS * 10), env=self.node.environ())
        print(f"\n(b) fetch, parent registered, {ROUNDS * 10} clients, answer of {f['answer_bytes']} bytes")
        for p in ("p50", "p99"):
            broker, bare = float(f["broker_" + p]), float(f["bare_" + p])
            print(f"  {p}: broker {broker:8.1f} us  minimal server {bare:8.1f} us  ratio {broker / bare:5.2f}")

    def storm(self):
        digest = self.node.json("status")["digest"]
        f = fields(CLIENT, "storm", "1000", env=self.node.environ())
        right = "all with the right digest" if f["other_digest"] == "0" and f["digest"] == digest else "WRONG DIGESTS"
        print(f"\n(c) {f['starts']} starts at once: {f['by_broker']} answered by the broker, {f['alone']} decided alone, "
              f"{f['failed']} failed; {right}")
        print(f"  cudaenv_start: p50 {f['start_p50']} us  p99 {f['start_p99']} us")

    def anonymous(self, pid):
        return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("RssAnon")) * 1024

    def switch_usec(self, name):
        """From the start of the command until the new rules can be read."""
        assign = self.node.run / "assign"
        before, begin = os.stat(assign).st_ino, time.perf_counter_ns()
        p = subprocess.Popen([CTL, "use", name, "--json"], env=self.node.environ(), stdout=subprocess.DEVNULL)
        while os.stat(assign).st_ino == before:
            pass
        usec = (time.perf_counter_ns() - begin) / 1000
        assert p.wait() == 0
        return usec

    def registered(self, n):
        """What a fetch and a switch take with N processes registered."""
        f = fields(CLIENT, "fetch", str(ROUNDS * 5), env=self.node.environ())
        switches = [self.switch_usec(("other", "pcie8")[i % 2]) for i in range(20)]
        bare = [start_usec(str(CTL), clean_environ(), "--version") for _ in range(20)]
        fetch = float(f["broker_p50"]) / float(f["bare_p50"])
        rss = [self.anonymous(pid) for pid in (self.node.process.pid, self.node.broker_pid())]
        print(f"  {n:6} registered: fetch p50 {f['broker_p50']} us, {fetch:.2f} times the minimal server's; a switch is to be read "
              f"{statistics.median(switches) / 1000:.1f} ms after its command began (cudaenvctl --version: "
              f"{statistics.median(bare) / 1000:.1f} ms); manager {rss[0] / 1e6:.1f} MB, broker {rss[1] / 1e6:.1f} MB")
        return fetch, rss[1], statistics.median(switches)

    def many(self):
        n = int(os.environ.get("BENCH_REGISTERED", "10000"))
        self.node.variables("other", NCCL_PROTO="Simple")
        wait_until(lambda: len(self.node.json("list")["profiles"]) == 2, "both profiles")
        print(f"\n(e) {n} processes, {n // 8} jobs")
        few = self.registered(0)
        holder = subprocess.Popen([CLIENT, "hold", str(n)], env=self.node.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == f"held {n}\n"
        links = sum(not name.startswith(".") for name in os.listdir(self.node.run / "procs"))
        full = self.registered(links)
        print(f"  fetch: {full[0] / few[0]:.2f} times that with none; switch: {(full[2] - few[2]) / 1000:+.1f} ms; broker: "
              f"{(full[1] - few[1]) / links:.0f} bytes a process, with its job and report")
        holder.communicate()

    def down(self):
        python = self.python()
        env = clean_environ()
        plain = self.base("plain-down", python)
        hook = self.base("hook-down", python, hook=True)
        rounds = max(ROUNDS // 4, 20)
        pieces = [self.node.process.pid, self.node.broker_pid()]

        def paired(title):
            report(title, interleave({"none": lambda: start_usec(plain, env), "hook": lambda: start_usec(hook, env)}, rounds),
                   "none")
        paired("(d) everything up")
        for pid in pieces:
            os.kill(pid, signal.SIGSTOP)
        paired("(d) everything frozen (SIGSTOP)")
        for pid in pieces:
            os.kill(pid, signal.SIGCONT)
        self.node.stop(signal.SIGKILL)
        paired("(d) everything dead (SIGKILL)")
        shutil.rmtree(self.node.run)
        paired("(d) absent (no runtime directory)")


def main():
    wanted = sys.argv[2:] or ["starts", "fetch", "storm", "many", "down"]
    print(f"{platform.platform()}, {os.cpu_count()} cores")
    # /run is a tmpfs, so the runtime directory must be on one here as well.
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-bench-", dir="/dev/shm"))
    root.chmod(0o755)
    bench = Bench(root)
    try:
        for name in wanted:
            getattr(bench, name)()
    finally:
        bench.node.stop()
        shutil.rmtree(root)


main()
