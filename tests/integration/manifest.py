# SPDX-License-Identifier: MIT
"""Everything below some directories, as JSON: `python3 -I -S manifest.py KNOWN DIRECTORY...`, for a test that looks into a mount
namespace.

For each path: type, mode, owner, and of what is no directory also size, time of change, link target, SHA-256. (A directory's time
of change tells of entries that came and went, which is allowed.) KNOWN is a file with the sums that earlier calls have computed,
by inode, size, time of change and time of status change: a file whose bytes were written has another one of these, whatever its
writer does to hide it.
"""
import hashlib
import json
import os
import stat
import sys


def entry(path, known):
    st = os.lstat(path)
    found = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid]
    if stat.S_ISDIR(st.st_mode):
        return found
    found += [st.st_size, st.st_mtime_ns]
    if stat.S_ISLNK(st.st_mode):
        found.append(os.fsencode(os.readlink(path)).hex())
    elif stat.S_ISREG(st.st_mode):
        key = f"{st.st_ino} {st.st_size} {st.st_mtime_ns} {st.st_ctime_ns}"
        if key not in known:
            with open(path, "rb") as file:
                known[key] = hashlib.sha256(file.read()).hexdigest()
        found.append(known[key])
    return found


def manifest(directories, known):
    found = {}
    for top in directories:
        for directory, names, files in os.walk(top):
            # The standard library's own tests are most of it, and of no interest.
            names[:] = [n for n in names if n not in ("test", "tests")]
            found[directory] = entry(directory, known)
            for name in files + [n for n in names if os.path.islink(os.path.join(directory, n))]:
                found[os.path.join(directory, name)] = entry(os.path.join(directory, name), known)
    return found


if __name__ == "__main__":
    sums = {}
    if os.path.exists(sys.argv[1]):
        with open(sys.argv[1]) as earlier:
            sums = json.load(earlier)
    json.dump(manifest(sys.argv[2:], sums), sys.stdout)
    with open(sys.argv[1], "w") as later:
        json.dump(sums, later)
