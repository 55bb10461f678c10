"""Gate of rounds whose gradients go up a tree: STAR's communication tree (pure).

Near workers are inner nodes. What they and their children have computed is summed by an aggregator, on the inner
node's own host if there is one, and continues as one vector. So the servers receive a vector from every inner node
instead of one from every worker. Parameters come directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar, final

from strategies.checks import check_number, check_whole
from strategies.gates import AllGate
from strategies.gates.base import Gate, Verdict
from strategies.protocol import AnyCommand, AnyEvent, Command, Failed, Grad, NodeId, Ready, Send, Started, Wake, Woke
from strategies.transfers.tree import Tree, build, going_direct, moved

TAG = "tree"
"""Of the timer after which an inner node waits no more."""
WAIT_FRAC = 0.5
"""Part of the median iteration that is the default of ``tree_wait_s``."""
ROUNDING_S = 1e-9


@final
@dataclass(kw_only=True)
class TreeGate:
    """Updates of all members, as those of ``gate``; Ready gradients are sent as a tree says.

    The tree is built of latencies, and again when one has moved by a fifth: a worker's latency is how long parameters
    were on their way to it, a moving average. In the first round nothing is known, and all send directly.

    Attributes:
        tree_fanout: number of inner nodes, each with as many children; there are as many aggregators.
        tree_wait_s: seconds after an inner node is ready until its children are not waited for any more: these send
            directly. For so long its first child waits for the node, which may have no data left to compute. None: half
            of the median iteration, without waiting.
        smoothing: weight of the newest value in a worker's latency.
        gate: decides about updates; only one of all members has gradients to sum.
    """

    tree_fanout: int = 3
    tree_wait_s: float | None = None
    smoothing: float = 0.3
    gate: Gate = field(default_factory=AllGate)

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({Send, Wake})

    def __post_init__(self) -> None:
        check_whole("tree_fanout", self.tree_fanout, least=1)
        if self.tree_wait_s is not None:
            check_number("tree_wait_s", self.tree_wait_s, least=0)
        if not 0 < self.smoothing <= 1:
            raise ValueError(f"smoothing={self.smoothing}: must be above 0 and at most 1")
        if not isinstance(self.gate, AllGate):
            raise ValueError(
                f"gate={type(self.gate).__name__}: its updates are not of all workers, so it is not known beforehand "
                "whose gradients could be summed on their way; a tree takes AllGate"
            )
        self._all = self.gate
        self._begin_job({})

    @property
    def num_aggregators(self) -> int:
        """Tasks that sum, one for each inner node."""
        return self.tree_fanout

    def validate(self, num_workers: int) -> None:
        """Two levels only: an aggregator sends to servers."""
        if num_workers > (most := self.tree_fanout * (self.tree_fanout + 1)):
            raise ValueError(
                f"tree_fanout={self.tree_fanout}: a tree of two levels has at most {most} workers, and there are "
                f"{num_workers}; use a larger one"
            )

    def start(self, started: Started) -> None:
        """Reset for a job with these places."""
        self._begin_job(started.places)

    def _begin_job(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._latency_s: dict[int, float] = {}
        self._took_s: dict[int, float] = {}
        self._built_s: dict[int, float] = {}
        self._tree = build({}, self.tree_fanout)
        self._via: dict[int, str] = {}
        self._summed, self._direct = 0, 0

    # ---- the gate ----------------------------------------------------------------------------------------------------

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self._open()
        return self._all.begin(workers, version)

    def _open(self) -> None:
        """A round begins: what is known of latencies by now makes its tree."""
        if moved(self._built_s, self._latency_s):
            self._built_s = dict(self._latency_s)
            self._tree = build(self._built_s, self.tree_fanout)
            self._via = self._aggregators(self._tree)
        self._held: dict[int, Grad] = {}
        """Ready and not sent, by worker."""
        self._ready_s: dict[int, float] = {}
        """When, by worker: of all whose gradient of this round was ready."""
        self._worker_of: dict[int, int] = {}
        self._wakes: dict[int, float] = {}
        """When the timer of a subtree is due, by its inner node."""

    def _aggregators(self, tree: Tree) -> dict[int, str]:
        """Who sums for each inner node: the aggregator on its host, if there is one, or one that is left."""
        inner = tree.children(None)
        names = [str(NodeId.aggregator(number)) for number in range(self.tree_fanout)]
        here = {self._places[name]: name for name in reversed(names) if name in self._places}
        own = {worker: here.pop(self._places.get(str(NodeId.worker(worker)), ""), None) for worker in inner}
        left = [name for name in names if name not in own.values()]
        return {worker: name or left.pop(0) for worker, name in own.items()}

    def arrived(self, grad: Grad) -> Verdict:
        """Count the workers of all gradients of a sum."""
        self._all.missing.difference_update(self._worker_of[member] for member in grad.members[1:])
        return self._opened(self._all.arrived(grad))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        self._forget(worker)
        if not restarting:
            self._latency_s.pop(worker, None)
            self._took_s.pop(worker, None)
        return self._opened(self._all.lost(worker, restarting))

    def joined(self, worker: int) -> Verdict:
        return self._opened(self._all.joined(worker))

    def _opened(self, verdict: Verdict) -> Verdict:
        if verdict.apply or verdict.opens:
            self._open()
        return verdict

    def waiting_groups(self) -> list[list[int]]:
        return self._all.waiting_groups()

    def _forget(self, worker: int) -> None:
        self._held.pop(worker, None)
        self._ready_s.pop(worker, None)

    # ---- transfers ---------------------------------------------------------------------------------------------------

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Send what is ready and need not wait."""
        match event:
            case Ready():
                self._hold(event)
            case Failed():
                self._forget(event.worker)
            case Woke(tag=tag) if tag == TAG:
                pass
            case _ if not self._held:
                return ()
        return list(self._sends(event.t))

    def _hold(self, ready: Ready) -> None:
        worker, timings = ready.grad.worker, ready.timings
        self._held[worker], self._ready_s[worker] = ready.grad, ready.t
        self._worker_of[ready.grad.id] = worker
        before = self._latency_s.get(worker, timings.recv_s)
        self._latency_s[worker] = before + self.smoothing * (timings.recv_s - before)
        self._took_s[worker] = timings.data_s + timings.pull_s + timings.compute_s

    @property
    def wait_s(self) -> float:
        """For how long an inner node waits for its children, and the first of them for it."""
        return WAIT_FRAC * median(self._took_s.values()) if self.tree_wait_s is None else self.tree_wait_s

    def _sends(self, t: float) -> Iterator[AnyCommand]:
        for parent in self._tree.children(None):
            yield from self._of_subtree(parent, t)
        for worker in [worker for worker in self._held if worker not in self._tree.parents]:  # not known yet
            yield self._send([worker])

    def _of_subtree(self, parent: int, t: float) -> Iterator[AnyCommand]:
        subtree = (parent, *self._tree.children(parent))
        pending = [worker for worker in subtree if worker in self._held]
        coming = [worker for worker in subtree if worker in self._all.missing and worker not in self._ready_s]
        if not pending:
            return
        first_s = min(self._ready_s[worker] for worker in pending)
        until_s = self._ready_s.get(parent, first_s) + self.wait_s
        if coming and t < until_s - ROUNDING_S:
            if self._wakes.get(parent, t) <= t:
                self._wakes[parent] = until_s
                yield Wake(at_s=until_s, tag=TAG)
            return
        late = going_direct(self._tree, self._ready_s, self.wait_s)
        together = [worker for worker in pending if worker not in late]
        if together:
            yield self._send(together, self._via[parent])
        for worker in [worker for worker in pending if worker in late]:
            yield self._send([worker])

    def _send(self, workers: list[int], via: str | None = None) -> Send:
        ids = tuple(self._held.pop(worker).id for worker in workers)
        if via is None or len(ids) == 1:
            self._direct += len(ids)
            return Send(grads=ids)
        self._summed += len(ids)
        return Send(grads=ids, via=via)

    def log_state(self) -> dict[str, float | int | str]:
        """Of this round: what has arrived; of the job: gradients that were summed on their way, and that were not."""
        return {**self._all.log_state(), "summed": self._summed, "direct": self._direct}
