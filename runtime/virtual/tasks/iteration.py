"""One iteration of a worker, and the interface of all models of workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf

import msgspec

from runtime.cluster.device import DeviceProfile, Profiles
from runtime.core.data.shards import samples_of
from runtime.core.job import ComputeOrder, SumOrder
from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.jitter import Jitter
from runtime.virtual.tasks.model_state import Result
from strategies.protocol import Timings


class Iteration(msgspec.Struct, eq=False, gc=False):
    """One Compute in progress; ``void`` once its worker is lost or the servers have rolled back."""

    order: ComputeOrder
    result: Result
    void: bool = False
    wait_s: float = 0.0
    data_s: float = 0.0
    pull_s: float = 0.0
    compute_s: float = 0.0
    injected_s: float = 0.0
    overrun_s: float = 0.0
    loaded_s: float = inf
    since_s: float = 0.0
    recv_s: float = 0.0
    missing: int = 0
    cpu_s: float | None = None
    """Core-seconds of loading, computing and sending; None where no processors are modelled."""

    @property
    def samples(self) -> int:
        """The number of samples of its batch."""
        return samples_of(self.order.ranges)


TIMES = tuple(name for name in Timings.__struct_fields__ if name in Iteration.__struct_fields__)
"""Times that an iteration knows at its end; of others workers report nothing."""
Arrived = Callable[[Iteration, Timings, float], None]


class WorkerModel(ABC):
    """Models the workers; ``arrived(iteration, timings, at_s)`` is called when the servers have a gradient.

    ``held``, likewise, when a worker holds one: it pushes only when it is ordered to (:meth:`send`); None: at once.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        num_bytes: list[int],
        *,
        shares_memory: bool,
        profiles: Profiles,
        seed: int,
        arrived: Arrived,
        held: Arrived | None = None,
    ) -> None:
        self.clock, self.costs, self.shares_memory, self.arrived = clock, costs, shares_memory, arrived
        self.held = held
        self.seed = seed
        self.jitter: dict[int, Jitter] = {}
        self.idle_since_s: dict[int, float] = {}
        self.cores: dict[int, float] = {}
        """Cores of the workers for which some were allocated."""
        self.profiles = dict(enumerate(profiles))
        for worker in self.profiles:
            self._enter(worker, 0.0)
        self.under_way: dict[int, Iteration] = {}
        self.ends_s: dict[int, tuple[float, ...]] = {}
        """As in ``Grad``, of workers that have computed such an order."""
        self.model_bytes = sum(num_bytes)

    @abstractmethod
    def add(self, worker: int, at_s: float) -> None:
        """A worker that was not there at the start, and is idle from ``at_s`` on; it is paced as worker 0 is."""

    def _enter(self, worker: int, at_s: float) -> None:
        self.profiles.setdefault(worker, self.profiles[0])
        self.jitter[worker] = Jitter(self.seed, worker, self.costs.jitter_sigma, self.costs.jitter_rho)
        self.idle_since_s[worker] = at_s

    def stretch(self, worker: int) -> float:
        """Return the factor by which its work takes longer since it has too few cores."""
        return self.costs.stretch(self.costs.worker_cores, self.cores.get(worker))

    @abstractmethod
    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        """Begin an iteration whose order leaves the coordinator at ``sent_s``, after its orders to the servers."""

    def lose(self, worker: int) -> None:
        """The worker's process is lost, and its iteration with it."""
        iteration = self.under_way.pop(worker, None)
        if iteration is not None:
            iteration.void = True
            self._abandon(worker, iteration)

    def lose_all(self) -> None:
        """All iterations in progress are void."""
        for worker in list(self.under_way):
            self.lose(worker)

    def ready(self, worker: int, at_s: float) -> None:
        """A new incarnation waits for its first order."""
        self.idle_since_s[worker] = at_s

    def moved(self, task: str, device: DeviceProfile | None) -> None:  # noqa: B027  (without hosts there is nothing to do)
        """A task has moved to another host, with this device; None: the cluster's device."""

    @abstractmethod
    def _abandon(self, worker: int, iteration: Iteration) -> None:
        """Release the resources that the iteration uses, which has no order in Python if it is on a compiled chain."""

    # ---- gradients that are held -------------------------------------------------------------------------------------

    def send(self, worker: int, grad_id: int, sent_s: float) -> None:
        """The worker may push the gradient that it holds; that order leaves the coordinator at ``sent_s``."""
        iteration = self.under_way.get(worker)
        if iteration is not None and iteration.order.grad_id == grad_id:
            self.clock.at(sent_s + self.costs.control_s, MACHINE, self._on_released, iteration)

    def send_sum(self, order: SumOrder, sent_s: float) -> None:
        """Workers may push what they hold to an aggregator, which pushes the sum."""
        raise NotImplementedError("there are no aggregators without hosts")

    def forget(self, worker: int, grad_id: int, sent_s: float) -> None:
        """The worker discards the gradient that it holds, and is idle when that order has reached it."""
        iteration = self.under_way.get(worker)
        if iteration is not None and iteration.order.grad_id == grad_id:
            iteration.void = True
            del self.under_way[worker]
            self.idle_since_s[worker] = sent_s + self.costs.control_s

    def _keep(self, iteration: Iteration) -> None:
        """The gradient is computed, and held; one that is not finite ends at once."""
        assert self.held is not None
        if iteration.void:
            return
        if not iteration.result.finite:
            iteration.since_s = self.clock.now
            self._end(iteration, self.clock.now)
        else:
            self.held(iteration, self._timings(iteration, 0.0), self.clock.now)

    def _on_released(self, iteration: Iteration) -> None:
        if not iteration.void:
            iteration.since_s = self.clock.now
            self._begin_push(iteration)

    @abstractmethod
    def _begin_push(self, iteration: Iteration) -> None:
        """The gradient starts to travel."""

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _end(self, iteration: Iteration, taken_s: float) -> None:
        """The iteration ends: the servers have its gradient."""
        worker = iteration.order.worker
        self.idle_since_s[worker] = taken_s
        del self.under_way[worker]
        self.arrived(iteration, self._timings(iteration, taken_s - iteration.since_s), taken_s)

    @staticmethod
    def _timings(iteration: Iteration, send_s: float) -> Timings:
        return Timings(send_s=send_s, **{name: getattr(iteration, name) for name in TIMES})
