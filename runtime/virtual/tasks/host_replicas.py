"""All-reduce on shared machines: replicas whose sums, steps and copies use the links and processors of their hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, final

from runtime.core.collectives.known import Summing
from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder
from runtime.core.membership import Membership
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Carry, Costs
from runtime.virtual.machines.interface import Then, Work
from runtime.virtual.machines.kernel import kernel
from runtime.virtual.machines.tenancy import Machines
from runtime.virtual.tasks.collective_sum import CollectiveSum
from runtime.virtual.tasks.replicas import RING, ReplicaGroup
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Queue


class StateTransfer:
    """A replica sends its state to another, or half of its parameters, as soon as both have come to that order.

    ``names`` are both, ``waiting`` how many of them have not ended it.
    """

    def __init__(self, names: Sequence[str], begin: Callable[[Then], object]) -> None:
        self.names, self._begin, self._there = names, begin, list[Then]()
        self.waiting = 2

    def join(self, done: Then) -> None:
        """One of the two is there; ``done()`` is called when the state is copied."""
        self._there.append(done)
        if len(self._there) == 2:
            self._begin(self._on_copied)

    def _on_copied(self) -> None:
        self.waiting = 0
        for done in self._there:
            done()

    def abandon(self) -> None:
        """Nothing to do: its message is forgotten with its ends."""


@final
class HostReplicas(ReplicaGroup):
    """As live, every replica carries out one order after another: sums, steps, copies, and its own iterations.

    A step is work of its worker: what a server does to update the whole vector by one gradient.
    ``meanwhile``: another thread computes the iterations, on the same cores, so that later orders do not wait for them.
    ``note``: writes what bounded sums have lost.
    """

    def __init__(
        self,
        machines: Machines,
        costs: Costs,
        num_parameters: int,
        members: Membership,
        summing: Summing = RING,
        *,
        meanwhile: bool = False,
        note: Callable[..., object] = lambda *_, **__: None,
    ) -> None:
        super().__init__(costs, num_parameters, members, summing)
        self.machines, self.meanwhile, self.note = machines, meanwhile, note
        self._queues: dict[int, Queue] = {}
        self._members: Sequence[int] = ()
        """Workers that have summed, or are about to sum, the last update."""
        self._open: list[CollectiveSum | StateTransfer] = []
        """Sums and transfers that are not complete."""
        self._last: CollectiveSum | None = None
        """Of the last update, until a replica has made that."""
        self._early: CollectiveSum | None = None
        """Of the next update, which replicas have begun before it is ordered, since they do not wait for a late one."""

    # ---- what costs what ---------------------------------------------------------------------------------------------

    @property
    def copy_s(self) -> float:
        """Seconds to copy one replica's parameters to another, over the slowest link that any of them has.

        After a loss, when copies are needed, nobody is in the ring.
        """
        own_s, carry = self.message(self.model_bytes)
        names = [str(node) for node in self.members.layout.workers if node not in self.members.awaited]
        ways = [self.machines.passage(path) for path in pairwise(names)]
        link_s = max((way.latency_s + self.model_bytes / way.bytes_per_s for way in ways), default=0.0)
        return self.costs.control_s + own_s + max(carry.between_s, link_s)

    def message(self, num_bytes: int) -> tuple[float, Carry]:
        return self.costs.latency_s + self.costs.neighbour_s(num_bytes), self.costs.carry_s(num_bytes)

    # ---- updates -----------------------------------------------------------------------------------------------------

    def step_alone(self, worker: int, sent_s: float) -> None:
        self.order(worker, sent_s, partial(self._step_alone, _name(worker), 1))

    def average(self, workers: Sequence[int], sent_s: float) -> None:
        self._order_sum(self._begin(workers), workers, sent_s)

    def push_half(self, order: PushOrder, sent_s: float) -> None:
        """To halve, and to add, is the work of a step."""
        one_pass = partial(self._step_alone, _name(order.worker), 1)
        if order.to is not None:
            self.order(order.worker, sent_s, one_pass)
            self._transfer(order.worker, order.to, sent_s)
        for _ in order.adds:
            self.order(order.worker, sent_s, one_pass)

    def sum_fragment(self, order: FragmentOrder, sent_s: float) -> None:
        if order.moves:
            ring = self.ring
            self._order_sum(self._begin(ring, self.num_parameters // order.of), ring, sent_s)
        for worker in order.mix:
            self.order(worker, sent_s, partial(self._step_alone, _name(worker), order.of))

    def _step_alone(self, name: str, parts: int, done: Then) -> None:
        self._compute(name, self.costs.replica_step_s(self.model_bytes // parts), done)

    def schedule_update(self, sent_s: float, num_grads: int) -> None:
        self._sum(sent_s, self.ring)

    def carry_out(self, order: ApplyOrder, sent_s: float) -> None:
        self._sum(sent_s, [worker for worker in self.ring if worker not in order.excluded])
        for worker, source in order.returning:
            self._transfer(source, worker, sent_s)

    def _sum(self, sent_s: float, members: Sequence[int]) -> None:
        ranked = self.summing.ranked(members)
        early, self._early = self._early, None
        made = early if early is not None and early.names == [_name(one) for one in ranked] else self._begin(ranked)
        self._last, self._members = made, members
        self._order_sum(made, ranked, sent_s)

    def _order_sum(self, made: CollectiveSum, ranked: Sequence[int], sent_s: float) -> None:
        for rank, worker in enumerate(ranked):
            self.order(worker, sent_s, partial(self._update, made, rank))

    def _begin(self, ranked: Sequence[int], num_parameters: int | None = None) -> CollectiveSum:
        names = [_name(worker) for worker in ranked]
        more = self.machines, self.costs, names, num_parameters or self.num_parameters, self.summing
        made = CollectiveSum(*more, beside=self.meanwhile, lost=partial(self._on_lost, len(names)))
        self._keep(made)
        return made

    def _keep(self, made: CollectiveSum | StateTransfer) -> None:
        self._open = [*(one for one in self._open if one.waiting), made]

    def _transfer(self, source: int, target: int, sent_s: float) -> None:
        made = StateTransfer([_name(source), _name(target)], partial(self._copy, source, target))
        self._keep(made)
        for one in (source, target):
            self.order(one, sent_s, made.join)

    def _on_lost(self, size: int, lost_bytes: int) -> None:
        self.note("Late", lost_bytes=lost_bytes, sum_bytes=2 * (size - 1) * self.model_bytes)

    def computed(self, worker: int) -> None:
        if self.summing.late_worker in (None, worker):
            return
        if self._early is None:
            if self.summing.schedule(len(self.ring)).late is None:
                return
            self._early = self._begin(self.summing.ranked(self.ring))
        if (name := _name(worker)) in self._early.names:
            self._early.begin(self._early.names.index(name))

    def _update(self, made: CollectiveSum, rank: int, done: Then) -> None:
        made.join(rank, partial(self._on_summed, made, rank, done))

    def _on_summed(self, made: CollectiveSum, rank: int, done: Then) -> None:
        end = partial(self._on_stepped, made, done)
        self._compute(made.names[rank], self.costs.replica_step_s(made.num_bytes), end)

    def _compute(self, name: str, seconds: float, done: Then) -> None:
        """Let a replica work for an update or a step."""
        if self.meanwhile:
            self.machines.work_beside(name, seconds, done)
        else:
            self.machines.compute(name, seconds, done)

    def _on_stepped(self, made: CollectiveSum, done: Then) -> None:
        if self._last is made:
            self._last = None
        done()

    def _copy(self, source: int, worker: int, copied: Then) -> None:
        """The state travels from the source to the worker."""
        own_s, carry = self.message(self.model_bytes)
        name, path = _name(worker), (_name(source), _name(worker))
        self.machines.send(name, path, self.model_bytes, own_s, copied, carry)

    def lacks(self, t: float) -> bool:
        return self._last is not None

    # ---- the rest ----------------------------------------------------------------------------------------------------

    def measure(self, place: int, sent_s: float, then: Callable[[float], object]) -> None:
        seconds = self.costs.update_per_byte_s * self.model_bytes
        for rank, worker in enumerate(self._members):
            self.order(worker, sent_s, partial(self._measure, _name(worker), seconds, then if not rank else None))

    def _measure(self, name: str, seconds: float, then: Callable[[float], object] | None, done: Then) -> None:
        self._compute(name, seconds, partial(self._did, then, done))

    def store(self, sent_s: float, then: Callable[[float], object]) -> None:
        """One replica, the first of those that have the parameters, writes all of them."""
        ring = self.ring
        saver = next((worker for worker in (*self._members, *ring) if worker in ring), 0)  # the job begins with all
        seconds = self.costs.checkpoint_s(self.model_bytes)
        self.order(saver, sent_s, partial(self._write, _name(saver), seconds, then))

    def _write(self, name: str, seconds: float, then: Callable[[float], object], done: Then) -> None:
        self.machines.sleep(name, seconds, partial(self._did, then, done))

    def _did(self, then: Callable[[float], object] | None, done: Then) -> None:
        if then is not None:
            then(self.machines.clock.now)
        done()

    # ---- orders ------------------------------------------------------------------------------------------------------

    def enqueue(self, worker: int, work: Work) -> None:
        """An order has reached a replica, which carries it out after its earlier ones."""
        self._queue_of(worker).put(work)

    def order(self, worker: int, sent_s: float, work: Work) -> None:
        """An order is sent, which a replica that is lost before it comes does not carry out."""
        reached_s = sent_s + self.costs.control_s
        self.machines.clock.at(reached_s, MACHINE, self._queue_of(worker).put, work)

    def _queue_of(self, worker: int) -> Queue:
        if worker not in self._queues:
            work, clock, name = self.machines.task_work, self.machines.clock, _name(worker)
            there = self.machines.name_of(name)
            self._queues[worker] = kernel().Queue(work, clock, name, there, self.costs, 0, {}, [], 0)
        return self._queues[worker]

    def lost(self, worker: int) -> None:
        """It leaves sums and transfers open; all will halt."""
        for one in self._open:
            if one.waiting and _name(worker) in one.names:
                one.abandon()
                for name in one.names:
                    self.machines.forget(name)
        self._void(worker)

    def halt(self) -> None:
        for worker in list(self._queues):
            self._void(worker)
        for one in self._open:
            one.abandon()
        self._open, self._last, self._early = [], None, None

    def _void(self, worker: int) -> None:
        queue = self._queues.pop(worker, None)
        if queue is not None:
            queue.void = True
            self.machines.forget(queue.task)

    def begin_again(self, at_s: float) -> None:
        """Nothing to do: no order was given since they were halted."""


def _name(worker: int) -> str:
    return str(NodeId.worker(worker))
