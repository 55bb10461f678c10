"""The workers on the virtual clock: one iteration from the coordinator's order to its arrival.

An iteration is: the order travels, the batch is loaded while the servers finish the update whose result they deliver,
the parameters travel, the device computes, the gradient travels, the servers take it, the coordinator is notified.
Without a limited network every duration is known beforehand, so an iteration takes two heap entries; with one, its two
transfers share the links with all others (:class:`runtime.virtual.machines.network.Network`). Where processors are
shared, too, or a plan disturbs work in progress, :mod:`runtime.virtual.tasks.host_workers` is used instead.
"""

from __future__ import annotations

from typing import final

from runtime.cluster.device import Profiles
from runtime.core.job import ComputeOrder
from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.network import Network
from runtime.virtual.tasks.iteration import Arrived, Iteration, WorkerModel
from runtime.virtual.tasks.model_state import Result
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers


@final
class Workers(WorkerModel):
    """Workers that do not disturb each other, with jitter; ``profiles[k]`` paces worker k."""

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        profiles: Profiles,
        servers: Servers | Replicas,
        network: Network | None,
        *,
        shares_memory: bool,
        seed: int,
        arrived: Arrived,
    ) -> None:
        super().__init__(
            clock,
            costs,
            servers.num_bytes,
            shares_memory=shares_memory,
            profiles=profiles,
            seed=seed,
            arrived=arrived,
        )
        self.servers, self.network = servers, network
        self._transfer_s = 0.0 if shares_memory else costs.transfer_s(self.model_bytes)
        self._to_parent_s = costs.hop_s(servers.model_bytes) if isinstance(servers, Replicas) else 0.0

    def add(self, worker: int, at_s: float) -> None:
        self._enter(worker, at_s)
        if self.network is not None:
            self.network.add(worker)

    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        iteration = Iteration(order, result)
        worker = order.worker
        self.under_way[worker] = iteration
        reached_s = sent_s + self.costs.control_s
        iteration.wait_s = max(0.0, reached_s - self.idle_since_s[worker])
        iteration.data_s = self.costs.data_s(iteration.samples)
        if self.cores:
            iteration.data_s *= self.stretch(worker)
        iteration.loaded_s = reached_s + iteration.data_s
        delivered_s = max(reached_s, self.servers.idle_s)
        if isinstance(self.servers, Replicas) and order.parent is None:
            # a worker makes the update itself before it loads its batch
            self._pulled(iteration, max(reached_s, self.servers.idle_of(worker)) + iteration.data_s)
        elif isinstance(self.servers, Replicas):  # its parent does, and sends the parameters meanwhile
            self._arrive(iteration, delivered_s, delivered_s + self._to_parent_s)
        elif self.network is None:
            self._arrive(iteration, delivered_s, delivered_s + self._transfer_s)
        else:
            self.clock.at(delivered_s, MACHINE, self._pull, iteration)

    def _pull(self, iteration: Iteration) -> None:
        assert self.network is not None
        if not iteration.void:
            worker, sent_s = iteration.order.worker, self.clock.now
            self.network.transfer(("pull", worker), self.model_bytes, lambda: self._received(iteration, sent_s))

    def _received(self, iteration: Iteration, sent_s: float) -> None:
        if not iteration.void:
            self._arrive(iteration, sent_s, self.clock.now + self._transfer_s)

    def _arrive(self, iteration: Iteration, sent_s: float, at_s: float) -> None:
        """Parameters that left the servers at ``sent_s`` have arrived; loading the batch does not wait for them."""
        iteration.recv_s = max(0.0, at_s - max(sent_s, iteration.loaded_s))
        self._pulled(iteration, max(iteration.loaded_s, at_s))

    def _pulled(self, iteration: Iteration, at_s: float) -> None:
        """The parameters have arrived: determine how long the device computes."""
        iteration.pull_s = at_s - iteration.loaded_s
        own_s, iteration.overrun_s = self._compute_s(iteration)
        order = iteration.order
        asked_s = order.delay_s + order.slowdown_frac * own_s
        iteration.injected_s = asked_s + self.costs.sleep_overshoot_s if asked_s > 0 else 0.0
        iteration.compute_s = own_s + iteration.injected_s
        iteration.since_s = at_s + iteration.compute_s
        if order.parent is not None:
            self.clock.at(iteration.since_s + self._to_parent_s, MACHINE, self._pushed, iteration)
        elif self.network is None:
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
        """A gradient counts as pushed when the servers, which queue their work, have taken it."""
        if not iteration.void:
            taken_s = self.clock.now if self.shares_memory else max(self.clock.now, self.servers.idle_s)
            self._end(iteration, taken_s)

    def _compute_s(self, iteration: Iteration) -> tuple[float, float]:
        """(seconds of computation without injection, by how much these exceed the device profile)."""
        order, samples = iteration.order, iteration.samples
        factor, profile = self.jitter[order.worker].factor(), self.profiles[order.worker]
        real_s = self.costs.compute_s(samples, order.accum)
        if self.cores:
            real_s *= self.stretch(order.worker)
        if profile is None:
            return real_s * factor, 0.0
        paced_s = profile.seconds(samples, order.accum)
        if real_s > paced_s:
            return real_s * factor, max(0.0, real_s * factor - paced_s)
        return paced_s * factor + self.costs.sleep_overshoot_s, 0.0

    def _abandon(self, worker: int) -> None:
        if self.network is not None:
            self.network.abandon(("pull", worker))
            self.network.abandon(("push", worker))
