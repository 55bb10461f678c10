"""All-reduce on the virtual clock: every worker has all parameters; an update is a sum over them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import final

from runtime.core.collectives.known import Summing
from runtime.core.collectives.times import ends_s
from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder
from runtime.core.layout import Layout
from runtime.core.membership import Membership
from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import FREE, Carry, Costs
from runtime.virtual.tasks.servers import ServerGroup

RING = Summing()


class ReplicaGroup(ServerGroup):
    """Replicas in the place of servers.

    Nothing is pulled or pushed: a worker computes on its own copy, as soon as that is updated. All are reported as one.
    Children (``ApplyOrder.excluded``) are not in the ring. That their parents add what they deliver takes no time.
    """

    def __init__(self, costs: Costs, num_parameters: int, members: Membership, summing: Summing) -> None:
        super().__init__(costs, num_parameters, 0, lambda target, t: (0.0, 0.0))
        self.names, self.numbers = ["replicas"], [0]  # a worker waits for their delivery
        self.members, self.summing = members, summing
        self.model_bytes = 4 * num_parameters

    @property
    def ring(self) -> list[int]:
        """The replicas that sum an update, in their order."""
        return [number for _, number in self.members.ring]

    def divide(self, layout: Layout) -> None:
        """Nothing to do: nobody holds a part."""

    @property
    @abstractmethod
    def copy_s(self) -> float:
        """Seconds to copy one replica's parameters to another."""

    @abstractmethod
    def message(self, num_bytes: int) -> tuple[float, Carry]:
        """Return a message between a child and its parent: its own seconds, and its work while it travels."""

    @abstractmethod
    def lacks(self, t: float) -> bool:
        """Whether no replica has made the last update until ``t``: a worker that is lost now takes it along."""

    @abstractmethod
    def step_alone(self, worker: int, sent_s: float) -> None:
        """A worker steps its own parameters, before its next order."""

    @abstractmethod
    def average(self, workers: Sequence[int], sent_s: float) -> None:
        """These workers average their own parameters, before their next orders; others take no part."""

    @abstractmethod
    def push_half(self, order: PushOrder, sent_s: float) -> None:
        """A worker sends half of its own parameters to another, and adds halves, before its next orders."""

    @abstractmethod
    def sum_fragment(self, order: FragmentOrder, sent_s: float) -> None:
        """All replicas sum a fragment, if they do, and some workers mix it, before their next orders."""

    @abstractmethod
    def lost(self, worker: int) -> None:
        """The process of a worker is gone."""

    @abstractmethod
    def computed(self, worker: int) -> None:
        """A worker has its share of the next sum."""

    @property
    def tasks(self) -> list[str]:
        """None: they are the workers."""
        return []

    def traffic(self) -> tuple[float, float]:
        """Bytes of a sum's messages, and the cost of messages and step, as if all messages left their hosts."""
        size, costs = max(1, len(self.ring)), self.costs
        sent_frac = 2 * (size - 1) / size if self.summing.is_ring else self.summing.schedule(size).sent_frac
        num_bytes = sent_frac * self.model_bytes
        step_s = costs.replica_step_s(self.model_bytes) * costs.worker_cores
        return num_bytes, step_s + (costs.ring_per_byte_s + 2 * costs.carry_per_byte_s) * num_bytes

    @property
    def sizes(self) -> list[int]:
        """Return the sizes of all replicas as one: the whole vector."""
        return [self.num_parameters]

    def restore_s(self) -> float:
        """Seconds until every replica has read all parameters."""
        return self.costs.checkpoint_s(self.model_bytes)


