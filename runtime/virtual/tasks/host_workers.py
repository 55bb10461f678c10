"""Workers on shared machines: an iteration is a chain of work, messages and sleep, with durations known at the end.

A worker loads its batch, receives the parameters, computes and pushes its gradient, one after another, and all of that
is core-seconds on its host; only pacing and injected delays are sleep. It is one thread, as live, unless the cost model
says that loading and computing use more cores at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from runtime.cluster.device import DeviceProfile, Profiles
from runtime.core.data.shards import samples_of
from runtime.core.inputs import GradientArrived
from runtime.core.job import ComputeOrder, SumOrder
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Machines, Then
from runtime.virtual.machines.sites import THREAD_CORES
from runtime.virtual.tasks.aggregators import Aggregators, Sum
from runtime.virtual.tasks.host_replicas import HostReplicas
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.iteration import Arrived, Iteration, WorkerModel
from runtime.virtual.tasks.model_state import Result
from runtime.virtual.tasks.replicas import ReplicaGroup, Replicas
from runtime.virtual.tasks.twins import chain_on
from strategies.protocol import NodeId, Timings

Step = Callable[[Iteration], object]


@final
class HostWorkers(WorkerModel):
    """``profiles[k]`` paces worker k; ``default`` a worker that comes to a host without a device of its own.

    ``uses_cores``: cores of a host on which a worker computes as fast as the cost model says. ``on_devices``: whether a
    plan takes a part of workers' devices.
    """

    def __init__(
        self,
        machines: Machines,
        costs: Costs,
        profiles: Profiles,
        servers: HostServers | Replicas | HostReplicas,
        *,
        default: DeviceProfile | None = None,
        uses_cores: float = THREAD_CORES,
        on_devices: bool = False,
        shares_memory: bool,
        seed: int,
        arrived: Arrived,
        held: Arrived | None = None,
    ) -> None:
        super().__init__(
            machines.clock,
            costs,
            servers.num_bytes,
            shares_memory=shares_memory,
            profiles=profiles,
            seed=seed,
            arrived=arrived,
            held=held,
        )
        self.machines, self.servers = machines, servers
        self._replicas = servers if isinstance(servers, HostReplicas) else None
        self._turns: dict[int, Then] = {}
        """Ends of the turns in which replicas compute: each carries out one order after another."""
        self.default, self.uses_cores = default, uses_cores
        self.names = {number: str(NodeId.worker(number)) for number in self.profiles}
        self._copy_s = 0.0 if shares_memory else costs.transfer_per_byte_s * self.model_bytes
        self._there = {number: machines.name_of(name) for number, name in self.names.items()}
        self.aggregators: Aggregators | None = None
        self.chain: Any | None = None
        """The compiled twin of the chain that begins with :meth:`begin`; None: there is none."""
        self.on_devices = on_devices
        if isinstance(servers, HostServers) and held is None and not on_devices:
            self.chain = chain_on(self, machines, servers.queues, self._there, self._copy_s, uses_cores, self._end)

    def add(self, worker: int, at_s: float) -> None:
        self._enter(worker, at_s)
        self.names[worker] = str(NodeId.worker(worker))
        self._there[worker] = self.machines.name_of(self.names[worker])

    def moved(self, task: str, device: DeviceProfile | None) -> None:
        node = NodeId.parse(task)
        if node.role == "worker":
            self.profiles[node.number] = self.default if device is None else device

    def tell_arrivals(self, tell: Callable[[GradientArrived], None]) -> None:
        if self.chain is not None:
            self.chain.tell = tell

    # ---- batch and parameters ----------------------------------------------------------------------------------------

    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        if self.chain is not None:
            samples, worker = samples_of(order.ranges), order.worker
            self.chain.begin(order, result, worker, samples, order.accum, order.delay_s, order.slowdown_frac, sent_s)
            return
        iteration = Iteration(order, result)
        iteration.cpu_s = self.costs.data_s(iteration.samples) * self.uses_cores + self._send_s(order.worker)
        self.under_way[order.worker] = iteration
        if isinstance(self.servers, HostReplicas):
            iteration.missing = 1
            self._order_parent(self.servers, iteration, sent_s)
        else:
            iteration.missing = len(self.servers.names) + 1  # and the batch
            self.servers.deliver(sent_s, partial(self._deliver, iteration))
        self.clock.at(sent_s + self.costs.control_s, MACHINE, self._reached, iteration)

    def _send_s(self, worker: int) -> float:
        """Core-seconds of sending a gradient."""
        if self.shares_memory:
            return 0.0
        costs, carry_s = self.costs, 0.0
        if costs.within_per_byte_s == costs.carry_per_byte_s:
            return self._copy_s + costs.carry_per_byte_s * self.model_bytes
        for name, num_bytes in zip(self.servers.names, self.servers.num_bytes, strict=True):
            apart = self.machines.apart((self.names[worker], name))
            carry_s += (costs.carry_per_byte_s if apart else costs.within_per_byte_s) * num_bytes
        return self._copy_s + carry_s

    def _reached(self, iteration: Iteration) -> None:
        if not iteration.void:
            self.machines.awake(self._name(iteration), partial(self._load, iteration))

    def _load(self, iteration: Iteration) -> None:
        now, worker = self.clock.now, iteration.order.worker
        iteration.wait_s = max(0.0, now - self.idle_since_s[worker])
        if self._replicas is None:
            self._load_now(iteration)
        else:
            self._replicas.take_turn(worker, partial(self._in_turn, iteration, now))

    def _in_turn(self, iteration: Iteration, asked_s: float, done: Then) -> None:
        """A replica has made its updates, and computes until it has nothing more to do with this gradient."""
        if iteration.void:
            done()
            return
        self._turns[iteration.order.worker] = done
        iteration.updating_s = self.clock.now - asked_s
        self._load_now(iteration)

    def _load_now(self, iteration: Iteration) -> None:
        now = self.clock.now
        seconds = self.costs.data_s(iteration.samples) * self.stretch(iteration.order.worker)
        self.machines.compute(self._name(iteration), seconds, partial(self._loaded, iteration, now))

    def _loaded(self, iteration: Iteration, begun_s: float) -> None:
        iteration.loaded_s = self.clock.now
        iteration.data_s = self.clock.now - begun_s
        self._received(iteration)

    def _deliver(self, iteration: Iteration, server: int) -> None:
        if iteration.void:
            return
        if isinstance(self.servers, Replicas):
            self._update_made(iteration, self.servers)
            return
        if self.shares_memory:
            self._received(iteration)
            return
        if not iteration.receiving:
            iteration.receiving_since_s = self.clock.now
        iteration.receiving += 1
        self._send(iteration, server, (self.servers.names[server], self._name(iteration)), self._came)

    def _order_parent(self, replicas: HostReplicas, iteration: Iteration, sent_s: float) -> None:
        """A child's parent sends it the parameters, after its own earlier orders."""
        if (parent := iteration.order.parent) is not None:
            iteration.missing += 1
            send = partial(self._send_child, iteration, parent)
            replicas.order(parent, sent_s, send)

    def _send_child(self, iteration: Iteration, parent: int, done: Then) -> None:
        if not iteration.void:
            iteration.receiving_since_s, iteration.receiving = self.clock.now, 1
            self._between(iteration, (self.names[parent], self._name(iteration)), self._came)
        done()

    def _update_made(self, iteration: Iteration, replicas: Replicas) -> None:
        """The replicas have the parameters; a child receives them from its parent, others may still copy state."""
        worker, parent = iteration.order.worker, iteration.order.parent
        if parent is None and (idle_s := replicas.idle_of(worker)) > self.clock.now:
            self.clock.at(idle_s, MACHINE, self._deliver, iteration, 0)
        elif parent is None:
            self._received(iteration)
        else:
            iteration.receiving_since_s, iteration.receiving = self.clock.now, 1
            self._between(iteration, (self.names[parent], self.names[worker]), self._came)

    def _between(self, iteration: Iteration, path: tuple[str, str], then: Step) -> None:
        """A message between a child and its parent."""
        assert isinstance(self.servers, ReplicaGroup)
        num_bytes = self.servers.model_bytes
        own_s, carry = self.servers.message(num_bytes)
        self.machines.send(self._name(iteration), path, num_bytes, own_s, partial(then, iteration), carry)

    def _came(self, iteration: Iteration) -> None:
        """A server's part has arrived. Parts travel concurrently; the worker waits for them after loading its batch."""
        iteration.receiving -= 1
        if not iteration.receiving:
            iteration.recv_s += max(0.0, self.clock.now - max(iteration.receiving_since_s, iteration.loaded_s))
        self._received(iteration)

    def _received(self, iteration: Iteration) -> None:
        """Count the batch or a server's part as received."""
        iteration.missing -= 1
        if not iteration.missing:
            self.machines.work(self._name(iteration), self._copy_s, partial(self._copied, iteration, self.clock.now))

    def _copied(self, iteration: Iteration, begun_s: float) -> None:
        iteration.recv_s += self.clock.now - begun_s
        self._pulled(iteration)

    # ---- the device --------------------------------------------------------------------------------------------------

    def _pulled(self, iteration: Iteration) -> None:
        worker, now = iteration.order.worker, self.clock.now
        iteration.pull_s = now - iteration.loaded_s + iteration.updating_s
        iteration.since_s = now
        factor = self.jitter[worker].factor()
        real_s = self.costs.compute_s(iteration.samples, iteration.order.accum) * factor
        assert iteration.cpu_s is not None
        iteration.cpu_s += real_s * self.uses_cores
        iteration.charged_s = self._charged_s(iteration)
        seconds = real_s * self.stretch(worker)
        if self.on_devices:
            self._use_device(iteration, seconds, factor)
        else:
            self.machines.compute(self.names[worker], seconds, partial(self._worked, iteration, factor))

    def _charged_s(self, iteration: Iteration) -> float:
        """Core-seconds of others' messages that were charged to the worker so far, as the kernel does live."""
        charged_s: float = self.machines.task_work.charged_s(self._there[iteration.order.worker])
        return charged_s

    def _use_device(self, iteration: Iteration, real_s: float, factor: float) -> None:
        """A device with a profile is as slow as that says, and its turns are counted; nothing is left to pace."""
        name, profile = self._name(iteration), self.profiles[iteration.order.worker]
        paced_s = 0.0 if profile is None else profile.seconds(iteration.samples, iteration.order.accum) * factor
        iteration.overrun_s = max(0.0, real_s - paced_s) if profile is not None else 0.0
        emulated = real_s < paced_s
        seconds = paced_s + self.costs.sleep_overshoot_s if emulated else real_s
        self.machines.compute_on_device(name, seconds, partial(self._computed, iteration), emulated=emulated)

    def _worked(self, iteration: Iteration, factor: float) -> None:
        """The real computation is done; the emulated device may take longer."""
        order, spent_s = iteration.order, self.clock.now - iteration.since_s
        profile = self.profiles[order.worker]
        paced_s = 0.0 if profile is None else profile.seconds(iteration.samples, order.accum)
        if profile is not None and spent_s <= paced_s * factor:
            rest_s = paced_s * factor - spent_s + self.costs.sleep_overshoot_s
            self.machines.sleep(self._name(iteration), rest_s, partial(self._computed, iteration))
        else:
            iteration.overrun_s = max(0.0, spent_s - paced_s) if profile is not None else 0.0
            self._computed(iteration)

    def _computed(self, iteration: Iteration) -> None:
        """Add the injected delay."""
        now, order = self.clock.now, iteration.order
        asked_s = order.delay_s + order.slowdown_frac * (now - iteration.since_s)
        push = partial(self._push, iteration, now)
        if asked_s > 0:
            self.machines.sleep(self._name(iteration), asked_s + self.costs.sleep_overshoot_s, push)
        else:
            push()

    # ---- the gradient ------------------------------------------------------------------------------------------------

    def _push(self, iteration: Iteration, computed_s: float) -> None:
        now = self.clock.now
        iteration.injected_s = now - computed_s
        iteration.compute_s = now - iteration.since_s
        assert iteration.cpu_s is not None
        iteration.cpu_s += self._charged_s(iteration) - iteration.charged_s
        iteration.since_s = now
        if iteration.order.holds:
            self._keep(iteration)
        elif (parent := iteration.order.parent) is not None:
            iteration.missing = 1
            self._between(iteration, (self._name(iteration), self.names[parent]), self._taken)
        elif self.shares_memory:
            self._end(iteration, now)
        else:
            self._copy_out(iteration)

    def _begin_push(self, iteration: Iteration) -> None:
        self.machines.awake(self._name(iteration), partial(self._copy_out, iteration))

    def _copy_out(self, iteration: Iteration) -> None:
        if not iteration.void:
            self.machines.work(self._name(iteration), self._copy_s, partial(self._push_parts, iteration))

    def send_sum(self, order: SumOrder, sent_s: float) -> None:
        assert self.aggregators is not None
        under_way = [(self.under_way.get(member.worker), member.grad_id) for member in order.members]
        parts = [part for part, grad_id in under_way if part is not None and part.order.grad_id == grad_id]
        made = self.aggregators.begin(order, parts)
        for iteration in parts:
            iteration.missing = 1
            self.clock.at(sent_s + self.costs.control_s, MACHINE, self._join, made, iteration)

    def _join(self, made: Sum, iteration: Iteration) -> None:
        if not iteration.void:
            iteration.since_s = self.clock.now
            self.machines.awake(self._name(iteration), partial(self._copy_to, made, iteration))

    def _copy_to(self, made: Sum, iteration: Iteration) -> None:
        if not iteration.void:
            self.machines.work(self._name(iteration), self._copy_s, partial(self._push_to, made, iteration))

    def _push_to(self, made: Sum, iteration: Iteration) -> None:
        name, num_bytes, costs = self._name(iteration), self.model_bytes, self.costs
        then, path = partial(self._gathered, made, iteration), (name, made.order.via)
        self.machines.send(name, path, num_bytes, costs.latency_s, then, costs.carry_s(num_bytes))

    def _gathered(self, made: Sum, iteration: Iteration) -> None:
        assert self.aggregators is not None
        iteration.missing = 0
        self.aggregators.came(made)

    def summed(self, made: Sum) -> tuple[Timings, list[Iteration]]:
        """The servers have a sum: its workers are idle. Returns the durations of the first of them, and all."""
        parts = [part for part in made.parts if not part.void]
        for iteration in parts:
            self.idle_since_s[iteration.order.worker] = self.clock.now
            del self.under_way[iteration.order.worker]
        return self._timings(parts[0], self.clock.now - parts[0].since_s), parts

    def _push_parts(self, iteration: Iteration) -> None:
        name = self._name(iteration)
        iteration.missing = len(self.servers.names)
        for server, other in enumerate(self.servers.names):
            self._send(iteration, server, (name, other), partial(self._hand_over, server))

    def _hand_over(self, server: int, iteration: Iteration) -> None:
        assert isinstance(self.servers, HostServers)
        self.servers.take(server, partial(self._taken, iteration))

    def _taken(self, iteration: Iteration) -> None:
        """A paused worker reports only when it continues."""
        iteration.missing -= 1
        if not iteration.void and not iteration.missing:
            self.machines.awake(self._name(iteration), lambda: self._end(iteration, self.clock.now))

    # ---- all workers -------------------------------------------------------------------------------------------------

    def _send(self, iteration: Iteration, server: int, path: tuple[str, str], then: Step) -> None:
        num_bytes, costs = self.servers.num_bytes[server], self.costs
        carry = costs.carry_s(num_bytes)
        self.machines.send(self._name(iteration), path, num_bytes, costs.latency_s, partial(then, iteration), carry)

    def _name(self, iteration: Iteration) -> str:
        return self.names[iteration.order.worker]

    def _end(self, iteration: Iteration, taken_s: float) -> None:
        super()._end(iteration, taken_s)
        if (done := self._turns.pop(iteration.order.worker, None)) is not None:
            done()

    def _abandon(self, worker: int, iteration: Iteration) -> None:
        self._turns.pop(worker, None)
        self.machines.forget(self.names[worker])
        if self.aggregators is not None:
            self.aggregators.left(iteration)
