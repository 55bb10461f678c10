"""The event log: one JSON line per event, written with one system call, so that a kill tears at most the last line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from runtime.checkpoint import MODE


class _EventLine(msgspec.Struct, omit_defaults=True):
    seq: int
    t: float
    kind: str
    event: Any
    commands: Any
    version: int
    decide_us: float
    state: Any = None


class _NoteLine(msgspec.Struct):
    seq: int
    t: float
    kind: str
    note: dict[str, Any]


class RecordError(OSError):
    """The record can no longer be written (a full disk, say)."""


class Recorder:
    """Appends to ``events.jsonl`` of a run directory; see ``docs/record.md``."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "events.jsonl"
        self._fd = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, MODE)
        self._encode = msgspec.json.Encoder().encode
        self._seq = 0

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """An event that the strategy was told, and its answer."""
        line = _EventLine(self._seq, t, "event", event, commands, version, round(decide_us, 2), state)
        self._write(self._encode(line) + b"\n")

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """A fact that the strategy is not told."""
        self._write(self._encode(_NoteLine(self._seq, t, "note", {"type": kind, **fields})) + b"\n")

    def close(self) -> None:
        """No more lines."""
        os.close(self._fd)

    def _write(self, line: bytes) -> None:
        if os.write(self._fd, line) < len(line):
            raise RecordError(f"{self.path}: the disk is full, the last line is torn")
        self._seq += 1


class Fanout:
    """Several records at once: the log and whoever watches."""

    def __init__(self, *records: Any) -> None:
        self.records = records

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """To all."""
        for record in self.records:
            record.event(t, event, commands, version, decide_us, state)

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """To all."""
        for record in self.records:
            record.note(t, kind, **fields)
