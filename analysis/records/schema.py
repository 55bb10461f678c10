"""The lines of ``events.jsonl`` as typed values: ``docs/record.md`` in code.

Values (gradients, durations, use of nodes) are the structs of ``strategies.protocol``. Events, commands and notes have
the fields that are analysed, and what older records lack is optional. Types that are not listed here decode to
:class:`Other`, so that a record with a newer vocabulary can still be read.
Missing fields, wrong types and broken JSON raise ``msgspec.ValidationError`` or ``msgspec.DecodeError``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strategies.protocol import Demand as Demand
from strategies.protocol import Grad as Grad
from strategies.protocol import NodeUse as NodeUse
from strategies.protocol import Share as Share
from strategies.protocol import Timings as Timings

DURATIONS = ("wait_s", "pull_s", "data_s", "compute_s", "send_s")
"""Parts of an iteration in order; they sum to the whole iteration."""
PARTS = tuple(name for name in Timings.__struct_fields__ if name not in DURATIONS)
"""What else is known of an iteration: parts of these durations, and processor seconds."""
UNREADABLE = (UnicodeDecodeError, RecursionError)
"""What msgspec raises, besides its own errors, for bytes that are no text and for brackets without end."""
ROWS = "iterations.parquet"
"""The file of a run that was recorded by rows (:mod:`analysis.records.rows`)."""


class _Tagged(msgspec.Struct, frozen=True, tag_field="type", tag=True, gc=False):
    """A value whose ``type`` field is its class name."""


# ---- events ---------------------------------------------------------------------------------------------------------


class Started(_Tagged, frozen=True, tag=True, gc=False):
    """The job's clock starts at this event."""

    workers: tuple[int, ...]
    model_bytes: int | None = None


class Arrived(_Tagged, frozen=True, tag=True, gc=False):
    """All servers hold a gradient."""

    grad: Grad
    timings: Timings
    loss: float | None = None


class Ready(_Tagged, frozen=True, tag=True, gc=False):
    """A worker holds a gradient until it is sent or dropped."""

    grad: Grad
    timings: Timings
    num_bytes: int


class Replicated(_Tagged, frozen=True, tag=True, gc=False):
    """A replica of the server has what was ordered, and has made the updates up to a version."""

    server: int
    version: int
    grad: int | None = None


class Failed(_Tagged, frozen=True, tag=True, gc=False):
    """A Compute ended without a gradient; its worker is alive."""

    worker: int
    reason: str = ""


class Lost(_Tagged, frozen=True, tag=True, gc=False):
    """A worker's process is gone, and with it its current Compute."""

    worker: int
    incarnation: int
    reason: str = ""
    restarting: bool = False
    cause: str = "killed"


class Joined(_Tagged, frozen=True, tag=True, gc=False):
    """A worker is available (again), and idle."""

    worker: int
    incarnation: int


class ServerLost(_Tagged, frozen=True, tag=True, gc=False):
    """A server is gone; commands are void until :class:`Restored`, unless it held nothing."""

    server: int
    incarnation: int
    reason: str = ""
    cause: str = "killed"
    holding: bool = True


class ServerJoined(_Tagged, frozen=True, tag=True, gc=False):
    """A server that was launched is there; it holds nothing yet."""

    server: int
    incarnation: int


class Denied(_Tagged, frozen=True, tag=True, gc=False):
    """What was requested for this node is not available."""

    node: str
    reason: str = ""


class Reserved(_Tagged, frozen=True, tag=True, gc=False):
    """The cluster's answer to a reservation, and what the job's nodes hold of their hosts."""

    ok: bool
    shares: tuple[Share, ...] = ()
    reason: str = ""


class Restored(_Tagged, frozen=True, tag=True, gc=False):
    """The parameters are again those of ``version``; everything after it is void."""

    version: int
    workers: tuple[int, ...] = ()
    servers: tuple[int, ...] = ()


class Evaluated(_Tagged, frozen=True, tag=True, gc=False):
    """Held-out metrics of the parameters of ``version``, as of ``asked_s``."""

    version: int
    asked_s: float
    metrics: dict[str, float | None]


class Observed(_Tagged, frozen=True, tag=True, gc=False):
    """A sample of the resource use of tasks and hosts during the last ``period_s``."""

    period_s: float
    nodes: tuple[NodeUse, ...]


class Scored(_Tagged, frozen=True, tag=True, gc=False):
    """A gradient was compared with the reference gradient of ``ref_version``; both are means over their samples."""

    grad: Grad
    dot: float
    sqr_grad: float
    sqr_ref: float
    ref_version: int


class Measured(_Tagged, frozen=True, tag=True, gc=False):
    """The squared norm of the weighted sum of gradients that resulted in ``version``."""

    version: int
    sqr_norm: float


class Updated(_Tagged, frozen=True, tag=True, gc=False):
    """Busy time of a server since its last report: its last ``updates`` updates, up to ``version``.

    A note, unless the strategy subscribes to it.
    """

    server: int
    version: int
    updates: int
    busy_s: float
    injected_s: float = 0.0


class Scheduling(_Tagged, frozen=True, tag=True, gc=False):
    """The pending time that the scheduler currently expects of a restart."""

    pending_s: float


class Woke(_Tagged, frozen=True, tag=True, gc=False):
    """A timer of the strategy fired."""


# ---- commands -------------------------------------------------------------------------------------------------------


class Compute(_Tagged, frozen=True, tag=True, gc=False):
    """Ask a worker to compute a gradient."""

    worker: int
    num_samples: int


