"""The lines of ``events.jsonl`` as typed values: ``docs/record.md`` in code.

Events and commands are the structs of ``strategies.protocol``, whose newer fields have defaults, so that older records
can be read. Notes, which strategies never see, have the fields that are analysed. Types that are listed nowhere decode
to :class:`Other`, so that a record with a newer vocabulary can still be read.
Missing fields, wrong types and broken JSON raise ``msgspec.ValidationError`` or ``msgspec.DecodeError``.
"""

from __future__ import annotations

from math import nan
from typing import Any

import msgspec

from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Compute,
    Drop,
    Evaluated,
    Failed,
    Joined,
    Lost,
    Observed,
    Ready,
    Restored,
    Send,
    ServerJoined,
    ServerLost,
    Timings,
    Updated,
)

DURATIONS = ("wait_s", "pull_s", "data_s", "compute_s", "send_s")
"""Parts of an iteration in order; they sum to the whole iteration."""
PARTS = tuple(name for name in Timings.__struct_fields__ if name not in DURATIONS)
"""More about an iteration: parts of these durations, and processor seconds."""
UNREADABLE = (UnicodeDecodeError, RecursionError)
"""Errors that msgspec raises, besides its own, for bytes that are no text and for brackets without end."""
ROWS = "iterations.parquet"
"""The file of a run that was recorded by rows (:mod:`analysis.records.rows`)."""


class _Tagged(msgspec.Struct, frozen=True, tag_field="type", tag=True, gc=False):
    """A value whose ``type`` field is its class name."""


# ---- notes ----------------------------------------------------------------------------------------------------------


class Starved(_Tagged, frozen=True, tag=True, gc=False):
    """A Compute waits because no data is free."""

    worker: int


class Rollback(_Tagged, frozen=True, tag=True, gc=False):
    """Nothing counts from the following ``Lost``, or from the ``Restart`` that causes it, until :class:`Restored`."""


class Held(Starved, frozen=True, tag=True, gc=False):
    """The name of before."""


class GoingBack(Rollback, frozen=True, tag=True, gc=False):
    """The name of before."""


OLD_NOTES = {Held.__name__: Starved.__name__, GoingBack.__name__: Rollback.__name__}
"""Notes of older records by their names, and today's names."""


class Preempted(_Tagged, frozen=True, tag=True, gc=False):
    """The job gives its places to others: nothing counts until :class:`Restored`, which ends the pause."""

    version: int


class Resumed(_Tagged, frozen=True, tag=True, gc=False):
    """The job has places again, so long after it was preempted; ``places``: the host of every node."""

    pause_s: float
    places: dict[str, str] = {}


class LayoutChanged(_Tagged, frozen=True, tag=True, gc=False):
    """The nodes of the job from now on, and the share of the parameters that each server holds, in their order."""

    version: int
    nodes: tuple[str, ...]
    shares: dict[str, float]


class Requested(_Tagged, frozen=True, tag=True, gc=False):
    """The scheduler has a place for another node after ``pending_s``."""

    node: str
    pending_s: float = 0.0
    cpu_cores: float | None = None


class Repartitioning(_Tagged, frozen=True, tag=True, gc=False):
    """These servers are to hold these shares of the parameters, in the order of the vector."""

    shares: dict[str, float]


class Allocated(_Tagged, frozen=True, tag=True, gc=False):
    """A node may use so much from now on; None: unlimited."""

    node: str
    cpu_cores: float | None = None
    link_bytes_per_s: float | None = None


class Injected(_Tagged, frozen=True, tag=True, gc=False):
    """A disturbance began, changed or ended: requested and read back, in cores, parts of a GPU, bytes per second, 0, 1.

    ``measured``: the part of a GPU that was left since the note before, by what was used of it.
    """

    target: str
    kind: str
    level: float
    by: str
    asked: float | None = None
    achieved: float | None = None
    late_s: float = 0.0
    took_s: float = 0.0
    measured: float | None = None


class MemoryProbed(_Tagged, frozen=True, tag=True, gc=False):
    """On the machine of emulated hosts, a copy of 4 MiB took ``copy_s`` of processor time."""

    copy_s: float


class Reported(_Tagged, frozen=True, tag="Updated", gc=False):
    """``Updated`` where the strategy does not subscribe to it."""

    server: int
    version: int
    updates: int
    busy_s: float
    injected_s: float = 0.0


class Jumped(_Tagged, frozen=True, tag=True, gc=False):
    """The lab has skipped ``seconds``, up to now: so many iterations by worker, and updates with their samples.

    They are like those that were carried out since ``since_s``; ``version`` counts all updates until now.
    """

    seconds: float
    version: int
    updates: int
    samples: int
    iterations: dict[str, int]
    since_s: float = 0.0


class GaveUp(_Tagged, frozen=True, tag=True, gc=False):
    """Samples of a Compute that ended early, which nobody computes any more."""

    worker: int
    samples: int


class Finished(_Tagged, frozen=True, tag=True, gc=False):
    """The end of a run that ended by itself; the line's ``t`` is the job's end."""

    status: str
    reason: str = ""
    epochs_done: int | None = None
    samples_applied: int | None = None
    shards_done: int | None = None
    shards_total: int | None = None
    version: int | None = None
    num_parameters: int | None = None
    parameters_sha256: str = ""
    warning: str = ""


class Other(msgspec.Struct, frozen=True, gc=False):
    """Any other type, as stored in the record."""

    type: str
    fields: dict[str, Any]


