# SPDX-License-Identifier: MIT
"""The decision by the published files in pure Python: common/assign's rules, common/cgroup, common/procfs, common/job-find,
common/pin and common/decide under their names. cudaenv_reader.py loads it when the broker has not answered, and passes itself.
"""
import posix

# reader: the module cudaenv_reader, which puts itself here.
SLOTS, DEPTH_MAX, SCAN_MAX, UINT64_MAX = 4, 128, 16384, (1 << 64) - 1
HEX = b"0123456789abcdef"
SHELLS = frozenset(b"ash bash busybox csh dash elvish fish ksh ksh93 lksh mksh nu oksh osh pdksh posh pwsh rbash rc rksh rzsh "
                   b"sh tcsh xonsh yash zsh".split())


# --- common/assign

def glob_match(pattern, text):
    """*, ?, [a-z], [!a-z] and \\c on bytes; as in C, in bounded time."""
    p = t = 0
    star = -1
    while t < len(text):
        if p < len(pattern) and pattern[p] == 42:
            p += 1
            star, again = p, t
            continue
        after = match_one(pattern, p, text[t]) if p < len(pattern) else 0
        if after:
            p = after
            t += 1
        elif star >= 0:
            again += 1
            p, t = star, again
        else:
            return False
    return not pattern[p:].strip(b"*")


def match_one(pattern, p, c):
    """Where the pattern goes on after one character that it matched, else 0."""
    if pattern[p] == 63:
        return p + 1
    if pattern[p] == 91:
        q = first = p + 1 + (pattern[p + 1:p + 2] in (b"!", b"^"))
        found = False
        while q < len(pattern) and (pattern[q] != 93 or q == first):
            low = high = pattern[q]
            if pattern[q + 1:q + 2] == b"-" and q + 2 < len(pattern) and pattern[q + 2] != 93:
                high = pattern[q + 2]
                q += 2
            found = found or low <= c <= high
            q += 1
        if q < len(pattern):
            return q + 1 if found != (first != p + 1) else 0
    if pattern[p] == 92 and p + 1 < len(pattern):
        return p + 2 if pattern[p + 1] == c else 0
    return p + 1 if pattern[p] == c else 0


def condition_holds(kind, value, subject):
    if kind == b"uid":
        return int(value) == subject.key_uid
    if kind == b"gid":
        return int(value) in [posix.getegid()] + posix.getgroups()
    text = {b"unit": subject.unit, b"exe": subject.exe, b"cgroup": subject.cgroup}[kind]
    return bool(text) and glob_match(value, text)


def has_ended(until):
    if until is None:
        return False
    import time
    return time.time() >= until


def assign_choose(a, subject):
    for digest, conditions, until in a.rules:
        if has_ended(until):
            continue
        kinds = {kind for kind, value in conditions}
        if all(any(condition_holds(k, v, subject) for k, v in conditions if k == kind) for kind in kinds):
            return digest
    return a.fallback


def any_glob(patterns, text):
    return any(glob_match(p, text) for p in patterns)


# --- common/cgroup

def is_container(part, before, in_kubepods):
    name = part[:-6] if part.endswith(b".scope") else part
    if len(name) >= 64 and not name[-64:].strip(HEX):
        head = name[:-64]
        if not head or (head.endswith(b"-") and not head.endswith(b"conmon-")):
            return True
    monitor = part.startswith((b"libpod-conmon-", b"crio-conmon-"))
    if part.endswith(b".scope") and part.startswith((b"docker-", b"libpod-", b"crio-", b"cri-containerd-", b"nerdctl-")):
        if not monitor:
            return True
    elif part.startswith(b"libpod-") and not part.endswith(b".slice") and not monitor:
        return True
    if part.startswith(b"machine-") and part.endswith(b".scope"):
        return True
    if part.startswith(b"systemd-nspawn@") and part.endswith(b".service"):
        return True
    if part.startswith(b"lxc.payload.") or before in (b"lxc.payload", b"lxc", b"docker"):
        return True
    if not in_kubepods:
        return False
    return (part.endswith(b".slice") and b"-pod" in part) or (part.startswith(b"pod") and len(part) > 3)


