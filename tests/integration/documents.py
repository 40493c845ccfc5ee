# SPDX-License-Identifier: MIT
"""Commands and files out of the documents, so that a test runs what a reader would.

In a document's ```console blocks a line that begins with `root# ` is root's command, one with `NAME$ ` is NAME's (`$ `: of whoever has
the clone); a backslash at its end goes on with the next line. What follows until the next command is what it printed; `...` stands
for any lines, `[exit status N]` for a status that is not 0. Another block whose first line is a comment with an absolute path is
that file.
"""
import dataclasses
import re

PROMPT = re.compile(r"(?:root#|(?P<user>[a-z]+)?\$) (?P<command>.*)")
FENCE = re.compile(r"```(\w*)$")


@dataclasses.dataclass
class Command:
    line: int
    user: str | None  # None: root
    text: str
    output: list
    status: int = 0


@dataclasses.dataclass
class File:
    line: int
    path: str
    text: str


@dataclasses.dataclass
class Section:
    title: str
    items: list


def parse_console(lines, first):
    items = []
    for number, line in enumerate(lines, first):
        last = items[-1] if items else None
        match = PROMPT.fullmatch(line)
        if last and not last.output and last.text.endswith("\\"):
            last.text = last.text[:-1] + line.lstrip()
        elif match:
            user = None if line.startswith("root#") else match["user"] or "clone"
            items.append(Command(number, user, match["command"], []))
        elif re.fullmatch(r"\[exit status \d+\]", line):
            last.status = int(line.split()[2][:-1])
        else:
            last.output.append(line)
    return items


def read_document(path):
    """The sections (## headings) that have something to run, in order."""
    sections, block, kind, first = [Section("", [])], None, "", 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.fullmatch(line)
        if block is None and line.startswith("## "):
            sections.append(Section(line[3:], []))
        elif block is None and fence:
            block, kind, first = [], fence[1], number + 1
        elif fence:
            name = re.fullmatch(r"# (/\S+)", block[0]) if block else None
            if kind == "console":
                sections[-1].items += parse_console(block, first)
            elif name:
                sections[-1].items.append(File(first, name[1], "\n".join(block) + "\n"))
            block = None
        elif block is not None:
            block.append(line)
    return [s for s in sections if s.items]


def indented_commands(path, before):
    """The lines of README's indented block after the line that ends with BEFORE."""
    lines = path.read_text().split(before + "\n\n", 1)[1].split("\n\n", 1)[0].splitlines()
    assert lines and all(line.startswith("    ") for line in lines)
    return [line.strip() for line in lines]


def shape(line):
    """What of a line is the same in every run: digests, times, numbers that are no value and the widths of columns are not."""
    line = re.sub(r"\b[0-9a-f]{12,64}\b", "H", line.rstrip())
    line = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( ?[A-Z]{1,4}\b)?", "T", line)
    line = re.sub(r"(?<![=\d])\d+", "0", line)
    return re.sub(r"[ \t]+", " ", line)


def same_shape(pasted, printed):
    """None, or the first pasted line that was not printed."""
    printed = [shape(line) for line in printed]
    at, anywhere = 0, False
    for line in pasted:
        if line.strip() == "...":
            anywhere = True
            continue
        wanted = shape(line)
        if anywhere:
            while at < len(printed) and printed[at] != wanted:
                at += 1
        if at >= len(printed) or printed[at] != wanted:
            return line
        at, anywhere = at + 1, False
    return None if anywhere or at == len(printed) else f"(and no more than that, but: {printed[at]})"