@final
class Replicas(ReplicaGroup):
    """Replicas that act alike at the same time, with times known beforehand.

    ``idle_s`` is when every worker has finished the last update, ``summed_s`` when its ring was complete: a worker lost
    earlier makes that update fail. ``ranks``: as many ranks of each worker have an equal part of the parameters, which
    each of them sums with its peers in the other workers, at the same time.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        num_parameters: int,
        members: Membership,
        *,
        ranks: int = 1,
        summing: Summing = RING,
    ) -> None:
        super().__init__(costs, num_parameters, members, summing)
        self.clock = clock
        self.rank_bytes = self.model_bytes / ranks
        self.idle_s = self.summed_s = 0.0
        self._copied_s: dict[int, float] = {}
        """When replicas have handed over or taken over all state after the last update, by worker."""
        self._sums_s: dict[int, float] = {}
        """Seconds of a sum over so many workers."""
        self._computed_s: dict[int, float] = {}
        """When the share of each worker that is not awaited by the others was there, since the last sum."""
        self._stepped_s: dict[int, float] = {}
        """When replicas have made their last own step or average, since the last update."""

    @property
    def copy_s(self) -> float:
        return self.costs.control_s + self.costs.hop_s(self.rank_bytes)

    def message(self, num_bytes: int) -> tuple[float, Carry]:
        return self.costs.neighbour_s(num_bytes), FREE

    def lacks(self, t: float) -> bool:
        return t < self.summed_s

    def lost(self, worker: int) -> None:
        """Nothing to do: no callback is pending."""

    def computed(self, worker: int) -> None:
        if self.summing.late_worker not in (None, worker):
            self._computed_s[worker] = self.clock.now

    def step_alone(self, worker: int, sent_s: float) -> None:
        begun_s = max(sent_s + self.costs.control_s, self.idle_of(worker))
        self._stepped_s[worker] = begun_s + self.costs.update_s(self.rank_bytes, 1)

    def average(self, workers: Sequence[int], sent_s: float) -> None:
        """Sum around a ring of them, which takes no link of another sum; then as for a step."""
        begun_s = max(sent_s + self.costs.control_s, *map(self.idle_of, workers))
        self._stepped_s |= dict.fromkeys(workers, begun_s + sum(self.update_takes_s(len(workers))))

    def push_half(self, order: PushOrder, sent_s: float) -> None:
        """To halve, and to add, takes as long as a step; the message needs both ends, which may compute."""
        reached_s, pass_s = sent_s + self.costs.control_s, self.costs.update_s(self.rank_bytes, 1)
        idle_s = max(reached_s, self.idle_of(order.worker))
        if order.to is not None:
            idle_s = max(idle_s + pass_s, self.idle_of(order.to)) + self.costs.hop_s(self.rank_bytes)
            self._stepped_s[order.to] = idle_s
        self._stepped_s[order.worker] = idle_s + len(order.adds) * pass_s

    def sum_fragment(self, order: FragmentOrder, sent_s: float) -> None:
        """As for an average of all, of a part of the vector; offers are there then."""
        reached_s, ring = sent_s + self.costs.control_s, self.ring
        if order.moves:
            begun_s = max(reached_s, *map(self.idle_of, ring))
            sum_s = self.costs.ring_s(self.rank_bytes / order.of, len(ring))
            step_s = self.costs.update_s(self.rank_bytes / order.of, 1)
            self._stepped_s |= dict.fromkeys(ring, begun_s + sum_s + step_s)
        for worker in order.mix:
            begun_s = max(reached_s, self.idle_of(worker))
            self._stepped_s[worker] = begun_s + self.costs.update_s(self.rank_bytes / order.of, 1)

    def schedule_update(self, sent_s: float, num_grads: int) -> None:
        """Sum the gradients of all; then every replica steps with the sum."""
        self._sum(sent_s, self.ring)

    def carry_out(self, order: ApplyOrder, sent_s: float) -> None:
        """As :meth:`update`, without children; then who enters the ring copies a replica's state, one after another."""
        self._sum(sent_s, [worker for worker in self.ring if worker not in order.excluded])
        for worker, source in order.returning:
            done_s = self.idle_of(source) + self.costs.hop_s(self.rank_bytes)
            self._copied_s[worker] = self._copied_s[source] = done_s

    def _sum(self, sent_s: float, workers: Sequence[int]) -> None:
        self._copied_s.clear()
        self.idle_s = max([self.idle_s, *self._stepped_s.values()])
        self._stepped_s.clear()
        sum_s, step_s = self.update_takes_s(len(workers))
        if self._computed_s and self.summing.schedule(len(workers)).late is not None:
            begun_s = max(self.idle_s, sent_s + self.costs.control_s)
            ranked = self.summing.ranked(workers)
            sum_s = self._sum_s([self._computed_s.get(worker, begun_s) - begun_s for worker in ranked])
        self._computed_s.clear()
        self._busy_for(sent_s, sum_s)
        self.summed_s = self.idle_s
        self.idle_s += step_s

    def update_takes_s(self, size: int) -> tuple[float, float]:
        """Seconds of a sum over so many that begin at once, and of the step with it that every replica makes."""
        if size not in self._sums_s:
            ring = self.summing.is_ring
            self._sums_s[size] = self.costs.ring_s(self.rank_bytes, size) if ring else self._sum_s([0.0] * size)
        return self._sums_s[size], self.costs.update_s(self.rank_bytes, 1)

    def _sum_s(self, begun_s: Sequence[float]) -> float:
        """When the last of them has the sum, and at least 0, when it is ordered."""
        schedule, hop_s = self.summing.schedule(len(begun_s)), lambda frac: self.costs.hop_s(frac * self.rank_bytes)
        return max(0.0, *ends_s(schedule, hop_s, begun_s))

    @property
    def is_copying(self) -> bool:
        """Whether replicas have handed over state since the last update."""
        return bool(self._copied_s)

    def idle_of(self, worker: int) -> float:
        """When one of them can compute: it has the last update, copies no state any more, and has stepped."""
        return max(self.idle_s, self._copied_s.get(worker, 0.0), self._stepped_s.get(worker, 0.0))

    def measure(self, place: int, sent_s: float, then: Callable[[float], object]) -> None:
        """Every replica computes the squared norm of the sum, in one more pass."""
        self._busy_for(sent_s, self.costs.update_per_byte_s * self.rank_bytes)
        then(self.idle_s)

    def store(self, sent_s: float, then: Callable[[float], object]) -> None:
        """One replica writes all parameters; the others, which would wait in the next ring, wait now."""
        self._busy_for(sent_s, self.costs.checkpoint_s(self.model_bytes))
        then(self.idle_s)

    def halt(self) -> None:
        """Nothing to do: no callback is pending."""

    def begin_again(self, at_s: float) -> None:
        """All replicas hold the same parameters and are idle."""
        self.idle_s = self.summed_s = at_s
        self._copied_s.clear()
        self._computed_s.clear()
        self._stepped_s.clear()

    def deliver(self, sent_s: float, deliver: Callable[[int], None]) -> None:
        """Call ``deliver(0)`` when a worker that gets its order at ``sent_s`` may compute."""
        at_s = max(sent_s + self.costs.control_s, self.idle_s)
        self.clock.at(at_s, MACHINE, deliver, 0)

    def take(self, server: int, then: Callable[[], object]) -> None:
        """Nothing to do: a gradient stays on its worker."""
        then()

    def _busy_for(self, sent_s: float, seconds: float) -> None:
        self.idle_s = max(self.idle_s, sent_s + self.costs.control_s) + seconds
