"""Printed logs line by line, without the additions of launchers, clusters and terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from analysis.logs.limits import MOST_DIGITS, MOST_LINE, MOST_LINES
from analysis.logs.opening import open_text
from analysis.logs.step_log import LogError
from reading.errors import shown

COLOUR = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP])?[ \t]"
)
"""A time stamp of Kubernetes or of a container runtime."""
PREFIXES = (
    TIME,
    re.compile(r"^\[pod/([^\s\]]{1,200})\] "),  # kubectl logs --prefix
    re.compile(r"^([\w.-]{1,200}) {1,9}\| "),  # docker compose
    re.compile(r"^\((\w{1,60} pid=\d{1,9}(?:, ip=[^\s)]{1,60})?)\) "),  # Ray
    re.compile(r"^\[[A-Za-z_][A-Za-z_-]{0,40}(\d{1,9})\]: ?"),  # torchrun: [default0]:
    re.compile(r"^(\d{1,9}): "),  # srun --label
    re.compile(r"^([A-Za-z][\w.-]{0,200}\d|(?:\d{1,3}\.){3}\d{1,3}): "),  # pdsh, as DeepSpeed's launcher starts nodes
    re.compile(r"^\[\d{1,9},(\d{1,9})\]<std(?:out|err)>: ?"),  # mpirun --tag-output: [1,0]<stdout>:
    re.compile(r"^\[(\d{1,9})\] (?!\[?\d)"),  # mpiexec -prepend-rank
)
"""Prefixes of every line of a process; the group is the number or the name of the process."""
BEGINS = {"[": PREFIXES[1:2] + PREFIXES[4:5] + PREFIXES[7:], "(": PREFIXES[3:4]}
"""Prefixes that begin with a bracket; ``OTHERS`` begin with a letter or a digit."""
OTHERS = tuple(one for one in PREFIXES if all(one not in some for some in BEGINS.values()))
MOST_PREFIXES = 6


class Line(NamedTuple):
    """One line of a log.

    Attributes:
        number: in its file, from 1.
        process: numbers and names that launchers put before it, the outermost first: of srun with torchrun, the
            node comes first.
        text: the rest, without colours and blanks at its ends.
    """

    number: int
    process: tuple[str, ...]
    text: str


class Lines:
    """The lines of a file; every pass reads it again, so that it need not fit into memory.

    ``long``: the first line that was not read to its end, once all were passed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.long: int | None = None

    def __iter__(self) -> Iterator[Line]:
        with open_text(self.path) as file:
            number, begins = 0, True
            while text := file.readline(MOST_LINE):
                ends = text.endswith("\n")
                if begins:
                    number += 1
                    if number > MOST_LINES:
                        raise LogError(
                            f"{self.path}: has more than {MOST_LINES:,} lines, the most that are read; give a part of "
                            "it, such as the lines of steps (grep)"
                        )
                    if text != "\n":
                        yield _line(number, text)
                elif self.long is None:
                    self.long = number
                begins = ends

    def remarks(self) -> list[str]:
        """Return what was not read."""
        if self.long is None:
            return []
        return [f"line {self.long} and perhaps others have more than {MOST_LINE:,} characters, which are not read"]


def _line(number: int, text: str) -> Line:
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    text, process = text.strip(), list[str]()
    for _ in range(MOST_PREFIXES):
        found = None
        for pattern in BEGINS.get(text[:1], OTHERS):
            if found := pattern.match(text):
                break
        if found is None:
            break
        text = text[found.end() :].lstrip()
        process += (name for name in found.groups() if name)
    return Line(number, tuple(process), text)


def ranks_of(processes: Sequence[tuple[str, ...]]) -> list[str]:
    """Names of the ranks that printed lines with these prefixes: the part that differs, else the innermost."""
    columns = list(zip_longest(*processes, fillvalue=""))
    differing = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    if not differing:
        return ["0"] * len(processes)
    return [".".join(filter(None, parts)) for parts in zip(*differing, strict=True)]


def whole(found: str, what: str, where: str, most: int) -> int:
    """A whole number that a line has, less than ``most``.

    Raises:
        LogError: with ``where``, the file and the line.
    """
    if not found.isascii() or not found.isdecimal() or len(found) > len(str(most)) or int(found) >= most:
        raise LogError(
            f"{where}: {what} {shown(found)}: must be a whole number less than {most:,}; correct or remove that line"
        )
    return int(found)


def positive(found: str, what: str, where: str, most: float) -> float:
    """A number that a line has, 0 or more and less than ``most``, with commas between thousands or without.

    Raises:
        LogError: with ``where``, the file and the line.
    """
    try:
        value = float(found.replace(",", "")) if len(found) <= MOST_DIGITS and "_" not in found else -1.0
    except ValueError:
        value = -1.0
    if not 0.0 <= value < most:
        raise LogError(
            f"{where}: {what} {shown(found)}: must be a number, 0 or more and less than {most:g}; "
            "correct or remove that line"
        )
    return value