def cgroup_classify(path):
    """What the path's names say: kind (None, b"shared", b"slurm", b"container", b"unit"), length, service, unit."""
    kind, length, service, unit, unit_end = None, 0, False, b"", 0
    shared = in_kubepods = False
    before, at = b"", 0
    for part in path.split(b"/"):
        at += len(part)
        end, at = at, at + 1
        if not part:
            continue
        container = is_container(part, before, in_kubepods)
        step = part.startswith(b"step_") and (part[5:6].isdigit() or part == b"step_batch")
        if container or (before.startswith(b"job_") and step):
            kind, length = b"container" if container else b"slurm", end
            service, unit, unit_end, shared = False, b"", 0, False
        elif part == b"user.slice":
            shared = True
        elif part.endswith((b".service", b".scope")) and part != b"init.scope":
            service = part.endswith(b".service")
            if not unit_end:
                unit_end = end
                unit = part if len(part) < 256 else b""
                shared = shared or part.endswith(b"slurmstepd.scope")
        in_kubepods = in_kubepods or part == b"kubepods" or part.startswith((b"kubepods.", b"kubepods-", b"kubelet-kubepods"))
        before = part
    if shared and kind != b"slurm":
        kind = b"shared"
    elif unit_end and kind != b"slurm":
        kind, length = b"unit", unit_end
    return reader.Bag(kind=kind, length=length, service=service, unit=unit)


# --- common/procfs, common/job-find

def facts_of(pid):
    """ppid, pgrp, session, tty, start, uid, comm of a process; ValueError or OSError: not to be had."""
    path = "/proc/%d" % pid
    fd = posix.open(path + "/stat", posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY)
    try:
        uid = posix.stat(path).st_uid
        text = reader.read_full(fd, 1024)
    finally:
        posix.close(fd)
    opened, closed = text.index(b"("), text.rindex(b")")
    f = text[closed + 2:].split()
    return reader.Bag(pid=pid, nspid=pid, depth=0, ppid=int(f[1]), pgrp=int(f[2]), session=int(f[3]), tty=int(f[4]),
               start=int(f[19]), uid=uid, comm=text[opened + 1:closed][:31])


def namespace_numbers(pid):
    """pid, pgrp, session as the process's own pid namespace numbers them, and how deep that is; None: not told."""
    lines = dict(line.split(b":", 1) for line in reader.read_proc("/proc/%d/status" % pid, 1 << 20).splitlines() if b":" in line)
    names = (b"NSpid", b"NSpgid", b"NSsid")
    if not all(n in lines for n in names):
        return None
    numbers = [lines[n].split() for n in names]
    return [int(n[-1]) for n in numbers] + [len(numbers[0])]


def read_who(subject, pid):
    who = facts_of(pid)
    numbers = None if subject.same_pidns else namespace_numbers(pid)
    if numbers:
        who.nspid, who.depth = numbers[0], numbers[3]
    return who


