"""What a strategy hears: past tense, frozen, keyword-only."""

from __future__ import annotations

import msgspec

from strategies.protocol.timings import Timings
from strategies.protocol.values import Grad, NodeUse


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Something that has happened at ``t`` seconds since the start of the job."""

    t: float


class Started(Event, frozen=True, kw_only=True, tag=True):
    """The job is ready to train. ``batch_samples[i]`` is worker i's nominal batch; they sum to the global batch."""

    workers: tuple[int, ...]
    batch_samples: tuple[int, ...]
    num_servers: int
    total_samples: int | None = None
    """Of all epochs together; None when the job has no number of epochs and ends by time."""
    lr: float | None = None
    """The optimizer's learning rate, before any schedule or ``lr_scale``."""


class Arrived(Event, frozen=True, kw_only=True, tag=True):
    """A gradient is held by every server."""

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
    """The process of a worker is gone, and the Compute that it was busy with (its samples are back in the queue).

    ``restarting`` says that the runtime already starts its next incarnation, so that a ``Joined`` will follow soon (or
    another ``Lost``, should that be given up). It may be given its next Compute at once, which it then carries out
    when it is back. Without, it has left, unless the strategy has asked for its ``Restart``: then it joins when the
    scheduler has found it a place, which may take long. A gradient of this worker that had already arrived stays valid.
    """

    worker: int
    incarnation: int
    reason: str
    restarting: bool


class Joined(Event, frozen=True, kw_only=True, tag=True):
    """A worker (again) waits for its first Compute."""

    worker: int
    incarnation: int


class ServerLost(Event, frozen=True, kw_only=True, tag=True):
    """A server is gone. Nothing can be applied until ``Restored``; commands given meanwhile are void."""

    server: int
    incarnation: int
    reason: str


class Restored(Event, frozen=True, kw_only=True, tag=True):
    """The parameters are again those of ``version``, on all servers.

    Every gradient and every Compute from before is void: ``workers`` (those that live) are all idle, and the samples
    that this version lacks are back in the queue.
    """

    version: int
    workers: tuple[int, ...]


class Evaluated(Event, frozen=True, kw_only=True, tag=True):
    """Held-out ``metrics`` of the parameters that had ``version`` at ``asked_s``."""

    version: int
    asked_s: float
    metrics: dict[str, float]


class Observed(Event, frozen=True, kw_only=True, tag=True):
    """What every task and host used during the last ``period_s`` seconds."""

    period_s: float
    nodes: tuple[NodeUse, ...]


class Scored(Event, frozen=True, kw_only=True, tag=True):
    """<r, g>, |g|^2 and |r|^2 of a gradient and the reference of ``ref_version``, of both the mean over their samples.

    A reference that is not finite is told as zero: it points nowhere.
    """

    grad: Grad
    dot: float
    sqr_grad: float
    sqr_ref: float
    ref_version: int


class Updated(Event, frozen=True, kw_only=True, tag=True):
    """What a server was busy with since it last told; ``busy_s / updates`` is AntDT's BPT of a server."""

    server: int
    version: int
    updates: int
    busy_s: float
    injected_s: float
    """The part of ``busy_s`` that a straggler injection added."""


class Scheduling(Event, frozen=True, kw_only=True, tag=True):
    """What the cluster's scheduler expects now: a node that is asked for would be pending for ``pending_s`` seconds."""

    pending_s: float


class Woke(Event, frozen=True, kw_only=True, tag=True):
    """The timer ``tag`` that the strategy asked for has fired."""

    tag: str


_OfWorkers = Arrived | Failed | Lost | Joined
AnyEvent = Started | _OfWorkers | ServerLost | Restored | Evaluated | Observed | Scored | Updated | Scheduling | Woke
