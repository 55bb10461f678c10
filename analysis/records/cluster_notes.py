"""The lines of ``cluster.jsonl`` as typed values: what happened to the jobs of a cluster, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from analysis.records.load import RecordError
from analysis.records.log import raw_lines
from analysis.records.schema import UNREADABLE


class _OfJob(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    """A note on one job; its ``type`` is the class name, if no other tag is given."""

    job: str


class Submitted(_OfJob, frozen=True, tag=True):
    """The job is in the cluster from now on; ``duration_s``: how long it would take alone, None if unknown.

    ``submit_s``: when it was to come, a moment before with real time; None: it came at the note's own time.
    """

    gpus: int
    submit_s: float | None = None
    servers: int = 0
    user: str = ""
    model: str = ""
    duration_s: float | None = None


class Queued(_OfJob, frozen=True, tag=True):
    """The job waits for GPUs: it did not start at once, or has given its GPUs back."""


class Placed(_OfJob, frozen=True, tag=True):
    """The job holds GPUs from now on; the hosts of its workers and servers, by their numbers."""

    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()


class Began(_OfJob, frozen=True, tag="Started"):
    """The job runs; time 0 of its own record is at its first start."""


class Moved(_OfJob, frozen=True, tag=True):
    """A task of the job (``worker:1``) is on another host from now on; a worker's GPU on the old one is free."""

    task: str
    host: int


class Granted(_OfJob, frozen=True, tag=True):
    """The job has a node more, which it asked for while it ran; the hosts of all its workers and servers then."""

    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()
    cores: float = 0.0


class Returned(_OfJob, frozen=True, tag=True):
    """A node of the job has left; likewise."""

    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()


class Preempted(_OfJob, frozen=True, tag=True):
    """The job was ordered to give its GPUs back; it has them until it is ``Queued``, placed again or has ended."""


class Reserved(_OfJob, frozen=True, tag=True):
    """The job was granted a mode's needs of its hosts."""


class Refused(_OfJob, frozen=True, tag=True):
    """The job was refused that."""


class Ended(_OfJob, frozen=True, tag=True):
    """The job has left the cluster; ``done`` if it completed its work."""

    status: str = "done"
    reason: str = ""


class Finished(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    """The last line of a run that ended by itself."""

    status: str = "done"
    reason: str = ""


OfJob = Submitted | Queued | Placed | Began | Moved | Granted | Returned | Preempted | Reserved | Refused | Ended
Note = OfJob | Finished


class Entry(msgspec.Struct, frozen=True):
    """One line: ``note`` is None if its type is none of those above. ``t`` in seconds of the cluster's clock."""

    seq: int
    t: float
    note: Note | None


class _Envelope(msgspec.Struct):
    seq: int
    t: float
    note: msgspec.Raw = msgspec.Raw()


MAX_LINES = 2_000_000
"""All of which are in memory."""
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_NOTE: msgspec.json.Decoder[Note] = msgspec.json.Decoder(Note)
_TYPES = frozenset(kind.__struct_config__.tag for kind in (*OfJob.__args__, Finished))


def read_entries(path: Path) -> tuple[list[Entry], bool]:
    """All lines of the file in order, and whether the last one is torn (the run was killed) and left out.

    Raises:
        RecordError: the file is missing, a line is damaged, or lines are missing or out of order.
    """
    entries, torn = list[Entry](), False
    for number, line in enumerate(raw_lines(path), start=1):
        if number > MAX_LINES:
            raise RecordError(f"{path}: has more than {MAX_LINES:,} lines, the most that are read of a set of jobs")
        try:
            entries.append(_decode(line))
        except (msgspec.DecodeError, *UNREADABLE) as error:
            torn = not line.endswith(b"\n")
            if not torn:
                raise RecordError(f"{path}:{number}: {error}. The record is damaged: repeat the run") from None
    _check_order(path, entries)
    return entries, torn


def _decode(line: bytes) -> Entry:
    raw = _ENVELOPE.decode(line)
    if not raw.note:
        return Entry(raw.seq, raw.t, None)
    try:
        return Entry(raw.seq, raw.t, _NOTE.decode(raw.note))
    except msgspec.ValidationError:
        fields: Any = msgspec.json.decode(raw.note)
        if isinstance(fields, dict) and isinstance(fields.get("type"), str) and fields["type"] not in _TYPES:
            return Entry(raw.seq, raw.t, None)  # of a newer version
        raise


def _check_order(path: Path, entries: list[Entry]) -> None:
    last_s = 0.0
    for due, entry in enumerate(entries):
        if entry.seq != due:
            what = f"seq {entry.seq} where {due} is due. Lines are missing or duplicated"
        elif entry.t < last_s:
            what = f"t {entry.t} after {last_s}. Time never decreases in a record"
        else:
            last_s = entry.t
            continue
        raise RecordError(f"{path}:{due + 1}: {what}: repeat the run or leave it out")
