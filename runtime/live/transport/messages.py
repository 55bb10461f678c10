"""Typed control messages: msgpack on the wire, validated against these types when decoded. No pickle."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.core.job import ApplyOrder, ComputeOrder, FragmentOrder, PushOrder, StepOrder
from runtime.core.scoring import Products
from runtime.live.transport.address import Address
from runtime.live.transport.task_spec import Place
from strategies.protocol import Timings


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all control messages."""


# ---- coordinator -> agent -------------------------------------------------------------------------------------------


class Launch(Message, frozen=True, kw_only=True, tag=True):
    """Fork one task; ``place`` replaces the specification's place."""

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
    """The framework is imported; ``versions`` of the imported packages."""

    import_s: float
    versions: dict[str, str]


class Forked(Message, frozen=True, kw_only=True, tag=True):
    """A task has a process."""

    role: str
    id: int
    incarnation: int
    pid: int


class Exited(Message, frozen=True, kw_only=True, tag=True):
    """A task's process has ended. ``signal`` is 0 unless it was killed; ``last_line`` is the end of its output."""

    role: str
    id: int
    incarnation: int
    pid: int
    exit_code: int
    signal: int
    last_line: str


class Actuated(Message, frozen=True, kw_only=True, tag=True):
    """The result of a ``Throttle``, ``Freeze`` or ``Occupy``: what is in effect now, and the error, if any.

    An error of a hog that ends comes unasked.
    """

    target: str
    kind: str
    """``cpu``, ``pause`` or ``gpu``."""
    by: str
    achieved: float | None
    """Cores in effect; for a pause, 1 (running) or 0; for a device, the part that is left."""
    problem: str = ""
    measured: float | None = None
    """The part of a device that was left since the change before, by the use of those that took the rest."""


class Sampled(Message, frozen=True, kw_only=True, tag=True):
    """The use of an agent's tasks elsewhere until its clock shows ``at_s``.

    ``tasks``: name, process, processor seconds, memory in bytes; None: it is just ending.
    """

    at_s: float
    tasks: tuple[tuple[str, int, float | None, int | None], ...]


# ---- coordinator -> worker, server, auxiliary -----------------------------------------------------------------------


class Attach(Message, frozen=True, kw_only=True, tag=True):
    """Connect to these servers, closing earlier connections."""

    generation: int
    servers: tuple[Address, ...]
    ranges: tuple[tuple[int, int], ...]
    """[lo, hi) of the parameter vector that each of them holds."""
    names: tuple[str, ...] = ()
    """Of the servers, ``server:0``."""


class Work(Message, frozen=True, kw_only=True, tag=True):
    """Worker: compute one gradient."""

    order: ComputeOrder


class Push(Message, frozen=True, kw_only=True, tag=True):
    """Worker: push the gradient that it holds. Answered by ``Report``.

    ``via``: to this aggregator instead of the servers. Answered by ``Pushed``.
    """

    grad_id: int
    via: Address | None = None


class Forget(Message, frozen=True, kw_only=True, tag=True):
    """Worker: discard the gradient that it holds."""

    grad_id: int


class ReplicateGradient(Message, frozen=True, kw_only=True, tag=True):
    """Worker: push a gradient that it keeps to a replica of the server, and keep it.

    Answered by ``ReplicationFailed`` if that is impossible, else by the replica.
    """

    grad_id: int
    generation: int
    server: int
    incarnation: int
    to: Address


class Release(Message, frozen=True, kw_only=True, tag=True):
    """Worker: keep these gradients for replicas no longer."""

    grads: tuple[int, ...]


class AuxiliaryOrder(Message, frozen=True, kw_only=True):
    """Base of the orders to auxiliary tasks: work with the parameters that are delivered under ``ticket``."""

    ticket: int


class EvaluateVersion(AuxiliaryOrder, frozen=True, kw_only=True, tag=True):
    """Evaluator: compute the held-out metrics."""

    save_to: str = ""
    digest: bool = False


class ComputeReference(AuxiliaryOrder, frozen=True, kw_only=True, tag=True):
    """Scorer: compute a reference gradient, and push it to the servers."""


class Pace(Message, frozen=True, kw_only=True, tag=True):
    """Worker, server: send parameters and gradients at most at this rate; None: no limit. Answered by ``Paced``."""

    bytes_per_s: int | None = None


