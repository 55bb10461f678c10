"""The vocabulary between a strategy and whatever runs it.

Events are past tense, commands are imperative; both are frozen, keyword-only and serialisable
(msgspec structs: created in about 0.2 us, encoded to JSON by the recorder, compared field by field in tests).

The life of one worker iteration::

    Compute -> (parameters of one version are delivered, gradient computed, pushed) -> Arrived -> Apply | Drop

Laws
----
1. ``handle`` is synchronous, total and single-threaded; its output depends only on the hyper-parameters and on the
   events so far. ``event.t`` is non-decreasing seconds since the start of the job on the coordinator's clock. Workers
   report durations, never timestamps.
2. Every ``Compute`` ends in exactly one of ``Arrived``, ``Failed`` and ``Lost``, or is voided with everything else that
   is outstanding by a ``Restored``. Results of a dead incarnation never arrive.
3. Commands are carried out in order: ``Apply`` then ``Compute`` computes on the updated parameters.
4. A gradient is a handle to the **sum** over its samples. It is used up by exactly one ``Apply`` or ``Drop``.
5. An unlawful command raises :class:`ProtocolError` with what last happened to the worker concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from strategies.timings import Timings as Timings

DATA_POLICIES = ("dynamic", "shared", "even")
"""Of the data service; see :class:`Strategy`."""


class ProtocolError(RuntimeError):
    """A strategy gave a command that the laws forbid; the message ends with the worker's last events."""


