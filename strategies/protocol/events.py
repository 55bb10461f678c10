"""Events, the input of a strategy: past tense, frozen, keyword-only."""

from __future__ import annotations

from typing import Literal

import msgspec

from strategies.protocol.sharing import Share
from strategies.protocol.values import Grad, LossCause, NodeUse, Timings


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """A fact with its time: ``t`` seconds since the start of the job."""

    t: float


class Started(Event, frozen=True, kw_only=True, tag=True):
    """The job is ready to train. ``batch_samples[i]`` is worker i's nominal batch; they sum to the global batch."""

    workers: tuple[int, ...]
    batch_samples: tuple[int, ...]
    num_servers: int
    total_samples: int | None = None
    """Samples of all epochs together; None if the job has no number of epochs and ends by time."""
    lr: float | None = None
    """The optimizer's learning rate, before any schedule or ``lr_scale``."""
    model_bytes: int | None = None
    """Size of all parameters, and of a gradient: a worker receives and sends as much in an iteration; None: unknown."""
    places: dict[str, str] = {}
    """The host of every node (``{"worker:1": "host:2"}``), and of aggregators; empty without hosts."""
    links: dict[str, float] = {}
    """Bytes per second that a host's link carries each way, on the wire, by host; of nodes where there are no hosts.

    Those without a limit are left out.
    """
    replicas: tuple[int, ...] = ()
    """Servers that hold no part of the parameters but a copy of all, and follow (``Replicate``); equal at first."""
    step: Literal["", "sgd", "tally"] = ""
    """The optimizer's rule, where ``replicas`` follow it: ``tally`` adds sums of gradients, whatever the rate is."""
    momentum: float = 0.0
    """Momentum of that rule."""


class Ready(Event, frozen=True, kw_only=True, tag=True):
    """A worker has finished a gradient and holds it: it waits for a ``Send`` or a ``Drop``, however long that takes.

    Only for a strategy that needs ``Send``. ``timings.send_s`` is 0; ``Arrived`` has the durations again, with
    ``send_s`` from when the order to send reached the worker. None of them contains the time of holding.
    """

    grad: Grad
    timings: Timings
    num_bytes: int
    """Bytes of it that travel to all servers together."""
    loss: float | None = None
    sqr_norm: float | None = None


class Arrived(Event, frozen=True, kw_only=True, tag=True):
    """Every server holds its range of a gradient."""

    grad: Grad
    timings: Timings
    loss: float | None = None
    """Mean loss over the gradient's samples."""
    sqr_norm: float | None = None
    """Squared Euclidean norm of the pushed sum, where the backend reports it."""


class Failed(Event, frozen=True, kw_only=True, tag=True):
    """A Compute ended without a gradient but its worker lives."""

    worker: int
    reason: str
    retryable: bool = True


class Lost(Event, frozen=True, kw_only=True, tag=True):
    """A worker's process is gone, with its Compute in progress (whose samples are back in the queue).

    ``restarting``: the runtime is starting its next incarnation, so a ``Joined`` will follow soon (or another ``Lost``
    if the runtime gives up). Its next Compute may be given at once, and is carried out when it is back. Otherwise it
    has left, unless the strategy commanded its ``Restart``: then it joins when the scheduler has found a place, which
    may take long. A gradient of this worker that had already arrived remains valid.
    """

    worker: int
    incarnation: int
    reason: str
    restarting: bool
    cause: LossCause = "killed"


class Joined(Event, frozen=True, kw_only=True, tag=True):
    """A new or restarted worker waits for its first Compute."""

    worker: int
    incarnation: int
    place: str | None = None
    """Its host (``host:2``); None without hosts."""


class ServerLost(Event, frozen=True, kw_only=True, tag=True):
    """A server is gone. Nothing can be applied until ``Restored``; commands given meanwhile are void.

    Not so if it held nothing (``holding=False``), as one that was launched: then it has left, and nothing else changes.
    A replica holds nothing, either; its next process comes as ``ServerJoined``.
    """

    server: int
    incarnation: int
    reason: str
    cause: LossCause = "killed"
    holding: bool = True


