"""Typed control messages: msgpack on the wire, checked against these types when they are read. No pickle."""

from __future__ import annotations

import msgspec

from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.core.scoring import Products
from runtime.live.transport.address import Address
from runtime.live.transport.task_spec import Place


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Any control message."""


# ---- coordinator -> agent -------------------------------------------------------------------------------------------


class Launch(Message, frozen=True, kw_only=True, tag=True):
    """Fork one task; ``place`` is where, if it no longer lives where the specification says."""

    role: str
    id: int
    incarnation: int
    place: Place | None = None


class KillTask(Message, frozen=True, kw_only=True, tag=True):
    """SIGKILL one task (if that incarnation still lives)."""

    role: str
    id: int
    incarnation: int


# ---- agent -> coordinator -------------------------------------------------------------------------------------------


class AgentReady(Message, frozen=True, kw_only=True, tag=True):
    """The framework is imported; ``versions`` of what was."""

    import_s: float
    versions: dict[str, str]


class Forked(Message, frozen=True, kw_only=True, tag=True):
    """A task has a process."""

    role: str
    id: int
    incarnation: int
    pid: int


class Exited(Message, frozen=True, kw_only=True, tag=True):
    """A task's process has ended. ``signal`` is 0 unless it was killed; ``last_line`` is the end of what it printed."""

    role: str
    id: int
    incarnation: int
    pid: int
    exit_code: int
    signal: int
    last_line: str


class Actuated(Message, frozen=True, kw_only=True, tag=True):
    """What became of a ``Throttle`` or ``Freeze``: what is in effect now, and what went wrong if anything did."""

    target: str
    kind: str
    """``cpu`` or ``pause``."""
    by: str
    achieved: float | None
    """Cores; 1 or 0 for a pause."""
    problem: str = ""


# ---- coordinator -> worker, evaluator, server -----------------------------------------------------------------------


class Attach(Message, frozen=True, kw_only=True, tag=True):
    """Connect to these servers, anew."""

    generation: int
    servers: tuple[Address, ...]


class Work(Message, frozen=True, kw_only=True, tag=True):
    """Compute one gradient."""

    order: ComputeOrder


class EvaluateVersion(Message, frozen=True, kw_only=True, tag=True):
    """Evaluate the parameters that the servers deliver under ``ticket``."""

    ticket: int
    save_to: str = ""
    digest: bool = False


class ComputeReference(Message, frozen=True, kw_only=True, tag=True):
    """Scorer: compute a reference gradient on the parameters that the servers deliver, and hand it to them."""

    ticket: int


class Goodbye(Message, frozen=True, kw_only=True, tag=True):
    """The job is over."""


class Throttle(Message, frozen=True, kw_only=True, tag=True):
    """Agent: let a task or host (``worker:0``, ``host:1``) use so many cores and no more; None: as many as it likes."""

    target: str
    cores: float | None
    by: str
    """``duty`` or ``cpulimit``."""


class Freeze(Message, frozen=True, kw_only=True, tag=True):
    """Agent: let a task or host stand still, or go on."""

    target: str
    on: bool


class Update(Message, frozen=True, kw_only=True, tag=True):
    """What one turn of the coordinator asks of a server, in this order: drop, update, deliver, compare.

    ``deliver`` holds (role, id, incarnation, ticket) of who gets the current parameters, ``inner_products`` gradients
    that are to be compared with a reference, and its ticket.
    """

    drop: tuple[int, ...] = ()
    apply: ApplyOrder | None = None
    delay_s: float = 0.0
    slowdown_frac: float = 0.0
    deliver: tuple[tuple[str, int, int, int], ...] = ()
    inner_products: tuple[tuple[int, int], ...] = ()


class Fence(Message, frozen=True, kw_only=True, tag=True):
    """Hear this incarnation no more."""

    role: str
    id: int
    incarnation: int


class SaveCheckpoint(Message, frozen=True, kw_only=True, tag=True):
    """Store your part of ``version`` with ``state`` (the applied work) in one file.

    Then delete those older than ``keep_from``.
    """

    id: int
    version: int
    state: bytes
    keep_from: int


class LoadCheckpoint(Message, frozen=True, kw_only=True, tag=True):
    """Go back to a checkpoint; everything held is void."""

    id: int
    generation: int


# ---- coordinator -> replica (a worker with parameters of its own) --------------------------------------------------


class Peer(msgspec.Struct, frozen=True):
    """A replica: where others call it, and in which incarnation."""

    worker: int
    incarnation: int
    address: Address


class Halt(Message, frozen=True, kw_only=True, tag=True):
    """Somebody is gone: what is under way is void. Say which version you hold, and wait for ``Reconfigure``."""

    generation: int