class Grad(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Handle of one pushed gradient: a sum over ``samples`` samples, computed on parameters of ``version``."""

    id: int
    """Unique within the run; grows with every Compute."""
    worker: int
    incarnation: int
    """0 for the first process of this worker, one more after every restart."""
    iteration: int
    """How many Computes this worker had finished before (over all its incarnations)."""
    version: int
    """Updates that were applied to the parameters it was computed on."""
    samples: int
    """Samples really summed; 0 when the data queue was empty, fewer than assigned at an epoch's end."""
    assigned_samples: int
    round: int | None = None
    """Of a weighted sum over parts: the number of the round (see :class:`Partition`) that the parts are of."""
    round_samples: int | None = None
    """Of all parts of that round; ``samples`` are those of the worker's own parts."""


class NodeUse(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a task (``worker:1``, ``server:0``) or host (``host:2``: its tasks together) used; None: not known."""

    node: str
    cpu_cores: float | None = None
    """Of the machine that the job runs on."""
    memory_bytes: int | None = None
    out_bytes_per_s: float | None = None
    in_bytes_per_s: float | None = None
    """On the wire of a host's link."""
    busy_frac: float | None = None
    """Of a server: part of the time that went into updates, as far as it has told."""


# ---- events ---------------------------------------------------------------------------------------------------------


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


# ---- commands -------------------------------------------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Something that the runtime must do now."""


class Part(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Part ``index`` of the round, and the ``coefficient`` of its gradient sum in what the worker sends."""

    index: int
    coefficient: float


class Compute(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Worker: compute the gradient sum of ``num_samples`` samples on the parameters of now.

    The coordinator takes the samples from the data service; ``accum`` micro-batches of near-equal size. With ``parts``
    the samples are those of these parts of the round, and the worker sends the sum of their gradient sums with these
    coefficients, computed in one pass with weighted samples or each as a micro-batch of its own, as the model allows;
    ``num_samples`` is then only what it is said to have been assigned.
    """

    worker: int
    num_samples: int
    accum: int = 1
    parts: tuple[Part, ...] = ()


class Partition(Command, frozen=True, kw_only=True, tag=True):
    """Begin a round: ``num_parts`` parts of near-equal size, which any number of workers may compute.

    They are the next ``num_samples`` samples of the data service (fewer at an epoch's end), or, while the last round
    has not been applied, the samples of that one again. All of them count as applied once, with the ``Apply`` whose
    weights give each part the same weight. A gradient of an older round can only be dropped.
    """

    num_samples: int
    num_parts: int


class Apply(Command, frozen=True, kw_only=True, tag=True):
    """One parameter update on every server: ``w <- step(w, sum_k weights[k] * G_k, lr * lr_scale)``, in this order."""

    grads: tuple[int, ...]
    weights: tuple[float, ...]
    lr_scale: float = 1.0


class Drop(Command, frozen=True, kw_only=True, tag=True):
    """Forget these gradients; with ``requeue`` their samples go back to the tail of the data queue."""

    grads: tuple[int, ...]
    requeue: bool = True


class Score(Command, frozen=True, kw_only=True, tag=True):
    """Servers: compare a gradient with the reference gradient; ``Scored`` follows, unless it is used or void before.

    The reference is the gradient on ``Strategy.validation_samples``. ``refresh`` (or the first Score since the start or
    a ``Restored``) computes it anew before, when no other refresh is under way. Scores are told in the order asked for.
    The gradient stays unused, and may be scored again once this is told.
    """

    grad: int
    refresh: bool = False


class Evaluate(Command, frozen=True, kw_only=True, tag=True):
    """Metrics of the parameters of now on held-out data, beside the training."""


class Checkpoint(Command, frozen=True, kw_only=True, tag=True):
    """Store the parameters of now together with the set of applied work."""


class Restart(Command, frozen=True, kw_only=True, tag=True):
    """Kill a node that is there, ``worker:1`` or ``server:0``, and start it again on another machine (KILL_RESTART).

    The next incarnation is pending until the scheduler has a place for it. A worker's samples go back to the queue at
    once (``Lost``, not ``restarting``) and ``Joined`` follows; the others go on. For a server the runtime stores a
    checkpoint first, so that nothing applied is lost; everything stands still from now to ``Restored``.
    """

    node: str


class Wake(Command, frozen=True, kw_only=True, tag=True):
    """Fire ``Woke(tag)`` at ``at_s`` (or at once if that has passed)."""

    at_s: float
    tag: str


class Stop(Command, frozen=True, kw_only=True, tag=True):
    """End the job; ``ok=False`` marks it as failed."""

    reason: str
    ok: bool = True


AnyCommand = Compute | Partition | Apply | Drop | Score | Evaluate | Checkpoint | Restart | Wake | Stop


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy that is a bounded gate and nothing else: what a runtime may then know beforehand.

    Every worker computes its nominal batch whenever it is at most ``bound`` iterations ahead of the slowest (None:
    always), and each gradient is an update of its own, with ``lr_scale``; with bound 0 a round is one update.
    """

    bound: int | None
    lr_scale: float | None = None
    """Learning-rate factor of an update of one gradient; None: the worker's share of the global batch."""


class Strategy:
    """What a plug-in implements: hyper-parameters as dataclass fields, decisions in :meth:`handle`.

    ``data`` names the allocation policy of the sharding service that the system assumes: ``dynamic`` (workers draw
    shards), ``shared`` (and share what they have drawn when the queue is empty) or ``even`` (a static part of every
    epoch for each worker).
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply})
    """Commands that the runtime must be able to carry out; checked before the run starts."""

    topologies: ClassVar[frozenset[str]] = frozenset({"ps"})
    """Where its parameters may live: ``ps``; ``allreduce`` where every update is one of all workers that are there."""

    watches_servers: ClassVar[bool] = False
    """Whether it wants to be told ``Updated``; for others these reports go into the record only."""

    rescales: ClassVar[bool] = False
    """Whether it weighs gradients otherwise than to the mean over their samples."""

    data: str = "dynamic"

    validation_samples: int = 0
    """Training samples that are held out for the reference gradient of ``Score``, and never trained on."""

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Return what to do now that ``event`` has happened."""
        raise NotImplementedError

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` naming the field when the hyper-parameters do not fit ``num_workers`` workers."""

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Likewise when they leave no way to split the global batch among the workers."""

    def validate_length(self, epochs: int | None) -> None:
        """Likewise when they need a job of so many epochs, or of an end at all (None: it ends by time)."""

    def rhythm(self) -> Rhythm | None:
        """All decisions in short, where that is possible; a runtime without faults may use it to go faster."""
        return None

    def log_state(self) -> dict[str, float | int | str]:
        """What is worth plotting about the state of the decision; recorded beside every event that changed it.

        What ``warning`` holds at the end, if anything, stands in the run's summary: readers should know it.
        """
        return {}