class ServerJoined(Event, frozen=True, kw_only=True, tag=True):
    """A server that was launched can be reached; it holds nothing yet.

    A replica comes likewise after it was lost, and after every ``Restored``; it follows once it has a copy.
    """

    server: int
    incarnation: int
    place: str | None = None
    """Its host (``host:2``); None without hosts."""


class Replicated(Event, frozen=True, kw_only=True, tag=True):
    """A replica has received what a ``Replicate`` named, and has followed up to ``version``.

    Updates that the servers have made and whose gradients it holds, it has made in their order. A gradient that comes
    before its update waits there; the replica makes that update with the servers.
    """

    server: int
    version: int
    grad: int | None = None
    """The gradient; None: a copy of all parameters."""


class Denied(Event, frozen=True, kw_only=True, tag=True):
    """A request for this node cannot be satisfied, and nothing has changed; a node that was launched does not come."""

    node: str
    reason: str


class Reserved(Event, frozen=True, kw_only=True, tag=True):
    """The cluster's answer to a ``Reserve``: whether it is granted, and what the job's nodes hold of their hosts now.

    Without other jobs on the same hosts they hold what they need, and ``shares`` is empty. No event to wait for: it
    comes at once, or with a server's loss not at all.
    """

    ok: bool
    shares: tuple[Share, ...] = ()
    reason: str = ""
    """Why it is refused."""


class Restored(Event, frozen=True, kw_only=True, tag=True):
    """The parameters were rolled back to ``version``, on all servers.

    Every earlier gradient and Compute is void: ``workers`` (all live ones) are idle, and the samples
    that this version lacks are back in the queue.
    """

    version: int
    workers: tuple[int, ...]
    servers: tuple[int, ...] = ()
    """The servers that hold the parameters now, in the order of the vector; none with ``topology=allreduce``."""


class Evaluated(Event, frozen=True, kw_only=True, tag=True):
    """Held-out ``metrics`` of the parameters of ``version``, requested at ``asked_s``."""

    version: int
    asked_s: float
    metrics: dict[str, float]


class Observed(Event, frozen=True, kw_only=True, tag=True):
    """The resource use of every task and host during the last ``period_s`` seconds."""

    period_s: float
    nodes: tuple[NodeUse, ...]


class Scored(Event, frozen=True, kw_only=True, tag=True):
    """<r, g>, |g|^2 and |r|^2 of a gradient and the reference of ``ref_version``, of both the mean over their samples.

    A reference that is not finite is reported as zero, because it has no direction.
    """

    grad: Grad
    dot: float
    sqr_grad: float
    sqr_ref: float
    ref_version: int


class Measured(Event, frozen=True, kw_only=True, tag=True):
    """|sum_k weights[k] * G_k|^2 of the update that resulted in ``version``, as its ``Apply`` requested (``measure``).

    Later updates may have been applied meanwhile. The event does not come if all roll back first, so a strategy that
    gives no command until it comes may deadlock.
    """

    version: int
    sqr_norm: float


class Updated(Event, frozen=True, kw_only=True, tag=True):
    """A server's work since its last report; ``busy_s / updates`` is AntDT's BPT of a server."""

    server: int
    version: int
    updates: int
    busy_s: float
    injected_s: float
    """The part of ``busy_s`` that a straggler injection added."""


class Scheduling(Event, frozen=True, kw_only=True, tag=True):
    """The cluster scheduler's expectation: a node requested now would be pending for ``pending_s`` seconds."""

    pending_s: float


class Woke(Event, frozen=True, kw_only=True, tag=True):
    """The timer ``tag`` that the strategy set with ``Wake`` has fired."""

    tag: str


_OfWorkers = Ready | Arrived | Failed | Lost | Joined
_OfNodes = _OfWorkers | ServerLost | ServerJoined | Replicated | Denied | Reserved
AnyEvent = Started | _OfNodes | Restored | Evaluated | Observed | Scored | Measured | Updated | Scheduling | Woke
