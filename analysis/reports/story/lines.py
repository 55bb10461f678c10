"""The lines of a run's log with every field that was recorded, also those that this version does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from analysis.records.log import DAMAGED, RecordError, raw_lines
from analysis.records.schema import OLD_NOTES, UNREADABLE

Fields = dict[str, Any]


class RawLine(msgspec.Struct, frozen=True):
    """One line of ``events.jsonl``: an event with the commands that answer it, or a note."""

    seq: int
    t: float
    kind: str
    event: Fields | None = None
    note: Fields | None = None
    commands: tuple[Fields, ...] = ()
    version: int = 0
    state: Fields | None = None


_DECODER = msgspec.json.Decoder(RawLine)


def read_lines(path: Path) -> Iterator[RawLine]:
    """The lines in order; a torn last line is left out. Raises :class:`RecordError` for a missing or damaged file."""
    for number, text in enumerate(raw_lines(path), start=1):
        try:
            line = _DECODER.decode(text)
        except (msgspec.DecodeError, *UNREADABLE) as error:
            if not text.endswith(b"\n"):
                return
            raise RecordError(f"{path}:{number}: {error}. {DAMAGED}") from None
        if line.note is not None and (name := OLD_NOTES.get(str(line.note.get("type")))):
            line.note["type"] = name
        yield line
