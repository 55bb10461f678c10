"""The events of one kind of one job of a cluster, and nothing else of its record: hundreds of jobs are read in turn."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from analysis.records.load import LOG, RecordError
from analysis.records.log import raw_lines

Found = TypeVar("Found")


def lines_with(folder: Path, kind: str, decoder: msgspec.json.Decoder[Found]) -> list[Found]:
    """The lines of a job's log with an event of this kind, in order; none for a job without a record.

    Raises:
        RecordError: such a line that is not the last one is damaged.
    """
    path = folder / LOG
    if not path.exists():
        return []
    found, word = [], f'"{kind}"'.encode()
    for number, text in enumerate(raw_lines(path), start=1):
        if word in text:
            try:
                found.append(decoder.decode(text))
            except msgspec.DecodeError as error:
                if not text.endswith(b"\n"):  # torn
                    break
                if isinstance(error, msgspec.ValidationError) and not _has(text, kind):
                    continue  # another event, or a note, that has the word in a text
                why = f"{path}:{number}: {error}. The record is damaged: repeat the run or leave it out"
                raise RecordError(why) from None
    return found


def _has(text: bytes, kind: str) -> bool:
    """Whether it is such an event. So may be text that is no JSON: a lost block has joined two lines."""
    try:
        line = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return True
    event = line.get("event") if isinstance(line, dict) else None
    return isinstance(event, dict) and event.get("type") == kind
