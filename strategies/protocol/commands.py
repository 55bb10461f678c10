"""Commands, the output of a strategy: imperative, frozen, keyword-only."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec

from strategies.protocol.sharing import Demand
from strategies.protocol.values import Part

EVER_S = sys.float_info.max
"""``Compute.within_s`` without a limit; JSON has no infinity."""


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """An order that the runtime carries out now."""


class Compute(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Worker: compute the gradient sum of ``num_samples`` samples on the current parameters.

    The coordinator takes the samples from the data service; ``accum`` micro-batches of near-equal size. With ``parts``
    the samples belong to these parts of the round, and the worker sends the sum of their gradient sums with these
    coefficients, computed in one pass with weighted samples or each as a micro-batch of its own, as the model allows;
    ``num_samples`` is then only recorded as assigned.
    """

    worker: int
    num_samples: int
    accum: int = 1
    parts: tuple[Part, ...] = ()
    within_s: float | None = None
    """Begin no further micro-batch once computing has taken longer (``Strategy.cuts``): the one in hand is completed.

    ``Grad.ends_s`` says when each ended; None: nobody looks at the time between micro-batches. Not with ``parts`` or
    for gradients that are held.
    """
    requeue: bool = True
    """Whether the samples of micro-batches that were not begun return to the tail of the queue, or are given up."""


class Partition(Command, frozen=True, kw_only=True, tag=True):
    """Begin a round: ``num_parts`` parts of near-equal size, which any number of workers may compute.

    The round has the next ``num_samples`` samples of the data service (fewer at an epoch's end), or the samples of the
    last round if that was not applied. All count as applied once, with the ``Apply`` whose weights give each part the
    same weight. A gradient of an older round can only be dropped.
    """

    num_samples: int
    num_parts: int


