# SPDX-License-Identifier: MIT
"""Random histories of processes, switches and failures, held against a small model of what a job is. `./dev model --help`.

The test is pid 1 of a pid namespace, so that orphans come to it and numbers can be given again. Processes are tests/model/agent.c. The
model knows of each process its job, by the key that it was answered with, and of each job its pins. What it demands:

- a child of a registered process has its key, and the job's present pin, whatever was switched, stalled or killed meanwhile;
- an orphan that kept its token has the pin of a job that had this token as one; one with a clean environment begins a job;
- who changes uid begins a job, with its token or by the rules; who is executed anew keeps its job;
- a new job has what the rules give its user: override, else what is in use; all ranks of one launcher the same, key and snapshot;
- every pinned snapshot is there; when all have ended no pin, no link and no descriptor of the broker is left.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))

from node import Node, wait_until  # noqa: E402: found by the line above

AGENT = pathlib.Path(os.environ["BUILDDIR"]) / "tests/model-agent"
USERS = (0, 12345, 23456)
ASSIGNED = {12345: "b", 23456: "c"}  # by a rule of cudaenvd.conf
NAMES = {"a": "Ring", "b": "Tree", "c": "NVLS"}  # profiles, and their NCCL_ALGO


def digest_of(name, debug=None):
    """Of the snapshot that profile NAME is, with a NCCL_DEBUG that was set for a user."""
    text = f"cudaenv-snapshot 1\nprofile {name}\nscope any\ndefault NCCL_ALGO={NAMES[name]}\n"
    return hashlib.sha256((text + (f"default NCCL_DEBUG={debug}\n" if debug else "")).encode()).hexdigest()


class Wrong(Exception):
    """The program differs from the model."""


class Agent:
    def __init__(self, connection, words):
        self.connection, self.alive = connection, True
        self.name, pid, ppid, self.key, digest, self.result, self.by_broker = words
        self.pid, self.ppid, self.digest = int(pid), int(ppid), "" if digest == "none" else digest
        self.uid, self.token = 0, self.digest

    def tell(self, *words):
        self.connection.sendall((" ".join(map(str, words)) + "\n").encode())


class Job:
    """One key: its pins, the present one first."""

    def __init__(self, key, uid, digest, root):
        self.key, self.uid, self.pins, self.root, self.members = key, uid, [digest], root, set()


class Model:
    def __init__(self, root, seed, verbose):
        self.chance, self.verbose = random.Random(seed), verbose
        self.node = Node(root)
        self.count = collections.Counter()
        self.agents, self.jobs, self.dead, self.names = [], {}, [], 0
        self.uses, self.sets = {}, {}  # by uid: what, and the end
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(root / "model"))
        os.chmod(root / "model", 0o777)
        self.server.listen(256)
        self.server.settimeout(30)
        self.programs = {}
        for name in ("agent", "cron", "launcher"):
            self.programs[name] = root / name
            shutil.copy(AGENT, root / name)
            os.chmod(root / name, 0o755)
        os.environ.update(MODEL_SOCKET=str(root / "model"), CUDAENV_RUNTIME_DIR=str(self.node.run))

    # --- the node

    def start(self):
        for name, algo in NAMES.items():
            self.node.variables(name, NCCL_ALGO=algo)
        (self.node.config / "cudaenvd.conf").write_text("".join(f"[assign u{u}]\nuser = {u}\nprofile = {p}\n" for u, p in ASSIGNED.items()))
        self.node.start()
        self.node.ctl("use", "a")
        self.node.ctl("on")
        assert {p["name"]: p["digest"] for p in self.node.json("list")["profiles"]} == {n: digest_of(n) for n in NAMES}
        self.switches = ["a"]
        self.cron = self.hear([self.spawn_from(None, "cron")])[0]
        self.descriptors = len(self.broker_descriptors())

    def broker_descriptors(self):
        where = pathlib.Path(f"/proc/{self.node.broker_pid()}/fd")
        found = [os.readlink(where / fd) for fd in os.listdir(where)]
        # Of ancestors that were asked about it keeps these, as many as the table of daemon/broker/ancestors.h has places.
        cached = [fd for fd in found if re.fullmatch(r"/proc/\d+/stat", fd)]
        if len(cached) > 64:
            raise Wrong(f"{len(cached)} descriptors of ancestors")
        return [fd for fd in found if fd not in cached]

    @staticmethod
    def in_force(overrides, uid, otherwise):
        """What is in force for UID: two things around the end of an override, which is to the second and a little more."""
        what, until = overrides.get(uid, (None, None))
        left = until - time.time() if until else 10
        return [what] * (what is not None and left > -1.5) + [otherwise] * (what is None or left < 1.5)

    def rules(self, uid):
        """The digests that a new job of UID may have now."""
        return [digest_of(name, debug) for name in self.in_force(self.uses, uid, ASSIGNED.get(uid, self.switches[-1]))
                for debug in self.in_force(self.sets, uid, None)]

    # --- processes

    def spawn_from(self, parent, program="agent", flags="-", uid=0):
        """Sends the order. PARENT None: from the test itself. Returns what hear() waits for."""
        self.names += 1
        name = f"n{self.names}"
        if parent is None:
            self.own = subprocess.Popen([self.programs[program], name], stdin=subprocess.DEVNULL)
        else:
            parent.tell("spawn", name, self.programs[program], flags, uid)
        return name

    def hear(self, names):
        """The agents of these names, when all have said hello."""
        found = {}
        while set(names) - set(found):
            try:
                connection, _ = self.server.accept()
            except TimeoutError:
                raise Wrong(f"no hello of {set(names) - set(found)}") from None
            connection.settimeout(30)
            line = b""
            while not line.endswith(b"\n"):
                line += connection.recv(4096)
            words = line.decode().split()
            found[words[1]] = Agent(connection, words[1:])
        self.count["starts"] += len(found)
        self.count["alone"] += sum(a.by_broker == "0" and a.key != "-" for a in found.values())
        for a in found.values():
            if a.result != "0":
                raise Wrong(f"{a.name}: cudaenv_start: {a.result}")
        return [found[name] for name in names]

    def join(self, agent, key=None, digests=None, token="", root=None):
        """AGENT must have KEY (None: one of its own) and one of DIGESTS, or its job's present pin."""
        agent.token = agent.digest or token
        job = self.jobs.get(agent.key)
        if key is not None and agent.key != key:
            raise Wrong(f"{agent.name} (pid {agent.pid}) is in {agent.key}, not in {key}")
        if job is None:
            if key is None and root is None and f"-{agent.pid}-" not in agent.key:
                raise Wrong(f"{agent.name} (pid {agent.pid}) begins {agent.key}, which is not its own")
            job = self.jobs[agent.key] = Job(agent.key, agent.uid, agent.digest, root or agent)
            if digests is not None and agent.digest not in digests:
                raise Wrong(f"{agent.name}, job {agent.key}: {agent.digest[:12]}, not one of {[d[:12] for d in digests]}")
        elif agent.digest != job.pins[0]:
            raise Wrong(f"SPLIT: {agent.name} has {agent.digest[:12]}, its job {job.key} {[d[:12] for d in job.pins]}")
        job.members.add(agent)
        self.agents.append(agent)

    def living(self):
        return [a for a in self.agents if a.alive]

    def end(self, agent):
        agent.alive = False
        agent.connection.close()
        self.agents.remove(agent)
        self.dead.append(agent.pid)
        job = self.jobs[agent.key]
        job.members.discard(agent)
        wait_until(lambda: not os.path.exists(f"/proc/{agent.pid}") or self.is_zombie(agent.pid), f"the end of {agent.pid}")

    @staticmethod
    def is_zombie(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
        except OSError:
            return True

    # --- the steps

    def do_new(self):
        uid = self.chance.choice(USERS)
        before = self.rules(uid)
        [a] = self.hear([self.spawn_from(self.cron, flags="cu" if uid else "c", uid=uid)])
        a.uid = uid
        self.join(a, digests=before + self.rules(uid))

    def do_child(self):
        parent = self.chance.choice(self.living() or [None])
        if not parent:
            return self.do_new()
        flags = self.chance.choice(["-", "c", "s", "cs"])
        [a] = self.hear([self.spawn_from(parent, flags=flags)])
        a.uid = parent.uid
        self.join(a, key=parent.key)

    def do_orphan(self):
        parent = self.chance.choice(self.living() or [None])
        if not parent:
            return self.do_new()
        clean = self.chance.random() < 0.3
        token = "" if clean else parent.token
        candidates = {j.key: j for j in self.jobs.values() if token and j.uid == parent.uid and token in j.pins}
        [a] = self.hear([self.spawn_from(parent, flags="dc" if clean else self.chance.choice(["d", "ds"]))])
        a.uid = parent.uid
        if a.key in candidates:
            self.count["orphans that came home"] += 1
            self.join(a, key=a.key, token=token)
        elif token:
            raise Wrong(f"an orphan of {parent.key} with token {token[:12]} is in {a.key}")
        else:
            self.join(a, digests=self.rules(a.uid))

    def do_uid(self):
        parents = [a for a in self.living() if a.uid == 0]
        if not parents:
            return self.do_new()
        parent, uid = self.chance.choice(parents), self.chance.choice(USERS[1:])
        clean = self.chance.random() < 0.5
        before = self.rules(uid)
        [a] = self.hear([self.spawn_from(parent, flags="uc" if clean else "u", uid=uid)])
        a.uid = uid
        self.join(a, digests=[parent.token] if parent.token and not clean else before + self.rules(uid))

    def do_exec(self):
        agent = self.chance.choice(self.living() or [None])
        if not agent:
            return self.do_new()
        self.names += 1
        name = f"n{self.names}"
        agent.tell("exec", name, self.programs["agent"], self.chance.choice(["-", "c"]))
        [a] = self.hear([name])
        if a.pid != agent.pid:
            raise Wrong("exec changed the pid")
        a.uid = agent.uid
        agent.alive = False
        agent.connection.close()
        self.agents.remove(agent)
        self.jobs[agent.key].members.discard(agent)
        if self.jobs[agent.key].root is agent:
            self.jobs[agent.key].root = a
        self.join(a, key=agent.key)

    def do_setsid(self):
        if self.living():
            self.chance.choice(self.living()).tell("setsid")

    def do_end(self):
        living = self.living()
        if len(living) > 2:
            self.end(self.chance.choice(living))

    def do_end_all(self):
        for agent in self.living():
            self.end(agent)

    def do_ranks(self):
        """A launcher that knows nothing of cudaenv starts ranks, with a switch among them."""
        uid = self.chance.choice(USERS)
        [launcher] = self.hear([self.spawn_from(self.cron, "launcher", "cu" if uid else "c", uid)])
        before = self.rules(uid)
        names = [self.spawn_from(launcher, flags=self.chance.choice(["-", "c"])) for _ in range(8)]
        if self.chance.random() < 0.5:
            self.do_switch()
        ranks = self.hear(names)
        if len({(a.key, a.digest) for a in ranks}) != 1:
            raise Wrong(f"MIXED RANKS: {[(a.key, a.digest[:12]) for a in ranks]}")
        for a in ranks:
            a.uid = uid
            self.join(a, digests=before + self.rules(uid), root=launcher)
        for a in ranks:
            self.end(a)
        launcher.connection.close()
        self.count["eight-rank starts"] += 1

    def do_reuse(self):
        """The number of one that has ended, for a new job."""
        if not self.dead:
            return
        pid = self.dead.pop()
        try:
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return
        n = len(self.agents)
        self.do_new()
        self.count["pids given again"] += len(self.agents) > n and self.agents[-1].pid == pid

    # --- the operator

    def do_switch(self):
        name = self.chance.choice([n for n in NAMES if n != self.switches[-1]])
        self.node.ctl("use", name)
        self.switches.append(name)

    def do_rollback(self):
        if len(self.switches) < 2:
            return
        done = self.node.ctl("rollback", "--json", ok=None)
        self.switches.pop()
        if done.returncode != 0 or json.loads(done.stdout)["to"] != digest_of(self.switches[-1]):
            raise Wrong(f"rollback: {done}, not to {self.switches[-1]}")

    def do_override(self):
        uid, seconds = self.chance.choice(USERS[1:]), self.chance.choice([0, 0, 2])
        end = ["--user", uid] + (["--for", f"{seconds}s"] if seconds else [])
        until = time.time() + seconds + 1 if seconds else None
        if self.chance.random() < 0.5:
            name = self.chance.choice(list(NAMES))
            self.node.ctl("use", name, *end)
            self.uses[uid] = name, until
        else:
            debug = self.chance.choice(["INFO", "WARN"])
            self.node.ctl("set", f"NCCL_DEBUG={debug}", *end)
            self.sets[uid] = debug, until

    def do_reset(self):
        self.node.ctl("use", "--reset")
        self.uses, self.sets = {}, {}

    def do_release(self):
        jobs = [j for j in self.jobs.values() if j.root and j.root.alive and j.members and len(j.pins) < 12 and j.root in j.members]
        if not jobs:
            return
        job = self.chance.choice(jobs)
        before = self.rules(job.uid)
        done = None

        def answered():
            nonlocal done
            done = self.node.ctl("release", job.key, "--json", ok=None)
            return "the broker is not running" not in done.stderr
        wait_until(answered, "a broker that was killed is there again")
        answer = json.loads(done.stdout) if done.returncode == 0 else None
        if not answer or answer["to"] not in before + self.rules(job.uid):
            raise Wrong(f"release {job.key}: {done}")
        if answer["to"] != job.pins[0]:
            job.pins = [answer["to"]] + [d for d in job.pins if d != answer["to"]]

    # --- what fails

    def do_kill_broker(self):
        old = self.node.broker_pid()
        os.kill(old, signal.SIGKILL)

    def do_kill_manager(self):
        self.node.process.send_signal(signal.SIGKILL)
        self.node.process.wait()
        if self.chance.random() < 0.5:
            self.do_child()
            self.do_new()
        self.node.start()

    def stalled(self, step):
        """The broker is frozen for 0 to 50 ms from somewhere in the step on."""
        try:
            pid = self.node.broker_pid()
            os.kill(pid, signal.SIGSTOP)
        except (ProcessLookupError, AssertionError):
            return step()
        timer = threading.Timer(self.chance.uniform(0, 0.05), lambda: self.thaw(pid))
        timer.start()
        try:
            step()
        finally:
            timer.join()

    @staticmethod
    def thaw(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    # --- all of it

    STEPS = {"new": 10, "child": 30, "orphan": 10, "uid": 6, "exec": 8, "setsid": 2, "end": 20, "end_all": 1, "ranks": 3, "reuse": 4,
             "switch": 8, "rollback": 3, "override": 3, "reset": 1, "release": 4, "kill_broker": 2, "kill_manager": 1}

    def reap(self):
        """Orphans come to us."""
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                if pid == self.node.process.pid:
                    raise Wrong("the manager has ended")
        except ChildProcessError:
            pass

    def step(self):
        self.reap()
        name = self.chance.choices(list(self.STEPS), list(self.STEPS.values()))[0]
        stall = self.chance.random() < 0.15 and name not in ("release", "kill_broker", "kill_manager")
        if self.verbose:
            print(f"  {name}{' (stalled)' if stall else ''}", file=sys.stderr)
        self.count[name] += 1
        while len(self.agents) > 60:
            self.end(self.chance.choice(self.living()))
        run = getattr(self, f"do_{name}")
        self.stalled(run) if stall else run()
        if self.chance.random() < 0.1:
            self.no_snapshot_is_lost()

    def no_snapshot_is_lost(self):
        for name in os.listdir(self.node.run / "jobs"):
            try:
                digest = os.readlink(self.node.run / "jobs" / name).split(" ")[0]
            except OSError:
                continue
            if digest != "none" and not name.startswith(".") and not (self.node.run / "snapshots" / digest).exists():
                raise Wrong(f"the snapshot {digest} of {name} is lost")

    def nothing_is_left(self):
        for agent in self.living():
            self.end(agent)
        self.jobs = {}
        for where in "jobs", "procs":
            wait_until(lambda: all(n.startswith(".") for n in os.listdir(self.node.run / where)),
                       f"an empty {where}/: {os.listdir(self.node.run / where)[:5]}")
        try:
            wait_until(lambda: len(self.broker_descriptors()) <= self.descriptors, f"{self.descriptors} descriptors of the broker")
        except AssertionError as e:
            raise Wrong(f"{e}: {self.broker_descriptors()}") from None


def run(options):
    root = pathlib.Path(tempfile.mkdtemp(prefix="cudaenv-"))
    root.chmod(0o755)
    model, step, begin = Model(root, options.seed, options.verbose), 0, time.monotonic()
    again = f"./dev model --seed {options.seed} --steps {options.steps}" + (f" --ranks {options.ranks}" if options.ranks else "")
    try:
        model.start()
        for step in range(options.steps):
            model.step()
        for step in range(options.ranks):
            model.stalled(model.do_ranks) if model.chance.random() < 0.5 else model.do_ranks()
        model.nothing_is_left()
    except (Wrong, AssertionError, OSError) as e:
        print(f"step {step}: {type(e).__name__}: {e}\nagain: {again}", flush=True)
        print((root / "manager.log").read_text(errors="replace")[-2000:])
        return 1
    finally:
        model.node.stop()
        shutil.rmtree(root, ignore_errors=True)
    counted = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(model.count.items()))
    print(f"seed {options.seed}: {options.steps} steps and {options.ranks} times eight ranks in {time.monotonic() - begin:.0f} s, none wrong\n{counted}")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Random histories of processes against a model of jobs.")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--ranks", type=int, default=0, help="this many starts of eight ranks after the steps")
    parser.add_argument("--verbose", action="store_true", help="each step on stderr")
    options = parser.parse_args()
    if os.getpid() != 1:
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, __file__, "--seed", str(options.seed),
                              *sys.argv[1:]])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.exit(run(options))


if __name__ == "__main__":
    main()