OfLayout = LayoutChanged | Requested | Repartitioning | Allocated
Note = (
    Starved
    | Held
    | Rollback
    | GoingBack
    | Preempted
    | Resumed
    | Reported
    | OfLayout
    | Injected
    | MemoryProbed
    | Jumped
    | GaveUp
    | Finished
)


OF_TASKS = (Lost, Joined, Failed, ServerLost, ServerJoined, Restored)
"""Events of which there is a table, and whose rows depend on the notes before."""
KEPT = frozenset((*OF_TASKS, Evaluated, Observed))
"""Events of which tables are made one by one."""
REPORTS = frozenset((Updated, Reported))
"""A server's report of its updates."""
COMMON = frozenset((Ready, Arrived, Updated))
"""Events that come with every iteration or update."""
ORDINARY = frozenset((Compute, Send, Apply, Drop))
"""Commands that do."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line: either ``event`` with ``commands`` and the ``version`` after them, or ``note``. ``t`` in seconds."""

    seq: int
    t: float
    event: AnyEvent | Other | None = None
    commands: tuple[AnyCommand | Other, ...] = ()
    version: int = 0
    decide_us: float = 0.0
    note: Note | Other | None = None
    state: bytes = b""
    """The strategy's own log of its state: a JSON object; empty if it logs nothing."""


class _Envelope(msgspec.Struct, gc=False):
    seq: int
    t: float
    kind: str
    event: msgspec.Raw = msgspec.Raw()
    commands: list[msgspec.Raw] = []
    version: int | None = None
    decide_us: float | None = None
    note: msgspec.Raw = msgspec.Raw()
    state: msgspec.Raw = msgspec.Raw()


class _EventLine(msgspec.Struct, tag_field="kind", tag="event", gc=False):
    seq: int
    t: float
    event: AnyEvent
    version: int
    commands: tuple[AnyCommand, ...] = ()
    decide_us: float | None = None
    state: msgspec.Raw = msgspec.Raw()


class _NoteLine(msgspec.Struct, tag_field="kind", tag="note", gc=False):
    seq: int
    t: float
    note: Note


_KNOWN_LINE = msgspec.json.Decoder(_EventLine | _NoteLine)
"""Decodes in one go a line whose types are all known, as nearly all are."""
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)
_COMMAND: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyCommand)
_NOTE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Note)


def decode_line(text: bytes) -> Line:
    """Decode one line of ``events.jsonl``; raises ``msgspec.DecodeError`` saying what is wrong with it."""
    try:
        known = _KNOWN_LINE.decode(text)
    except msgspec.ValidationError:  # another type, or an error that is to be named
        return _decode_parts(text)
    except UNREADABLE as error:
        raise msgspec.DecodeError(str(error)) from None
    if isinstance(known, _NoteLine):
        return Line(known.seq, known.t, note=known.note)
    decide_us, state = known.decide_us or 0.0, bytes(known.state)
    return Line(known.seq, known.t, known.event, known.commands, known.version, decide_us, None, state)


def _decode_parts(text: bytes) -> Line:
    """As :func:`decode_line`, one value after another."""
    try:
        raw = _ENVELOPE.decode(text)
    except UNREADABLE as error:
        raise msgspec.DecodeError(str(error)) from None
    if raw.kind == "note" and raw.note:
        return Line(seq=raw.seq, t=raw.t, note=_decode(_NOTE, raw.note))
    if raw.kind != "event" or not raw.event or raw.version is None:
        raise msgspec.ValidationError(f'kind "{raw.kind}" without its fields (an event has `event` and `version`)')
    return Line(
        seq=raw.seq,
        t=raw.t,
        event=_decode(_EVENT, raw.event),
        commands=tuple([_decode(_COMMAND, command) for command in raw.commands]),
        version=raw.version,
        decide_us=raw.decide_us or 0.0,
        state=bytes(raw.state),
    )


def _decode(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw) -> Any:
    """Decode a tagged value; an unknown type becomes :class:`Other`."""
    try:
        return decoder.decode(raw)
    except UNREADABLE as error:
        raise msgspec.DecodeError(str(error)) from None
    except msgspec.ValidationError as error:
        try:
            fields = msgspec.json.decode(raw)
        except UNREADABLE as unreadable:
            raise msgspec.DecodeError(str(unreadable)) from None
        name = fields.get("type") if isinstance(fields, dict) else None
        if isinstance(name, str) and name not in _KNOWN:
            return Other(type=name, fields=fields)
        try:
            return msgspec.convert(_with_nan(fields), decoder.type)
        except msgspec.ValidationError:
            raise error from None


def _with_nan(fields: Any) -> Any:
    """Null is NaN in what a diverged job computes (metrics, weights): JSON has no other word for it."""
    if not isinstance(fields, dict):
        return fields
    return {name: _numbers(value) if name in ("metrics", "weights") else value for name, value in fields.items()}


def _numbers(values: Any) -> Any:
    match values:
        case dict():
            return {name: nan if value is None else value for name, value in values.items()}
        case list():
            return [nan if value is None else value for value in values]
    return values


def is_arrival(line: Line) -> bool:
    """Whether the line is of a gradient that arrived, as nearly all are."""
    return type(line.event) is Arrived


def type_of(tagged: Any) -> str:
    """The type of an event, command or note as the record names it."""
    return tagged.type if isinstance(tagged, Other) else str(tagged.__struct_config__.tag)


_KNOWN = frozenset(kind.__struct_config__.tag for union in (AnyEvent, AnyCommand, Note) for kind in union.__args__)
