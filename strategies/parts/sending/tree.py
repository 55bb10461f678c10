"""Gate of updates whose gradients go up a tree: STAR's communication tree (pure).

Near workers are inner nodes. An aggregator, on the inner node's own host if there is one, sums the gradients of the
inner node and its children and sends them on as one vector. So the servers receive a vector from every inner node
instead of one from every worker. Parameters come directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

from reading.ranges import Bool, NonNegativeFloat, Whole, check_settings
from strategies.parts.gates import AllGate
from strategies.parts.gates.base import Gate, TakesSums, Verdict
from strategies.parts.hooks import Order
from strategies.parts.sending.subtrees import Outgoing, Subtrees, assign_aggregators, waiting_s
from strategies.protocol import (
    AggregatorsAt,
    AnyCommand,
    AnyEvent,
    Arrived,
    Command,
    Failed,
    Grad,
    Joined,
    NodeId,
    Ready,
    Send,
    Started,
    Wake,
)

MAX_FANOUT = 1000
"""Most inner nodes: a million workers."""
SMOOTHING = 0.3
"""Weight of the newest value in a worker's latency."""
TAG = "tree"
"""Tag of the timer after which an inner node waits no more."""


def with_tree(gate: Gate, tree_fanout: int | None, tree_wait_s: float | None, *, near_workers: bool = False) -> Gate:
    """The gate with a tree, or itself without a ``tree_fanout``; raises ``ValueError`` naming what is refused."""
    if tree_fanout is not None:
        return TreeGate(tree_fanout=tree_fanout, tree_wait_s=tree_wait_s, near_workers=near_workers, gate=gate)
    if tree_wait_s is not None:
        raise ValueError(f"tree_wait_s={tree_wait_s}: there is no tree; set tree_fanout, or null")
    return gate