class Partition(_Tagged, frozen=True, tag=True, gc=False):
    """Begin a round whose samples are partitioned."""


class Apply(_Tagged, frozen=True, tag=True, gc=False):
    """Make one update from these gradients."""

    grads: tuple[int, ...]
    lr_scale: float = 1.0
    measure: bool = False


class Replicate(_Tagged, frozen=True, tag=True, gc=False):
    """Let a replica of the server receive a gradient, or a copy of all parameters."""

    server: int
    grad: int | None = None


class Drop(_Tagged, frozen=True, tag=True, gc=False):
    """Discard these gradients without applying them."""

    grads: tuple[int, ...]
    requeue: bool = True


class Send(_Tagged, frozen=True, tag=True, gc=False):
    """Let gradients that workers hold travel to the servers."""

    grads: tuple[int, ...]


class Score(_Tagged, frozen=True, tag=True, gc=False):
    """Compare a gradient with the reference gradient, or with a new one."""

    grad: int
    refresh: bool = False


class Evaluate(_Tagged, frozen=True, tag=True, gc=False):
    """Evaluate the current parameters."""


class Checkpoint(_Tagged, frozen=True, tag=True, gc=False):
    """Store the current parameters."""


class Restart(_Tagged, frozen=True, tag=True, gc=False):
    """Kill a node and start it on another machine."""

    node: str


class Launch(_Tagged, frozen=True, tag=True, gc=False):
    """Request another node, whose number nobody had."""

    node: str


class Retire(_Tagged, frozen=True, tag=True, gc=False):
    """End a node for good."""

    node: str


class Repartition(_Tagged, frozen=True, tag=True, gc=False):
    """Divide the parameters among these servers; what follows is void until :class:`Restored`."""

    servers: tuple[int, ...]


class Allocate(_Tagged, frozen=True, tag=True, gc=False):
    """Change what a node may use."""

    node: str


class Reserve(_Tagged, frozen=True, tag=True, gc=False):
    """Ask the cluster for more of the hosts, also at the cost of other jobs; no demands give all back."""

    demands: tuple[Demand, ...] = ()
    worth_s: float = 0.0


class Wake(_Tagged, frozen=True, tag=True, gc=False):
    """Arm a timer of the strategy, for ``at_s``; ``tag`` says what for."""

    at_s: float = 0.0
    tag: str = ""


class Stop(_Tagged, frozen=True, tag=True, gc=False):
    """End the job at once."""


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


Event = (
    Started
    | Ready
    | Arrived
    | Replicated
    | Failed
    | Lost
    | Joined
    | ServerLost
    | ServerJoined
    | Denied
    | Reserved
    | Restored
    | Evaluated
    | Observed
    | Scored
    | Measured
    | Updated
    | Scheduling
    | Woke
)
OfNodes = Restart | Launch | Retire | Repartition | Allocate | Reserve
Command = Compute | Partition | Send | Replicate | Apply | Drop | Score | Evaluate | Checkpoint | OfNodes | Wake | Stop
OfLayout = LayoutChanged | Requested | Repartitioning | Allocated
Note = Starved | Held | Rollback | GoingBack | Preempted | Resumed | Updated | OfLayout | Injected | Jumped | Finished


OF_TASKS = (Lost, Joined, Failed, ServerLost, ServerJoined, Restored)
"""Events of which there is a table, and whose rows depend on the notes before."""
KEPT = frozenset((*OF_TASKS, Evaluated, Observed))
"""Events of which tables are made one by one."""
COMMON = frozenset((Ready, Arrived, Updated))
"""Events that come with every iteration or update."""
ORDINARY = frozenset((Compute, Send, Apply, Drop))
"""Commands that do."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line: either ``event`` with ``commands`` and the ``version`` after them, or ``note``. ``t`` in seconds."""

    seq: int
    t: float
    event: Event | Other | None = None
    commands: tuple[Command | Other, ...] = ()
    version: int = 0
    decide_us: float = 0.0
    note: Note | Other | None = None
    state: bytes = b""
    """What the strategy logs of itself: a JSON object; empty where it logs nothing."""


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
    event: Event
    version: int
    commands: tuple[Command, ...] = ()
    decide_us: float | None = None
    state: msgspec.Raw = msgspec.Raw()


class _NoteLine(msgspec.Struct, tag_field="kind", tag="note", gc=False):
    seq: int
    t: float
    note: Note


_KNOWN_LINE = msgspec.json.Decoder(_EventLine | _NoteLine)
"""Of lines whose types are all known, which are nearly all: in one go."""
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)
_COMMAND: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Command)
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
    except msgspec.ValidationError:
        try:
            fields = msgspec.json.decode(raw)
        except UNREADABLE as error:
            raise msgspec.DecodeError(str(error)) from None
        name = fields.get("type") if isinstance(fields, dict) else None
        if isinstance(name, str) and name not in _KNOWN:
            return Other(type=name, fields=fields)
        raise


def is_arrival(line: Line) -> bool:
    """Whether the line is of a gradient that arrived, as nearly all are."""
    return type(line.event) is Arrived


def type_of(tagged: Any) -> str:
    """The type of an event, command or note as the record names it."""
    return tagged.type if isinstance(tagged, Other) else str(tagged.__struct_config__.tag)


_KNOWN = frozenset(kind.__struct_config__.tag for union in (Event, Command, Note) for kind in union.__args__)