class PaceLinks(Message, frozen=True, kw_only=True, tag=True):
    """Worker, server: send to these tasks at most at these rates, and to others without a limit of a link's.

    Answered by ``LinksPaced`` with the same ``order``.
    """

    order: int
    towards: dict[str, int]
    """Bytes per second, by ``server:0`` or ``worker:1``."""


class Gather(Message, frozen=True, kw_only=True, tag=True):
    """Aggregator: sum these gradients, which workers push to it, and push the sum on as ``grad_id``.

    Answered by ``Summed``.
    """

    grad_id: int
    members: tuple[int, ...]


class Exclude(Message, frozen=True, kw_only=True, tag=True):
    """Aggregator: wait no more for these gradients, and leave them out of sums that are not complete."""

    grads: tuple[int, ...]


class Goodbye(Message, frozen=True, kw_only=True, tag=True):
    """The job is over."""


class Throttle(Message, frozen=True, kw_only=True, tag=True):
    """Agent: limit a task or host (``worker:0``, ``host:1``) to ``cores``; None: no limit."""

    target: str
    cores: float | None
    by: str
    """``duty`` or ``cpulimit``."""
    running_cores: float = 1.0
    """The cores that the target may use without the limit."""


class Freeze(Message, frozen=True, kw_only=True, tag=True):
    """Agent: pause a task or host, or let it continue."""

    target: str
    on: bool


class Occupy(Message, frozen=True, kw_only=True, tag=True):
    """Agent: take this part of the time of a GPU (``device:0``) from the tasks that compute there; 0: nothing."""

    target: str
    taken_frac: float


class Update(Message, frozen=True, kw_only=True, tag=True):
    """The orders of one turn of the coordinator to a server, in this order: drop, update, deliver, inner products.

    ``deliver`` holds (role, id, incarnation, ticket) of the readers of the current parameters, ``inner_products``
    gradients to compare with a reference, and its ticket.
    """

    drop: tuple[int, ...] = ()
    apply: ApplyOrder | None = None
    delay_s: float = 0.0
    slowdown_frac: float = 0.0
    deliver: tuple[tuple[str, int, int, int], ...] = ()
    inner_products: tuple[tuple[int, int], ...] = ()


class Fence(Message, frozen=True, kw_only=True, tag=True):
    """Ignore this incarnation from now on, and close its connections."""

    role: str
    id: int
    incarnation: int


class Follow(Message, frozen=True, kw_only=True, tag=True):
    """Replica of the server: make its updates from ``version`` on, which it has at the start.

    ``source``: the server, from which it takes a copy of that version first. Answered by ``Followed`` then.
    ``overtaken``: gradients on their way to it that the copy contains.
    """

    generation: int
    version: int
    source: Address | None = None
    overtaken: tuple[int, ...] = ()


class SendState(Message, frozen=True, kw_only=True, tag=True):
    """Server: send a copy of parameters and optimizer to this replica, which connects for it."""

    server: int
    incarnation: int


class SaveCheckpoint(Message, frozen=True, kw_only=True, tag=True):
    """Store the server's part of ``version`` with ``state`` (the applied work) in one file.

    Then delete those older than ``keep_from``.
    """

    id: int
    version: int
    state: bytes
    keep_from: int


class LoadCheckpoint(Message, frozen=True, kw_only=True, tag=True):
    """Restore a checkpoint; all gradients held are void. The server holds [lo, hi) of the vector from now on.

    ``id`` -1: the initial parameters; -2: it was a replica, and continues from the version that it has followed to.
    """

    id: int
    generation: int
    lo: int
    hi: int


# ---- coordinator -> replica (a worker with parameters of its own) --------------------------------------------------


class Peer(msgspec.Struct, frozen=True):
    """A replica: its address and its incarnation."""

    worker: int
    incarnation: int
    address: Address


class Halt(Message, frozen=True, kw_only=True, tag=True):
    """A member is lost: work in progress is void. Report the version held, and wait for ``Reconfigure``."""

    generation: int


class Reconfigure(Message, frozen=True, kw_only=True, tag=True):
    """These are the replicas from now on, in the order of the ring.

    Copy the parameters from worker ``source``, or read a checkpoint; with neither (-1) keep them or, if ``anew``,
    return to the initial ones.
    """

    generation: int
    peers: tuple[Peer, ...]
    source: int = -1
    checkpoint: int = -1
    anew: bool = False