class Reconfigure(Message, frozen=True, kw_only=True, tag=True):
    """These are the replicas from now on, in the order of the ring.

    Take the parameters over from worker ``source``, or read a checkpoint; with neither (-1) keep yours, or, ``anew``,
    go back to the initial ones.
    """

    generation: int
    peers: tuple[Peer, ...]
    source: int = -1
    checkpoint: int = -1
    anew: bool = False


class Reduce(Message, frozen=True, kw_only=True, tag=True):
    """One update by all replicas: sum the gradients that the order names over all of you, then step."""

    order: ApplyOrder


class DropGradients(Message, frozen=True, kw_only=True, tag=True):
    """Forget these gradients."""

    grads: tuple[int, ...]


class JoinCollective(Message, frozen=True, kw_only=True, tag=True):
    """Others compute, and need you (``DistributedDataParallel``): hold what comes of it under ``ticket``."""

    ticket: int


class Deliver(Message, frozen=True, kw_only=True, tag=True):
    """Send the parameters of now to who has called you: the evaluator, under ``ticket``, or a ``reader``: all state."""

    role: str
    id: int
    incarnation: int
    ticket: int = 0


# ---- worker, evaluator, server -> coordinator -----------------------------------------------------------------------


class TaskReady(Message, frozen=True, kw_only=True, tag=True):
    """Built; servers add where workers and, if that differs, the evaluator reach them."""

    num_parameters: int
    address: Address | None = None
    side: Address | None = None


class Attached(Message, frozen=True, kw_only=True, tag=True):
    """Connected to all servers of this generation."""

    generation: int


class Report(Message, frozen=True, kw_only=True, tag=True):
    """A gradient is held by all servers."""

    grad_id: int
    wait_s: float
    pull_s: float
    data_s: float
    compute_s: float
    send_s: float
    injected_s: float
    overrun_s: float
    recv_s: float
    loss: float | None
    sqr_norm: float | None
    finite: bool


class Halted(Message, frozen=True, kw_only=True, tag=True):
    """A replica stands still with the parameters of ``version``."""

    generation: int
    version: int


class LinkLost(Message, frozen=True, kw_only=True, tag=True):
    """A server's connection broke."""

    generation: int
    reason: str


class VersionEvaluated(Message, frozen=True, kw_only=True, tag=True):
    """Metrics of one snapshot."""

    ticket: int
    metrics: dict[str, float]
    sha256: str = ""


class ReferenceReady(Message, frozen=True, kw_only=True, tag=True):
    """All servers hold a reference gradient."""

    ticket: int


class ScoreParts(Message, frozen=True, kw_only=True, tag=True):
    """A server has compared its part of a gradient with its part of the reference ``ticket``."""

    grad_id: int
    ticket: int
    part: Products


class Saved(Message, frozen=True, kw_only=True, tag=True):
    """A part of a checkpoint is on disk."""

    id: int
    seconds: float


class Loaded(Message, frozen=True, kw_only=True, tag=True):
    """Back at a checkpoint."""

    id: int
    generation: int
    version: int
    state: bytes


class Busy(Message, frozen=True, kw_only=True, tag=True):
    """What a server was busy with since the last such message."""

    version: int
    updates: int
    busy_s: float
    injected_s: float


class Heartbeat(Message, frozen=True, kw_only=True, tag=True):
    """Alive."""


AnyMessage = (
    Launch
    | KillTask
    | Throttle
    | Freeze
    | Actuated
    | AgentReady
    | Forked
    | Exited
    | Attach
    | Work
    | EvaluateVersion
    | ComputeReference
    | Goodbye
    | Update
    | Fence
    | Halt
    | Reconfigure
    | Reduce
    | DropGradients
    | JoinCollective
    | Deliver
    | SaveCheckpoint
    | LoadCheckpoint
    | TaskReady
    | Attached
    | Report
    | Halted
    | LinkLost
    | VersionEvaluated
    | ReferenceReady
    | ScoreParts
    | Saved
    | Loaded
    | Busy
    | Heartbeat
)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)

PREFIX_BYTES = 4
MAX_MESSAGE_BYTES = 64 << 20


def encode(message: Message) -> bytes:
    """Length prefix and payload."""
    body = _encoder.encode(message)
    return len(body).to_bytes(PREFIX_BYTES, "little") + body


class MalformedMessage(ConnectionError):
    """What came is no message: whoever sent it is not to be understood any more, and its connection ends."""


def decode(body: bytes | memoryview) -> Message:
    """Raises :class:`MalformedMessage` for anything that is not a message."""
    try:
        message: Message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last two are not of the first
        raise MalformedMessage(f"{len(body)} bytes that are no message ({error})") from None
    return message