class Apply(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """One parameter update on every server: ``w <- step(w, sum_k weights[k] * G_k, lr * lr_scale)``, in this order."""

    grads: tuple[int, ...]
    weights: tuple[float, ...]
    lr_scale: float = msgspec.field(default_factory=lambda: 1.0)  # a factory's value is written, as it always was
    measure: bool = False
    """Measure |sum_k weights[k] * G_k|^2, before the optimizer's rule: ``Measured`` follows (Strategy.measures)."""
    children: tuple[tuple[int, int], ...] = ()
    """(worker, parent): the children from this update on, where there are no servers (Strategy.attaches).

    All others are in the ring: they sum the updates, and hold the parameters. A child computes on the parameters of
    its parent and leaves its gradients there; the parent adds them to its own when they are applied. This update is
    summed by those that were in the ring before. Workers that leave or enter it must be idle, and one that leaves must
    keep no unused gradient. After a ``Restored`` all are in the ring.
    """


class StepAlone(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Let each of these gradients move its worker's own parameters only, where there are no servers.

    The worker's optimizer steps by the mean of the gradient, at rate ``lr * lr_scale``; its next ``Compute`` uses the
    parameters that result. The gradient stays unused until an ``Apply`` names it, with all others of this kind: then
    the moves of all workers since the last update, each weighted by its gradients' weights times samples, are one
    gradient for the outer optimizer (``Strategy.outer``), and all workers have the same parameters again. Workers keep
    the state of their own optimizers, so after the first such step every ``Apply`` is of this kind.

    With ``Strategy.sums_meanwhile`` an ``Apply`` may name all such gradients of some workers alone. Others that
    compute, or have stepped since, go on with their own parameters; they move from what was common when they began.
    """

    grads: tuple[int, ...]
    lr_scale: float = 1.0


class Average(Command, frozen=True, kw_only=True, tag=True):
    """Let these workers, two or more, continue from the mean of their own parameters; each counts the same.

    All of them have stepped alone since the last update, and are idle unless the strategy ``sums_meanwhile``: then a
    gradient that is being computed is of the parameters before. Gradients stay unused, and workers keep the state of
    their optimizers. The next ``Apply`` takes the moves that result.
    """

    workers: tuple[int, ...]


class PushHalf(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Let a worker send half of its own parameters to another one, and add halves that others have sent it.

    Own parameters have a weight, which is 1 after every ``Apply`` and goes with them: gradients are of the parameters
    divided by it, and steps change the undivided ones. In this order, ``worker`` keeps half of both, and the other half
    goes ``to`` a worker, which puts it aside; then ``worker`` adds the earliest half that each worker in
    ``adds`` has sent it. The sums over all workers, with halves put aside, stay as they are.

    ``worker`` is idle, as is the target unless the strategy ``sums_meanwhile``; a worker that sends has stepped
    alone since the last update. Gradients stay unused. The next ``Apply`` comes when all halves are added, and is of
    all workers, each of which counts the same: their sum over their number, if the outer optimizer averages.
    """

    worker: int
    to: int | None = None
    adds: tuple[int, ...] = ()


class SumFragment(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Sum what workers have moved a fragment of the parameters by (``Strategy.outer``); gradients stay unused.

    In this order: idle workers that have stepped since their last offer ``offer`` the fragment of their own parameters
    as it is now; with ``sums`` the outer optimizer steps the fragment of the common parameters by all that is offered,
    weighted by samples, in every replica; idle workers that ``mix`` go on from ``kept_frac`` times their fragment and
    the rest of the common one. The next ``Apply`` takes, fragment by fragment, the moves that result. Readers get
    no parameters of a version before that, and a rollback goes back behind all such sums.
    """

    fragment: int
    offer: tuple[int, ...] = ()
    sums: bool = False
    mix: tuple[int, ...] = ()
    kept_frac: float = 0.0


class Send(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Let these gradients, which their workers hold (``Ready``), travel to the servers from now on.

    ``Arrived`` follows for each. Transfers at the same time share links. A strategy that needs this command
    schedules transfers: none of its workers pushes a gradient without it, and one that neither sends nor drops what is
    held is stuck.
    """

    grads: tuple[int, ...]
    via: str | None = None
    """The aggregator (``aggregator:0``) that sums them and sends the sum on.

    One ``Arrived`` follows, whose ``Grad`` has ``members``. A gradient whose worker is lost before the sum is sent is
    left out of it; after a loss while the sum travels, ``Failed`` follows for each of the others.
    """


class Replicate(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Let a replica (``Started.replicas``) receive a gradient that its worker still has, or a copy of all parameters.

    ``Replicated`` follows. Workers keep what they have announced until all present replicas have followed its
    update; it is gone with the worker, and with its ``Drop``. A copy is of the version at this command.
    """

    server: int
    grad: int | None = None
    """None: the servers send all they hold."""


class Drop(Command, frozen=True, kw_only=True, tag=True):
    """Discard these gradients; with ``requeue`` their samples return to the tail of the data queue.

    They have arrived, or are held by their workers, which are idle then; not on their way.
    """

    grads: tuple[int, ...]
    requeue: bool = True


class Score(Command, frozen=True, kw_only=True, tag=True):
    """Servers: compare a gradient with the reference gradient; ``Scored`` follows, unless it is used or void before.

    The reference is the gradient on ``Strategy.validation_samples``. ``refresh`` (or the first Score since the start or
    a ``Restored``) computes it again first, unless another refresh is in progress. Scores arrive in the order of
    request. The gradient stays unused, and may be scored again after its ``Scored``.
    """

    grad: int
    refresh: bool = False


class Evaluate(Command, frozen=True, kw_only=True, tag=True):
    """Compute metrics of the current parameters on held-out data, in parallel to training."""


class Checkpoint(Command, frozen=True, kw_only=True, tag=True):
    """Store the current parameters together with the set of applied work."""


class Restart(Command, frozen=True, kw_only=True, tag=True):
    """Kill a running node, ``worker:1`` or ``server:0``, and restart it on another machine (KILL_RESTART).

    The next incarnation is pending until the scheduler has a place for it. A worker's samples return to the queue at
    once (``Lost``, not ``restarting``) and ``Joined`` follows; other workers continue. For a server the runtime stores
    a checkpoint first, so that nothing applied is lost; the whole job is paused until ``Restored``.
    """

    node: str


Priority = Literal["normal", "low"]
"""``low``: above what the job is entitled to, and the first to be taken away."""


class Launch(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Request another node, ``worker:4`` or ``server:2``; its number is the next of its role, which is new.

    It is pending until the scheduler has a place for it, and starts then, during training: ``Joined`` or
    ``ServerJoined`` follows, or ``Denied``. A server holds nothing before a ``Repartition`` names it.
    """

    node: str
    cpu_cores: float | None = None
    """Processor cores that it may use; None: as many as it can."""
    memory_bytes: int | None = None
    """Memory above which it is killed (cause ``oom``); None: no limit."""
    not_on: tuple[str, ...] = ()
    """Hosts on which it must not be placed."""
    priority: Priority = "normal"


class Retire(Command, frozen=True, kw_only=True, tag=True):
    """End a node for good, or take the request for a pending one back.

    A worker's samples return to the queue at once; ``Lost`` with cause ``retired`` follows if it was there. ``Denied``
    follows for a server that holds parameters, and for the last worker: they stay.
    """

    node: str


class Repartition(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Divide the parameters among these servers, in this order and in proportion to ``shares``.

    A checkpoint of the present version is stored first, then all of them read their new ranges, and workers connect
    again: training is paused until ``Restored``, whose version is the present one. Computes in progress are void. If
    one of the servers is lost meanwhile, ``Restored`` says who holds the parameters now.
    """

    servers: tuple[int, ...]
    shares: tuple[float, ...] = ()
    """Empty: the job's (``topology.server_shares``) if it has some for so many servers, else equal shares."""


class Allocate(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Change what a running node may use from now on; None: unlimited. ``Denied`` follows if that is not available."""

    node: str
    cpu_cores: float | None = None
    link_bytes_per_s: float | None = None
    """Rate at which it may send; live with servers, virtual on hosts, elsewhere ``Denied`` follows."""


class Reserve(Command, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Ask the cluster that the job's tasks have these ``demands`` from now on, at the cost of other jobs if need be.

    ``Reserved`` follows. A reservation replaces the one before, and none (no ``demands``) gives all back; one that is
    refused changes nothing. It ends with the job. Where no other job can be on the same hosts, all are granted.
    """

    demands: tuple[Demand, ...] = ()
    worth_s: float = 0.0
    """Seconds that it saves in as much progress as of a global batch."""


class Wake(Command, frozen=True, kw_only=True, tag=True):
    """Fire ``Woke(tag)`` at ``at_s`` (or at once if that has passed)."""

    at_s: float
    tag: str


class Stop(Command, frozen=True, kw_only=True, tag=True):
    """End the job; ``ok=False`` marks it as failed."""

    reason: str
    ok: bool = True


OfNodes = Restart | Launch | Retire | Repartition | Allocate | Reserve
AnyCommand = (
    Compute
    | Partition
    | Send
    | Replicate
    | StepAlone
    | Average
    | PushHalf
    | SumFragment
    | Apply
    | Drop
    | Score
    | Evaluate
    | Checkpoint
    | OfNodes
    | Wake
    | Stop
)