class Search:
    """common/job-find: the four rules."""

    def __init__(self, rt, assign, subject):
        self.rt, self.assign, self.subject = rt, assign, subject
        self.parent, self.parent_is_init, self.spot = None, False, None
        self.me = self.top = read_who(subject, subject.pid)

    def registered(self, who):
        name = b"%d-%d-%d" % (self.subject.pidns, who.nspid, who.start)
        try:
            key = reader.runtime_readlink(self.rt, self.rt.procs, name) if self.rt.procs is not None else None
        except (OSError, reader.Refused) as e:
            reader.not_short(e)
            return None
        key = key and key.partition(b" ")[0]  # behind it: what it was answered with, for people
        k = reader.job_key_parse(key) if key else None
        return key if k and not k.slot and k.uid == self.subject.key_uid else None

    def is_boundary(self, child, who):
        return (who.uid != self.subject.uid or who.start > child.start or who.comm == b"systemd"
                or (child.session == who.session == who.pid and child.pgrp != who.pgrp and who.tty != 0 and who.comm in SHELLS)
                or any_glob(self.assign.boundary, who.comm))

    def read_parent(self, child):
        first = child is self.me
        if child.ppid <= 0:
            return None
        if first and self.subject.same_pidns:
            self.parent_is_init = child.ppid == 1
        try:
            who = read_who(self.subject, child.ppid)
        except (OSError, ValueError, IndexError) as e:
            reader.not_short(e)
            return None
        if who.depth < self.me.depth:
            return None
        if first:
            self.parent, self.parent_is_init = who, who.nspid == 1
        return who

    def find_above(self):
        child, parent = self.me, self.read_parent(self.me)
        for _ in range(DEPTH_MAX):
            if parent is None or self.is_boundary(child, parent):
                return None
            key = self.registered(parent)
            if key or parent.nspid == 1:
                return key
            self.top = child = parent
            parent = self.read_parent(child)
        return None

    def choose_line(self, lines):
        chosen = None
        for line in lines:
            if line[0] == b"name=systemd" and line[1] != b"/":
                chosen = line
            elif chosen is None and not line[0]:
                chosen = line
        place = cgroup_classify(chosen[1]) if chosen else None
        if not place or place.kind not in (b"slurm", b"container"):
            for line in lines:
                other = cgroup_classify(line[1])
                if other.kind == b"slurm":
                    return line, other
        return chosen, place

    def find_claimed(self, lines):
        for hierarchy in (b"name=systemd", b"") if self.subject.claim else ():
            for line in lines:
                if line[0] != hierarchy:
                    continue
                mount, length, path = reader.cgroup_mount(hierarchy), 0, line[1]
                while True:
                    if reader.cgroup_inode(mount, path[:length]) == self.subject.claim:
                        return line, length
                    while path[length:length + 1] == b"/":
                        length += 1
                    if length == len(path):
                        break
                    end = path.find(b"/", length)
                    length = end if end >= 0 else len(path)
        return None, 0

    def place(self):
        """Fills in cgroup and unit of the subject, and what rule 2 needs."""
        s = self.subject
        s.placed, self.spot = True, reader.Bag(kind=None, inode=0, service=False)
        try:
            text = reader.read_proc("/proc/%d/cgroup" % s.pid) if s.claim != UINT64_MAX else b""
        except OSError as e:
            reader.not_short(e)
            text = b""
        lines = [line.split(b":", 2)[1:] for line in text.splitlines()]
        if not lines or any(len(line) != 2 or line[1][:1] != b"/" for line in lines):
            return
        line, base = self.find_claimed(lines)
        if line:
            place = cgroup_classify(line[1][base:])
            place.kind = place.kind or b"container"
        else:
            line, place = self.choose_line(lines)
            if not line:
                return
        if place.kind == b"unit" and any_glob(self.assign.supervisor, place.unit):
            place.kind = b"shared"
        path = line[1]
        s.cgroup, s.unit = path[base:] if path[base:base + 1] == b"/" else b"/" + path[base:], place.unit
        self.spot.kind, self.spot.service = place.kind, place.service
        if place.kind not in (None, b"shared"):
            mount, end = reader.cgroup_mount(line[0]), base + place.length
            inode = reader.cgroup_inode(mount, path[:end])
            # A container in the host's cgroup namespace often sees its own directory in place of the root.
            if not inode and place.kind == b"container" and reader.cgroup_inode(mount, path[end:]):
                inode = reader.cgroup_inode(mount, b"")
            self.spot.inode = inode
            if not inode:
                self.spot.kind = None

    def below_manager(self):
        return self.parent_is_init or (self.parent is not None and self.parent.comm == b"systemd")

    def is_first_of_unit(self):
        return (self.below_manager() and self.me.session == self.me.pid
                and (self.spot.kind == b"unit" or self.spot.service))

    def is_reparented(self):
        return self.below_manager() or (self.parent is not None and self.me.session != self.me.pid
                                        and self.me.session != self.parent.session)

    def score(self, name, group):
        s, k = self.subject, reader.job_key_parse(name)
        if not k or k.uid != s.key_uid:
            return 0
        if k.kind == b"tree" and (k.numbers[1] != s.pidns or k.numbers[3] > self.me.start):
            return 0
        try:
            pin = read_pin(self.rt, name)
        except (OSError, reader.Refused) as e:
            reader.not_short(e)
            return 0
        if not pin or s.token not in pin:
            return 0
        return 1 + (pin[0] == s.token) + 2 * (k.kind == b"tree" and k.numbers[2] in group)

    def find_by_token(self):
        s, rt = self.subject, self.rt
        if rt.jobs is None:
            return None
        numbers = None if s.same_pidns else namespace_numbers(s.pid)
        if not s.same_pidns and not numbers:
            return None
        group = numbers[1:3] if numbers else (self.me.pgrp, self.me.session)
        try:
            fd = posix.open(b".", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC, dir_fd=rt.jobs)
        except OSError as e:
            reader.not_short(e)
            return None
        try:
            names = posix.listdir(fd)
        finally:
            posix.close(fd)
        if len(names) > SCAN_MAX - 2:
            return None
        best = None
        for name in names:
            name = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
            score = self.score(name, group)
            if score:
                key = name.partition(b"~")[0]
                if best is None or score > best[0] or (score == best[0] and key < best[1]):
                    best = score, key
        return best[1] if best else None

    def find(self):
        """The key, whether it is a registered process's, and whether the token is to be ignored."""
        s = self.subject
        key = self.registered(self.me) or self.find_above()
        if key:
            return key, False
        self.place()
        ignore = not s.required and self.is_first_of_unit()
        if self.spot.kind not in (None, b"shared"):
            return b"%s-%d-%d" % (self.spot.kind, s.key_uid, self.spot.inode), ignore
        if s.token and not ignore and self.is_reparented():
            key = self.find_by_token()
            if key:
                return key, ignore
        return b"tree-%d-%d-%d-%d" % (s.key_uid, s.pidns, self.top.nspid, self.top.start), ignore


