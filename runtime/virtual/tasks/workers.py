"""The workers on the virtual clock: one iteration from the coordinator's order to its arrival.

An iteration is: the order travels, the batch is loaded while the servers finish the update whose result they deliver,
the parameters travel, the device computes, the gradient travels, the servers take it, the coordinator is notified.
Without a limited network every duration is known beforehand, so an iteration takes two heap entries; with one, its two
transfers share the links with all others (:class:`runtime.virtual.machines.network.Network`). Where processors are
shared, too, or a plan disturbs work in progress, :mod:`runtime.virtual.tasks.host_workers` is used instead.
"""

from __future__ import annotations

from itertools import accumulate
from typing import final

import msgspec

from runtime.cluster.device import Profiles
from runtime.core.data.shards import samples_of
from runtime.core.job import ComputeOrder
from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.network import Network
from runtime.virtual.tasks.iteration import Arrived, Iteration, WorkerModel
from runtime.virtual.tasks.model_state import Result
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers
from strategies.protocol import split_evenly


class Paces(msgspec.Struct, frozen=True, gc=False):
    """A worker's times for a batch of ``samples`` in ``accum`` micro-batches, by the models; without jitter."""

    samples: int
    accum: int
    data_s: float
    """To load it."""
    real_s: float
    """Of the real computation."""
    paced_s: float | None
    """Of the device's profile; None: there is none."""

    @property
    def device_s(self) -> float:
        """Of the worker's device: the longer of the two."""
        return max(self.real_s, self.paced_s or 0.0)


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
        held: Arrived | None = None,
    ) -> None:
        super().__init__(
            clock,
            costs,
            servers.num_bytes,
            shares_memory=shares_memory,
            profiles=profiles,
            seed=seed,
            arrived=arrived,
            held=held,
        )
        self.servers, self.network = servers, network
        self._replicas = servers if isinstance(servers, Replicas) else None
        self._paces: dict[int, Paces] = {}
        """Of the last batch of every worker, which is mostly as large as the next."""
        self._transfer_s = 0.0 if shares_memory else costs.transfer_s(self.model_bytes)
        self._to_parent_s = costs.hop_s(servers.rank_bytes) if isinstance(servers, Replicas) else 0.0

    def add(self, worker: int, at_s: float) -> None:
        self._enter(worker, at_s)
        if self.network is not None:
            self.network.add(worker)

    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        worker, samples = order.worker, samples_of(order.ranges)
        paces = self._paces.get(worker)
        if paces is None or paces.samples != samples or paces.accum != order.accum:
            paces = self._paces[worker] = self.pace(worker, samples, order.accum)
        reached_s = sent_s + self.costs.control_s
        waited_s, data_s = reached_s - self.idle_since_s[worker], paces.data_s
        if self.cores:
            data_s *= self.stretch(worker)
        loaded_s = reached_s + data_s
        iteration = Iteration(order, result, False, waited_s if waited_s > 0.0 else 0.0, data_s)
        iteration.loaded_s = loaded_s
        self.under_way[worker] = iteration
        delivered_s = max(reached_s, self.servers.idle_s, self.servers.held_s)
        if self._replicas is None:
            if self.network is None:
                self._arrive(iteration, delivered_s, delivered_s + self._transfer_s)
            else:
                self.clock.at(delivered_s, MACHINE, self._pull, iteration)
        elif order.parent is None:  # a worker makes the update itself before it loads its batch
            self._on_pulled(iteration, max(reached_s, self._replicas.idle_of(worker)) + data_s)
        else:  # its parent does, and sends the parameters meanwhile
            self._arrive(iteration, delivered_s, delivered_s + self._to_parent_s)

    def _pull(self, iteration: Iteration) -> None:
        assert self.network is not None
        if not iteration.void:
            worker, sent_s = iteration.order.worker, self.clock.now
            self.network.transfer(("pull", worker), self.model_bytes, lambda: self._on_received(iteration, sent_s))

    def _on_received(self, iteration: Iteration, sent_s: float) -> None:
        if not iteration.void:
            self._arrive(iteration, sent_s, self.clock.now + self._transfer_s)

    def _arrive(self, iteration: Iteration, sent_s: float, at_s: float) -> None:
        """Parameters that left the servers at ``sent_s`` have arrived; loading the batch does not wait for them."""
        loaded_s = iteration.loaded_s
        recv_s = at_s - (loaded_s if loaded_s > sent_s else sent_s)
        iteration.recv_s = recv_s if recv_s > 0.0 else 0.0
        self._on_pulled(iteration, at_s if at_s > loaded_s else loaded_s)

    def _on_pulled(self, iteration: Iteration, at_s: float) -> None:
        """The parameters have arrived: determine how long the device computes."""
        order = iteration.order
        iteration.pull_s = at_s - iteration.loaded_s
        own_s, iteration.overrun_s = self._compute_s(order.worker)
        iteration.injected_s = injected_s = self.costs.slept_s(order.delay_s + order.slowdown_frac * own_s)
        iteration.compute_s = compute_s = own_s + injected_s
        if order.within_s is not None:
            compute_s = self._end_in_time(iteration, own_s)
        iteration.since_s = since_s = at_s + compute_s
        if order.holds:
            self.clock.at(since_s, MACHINE, self._keep, iteration)
        elif order.parent is not None:
            self.clock.at(since_s + self._to_parent_s, MACHINE, self.pushed, iteration)
        elif self.network is None:
            self.clock.at(since_s + self._transfer_s, MACHINE, self.pushed, iteration)
        else:
            self.clock.at(since_s, MACHINE, self._push, iteration)

    def _end_in_time(self, iteration: Iteration, own_s: float) -> float:
        """Shorten an iteration to the micro-batches that begin in time; returns its seconds of computing.

        ``own_s`` of the whole batch. Its delay is spread over all samples, as live.
        """
        order, whole, ends_s = iteration.order, self._paces[iteration.order.worker], list[float]()
        sizes = list(accumulate(split_evenly(whole.samples, order.accum)))
        overrun_s = iteration.overrun_s
        for place, samples in enumerate(sizes, 1):
            part = self.pace(order.worker, samples, place).device_s / whole.device_s if whole.device_s else 1.0
            delay_s = order.delay_s * (samples / whole.samples) + order.slowdown_frac * (own_s * part)
            iteration.injected_s, iteration.overrun_s = self.costs.slept_s(delay_s), overrun_s * part
            ends_s.append(own_s * part + iteration.injected_s)
            if not order.goes_on(ends_s[-1]):
                break
        self.ends_s[order.worker], iteration.compute_s = tuple(ends_s), ends_s[-1]
        return ends_s[-1]

    def _begin_push(self, iteration: Iteration) -> None:
        if self.network is None:
            self.clock.at(self.clock.now + self._transfer_s, MACHINE, self.pushed, iteration)
        else:
            self._push(iteration)

    def _push(self, iteration: Iteration) -> None:
        assert self.network is not None
        if not iteration.void:
            self.network.transfer(
                ("push", iteration.order.worker),
                self.model_bytes,
                lambda: self.clock.at(self.clock.now + self._transfer_s, MACHINE, self.pushed, iteration),
            )

    def pushed(self, iteration: Iteration) -> None:
        """A gradient counts as pushed when the servers, which queue their work, have taken it."""
        if not iteration.void:
            taken_s = self.clock.now if self.shares_memory else max(self.clock.now, self.servers.idle_s)
            self._end(iteration, taken_s)
            if self._replicas is not None:
                self._replicas.computed(iteration.order.worker)

    def pace(self, worker: int, samples: int, accum: int) -> Paces:
        """The times of a batch of this worker."""
        profile = self.profiles[worker]
        paced_s = None if profile is None else profile.seconds(samples, accum)
        return Paces(samples, accum, self.costs.data_s(samples), self.costs.compute_s(samples, accum), paced_s)

    def _compute_s(self, worker: int) -> tuple[float, float]:
        """(seconds of its batch's computation without injection, by how much these exceed the device profile)."""
        paces, factor = self._paces[worker], self.jitter[worker].factor()
        real_s, paced_s = paces.real_s, paces.paced_s
        if self.cores:
            real_s *= self.stretch(worker)
        if paced_s is None:
            return real_s * factor, 0.0
        if real_s > paced_s:
            return real_s * factor, max(0.0, real_s * factor - paced_s)
        return self.costs.slept_s(paced_s * factor), 0.0

    def _abandon(self, worker: int, iteration: Iteration) -> None:
        if self.network is not None:
            self.network.abandon(("pull", worker))
            self.network.abandon(("push", worker))