class Reduce(Message, frozen=True, kw_only=True, tag=True):
    """One update by the replicas in the ring: sum the ordered gradients over all of them, then step."""

    order: ApplyOrder


class MoveAlone(Message, frozen=True, kw_only=True, tag=True):
    """Replica: step your own parameters by a gradient that you have computed."""

    order: StepOrder


class AverageOwn(Message, frozen=True, kw_only=True, tag=True):
    """Replica: continue from the mean of the own parameters of these workers; it is one of them."""

    workers: tuple[int, ...]


class PushOwn(Message, frozen=True, kw_only=True, tag=True):
    """Replica: send half of your own parameters and add halves that you were sent, or put one aside that comes."""

    order: PushOrder


class ShareFragment(Message, frozen=True, kw_only=True, tag=True):
    """Replica: offer, sum or mix a fragment of the parameters."""

    order: FragmentOrder


class ReceiveState(Message, frozen=True, kw_only=True, tag=True):
    """Copy all state of worker ``source``, which expects that: the replica was a child, and is in the ring again."""

    source: int


class DropGradients(Message, frozen=True, kw_only=True, tag=True):
    """Replica: discard these gradients."""

    grads: tuple[int, ...]


class JoinCollective(Message, frozen=True, kw_only=True, tag=True):
    """Take part in a collective backward pass (``DistributedDataParallel``): keep its result under ``ticket``."""

    ticket: int


class Deliver(Message, frozen=True, kw_only=True, tag=True):
    """Send the current parameters to an auxiliary task or a ``child``, under ``ticket``, or all state to a ``reader``.

    A child's ticket is the ticket of the gradient that it pushes back.
    """

    role: str
    id: int
    incarnation: int
    ticket: int = 0


# ---- worker, server, auxiliary -> coordinator -----------------------------------------------------------------------


class TaskReady(Message, frozen=True, kw_only=True, tag=True):
    """A task is built; it adds its address if others call it, and one for callers without a host if that differs."""

    num_parameters: int
    address: Address | None = None
    side: Address | None = None


class Attached(Message, frozen=True, kw_only=True, tag=True):
    """A task is connected to all servers of this generation."""

    generation: int


class Report(Message, frozen=True, kw_only=True, tag=True):
    """All servers hold a worker's gradient, or have it in their sockets and carry out no order for it before."""

    grad_id: int
    timings: Timings
    loss: float | None
    sqr_norm: float | None
    finite: bool
    ends_s: tuple[float, ...] = ()
    """As in ``Grad``."""


class GradientReady(Message, frozen=True, kw_only=True, tag=True):
    """A worker has a gradient, finite and of ``num_bytes``, and waits for ``Push`` or ``Forget``."""

    grad_id: int
    timings: Timings
    num_bytes: int
    loss: float | None
    sqr_norm: float | None


class ReplicationFailed(Message, frozen=True, kw_only=True, tag=True):
    """A worker could not push a gradient to this replica."""

    server: int
    incarnation: int
    reason: str


class Pushed(Message, frozen=True, kw_only=True, tag=True):
    """An aggregator has a worker's gradient, unless there was a ``problem``: then nobody has it."""

    grad_id: int
    problem: str = ""


class Summed(Message, frozen=True, kw_only=True, tag=True):
    """All servers hold a sum, of these gradients, ``send_s`` after it was ordered."""

    grad_id: int
    members: tuple[int, ...]
    send_s: float


class Halted(Message, frozen=True, kw_only=True, tag=True):
    """A replica is halted with the parameters of ``version``."""

    generation: int
    version: int


class LinkLost(Message, frozen=True, kw_only=True, tag=True):
    """A task has lost its connection to a server or member."""

    generation: int
    reason: str


class VersionEvaluated(Message, frozen=True, kw_only=True, tag=True):
    """Metrics of one snapshot."""

    ticket: int
    metrics: dict[str, float]
    sha256: str = ""


class ReferenceReady(Message, frozen=True, kw_only=True, tag=True):
    """All servers hold the scorer's reference gradient."""

    ticket: int


