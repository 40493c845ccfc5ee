# SPDX-License-Identifier: MIT
"""What a snapshot makes of an environment, in pure Python: client/marks and client/apply under their names. cudaenv_reader.py
loads it. Nothing is changed here.
"""
import posix

STRING_MAX = 131071
SET, ALREADY, KEPT, REPLACED, REMOVED, ABSENT_HERE, TOO_LATE = 1, 2, 3, 4, 5, 6, 7
HEX = b"0123456789abcdef"


def mark_hash(value):
    h = 2166136261
    for c in value:
        h = (h ^ c) * 16777619 & 0xffffffff
    return h >> 16 ^ h & 0xffff


def parse_mark(piece):
    """name, hash, counts of a list or None; ValueError."""
    parts = piece.split(b":")
    if len(parts) not in (2, 4) or not is_name(parts[0]) or len(parts[1]) != 4 or parts[1].strip(HEX):
        raise ValueError
    counts = None
    if len(parts) == 4:
        if not all(p.isdigit() and len(p) <= 5 and int(p) <= 65535 for p in parts[2:]):
            raise ValueError
        counts = int(parts[2]), int(parts[3])
    return parts[0], int(parts[1], 16), counts


def is_name(name):
    return (0 < len(name) <= 1024 and not name[:1].isdigit()
            and not name.strip(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"))


def too_late(name):
    return name.startswith((b"LD_", b"PYTHON", b"MALLOC_")) or name == b"GLIBC_TUNABLES"


def list_cut(value, before, after):
    parts = value.split(b":")[before:]
    if after:
        parts = parts[:-after]
    return b":".join(parts) if parts else None


class Variable:
    """One name: what it was, is after taking back, and becomes."""

    def __init__(self, name, entries, old):
        self.name, self.entries = name, entries
        self.old = self.cur = self.now = old
        self.mark, self.ours, self.state = None, False, 0
        self.toolkit = bool(entries) and entries[0][:2] == (b"together", b"toolkit")
        self.is_list = bool(entries) and (entries[0][0] in (b"prepend", b"append") or (self.toolkit and name == b"PATH"))

    def in_force(self):
        if self.entries[0][0] == b"unset":
            return self.cur is None
        if not self.is_list:
            return self.cur == self.entries[0][2]
        have = self.cur.split(b":") if self.cur is not None else ()
        return all(not e or e in have for _, _, value in self.entries for e in value.split(b":"))

    def leave(self, otherwise):
        self.now = self.cur
        self.state = ALREADY if self.in_force() else otherwise

    def set_value(self):
        self.now, self.ours, self.mark = self.entries[0][2], True, (0, None)

    def set_list(self, without):
        text, counts = b"", [0, 0]
        for side in (0, 1):
            if side and self.cur:
                text = text + b":" + self.cur if counts[0] else self.cur
            for rule, _, value in self.entries[without if side == 0 else 0:]:
                if (rule == b"append") != bool(side):
                    continue
                for e in value.split(b":"):
                    if not e or e in text.split(b":") or (not side and self.cur is not None and e in self.cur.split(b":")):
                        continue
                    text = text + b":" + e if text else e
                    counts[side] += 1
        if counts == [0, 0] or len(self.name) + 1 + len(text) > STRING_MAX:
            self.leave(KEPT)
        else:
            self.now, self.ours, self.mark = text, True, (0, tuple(counts))

    def take_back(self):
        if self.mark and self.old is not None and mark_hash(self.old) == self.mark[0]:
            if too_late(self.name):
                return
            self.cur = list_cut(self.old, *self.mark[1]) if self.mark[1] else None
        self.now, self.mark = self.cur, None

    def set_single(self):
        rule = self.entries[0][0]
        if too_late(self.name):
            self.leave(TOO_LATE)
        elif rule == b"unset":
            self.now, self.state = None, REMOVED if self.old is not None else ALREADY
        elif self.is_list:
            self.set_list(0)
        elif self.cur is not None and (rule == b"default" or self.in_force()):
            self.leave(KEPT)
        else:
            self.set_value()

    def settle(self):
        if self.ours:
            self.mark = mark_hash(self.now), self.mark[1]
            self.state = SET if self.old is None else ALREADY if self.old == self.now else REPLACED
        elif self.old != self.now:
            self.state = REMOVED if self.now is None else REPLACED


def root_is_here(snap):
    try:
        posix.stat(snap.root)
    except (OSError, ValueError):
        return False
    return True


def set_group(snap, members, uid):
    toolkit, late, conflict, none = members[0].toolkit, False, False, 0
    for v in members:
        if not v.is_list and not v.in_force():
            late = late or too_late(v.name)
            conflict = conflict or (v.cur is not None and not (toolkit and snap.root_force))
    if toolkit and snap.root is not None and not root_is_here(snap):
        none = ABSENT_HERE
    elif conflict or late:
        none = KEPT if conflict else TOO_LATE
    for v in members:
        if v.is_list and (len(v.entries) > 1 or not none):
            v.set_list(1 if none or uid == 0 else 0)
        elif none or v.is_list or v.in_force():
            v.leave(none or KEPT)
        else:
            v.set_value()


def report_standing(snap, v):
    otherwise = KEPT
    if not v.mark and not v.in_force():
        if too_late(v.name):
            otherwise = TOO_LATE
        elif v.toolkit and snap.root is not None and not root_is_here(snap):
            otherwise = ABSENT_HERE
    v.leave(otherwise)


def read_marks(env, table):
    """Puts the marks of CUDAENV_APPLIED into the table; are they there and well-formed?"""
    marks = env.get(b"CUDAENV_APPLIED")
    good = marks is not None
    for piece in marks.split(b",") if marks else ():
        try:
            name, h, counts = parse_mark(piece)
            if name.startswith(b"CUDAENV_"):
                raise ValueError
        except ValueError:
            good = False
            continue
        v = table.get(name)
        if v is None:
            v = table[name] = Variable(name, None, env.get(name))
        v.mark = v.mark or (h, counts)
    return good


def marks_text(variables):
    text = b""
    for v in variables:
        if v.mark is None:
            continue
        piece = b"%s:%04x" % (v.name, v.mark[0]) + (b":%d:%d" % v.mark[1] if v.mark[1] else b"")
        if len(b"CUDAENV_APPLIED=") + len(text) + 1 + len(piece) > STRING_MAX:
            break
        text = text + b"," + piece if text else piece
    return text


def apply(env, snap, uid):
    """The variables, those of the snapshot first, and a list of (name, value or None) that changed."""
    table = {n: Variable(n, e, env.get(n)) for n, e in snap.entries.items() if not n.startswith(b"CUDAENV_")}
    keep = read_marks(env, table) and env.get(b"CUDAENV_SNAPSHOT") == snap.digest
    variables = [table[n] for n in sorted(table)]
    groups = {}
    for v in variables:
        if not keep:
            v.take_back()
        if not v.entries:
            continue
        if keep:
            report_standing(snap, v)
        elif v.entries[0][0] == b"together":
            groups.setdefault(v.entries[0][1], []).append(v)
        else:
            v.set_single()
    for name in sorted(groups):
        set_group(snap, groups[name], uid)
    changes = []
    for v in variables:
        v.settle()
        if v.old != v.now:
            changes.append((v.name, v.now))
    if not keep:
        own = ((b"CUDAENV_SNAPSHOT", snap.digest), (b"CUDAENV_PROFILE", snap.profile), (b"CUDAENV_APPLIED", marks_text(variables)))
        changes += [(n, value) for n, value in own if env.get(n) != value]
    return [v for v in variables if v.entries] + [v for v in variables if not v.entries and v.old != v.now], changes