@final
@dataclass(kw_only=True)
class TreeGate:
    """Updates of ``gate``; Ready gradients are sent as a tree says, one for each group of workers who wait together.

    A tree is built of latencies, and again when one has moved by a fifth, with the next round: a worker's latency is
    how long parameters were on their way to it, a moving average. In the first round nothing is known, and all send
    directly, as do workers whose group is not known. When the groups change, gradients that are held go up the new
    trees, or directly; transfers in progress continue.

    Attributes:
        tree_fanout: number of inner nodes, each with as many children; there are as many aggregators.
        tree_wait_s: seconds after an inner node is ready until its children are not waited for any more: these send
            directly. For so long its first child waits for the node, which may have no data left to compute. None: half
            of the median iteration, without waiting.
        near_workers: whether aggregators are on hosts of workers, even if others have no tasks, and inner nodes on one
            host share what is there.
        gate: decides about updates: one that knows whose gradients make an update (AllGate, ModalGate).
    """

    tree_fanout: Annotated[int, Whole(1, MAX_FANOUT)] = 3
    tree_wait_s: NonNegativeFloat | None = None
    near_workers: Bool = False
    gate: Gate = field(default_factory=AllGate)

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Send, Wake})

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.gate, TakesSums):
            raise ValueError(
                f"gate={type(self.gate).__name__}: it is not known beforehand which gradients make an update, so none "
                "could be summed on their way; a tree takes AllGate or ModalGate"
            )
        self._own = self.gate
        self.rounds, self.drops = self.gate.rounds, self.gate.drops
        self.num_aggregators = self.tree_fanout
        self.aggregators_at: AggregatorsAt = "workers" if self.near_workers else "free"
        self._names = [str(NodeId.aggregator(number)) for number in range(self.tree_fanout)]

    def validate(self, num_workers: int) -> None:
        """Two levels only: an aggregator sends to servers."""
        if num_workers > (most := self.tree_fanout * (self.tree_fanout + 1)):
            raise ValueError(
                f"tree_fanout={self.tree_fanout}: a tree of two levels has at most {most} workers, and there are "
                f"{num_workers}; use a larger one"
            )

    def start(self, started: Started) -> None:
        self._places = dict(started.places)
        self._latency_s: dict[int, float] = {}
        self._took_s: dict[int, float] = {}
        self._trees: list[Subtrees] = []
        """The subtrees of the present groups."""
        self._summed, self._direct = 0, 0

    # ---- the gate ----------------------------------------------------------------------------------------------------

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self._held: dict[int, Grad] = {}
        """Ready and not sent, by worker."""
        self._travelling: dict[int, int] = {}
        """Sent and not arrived: the ids, by worker."""
        self._worker_of: dict[int, int] = {}
        """The workers of these, by id."""
        self._ready_s: dict[int, float] = {}
        """When a worker's gradient was ready; of its last round, if the worker computes."""
        return self.gate.begin(workers, version)

    def arrived(self, grad: Grad) -> Verdict:
        """A sum is one of several workers."""
        workers = tuple(self._worker_of[member] for member in grad.members)
        for worker in workers or (grad.worker,):
            self._end_transfer(worker)
        return self._own.sum_arrived(grad, workers) if workers else self.gate.arrived(grad)

    def lost(self, worker: int, restarting: bool) -> Verdict:
        self._forget(worker)
        if not restarting:
            self._latency_s.pop(worker, None)
            self._took_s.pop(worker, None)
        return self.gate.lost(worker, restarting)

    def joined(self, worker: int) -> Verdict:
        return self.gate.joined(worker)

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        return self._own.waiting_groups()

    def _forget(self, worker: int) -> None:
        self._held.pop(worker, None)
        self._ready_s.pop(worker, None)
        self._end_transfer(worker)

    def _end_transfer(self, worker: int) -> None:
        """Nothing of it is on its way any more."""
        self._worker_of.pop(self._travelling.pop(worker, -1), None)

    # ---- transfers ---------------------------------------------------------------------------------------------------

    def observe_event(self, event: AnyEvent) -> None:
        """Keep what is ready, and where tasks are."""
        match event:
            case Ready():
                self._hold(event)
            case Failed():
                self._forget(event.worker)
            case Joined(worker=worker, place=place) if place is not None:
                self._places[str(NodeId.worker(worker))] = place

    def then(self, event: AnyEvent) -> Sequence[Verdict]:
        """The updates that a sum completes besides its first worker's."""
        return self._own.completed() if isinstance(event, Arrived) and event.grad.members else ()

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """Send what need not wait, when all else is decided: with this event the groups may have changed."""
        return [*commands, *self._sends(event.t)] if self._held else commands

    def _hold(self, ready: Ready) -> None:
        worker, timings = ready.grad.worker, ready.timings
        self._divide()
        coming = self._coming()
        for tree in self._trees:  # the first of a group is ready: its tree may be another one from now on
            if worker in tree.members and coming.issuperset(tree.members & self._grouped):
                self._assign(tree.open(self._latency_s))
        self._held[worker], self._ready_s[worker] = ready.grad, ready.t
        before = self._latency_s.get(worker, timings.recv_s)
        self._latency_s[worker] = before + SMOOTHING * (timings.recv_s - before)
        self._took_s[worker] = timings.data_s + timings.pull_s + timings.compute_s

    def _divide(self) -> None:
        """A tree for every group that sends; one without those who have left remains the same."""
        groups = [set(group) for group in self._own.waiting_groups()]
        self._grouped = set[int]().union(*groups)
        kept = [next((tree for tree in self._trees if tree.members & self._grouped == one), None) for one in groups]
        trees = [tree or Subtrees(group, self.tree_fanout) for tree, group in zip(kept, groups, strict=True)]
        changed = [tree.open(self._latency_s) for tree, known in zip(trees, kept, strict=True) if known is None]
        self._trees = trees
        self._assign(any(changed))

    def _assign(self, changed: bool) -> None:
        """Aggregators to inner nodes, if there are others now."""
        if not changed:
            return
        inner = [tree.tree.children(None) if len(tree.members) > 1 else () for tree in self._trees]
        found = assign_aggregators(inner, self._names, self._places, sharing=self.near_workers)
        for tree, via in zip(self._trees, found, strict=True):
            tree.via = via

    def _coming(self) -> set[int]:
        """Members whose gradient is not ready."""
        return set(self._own.coming()) - self._held.keys() - self._travelling.keys()

    def _sends(self, t: float) -> Iterator[AnyCommand]:
        self._divide()
        coming = self._coming()
        for tree in self._trees:
            held = [worker for worker in self._held if worker in tree.members]
            ready_s = {
                worker: self._ready_s[worker]
                for worker in tree.members
                if worker in self._ready_s and worker not in coming
            }
            wait_s = waiting_s(self._took_s, tree.members) if self.tree_wait_s is None else self.tree_wait_s
            for one in tree.sends(t, held, coming, ready_s, wait_s):
                yield self._send(one) if isinstance(one, Outgoing) else Wake(at_s=one, tag=TAG)
        for worker in [worker for worker in self._held if worker not in self._grouped]:
            yield self._send(Outgoing((worker,)))

    def _send(self, outgoing: Outgoing) -> Send:
        grads = {worker: self._held.pop(worker).id for worker in outgoing.workers}
        self._travelling |= grads
        self._worker_of |= {grad_id: worker for worker, grad_id in grads.items()}
        ids = tuple(grads.values())
        if outgoing.via is None or len(ids) == 1:
            self._direct += len(ids)
            return Send(grads=ids)
        self._summed += len(ids)
        return Send(grads=ids, via=outgoing.via)

    def log_state(self) -> dict[str, float | int | str]:
        """The gate's state, and how many gradients of the job were summed on their way, and how many were not."""
        return {**self.gate.log_state(), "summed": self._summed, "direct": self._direct}