# --- common/pin, common/decide

def read_pin(rt, name):
    """[digest or b"", former ones...], or None: there is none."""
    text = reader.runtime_readlink(rt, rt.jobs, name)
    if text is None:
        return None
    words = text.split(b" ")
    if len(words) > 17 or not all(map(reader.is_digest, words[1:])):
        raise reader.Refused
    return [reader.parse_pin_word(words[0])] + words[1:]


def removed(fd, name):
    """Takes a stranger's link away, where one may."""
    try:
        posix.unlink(name, dir_fd=fd)
    except OSError:
        return False
    return True


def look_for_pin(rt, key, remove=False):
    """The first believed pin of KEY's names, else the first free name; (None, None): strangers hold them all."""
    free = None
    for slot in range(SLOTS if rt.jobs is not None else 0):
        name = key[:255] + (b"~%d" % slot if slot else b"")
        try:
            pin = read_pin(rt, name)
        except reader.Refused:
            if not remove or not removed(rt.jobs, name):
                continue
            pin = None
        if pin:
            return pin, None
        free = free or name
    return None, free


def settle(rt, key, digest):
    """The digest of the pin that is there, or is made. Where none can be made it is this process's answer alone."""
    for _ in range(64):
        try:
            pin, free = look_for_pin(rt, key, rt.uid in (0, rt.broker))
            if pin:
                return pin[0]
            if not free:
                break
            posix.symlink(digest or b"none", free, dir_fd=rt.jobs)
            break
        except FileExistsError:
            continue
        except OSError as e:
            reader.not_short(e)
            break
    return digest


def update_link(rt, name, text):
    posix.symlink(text, b"." + name, dir_fd=rt.procs)
    try:
        posix.rename(b"." + name, name, src_dir_fd=rt.procs, dst_dir_fd=rt.procs)
    except OSError:
        posix.unlink(b"." + name, dir_fd=rt.procs)


def register(rt, name, key, digest):
    text = key + b" " + (digest or b"none")[:64 if len(key) + 65 <= 127 else 12]
    for _ in range(2):
        try:
            posix.symlink(text, name, dir_fd=rt.procs)
            return
        except FileExistsError:
            try:
                old = reader.runtime_readlink(rt, rt.procs, name)
                if old and old != text and old.partition(b" ")[0] == key:
                    update_link(rt, name, text)
                return
            except reader.Refused:
                if rt.uid not in (0, rt.broker) or not removed(rt.procs, name):
                    return
        except OSError:
            return


def decide(rt, assign, subject):
    """The job's key and its digest, b"" for none; makes the pin and registers the process."""
    search = Search(rt, assign, subject)
    key, ignore = search.find()
    token = subject.token if subject.token and not ignore and reader.is_published(rt, subject.token) else None
    pin = look_for_pin(rt, key)[0]
    if token and (not pin or token not in pin):
        key = reader.job_key_parse(key).body + b"." + token
        pin = look_for_pin(rt, key)[0]
    if pin:
        digest = pin[0]
    else:
        if assign.mode == b"observe":
            digest = b""
        elif token:
            digest = token
        else:
            if not subject.placed:
                search.place()
            digest = assign_choose(assign, subject)
        digest = settle(rt, key, digest)
    if rt.procs is not None and subject.pidns:
        register(rt, b"%d-%d-%d" % (subject.pidns, search.me.nspid, search.me.start), key, digest)
    return key, digest
