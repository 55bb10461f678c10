"""``sweep.jsonl``: a sweep's settings and code, and the end of each job; an interrupted sweep continues from it.

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

from reading import Unreadable
from reading.files import MIB, read_bytes
from runtime.config.instantiate import TARGET
from runtime.house import ROOT, module_name
from runtime.live.joining.facts import fingerprint_below
from runtime.record.checkpoint import publish
from runtime.record.sums import SUMS

FILE = "sweep.jsonl"
MAX_BYTES = 64 * MIB
SCHEMA = 1
SHOWN = ("caption", "draw", "names", "resume", "view")
"""Settings that do not change the record."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The sweep: equal heads are the same command on the same code."""

    schema: int = SCHEMA
    settings: tuple[str, ...]
    """The settings of the command line, as they were written."""
    code_sha256: str
    """Digest of the Python files of this software."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended, with its report."""

    job: str
    """Its directory below the sweep's."""
    content_sha256: str
    """:func:`content_of` its configuration."""
    exit_code: int
    took_s: float
    reason: str = ""
    """Why it failed; empty otherwise."""


class Note(msgspec.Struct, frozen=True):
    """The content of the note. A job that ran twice is there as it ended last."""

    head: Head | None
    """None: it cannot be read, so nobody knows of which code the records are."""
    ended: dict[str, Ended]
    damaged: tuple[int, ...] = ()
    """Lines that cannot be read, from 1, one apart that was cut off at the end: their jobs run again."""


def head_of(settings: tuple[str, ...], root: Path = ROOT) -> Head:
    """The head of a sweep that starts now; reading all files takes some hundredths of a second."""
    return Head(settings=settings, code_sha256=fingerprint_below(root))


def content_of(raw: Mapping[str, Any], inputs: Sequence[str] = ()) -> str:
    """Fingerprint of a job: all its settings, what it reads (``inputs``), and the files of the classes it names.

    These may lie outside this software, where :class:`Head` does not look; files that such files import are not read.
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
    """Write the head, and the jobs that need not run, into an existing directory; the old file is replaced."""
    (directory / SUMS).unlink(missing_ok=True)  # there are others when the sweep ends
    publish(directory / FILE, [msgspec.json.encode(line) + b"\n" for line in (head, *kept)])


def add(directory: Path, ended: Ended) -> None:
    """Add a job, in one write. On a full disk it is not added, and would run again."""
    with suppress(OSError), (directory / FILE).open("ab") as file:
        file.write(msgspec.json.encode(ended) + b"\n")


def read(directory: Path) -> Note | None:
    """Return the content of the directory's file; None without one of this schema."""
    try:
        *lines, rest = read_bytes(directory / FILE, MAX_BYTES).split(b"\n")
    except Unreadable:
        return None
    found = [_decode(line, Ended if number else Head) for number, line in enumerate([*lines, rest] if rest else lines)]
    ended = {one.job: one for one in found if isinstance(one, Ended)}
    head = found[0] if found and isinstance(found[0], Head) else None
    if (head is None and not ended) or (head is not None and head.schema != SCHEMA):
        return None
    damaged = tuple(number for number, one in enumerate(found[: len(lines)], start=1) if one is None)
    return Note(head, ended, damaged)


def _decode(line: bytes, kind: type[Head | Ended]) -> Head | Ended | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
