"""The workers on the virtual clock: one iteration from the coordinator's order to its arrival.

An iteration is: the order travels, the batch is loaded while the servers finish the update whose result they deliver,
the parameters travel, the device computes, the gradient travels, the servers take it, the coordinator hears of it.
Without a limited network every duration is known beforehand, so an iteration costs the heap two entries; with one, its
two transfers share the links with all others (:class:`runtime.virtual.network.Network`).
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.device import DeviceProfile
from runtime.job import ComputeOrder
from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.jitter import Jitter
from runtime.virtual.learner import Result
from runtime.virtual.network import Network
from runtime.virtual.servers import Servers
from strategies.protocol import Timings


class Iteration:
    """One Compute under way; ``void`` once its worker is lost or the servers went back in time."""

    __slots__ = (
        "compute_s",
        "data_s",
        "injected_s",
        "loaded_s",
        "order",
        "overrun_s",
        "pull_s",
        "result",
        "since_s",
        "void",
        "wait_s",
    )

    def __init__(self, order: ComputeOrder, result: Result) -> None:
        self.order, self.result = order, result
        self.void = False
        self.wait_s = self.data_s = self.pull_s = self.compute_s = self.injected_s = self.overrun_s = 0.0
        self.loaded_s = self.since_s = 0.0


Arrived = Callable[[Iteration, Timings, float], None]


class Workers:
    """Devices and their jitter; ``arrived(iteration, timings, at_s)`` tells when the servers have a gradient."""

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        profile: DeviceProfile | None,
        servers: Servers,
        network: Network | None,
        *,
        on_board: bool,
        num_workers: int,
        seed: int,
        arrived: Arrived,
    ) -> None:
        self.clock, self.costs, self.profile, self.servers, self.network = clock, costs, profile, servers, network
        self.on_board = on_board
        self.arrived = arrived
        self.jitter = [Jitter(seed, worker, costs.jitter_sigma, costs.jitter_rho) for worker in range(num_workers)]
        self.idle_since_s = [0.0] * num_workers
        self.under_way: dict[int, Iteration] = {}
        self.model_bytes = sum(servers.num_bytes)
        self._transfer_s = 0.0 if on_board else costs.transfer_s(self.model_bytes)

    # ---- an iteration ------------------------------------------------------------------------------------------------

    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        """The coordinator's order leaves it at ``sent_s``, after its orders to the servers."""
        iteration = Iteration(order, result)
        worker = order.worker
        self.under_way[worker] = iteration
        reached_s = sent_s + self.costs.control_s
        iteration.wait_s = max(0.0, reached_s - self.idle_since_s[worker])
        iteration.data_s = self.costs.data_s(_samples(order))
        iteration.loaded_s = reached_s + iteration.data_s
        delivered_s = max(reached_s, self.servers.idle_s)
        if self.network is None:
            self._pulled(iteration, max(iteration.loaded_s, delivered_s + self._transfer_s))
        else:
            self.clock.at(delivered_s, MACHINE, self._pull, iteration)

    def _pull(self, iteration: Iteration) -> None:
        assert self.network is not None
        if not iteration.void:
            worker = iteration.order.worker
            self.network.transfer(("pull", worker), self.model_bytes, lambda: self._received(iteration))

    def _received(self, iteration: Iteration) -> None:
        if not iteration.void:
            self._pulled(iteration, max(iteration.loaded_s, self.clock.now + self._transfer_s))

    def _pulled(self, iteration: Iteration, at_s: float) -> None:
        """The parameters are there: how long the device computes is decided."""
        iteration.pull_s = at_s - iteration.loaded_s
        own_s, iteration.overrun_s = self._compute_s(iteration.order)
        order = iteration.order
        asked_s = order.delay_s + order.slowdown_frac * own_s
        iteration.injected_s = asked_s + self.costs.sleep_overshoot_s if asked_s > 0 else 0.0
        iteration.compute_s = own_s + iteration.injected_s
        iteration.since_s = at_s + iteration.compute_s
        if self.network is None:
            self.clock.at(iteration.since_s + self._transfer_s, MACHINE, self._pushed, iteration)
        else:
            self.clock.at(iteration.since_s, MACHINE, self._push, iteration)

    def _push(self, iteration: Iteration) -> None:
        assert self.network is not None
        if not iteration.void:
            self.network.transfer(
                ("push", iteration.order.worker),
                self.model_bytes,
                lambda: self.clock.at(self.clock.now + self._transfer_s, MACHINE, self._pushed, iteration),
            )

    def _pushed(self, iteration: Iteration) -> None:
        """A gradient counts as pushed when the servers, which do one thing at a time, have taken it."""
        if iteration.void:
            return
        worker = iteration.order.worker
        taken_s = self.clock.now if self.on_board else max(self.clock.now, self.servers.idle_s)
        self.idle_since_s[worker] = taken_s
        del self.under_way[worker]
        timings = Timings(
            wait_s=iteration.wait_s,
            data_s=iteration.data_s,
            pull_s=iteration.pull_s,
            compute_s=iteration.compute_s,
            send_s=taken_s - iteration.since_s,
            injected_s=iteration.injected_s,
            overrun_s=iteration.overrun_s,
        )
        self.arrived(iteration, timings, taken_s)

    def _compute_s(self, order: ComputeOrder) -> tuple[float, float]:
        """(seconds that the device computes without injection, by how much of it a device profile was missed)."""
        samples, factor = _samples(order), self.jitter[order.worker].factor()
        real_s = self.costs.compute_s(samples)
        if self.profile is None:
            return real_s * factor, 0.0
        paced_s = self.profile.seconds(samples)
        if real_s > paced_s:
            return real_s * factor, max(0.0, real_s * factor - paced_s)
        return paced_s * factor + self.costs.sleep_overshoot_s, 0.0

    # ---- ends --------------------------------------------------------------------------------------------------------

    def lose(self, worker: int) -> None:
        """Its process is gone, and what it was doing."""
        iteration = self.under_way.pop(worker, None)
        if iteration is not None:
            self._void(iteration)

    def lose_all(self) -> None:
        """Everything under way is void."""
        for worker in list(self.under_way):
            self.lose(worker)

    def ready(self, worker: int, at_s: float) -> None:
        """A new incarnation waits for its first order."""
        self.idle_since_s[worker] = at_s

    def _void(self, iteration: Iteration) -> None:
        iteration.void = True
        if self.network is not None:
            self.network.abandon(("pull", iteration.order.worker))
            self.network.abandon(("push", iteration.order.worker))


def _samples(order: ComputeOrder) -> int:
    ranges = order.ranges
    return ranges[0].samples if len(ranges) == 1 else sum(part.samples for part in ranges)
