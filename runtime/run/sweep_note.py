"""``sweep.jsonl``: what a sweep is made of, and how each of its jobs ended; by it an interrupted sweep continues.

The first line is the :class:`Head`, every other one an :class:`Ended`. A line that was cut off by the end of the
process counts as not written.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from runtime.config.instantiate import TARGET
from runtime.house import ROOT, module_name
from runtime.live.joining.facts import fingerprint_below
from runtime.record.checkpoint import publish

FILE = "sweep.jsonl"
SCHEMA = 1
SHOWN = ("caption", "draw", "names", "resume", "view")
"""Settings that change nothing of what is recorded."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The sweep: equal heads are the same command on the same code."""

    schema: int = SCHEMA
    settings: tuple[str, ...]
    """What the command line sets, as it was written."""
    code_sha256: str
    """Of the Python files of this software."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended, with its report."""

    job: str
    """Its directory below that of the sweep."""
    content_sha256: str
    """:func:`content_of` its configuration."""
    exit_code: int
    took_s: float
    reason: str = ""
    """Why it failed; empty otherwise."""


class Note(msgspec.Struct, frozen=True):
    """What the file says. A job that ran twice is there as it ended last."""

    head: Head
    ended: dict[str, Ended]


def head_of(settings: tuple[str, ...], root: Path = ROOT) -> Head:
    """The head of a sweep that starts now; reading all files takes some hundredths of a second."""
    return Head(settings=settings, code_sha256=fingerprint_below(root))


def content_of(raw: Mapping[str, Any], inputs: Sequence[str] = ()) -> str:
    """Fingerprint of a job: all its settings, what it reads (``inputs``), and the files of the classes it names.

    These may lie outside this software, where :class:`Head` does not look; what such files import is not seen.
    """
    digest = hashlib.sha256()
    shown = {name: value for name, value in raw.items() if name not in SHOWN}
    digest.update(json.dumps(shown, sort_keys=True, default=str).encode())
    digest.update(json.dumps(list(inputs)).encode())
    for name in sorted({target.rpartition(".")[0] for target in _targets(shown)}):
        file = getattr(sys.modules.get(module_name(name)), "__file__", None)
        digest.update(Path(file).read_bytes() if file else name.encode())
    return digest.hexdigest()


def _targets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(named := value.get(TARGET), str):
            yield named
        for one in value.values():
            yield from _targets(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _targets(one)


def begin(directory: Path, head: Head, kept: Sequence[Ended] = ()) -> None:
    """Write the head, and the jobs that need not run, into a directory, which exists; what the file said is gone."""
    publish(directory / FILE, [msgspec.json.encode(line) + b"\n" for line in (head, *kept)])


def add(directory: Path, ended: Ended) -> None:
    """Add a job, in one write. On a full disk it is not added, and would run again."""
    with suppress(OSError), (directory / FILE).open("ab") as file:
        file.write(msgspec.json.encode(ended) + b"\n")


def read(directory: Path) -> Note | None:
    """What the directory's file says; None without a readable one of this schema."""
    try:
        lines = (directory / FILE).read_bytes().split(b"\n")
        head = msgspec.json.decode(lines[0], type=Head)
    except (OSError, msgspec.DecodeError):
        return None
    ended: dict[str, Ended] = {}
    for line in lines[1:]:
        try:
            one = msgspec.json.decode(line, type=Ended)
        except msgspec.DecodeError:  # cut off
            continue
        ended[one.job] = one
    return Note(head, ended) if head.schema == SCHEMA else None