class ScoreParts(Message, frozen=True, kw_only=True, tag=True):
    """A server has compared its part of a gradient with its part of the reference ``ticket``."""

    grad_id: int
    ticket: int
    part: Products


class NormPart(Message, frozen=True, kw_only=True, tag=True):
    """A server's part of the squared norm of an update; of a replica: all of it."""

    ticket: int
    sqr_norm: float


class Late(Message, frozen=True, kw_only=True, tag=True):
    """A replica has ended a sum with a bound (``topology.bound_s``) without so many bytes of what was sent to it."""

    lost_bytes: int
    sum_bytes: int
    """Of all messages of the sum, to all members."""


class Saved(Message, frozen=True, kw_only=True, tag=True):
    """A part of a checkpoint is on disk."""

    id: int
    seconds: float


class Loaded(Message, frozen=True, kw_only=True, tag=True):
    """A server or replica has restored a checkpoint."""

    id: int
    generation: int
    version: int
    state: bytes


class Followed(Message, frozen=True, kw_only=True, tag=True):
    """A replica has received a gradient, or a copy of all (None), and has made all updates up to ``version``."""

    generation: int
    version: int
    grad_id: int | None = None


class Divergence(Message, frozen=True, kw_only=True, tag=True):
    """A replica has made all updates up to ``version`` and lacks ``behind``; ``distance`` of its parameters."""

    server: int
    version: int
    behind: int
    distance: float


class Busy(Message, frozen=True, kw_only=True, tag=True):
    """A server's work since its last report."""

    version: int
    updates: int
    busy_s: float
    worked_s: float
    """All of its work: ``busy_s``, receiving and sending, waiting for the processor included."""
    injected_s: float


class Paced(Message, frozen=True, kw_only=True, tag=True):
    """The rate to which the kernel limits each of the task's data connections; None: there is no limit."""

    bytes_per_s: int | None


class LinksPaced(Message, frozen=True, kw_only=True, tag=True):
    """The kernel's limits on the connections that a ``PaceLinks`` has changed."""

    order: int
    achieved: dict[str, int | None]
    """Bytes per second by the other end; None: no limit. Those with no connection now are missing."""
    problem: str = ""
    """Why the kernel does not limit them; empty: it does."""


class Heartbeat(Message, frozen=True, kw_only=True, tag=True):
    """The task or agent is running."""


AnyMessage = (
    Launch
    | KillTask
    | Throttle
    | Freeze
    | Occupy
    | Actuated
    | Sampled
    | AgentReady
    | Forked
    | Exited
    | Attach
    | Work
    | Push
    | Forget
    | ReplicateGradient
    | Release
    | EvaluateVersion
    | ComputeReference
    | Pace
    | PaceLinks
    | Gather
    | Exclude
    | Goodbye
    | Update
    | Fence
    | Halt
    | Reconfigure
    | Reduce
    | MoveAlone
    | AverageOwn
    | PushOwn
    | ShareFragment
    | ReceiveState
    | DropGradients
    | JoinCollective
    | Deliver
    | Follow
    | SendState
    | SaveCheckpoint
    | LoadCheckpoint
    | TaskReady
    | Attached
    | Report
    | GradientReady
    | ReplicationFailed
    | Pushed
    | Summed
    | Halted
    | LinkLost
    | VersionEvaluated
    | ReferenceReady
    | ScoreParts
    | NormPart
    | Late
    | Saved
    | Loaded
    | Followed
    | Divergence
    | Busy
    | Paced
    | LinksPaced
    | Heartbeat
)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)

PREFIX_BYTES = 4
MAX_MESSAGE_BYTES = 64 << 20


def encode(message: Message) -> bytes:
    """A message as length prefix and payload."""
    body = _encoder.encode(message)
    return len(body).to_bytes(PREFIX_BYTES, "little") + body


class MalformedMessage(ConnectionError):
    """The data received is not a message, so the rest of the stream is unusable: the connection ends."""


def decode(body: bytes | memoryview, decoder: msgspec.msgpack.Decoder[Any] = _decoder) -> Message:
    """The message in these bytes; raises :class:`MalformedMessage` if they are not one that ``decoder`` knows."""
    try:
        message: Message = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last two are not of the first
        raise MalformedMessage(f"{len(body)} bytes that are not a message ({error})") from None
    return message
