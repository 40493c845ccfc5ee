# SPDX-License-Identifier: MIT
"""doctor: each check with nothing to find and with what it is for, on nodes of one's own and on fake trees (--root)."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from conftest import CTL, MANAGER, SRC, Node, clean_environ, wait_until
from pythons import make_venv

LIVE = ["manager", "broker", "runtime", "published", "state", "config", "mode", "versions", "new-interpreters"]


def doctor(*arguments, ok=None, env=None):
    done = subprocess.run([CTL, "doctor", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env=env or clean_environ())
    d = json.loads(done.stdout)
    assert done.returncode == (1 if d["errors"] + d["warnings"] else 0), done
    assert ok is None or done.returncode == ok, d
    return d


def found(d, check):
    return [f for f in d["findings"] if f["check"] == check]


def result(d, check):
    return next(c["result"] for c in d["checks"] if c["id"] == check)


@pytest.fixture
def home(node):
    """The node in an empty home."""
    (node.root / "home").mkdir()
    env = node.environ(HOME=node.root / "home")
    return lambda *arguments, **more: doctor(*arguments, env={**env, **{k: str(v) for k, v in more.items()}})


# --- daemons and what they keep


def test_a_sound_node(node, home):
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    d = home()
    for check in LIVE:
        assert result(d, check) == "good", (check, found(d, check))
    assert result(d, "profiles") == "good" and result(d, "systemd") == "skipped"
    node.ctl("off")
    f, = found(home(), "mode")
    assert f["severity"] == "advice" and "off" in f["message"] and f["fix"] == "cudaenvctl on"


def test_daemons_that_are_dead_or_frozen(node, home):
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    broker = node.broker_pid()
    os.kill(broker, signal.SIGSTOP)
    f, = found(home(), "broker")
    assert f["severity"] == "error" and "does not answer" in f["message"] and f["fix"]
    os.kill(broker, signal.SIGCONT)
    node.process.send_signal(signal.SIGSTOP)
    f, = found(home(), "manager")
    assert f["severity"] == "error" and f"(pid {node.process.pid}) does not answer" in f["message"]
    assert f["fix"] == f"it was stopped by a signal: kill -CONT {node.process.pid} wakes it"  # as the verbs have it
    node.stop(signal.SIGKILL)
    d = home()
    f, = found(d, "manager")
    assert f["severity"] == "error" and "not running: starts go by what it published" in f["message"]
    assert "nobody listens" in found(d, "broker")[0]["message"] and result(d, "published") == "good"
    (node.run / "socket").unlink()
    assert "not there" in found(home(), "broker")[0]["message"]


def test_nothing_has_run(node, home):
    d = home()
    assert found(d, "manager")[0]["fix"] == "start it with cudaenvd --user"
    assert "does not exist" in found(d, "runtime")[0]["message"]
    for check in "broker", "published", "mode":
        assert result(d, check) == "skipped"


def test_the_runtime_directory(node, home):
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    digest = node.json("status")["digest"]
    node.stop(signal.SIGKILL)
    (node.run / "jobs").chmod(0o755)
    f, = found(home(), "runtime")
    assert "not 1777" in f["message"] and f["file"] == f"{node.run}/jobs"
    (node.run / "jobs").chmod(0o1777)
    (node.run / "snapshots" / digest).chmod(0o644)
    (node.run / "snapshots" / digest).write_text("cudaenv-snapshot 1\nprofile base\nscope any\n")
    f, = found(home(), "published")
    assert f["severity"] == "error" and "is damaged" in f["message"] and f["file"].endswith(digest)
    (node.run / "snapshots" / digest).unlink()
    assert "is not there" in found(home(), "published")[0]["message"]
    status = json.loads((node.run / "status").read_text())
    (node.run / "status").write_text(json.dumps({**status, "generation": 1}))
    assert any("generation 1," in f["message"] for f in found(home(), "published"))
    (node.run / "assign").write_text("nonsense\n")
    assert "assign, the rules, is damaged" in found(home(), "published")[0]["message"]
    (node.run / "status").unlink()
    node.run.chmod(0o777)
    d = home()
    assert "is not believed" in found(d, "runtime")[0]["message"] and result(d, "published") == "skipped"


def test_the_state_directory(node, home):
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    shutil.rmtree(node.state)
    node.ctl("use", "base")
    d = home()
    severities = {f["severity"]: f["message"] for f in found(d, "state")}
    assert "until reboot" in severities["warning"] and "does not exist" in severities["error"]
    node.state.mkdir(mode=0o777)
    node.state.chmod(0o777)
    assert any("its owner's alone" in f["message"] for f in found(home(), "state"))


def test_settings_and_profiles(node, home):
    node.variables("base", NCCL_DEBUG="WARN")
    node.profile("bad", "[env]\nA=b\nA=c\n")
    conf = node.config / "cudaenvd.conf"
    conf.write_text("[cudaenvd]\nprofil = base\n")
    node.start()
    node.ctl("use", "base")
    d = home()
    f, = found(d, "config")
    assert (f["severity"], f["file"], f["line"]) == ("warning", str(conf), 2) and "profil" in f["message"]
    conf.write_text("[assign a]\nuser = 0\nprofile = bas\n")
    f, = found(home(), "config")
    assert (f["severity"], f["file"], f["line"]) == ("warning", str(conf), 3) and "cudaenvctl list" in f["fix"]
    assert f["message"] == "there is no profile 'bas', did you mean 'base'; jobs of this rule get nothing"
    conf.write_text("")
    f, = found(d, "profiles")
    assert (f["severity"], f["file"], f["line"]) == ("warning", f"{node.profiles}/bad.ini", 3) and f["fix"] == "cudaenvctl check bad"
    node.variables("base", NCCL_DEBUG="INFO")
    wait_until(lambda: node.json("status")["edited"], "the edit is seen")
    assert any("profile base does not say what is in force" in f["message"] for f in found(home(), "profiles"))
    node.profile("base", "[env\n")
    f = [f for f in found(home(), "profiles") if f["severity"] == "error"]
    assert len(f) == 1 and "stays in force" in f[0]["message"]
    (node.profiles / "base.ini").unlink()
    assert any("is gone" in f["message"] for f in found(home(), "profiles"))


# --- interpreters


def test_interpreters(node, home):
    venv = make_venv("/usr/bin/python3", node.root / "venv")
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    node.ctl("use", "base")
    node.ctl("on")
    look = lambda: home(VIRTUAL_ENV=node.root / "venv")
    listed = lambda d: [f for f in found(d, "interpreters") if "no start hook" in f["message"]]
    assert str(node.root / "venv") in listed(look())[0]["message"]
    seen = (node.state / "interpreters").read_text()
    assert seen.startswith("cudaenv-interpreters 1\n") and str(node.root / "venv") in seen
    node.ctl("python", "install", "--python", venv)
    d = look()
    assert str(node.root / "venv") not in "".join(f["message"] for f in listed(d)) and not found(d, "new-interpreters")
    package = next((node.root / "venv").glob("lib/python3*/site-packages/cudaenv_start"))
    (package / "README").write_text("changed")
    f = [f for f in found(look(), "interpreters") if "damaged" in f["message"]]
    assert len(f) == 1 and f[0]["severity"] == "error" and f[0]["fix"].startswith("cudaenvctl python install --python ")
    # Another one that comes is named once, with its hook never.
    make_venv("/usr/bin/python3", node.root / "other")
    d = home(VIRTUAL_ENV=node.root / "venv", CONDA_PREFIX=node.root / "other")
    f, = found(d, "new-interpreters")
    assert f["severity"] == "warning" and str(node.root / "other") in f["file"] and f["fix"]
    assert not found(home(VIRTUAL_ENV=node.root / "venv", CONDA_PREFIX=node.root / "other"), "new-interpreters")
    # A damaged list is made anew.
    (node.state / "interpreters").write_text("junk")
    assert not found(look(), "new-interpreters") and (node.state / "interpreters").read_text().startswith("cudaenv-interpreters 1\n")
    (node.state / "interpreters").unlink()
    os.mkfifo(node.state / "interpreters")
    assert not found(look(), "new-interpreters")


# --- what else sets variables


TREE = {
    "etc/nccl.conf": "# c\nNCCL_ALGO=Tree\nNCCL_DEBUG=WARN\n",
    "etc/environment": "NCCL_IB_DISABLE=1\nLANG=C\n",
    "etc/profile": "if [ -d /x ]; then\n  export CUDA_HOME=/x\nfi\n",
    "etc/profile.d/cuda.sh": "export PATH=/usr/local/cuda/bin:$PATH\nexport CUDA_PATH=/usr/local/cuda LD_LIBRARY_PATH=/x\n",
    "etc/profile.d/not.txt": "export NCCL_PROTO=LL\n",
    "etc/bash.bashrc": "export CUDA_VISIBLE_DEVICES=0\nexport TRITON_PTXAS_PATH=/x/ptxas\n",
    "etc/security/pam_env.conf": "# c\nNCCL_SOCKET_IFNAME DEFAULT=eth0 OVERRIDE=@{PAM_USER}\nHOME DEFAULT=x\n",
    "etc/environment.d/50-nccl.conf": "NCCL_P2P_LEVEL=SYS\n",
    "etc/systemd/system.conf": "[Manager]\nDefaultEnvironment=NCCL_NTHREADS=512\n",
    "etc/systemd/system/vllm.service": "[Service]\nEnvironment=NCCL_BUFFSIZE=1 A=b\nEnvironmentFile=-/etc/default/vllm\n",
    "etc/systemd/system/vllm.service.d/x.conf": "[Service]\nEnvironment=\"NCCL_CROSS_NIC=1\"\n",
    "etc/default/vllm": "TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n",
    "usr/lib/systemd/system/vllm.service": "[Service]\nEnvironment=NCCL_HIDDEN=1\n",
    "usr/lib/systemd/system/other.service.d/x.conf": "[Service]\nEnvironment=NCCL_CUMEM_ENABLE=1\n",
    "usr/lib/systemd/user/u.service": "[Service]\nEnvironment=CUDA_CACHE_DISABLE=1\n",
    "root/.bashrc": "export CUDA_LAUNCH_BLOCKING=1\nexport HF_TOKEN=hunter2\n",
    "root/.nccl.conf": "NCCL_MAX_NCHANNELS=16\n",
    "usr/bin/python3.11": "\177ELF",
    "usr/lib/python3.11/os.py": "",
    "usr/lib/python3.11/sitecustomize.py": "import os\nos.environ['NCCL_PROTO'] = 'LL'\n",
    "usr/lib/python3/dist-packages/a.pth": "/x\nimport os; os.environ.setdefault('CUDA_MODULE_LOADING', 'LAZY')\n",
    "usr/local/lib/python3.11/dist-packages/usercustomize.py": "import os\nos.putenv('NCCL_NSOCKS_PERTHREAD', f())\n",
}

WANTED = {
    ("/etc/nccl.conf", 2, "NCCL_ALGO"), ("/etc/nccl.conf", 3, "NCCL_DEBUG"), ("/etc/environment", 1, "NCCL_IB_DISABLE"),
    ("/etc/profile", 2, "CUDA_HOME"), ("/etc/profile.d/cuda.sh", 2, "CUDA_PATH"), ("/etc/bash.bashrc", 2, "TRITON_PTXAS_PATH"),
    ("/etc/security/pam_env.conf", 2, "NCCL_SOCKET_IFNAME"), ("/etc/environment.d/50-nccl.conf", 1, "NCCL_P2P_LEVEL"),
    ("/etc/systemd/system.conf", 2, "NCCL_NTHREADS"), ("/etc/systemd/system/vllm.service", 2, "NCCL_BUFFSIZE"),
    ("/etc/systemd/system/vllm.service.d/x.conf", 2, "NCCL_CROSS_NIC"), ("/etc/default/vllm", 1, "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ("/usr/lib/systemd/system/other.service.d/x.conf", 2, "NCCL_CUMEM_ENABLE"), ("/usr/lib/systemd/user/u.service", 2, "CUDA_CACHE_DISABLE"), ("/root/.bashrc", 1, "CUDA_LAUNCH_BLOCKING"),
    ("/root/.nccl.conf", 1, "NCCL_MAX_NCHANNELS"), ("/usr/lib/python3.11/sitecustomize.py", 2, "NCCL_PROTO"),
    ("/usr/lib/python3/dist-packages/a.pth", 2, "CUDA_MODULE_LOADING"),
    ("/usr/local/lib/python3.11/dist-packages/usercustomize.py", 2, "NCCL_NSOCKS_PERTHREAD"),
}


@pytest.fixture
def tree(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / "image" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "image/usr/bin/python3.11").chmod(0o755)
    (tmp_path / "image/lib").symlink_to("usr/lib")
    return tmp_path / "image"


def setters(d):
    return {(f["file"], f["line"], f["variable"]) for f in found(d, "setters")}


def test_setters_in_an_image(tree):
    d = doctor("--root", tree, ok=0)
    assert setters(d) == WANTED
    assert {f["severity"] for f in found(d, "setters")} == {"advice"} and "hunter2" not in json.dumps(d)
    assert all(result(d, check) == "skipped" for check in LIVE) and d["root"] == str(tree)


def test_links_of_an_image_stay_in_it(tree, tmp_path):
    outside = tmp_path / "outside.conf"
    outside.write_text("NCCL_FROM_OUTSIDE=1\n")
    (tree / "etc/nccl.conf").unlink()
    (tree / "etc/nccl.conf").symlink_to(outside)
    (tree / "etc/environment").unlink()
    (tree / "etc/environment").symlink_to("/etc/real-environment")
    (tree / "etc/real-environment").write_text("NCCL_INSIDE=1\n")
    names = {v for _, _, v in setters(doctor("--root", tree))}
    assert "NCCL_FROM_OUTSIDE" not in names and "NCCL_INSIDE" in names


def test_hostile_files_of_an_image(tree):
    start = time.monotonic()
    for name in "etc/nccl.conf", "etc/profile", "etc/systemd/system/vllm.service", "usr/lib/python3.11/sitecustomize.py", "root/.bashrc":
        (tree / name).unlink()
    os.mkfifo(tree / "etc/nccl.conf")
    os.mkfifo(tree / "etc/profile.d/fifo.sh")
    (tree / "etc/profile").symlink_to("/dev/zero")
    os.mkfifo(tree / "etc/systemd/system/vllm.service")
    (tree / "usr/lib/python3.11/sitecustomize.py").write_text("NCCL_ = 'not closed\n")
    (tree / "root/.bashrc").write_bytes(b"export NCCL_ALGO='" + b"x" * (2 << 20))
    (tree / "etc/profile.d/loop.sh").symlink_to("loop.sh")
    (tree / "etc/profile.d/odd\n\x1b[31m.sh").write_text("export NCCL_ODD=1\n")
    d = doctor("--root", tree)
    said = {f["file"]: f["message"] for f in found(d, "setters") if not f["variable"]}
    assert "no regular file" in said["/etc/nccl.conf"] and "no regular file" in said["/etc/profile.d/fifo.sh"]
    assert "larger than 1 MiB" in said["/root/.bashrc"]
    assert "a string is not closed" in said["/usr/lib/python3.11/sitecustomize.py"]
    assert "NCCL_ODD" in {v for _, _, v in setters(d)}
    done = subprocess.run([CTL, "doctor", "--root", tree], capture_output=True, timeout=60, env=clean_environ())
    assert b"\x1b" not in done.stdout and b"odd\\n\\x1b[31m.sh" in done.stdout
    assert time.monotonic() - start < 30


def test_setters_against_the_profile_in_use(node, home):
    node.variables("base", NCCL_ALGO="Ring", NCCL_PROTO="LL", MY_OWN="x")
    node.start()
    node.ctl("use", "base")
    there = node.root / "home"
    (there / ".nccl.conf").write_text("NCCL_ALGO=Ring\nNCCL_PROTO=Simple\nNCCL_DEBUG=WARN\n")
    (there / ".bashrc").write_text("export MY_OWN=$Y\nexport OTHER=z\n")
    (node.root / "config/systemd/user").mkdir(parents=True)
    (node.root / "config/systemd/user/u.service").write_text("[Service]\nUnsetEnvironment=NCCL_ALGO\n")
    conf = node.root / "my.conf"
    conf.write_text("NCCL_PROTO=LL\n")
    d = home(NCCL_CONF_FILE=conf)
    own = {(pathlib.Path(f["file"]).name, f["variable"]): (f["severity"], f["message"]) for f in found(d, "setters")
           if f["file"].startswith(str(node.root))}
    assert own == {
        (".nccl.conf", "NCCL_ALGO"): ("advice", "sets NCCL_ALGO, which profile base has with the same value"),
        (".nccl.conf", "NCCL_PROTO"): ("warning", "sets NCCL_PROTO, which profile base has with another value"),
        (".nccl.conf", "NCCL_DEBUG"): ("advice", "sets NCCL_DEBUG, which the profile in use does not have"),
        (".bashrc", "MY_OWN"): ("warning", "sets MY_OWN, which profile base has with another value"),
        ("u.service", "NCCL_ALGO"): ("warning", "removes NCCL_ALGO, which profile base has"),
        ("my.conf", "NCCL_PROTO"): ("advice", "sets NCCL_PROTO, which profile base has with the same value"),
    }


# --- systemd, of an image


def test_systemd_of_an_image(tree, tmp_path):
    assert result(doctor("--root", tree), "systemd") == "skipped"
    (tree / "usr/lib/systemd/systemd").write_text("")
    d = doctor("--root", tree, ok=1)
    files = {f["file"]: f["message"] for f in found(d, "systemd")}
    assert "cudaenvd.service" in files and "/usr/lib/tmpfiles.d/cudaenv.conf" in files and "/etc/passwd" in files
    units = tree / "usr/lib/systemd/system"
    for name in "cudaenvd.service", "cudaenvd.socket", "cudaenv-broker.service", "cudaenv-broker.socket":
        (units / name).write_text("[Unit]\n")
    for name in "tmpfiles.d", "sysusers.d":
        (tree / "usr/lib" / name).mkdir()
        (tree / "usr/lib" / name / "cudaenv.conf").write_text("x\n")
    (tree / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\ncudaenv:x:999:999::/:/bin/false\n")
    (tree / "etc/group").write_text("cudaenv-admin:x:998:\n")
    d = doctor("--root", tree, ok=1)
    assert {(f["file"], f["severity"]) for f in found(d, "systemd")} == {
        (n, "warning") for n in ("cudaenvd.service", "cudaenvd.socket", "cudaenv-broker.socket")}
    assert found(d, "systemd")[0]["fix"] == "systemctl enable --now cudaenvd.service"
    for wants, name in ("multi-user", "cudaenvd.service"), ("sockets", "cudaenvd.socket"), ("sockets", "cudaenv-broker.socket"):
        link = tree / f"etc/systemd/system/{wants}.target.wants/{name}"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(f"/usr/lib/systemd/system/{name}")
    assert result(doctor("--root", tree, ok=0), "systemd") == "good"
    (tree / "etc/systemd/system/cudaenvd.service").symlink_to("/dev/null")
    f, = found(doctor("--root", tree, ok=1), "systemd")
    assert "masked" in f["message"] and f["fix"] == "systemctl unmask cudaenvd.service"


# --- versions, output, usage


def test_another_cudaenvd_runs_than_is_installed(node, home, tmp_path):
    """An upgrade replaces the file; the daemon that runs is still the old one."""
    copy = tmp_path / "cudaenvd"
    shutil.copy2(MANAGER, copy)
    node.variables("base", NCCL_DEBUG="WARN")
    node.start()
    assert result(home(), "versions") == "good"
    node.stop()
    log = open(node.root / "manager.log", "ab")
    p = subprocess.Popen([copy, "--user"], env=node.environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: node.json("status", ok=None).get("running"), "it runs")
        copy.unlink()
        f, = found(home(), "versions")
        assert f["severity"] == "warning" and f"(pid {p.pid}) is not the one that is installed" in f["message"]
    finally:
        p.terminate()
        p.wait(20)


def test_output_for_people_and_for_pipes(tree):
    plain = subprocess.run([CTL, "doctor", "--root", tree], capture_output=True, text=True, timeout=60, env=clean_environ())
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    assert plain.returncode == 0 and {len(r) for r in rows} == {7}
    assert ["advice", "setters", "/etc/nccl.conf", "2", "NCCL_ALGO"] in [r[:5] for r in rows] and ["good", "profiles"] in [r[:2] for r in rows]
    shown = subprocess.run(["script", "-qec", f"{CTL} doctor --root {tree}", "/dev/null"], capture_output=True, text=True, timeout=60,
                           stdin=subprocess.DEVNULL, env=clean_environ(TERM="dumb")).stdout
    assert "  /etc/nccl.conf:2: advice: sets NCCL_ALGO" in shown and "    fix: take it out there" in shown
    assert "0 errors, 0 warnings, " in shown and "skipped  manager" in shown and "\033" not in shown


def test_roots_that_are_none(tmp_path):
    for root in tmp_path / "nothere", "/etc/passwd":
        done = subprocess.run([CTL, "doctor", "--root", root], capture_output=True, text=True, timeout=60, env=clean_environ())
        assert done.returncode == 3 and str(root) in done.stderr and done.stdout == ""
    done = subprocess.run([CTL, "doctor", "--user", "--root", "/"], capture_output=True, text=True, timeout=60, env=clean_environ())
    assert done.returncode == 2


def test_profiles_of_an_image(tree):
    (tree / "etc/cudaenv/profiles.d").mkdir(parents=True)
    (tree / "etc/cudaenv/profiles.d/bad.ini").write_text("[env]\nA=b\nA=c\n")
    f, = found(doctor("--root", tree, ok=1), "profiles")
    assert f["severity"] == "warning" and f["line"] == 3


# --- a booted node


def test_a_node_with_systemd(booted, node_build):
    """What README's node section installs is sound; what is taken away from it is named."""
    booted.sh("make -s install && systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload && systemctl enable --now "
              "cudaenvd.socket cudaenv-broker.socket cudaenvd.service", directory=node_build)
    booted.until("cudaenvctl status")

    def look(*, user=None):
        return json.loads(booted.run("cudaenvctl doctor --json", user=user).out)

    d = look()
    for check in [c for c in LIVE if c != "mode"] + ["systemd"]:
        assert result(d, check) == "good", (check, d)
    f, = found(d, "mode")
    assert "observe" in f["message"] and f["severity"] == "advice"
    # Who is not root sees as much as can be seen.
    d = look(user="nobody")
    for check in "manager", "broker", "runtime", "published", "config", "systemd", "versions":
        assert result(d, check) == "good", (check, d)
    assert result(d, "new-interpreters") == "skipped"
    booted.sh("systemctl disable cudaenvd.service && mv /usr/lib/tmpfiles.d/cudaenv.conf /root/ && chmod 0700 /run/cudaenv/jobs "
              "&& mkdir -p /etc/cudaenv/cudaenvd.conf.d && printf '[cudaenvd]\\nx = y\\n' >/etc/cudaenv/cudaenvd.conf.d/x.conf")
    d = look()
    assert {f["file"] for f in found(d, "systemd")} == {
        "cudaenvd.service", "cudaenvd.socket", "cudaenv-broker.socket", "/usr/lib/tmpfiles.d/cudaenv.conf"}
    assert "systemd-tmpfiles" in found(d, "runtime")[0]["fix"]
    f, = found(d, "config")
    assert (f["file"], f["line"]) == ("/etc/cudaenv/cudaenvd.conf.d/x.conf", 2)
    # A question starts nothing.
    booted.sh("systemctl stop cudaenvd.service")
    f, = found(look(), "manager")
    assert f["fix"].endswith("systemctl start cudaenvd") and booted.run("systemctl is-active cudaenvd").status != 0
