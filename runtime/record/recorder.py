"""The event log: one JSON line per event, written with one system call, so that a kill tears at most the last line.

A full disk tears none: a line that did not fit is truncated away, and reserved space holds the record's final lines.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import is_full
from runtime.record.checkpoint import MODE


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


SPARE_BYTES = 1 << 16
"""Bytes reserved for the final lines of a record whose disk is full."""


class RecordWriteError(OSError):
    """The record can no longer be written (a full disk, say)."""


class Recorder:
    """Appends to ``events.jsonl`` (or ``name``) of a run directory; see ``docs/record.md``.

    A line that does not fit raises :class:`RecordWriteError`. From then on, the reserved space takes a few final lines,
    and lines that do not fit there either are dropped silently.
    """

    def __init__(self, run_dir: Path, name: str = "events.jsonl") -> None:
        self.path = run_dir / name
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        self._room = limit if limit != resource.RLIM_INFINITY else None
        self._spare = reserve_space(run_dir, SPARE_BYTES if self._room is None else min(SPARE_BYTES, self._room))
        self._fd = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, MODE)
        if self._room is not None:
            self._room -= min(SPARE_BYTES, self._room // 4)
        self._encode = msgspec.json.Encoder().encode
        self._seq = self._size = 0
        self._full = False

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """Write an event that the strategy received, with its answer."""
        line = _EventLine(self._seq, t, "event", event, commands, version, round(decide_us, 2), state)
        self._write(self._encode(line) + b"\n")

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Write a fact that the strategy does not receive."""
        self._write(self._encode(_NoteLine(self._seq, t, "note", {"type": kind, **fields})) + b"\n")

    def close(self) -> None:
        """Close the log; nothing can be written afterwards."""
        self.release_reserve()
        os.close(self._fd)

    def _write(self, line: bytes) -> None:
        try:
            if self._room is not None and self._size + len(line) > self._room:  # what `ulimit -f` leaves
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            if os.write(self._fd, line) < len(line):  # a short write is not an error to the kernel
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # a torn line would make the following ones unreadable
            if self._full:
                return
            self._full = True
            self.release_reserve()
            raise RecordWriteError(error.errno, error.strerror, str(self.path)) from None
        self._seq += 1
        self._size += len(line)

    def release_reserve(self) -> None:
        """Free the reserved space."""
        self._room = None
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def reserve_space(directory: Path, num_bytes: int) -> int | None:
    """An unnamed file that occupies space until it is closed; None on systems without such files.

    Raises ``OSError`` if there is not that much space.
    """
    try:
        spare = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, MODE)
    except AttributeError:  # only Linux has O_TMPFILE
        return None
    except OSError as error:
        if is_full(error):
            raise
        return None
    try:
        os.posix_fallocate(spare, 0, num_bytes)
    except OSError as error:
        os.close(spare)
        if is_full(error):
            raise
        return None
    return spare


class Fanout:
    """Writes to several recorders at once: the event log and the live view."""

    def __init__(self, *records: Any) -> None:
        self.records = records

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """Pass an event on to every recorder."""
        for record in self.records:
            record.event(t, event, commands, version, decide_us, state)

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Pass a note on to every recorder."""
        for record in self.records:
            record.note(t, kind, **fields)
