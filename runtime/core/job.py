"""The description of a job, independent of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from runtime.core.convergence import Convergence
from runtime.core.data.shards import Range
from runtime.core.layout import Layout
from runtime.core.node_orders import AllocateOrder, NodeOrder
from runtime.core.recovery.rules import Failover

Status = Literal["done", "failed", "stuck", "interrupted"]
"""Ways in which a job ends."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, sizes and learning rate of one job. Times are seconds on the coordinator's clock."""

    num_workers: int
    num_servers: int
    server_shares: tuple[float, ...] = ()
    """Shares of the parameters by server, in any unit, wherever there are so many servers; else all have the same."""
    num_replicas: int = 0
    """Servers more, which hold a copy of all parameters and follow the others."""
    num_samples: int
    """Samples of the training data, without those held out."""
    validation_samples: int = 0
    """Samples held out of the training data, for the reference gradients of scores."""
    global_batch_samples: int
    batches_per_shard: int
    epochs: int | None
    epoch_overlap: bool
    max_time_s: float
    eval_every_s: float | None
    checkpoint_every_s: float | None
    seed: int
    metric: str
    higher_is_better: bool
    target: float | None
    stop_at_target: bool
    target_evals: int = 1
    """Evaluations in a row that must reach the target."""
    failover: Failover = "shards"
    """The cost of a lost worker: its own samples are computed again, or all roll back to the last checkpoint."""
    max_losses: int | None = None
    """Losses of workers and servers that it survives; with the next it fails. None: any number."""
    convergence: Convergence | None = None
    """When the metric has converged, and whether the job ends then."""
    stop_at_convergence: bool = False
    stuck_after_s: float | None = None
    """Seconds for which it may be idle without waiting for anything; None: forever."""
    supports_sample_weights: bool = False
    """Whether parts of a coded round are computed in one pass, each sample with the weight of its part."""
    lr: float
    lr_at: Callable[[int], float]
    """The schedule's learning-rate factor after a number of applied samples."""

    def shares_of(self, num_servers: int) -> tuple[float, ...]:
        """The shares of so many servers, in the order of the vector, where nobody chooses others."""
        fits = len(self.server_shares) == num_servers
        return self.server_shares if fits else (1.0,) * num_servers

    @property
    def start_layout(self) -> Layout:
        """The nodes with which it begins, and the servers' shares."""
        shares = self.shares_of(self.num_servers)
        return Layout.initial(self.num_workers, self.num_servers, shares, self.num_replicas)

    @property
    def total_samples(self) -> int | None:
        """Samples of all epochs together; None without a number of epochs."""
        return None if self.epochs is None else self.epochs * self.num_samples

    @property
    def halts_on_loss(self) -> bool:
        """Whether a worker's loss pauses the job: it rolls back to a checkpoint, or the worker held a replica."""
        return self.failover == "checkpoint" or self.num_servers == 0

    def reached(self, value: float) -> bool:
        """Whether a metric's value meets the target."""
        if self.target is None:
            return False
        return value >= self.target if self.higher_is_better else value <= self.target


class Piece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Consecutive samples whose gradient sum counts ``coefficient`` times."""

    samples: int
    coefficient: float


class ComputeOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker's task: the samples, and the version to compute on (which the servers deliver).

    It computes in ``accum`` micro-batches of near-equal size, or these ``pieces``: all in one pass (``accum`` is
    1), every sample weighted as its piece, or each by itself (``accum`` is their number).
    """

    grad_id: int
    worker: int
    incarnation: int
    version: int
    ranges: tuple[Range, ...]
    accum: int
    delay_s: float
    slowdown_frac: float
    pieces: tuple[Piece, ...] = ()
    parent: int | None = None
    """The replica that gives the parameters and keeps the gradient; None: the servers do, or the worker itself."""
    holds: bool = False
    """The worker keeps a finite gradient until it is ordered to send or to forget it (``Port.send``, ``forget``)."""
    within_s: float | None = None
    """The worker looks at the time after each micro-batch (:meth:`goes_on`); None: it does not."""

    def goes_on(self, elapsed_s: float) -> bool:
        """Whether another micro-batch may begin after ``elapsed_s`` seconds of computing."""
        return self.within_s is None or elapsed_s <= self.within_s


class SendOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker's gradient that it may push now."""

    grad_id: int
    worker: int
    incarnation: int


class ReplicateOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A replica's order: fetch a gradient from its worker, or else all that the servers hold at ``version``."""

    server: int
    version: int
    grad_id: int | None = None
    worker: int | None = None
    overtaken: tuple[int, ...] = ()
    """Gradients on their way to it that the copy contains already."""


class ApplyOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One update on every server, which results in ``version``."""

    version: int
    grads: tuple[int, ...]
    weights: tuple[float, ...]
    lr: float
    samples: int
    vectors: int | None = None
    """Number of vectors in which the servers hold these gradients, if some were summed on their way; None: one each."""
    measure: int | None = None
    """The ticket under which every server returns its part of the squared norm of the weighted sum; None: not asked."""
    excluded: tuple[int, ...] = ()
    """Workers that do not sum it, since they are children of others."""
    children: tuple[tuple[int, int], ...] = ()
    """(child, parent) after it."""
    returning: tuple[tuple[int, int], ...] = ()
    """(worker, source): who is not a child any more, and the replica whose state it takes over after it."""
    moves: tuple[tuple[int, float], ...] = ()
    """(worker, factor): instead of gradients, what workers have moved their own parameters by is summed so."""
    fragments: tuple[tuple[tuple[int, float], ...], ...] = ()
    """The same for each fragment, where there are some: of one without factors nothing has moved since its sum."""
    stays: tuple[int, ...] = ()
    """Workers that go on with their own parameters; all others continue from the common ones that result."""


class StepOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step of one worker's own parameters, by a gradient that it has."""

    grad_id: int
    worker: int
    lr: float
    samples: int


class PushOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker sends half of its own parameters ``to`` another; then it adds the first half of each of ``adds``."""

    worker: int
    to: int | None
    adds: tuple[int, ...]
    """Workers that have sent it a half; the target of one puts it aside."""


class FragmentOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One of ``of`` fragments: some workers offer it, all replicas sum it by ``moves``, some mix it with their own."""

    fragment: int
    of: int
    offer: tuple[int, ...]
    moves: tuple[tuple[int, float], ...]
    """(worker, factor): what workers had moved it by when they offered it is summed so; empty: no sum yet."""
    samples: int
    lr: float
    mix: tuple[int, ...]
    kept_frac: float


class SumOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Gradients that an aggregator sums; the sum is gradient ``grad_id`` of all servers."""

    grad_id: int
    via: str
    members: tuple[SendOrder, ...]


class Port(Protocol):
    """The coordinator's orders to a runtime. Calls return at once; their outcome comes back as input."""

    def compute(self, order: ComputeOrder) -> None:
        """Deliver the current parameters to the worker and let it compute."""

    def apply(self, order: ApplyOrder) -> None:
        """Update the parameters on all servers."""

    def step_alone(self, order: StepOrder) -> None:
        """Let a worker step its own parameters; the gradient is used up there."""

    def average(self, workers: tuple[int, ...]) -> None:
        """Let these workers continue from the mean of their own parameters."""

    def push_half(self, order: PushOrder) -> None:
        """Let a worker send half of its own parameters to another, and add such halves."""

    def sum_fragment(self, order: FragmentOrder) -> None:
        """Let workers offer, sum and mix a fragment of the parameters."""

    def drop(self, grads: tuple[int, ...]) -> None:
        """Let servers discard these gradients; of a sum that they hold, the sum and all its members are named."""

    def send(self, order: SendOrder) -> None:
        """Let a worker push the gradient that it holds; ``GradientArrived`` follows."""

    def send_sum(self, order: SumOrder) -> None:
        """Let workers push what they hold to an aggregator, and that the sum; a ``GradientArrived`` of all follows.

        One that is dropped before the sum is sent is left out of it.
        """

    def replicate(self, order: ReplicateOrder) -> None:
        """Let a replica receive something; ``Replicated`` follows."""

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        """Nobody needs these gradients, which a worker has kept for replicas, any more."""

    def forget(self, worker: int, grad_id: int) -> None:
        """Let a worker discard the gradient that it holds: it is idle then."""

    def compute_reference(self, number: int, version: int) -> None:
        """Compute reference gradient ``number`` on the current parameters and push it to all servers.

        ``ReferenceReady`` answers. The order is lost with the worker that computes it; the job's scoring asks again.
        """

    def inner_products(self, grad_id: int, reference: int) -> None:
        """Multiply the parts of a gradient and the reference; each server answers with a ``ScorePart``."""

    def evaluate(self, version: int, *, last: bool) -> None:
        """Compute metrics of the current parameters; ``Evaluated`` answers."""

    def checkpoint(self, version: int, state: bytes) -> None:
        """Store the current parameters and ``state`` in the same atomic file."""

    def order_node(self, order: NodeOrder) -> None:
        """Restart, start, end, limit or move nodes, after all orders that were given before."""

    def book(self, order: AllocateOrder) -> str | None:
        """Reserve what a node is about to be given; returns why that is impossible (None: it is not)."""

    def wake(self, at_s: float, tag: str) -> None:
        """Let ``TimerFired(tag)`` come at ``at_s``."""


Keeps = Literal["all", "answers", "rows", "nothing"]
"""How much of an exchange with the strategy a record keeps.

``answers``: all but the strategy's state. ``rows``: gradients, and other events without answers.
"""


class RecordSink(Protocol):
    """The record to which the coordinator writes.

    A sink that keeps less than ``all`` has an attribute ``keeps`` (:data:`Keeps`), so that callers can omit the rest.
    """

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """Record an event and the strategy's answer."""

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Record a fact that the strategy does not receive."""
