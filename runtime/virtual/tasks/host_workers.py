"""Workers on shared machines: an iteration is a chain of work, messages and sleep, with durations known at the end.

A worker loads its batch, receives the parameters, computes and pushes its gradient, one after another, and all of that
is core-seconds on its host; only pacing and injected delays are sleep. It is one thread, as live, unless the cost model
says that loading and computing use more cores at a time.

The stages of an iteration are a table of the kernel (``compiled/stages.h``). This module carries out stages of jobs
with replicas, gradients that are held, sums on their way, or disturbed devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast, final

from runtime.cluster.device import DeviceProfile, Profiles
from runtime.core.data.shards import samples_of
from runtime.core.inputs import GradientArrived
from runtime.core.job import ComputeOrder, SumOrder
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then
from runtime.virtual.machines.kernel import kernel
from runtime.virtual.machines.sites import THREAD_CORES
from runtime.virtual.machines.tenancy import Machines
from runtime.virtual.tasks.aggregators import Aggregators, Sum
from runtime.virtual.tasks.host_replicas import HostReplicas
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.iteration import Arrived, Iteration, WorkerModel
from runtime.virtual.tasks.jitter import Jitter
from runtime.virtual.tasks.model_state import Result
from runtime.virtual.tasks.part_by_part import PartByPart
from runtime.virtual.tasks.replicas import ReplicaGroup, Replicas
from strategies.protocol import NodeId, Timings

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Chain, Chained, Detour


@final
class HostWorkers(WorkerModel):
    """``profiles[k]`` paces worker k; ``default`` a worker that comes to a host without a device of its own.

    ``uses_cores``: cores of a host on which a worker computes as fast as the cost model says. ``on_devices``: whether a
    plan takes a part of workers' devices; ``cuts``: whether iterations may end early.
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
        cuts: bool = False,
        shares_memory: bool,
        seed: int,
        arrived: Arrived,
        held: Arrived | None = None,
        tell: Callable[[GradientArrived], None] | None = None,
        aggregators: Aggregators | None = None,
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
        self._turns: dict[int, Then] = {}
        """Ends of the turns in which replicas compute: each carries out one order after another."""
        self._sums: dict[Iteration, Sum] = {}
        """Sums of which iterations are about to push a part."""
        self.default, self.uses_cores = default, uses_cores
        self.messages: dict[int, Jitter] = {}
        """Factors of each worker's messages."""
        for number in self.profiles:
            self._draw_messages(number)
        self.names = {number: str(NodeId.worker(number)) for number in self.profiles}
        self._there = {number: machines.name_of(name) for number, name in self.names.items()}
        self.aggregators = aggregators
        self.on_devices = on_devices
        detours = self._detours(on_devices=on_devices, cuts=cuts)
        self._chain: Chain = kernel().Chain(
            work=machines.task_work,
            clock=machines.clock,
            costs=costs,
            queues=servers.queues if isinstance(servers, HostServers) else [],
            names=self._there,
            jitter=self.jitter,
            messages=self.messages,
            profiles=self.profiles,
            cores=self.cores,
            idle_since_s=self.idle_since_s,
            under_way=self.under_way,
            ended=self._end,
            timings=Timings,
            arrived=GradientArrived,
            model_bytes=self.model_bytes,
            copy_s=0.0 if shares_memory else costs.transfer_per_byte_s * self.model_bytes,
            uses_cores=uses_cores,
            shares_memory=shares_memory,
            detours=detours,
        )
        self.chain = None if detours else self._chain
        """The kernel's chain of stages, if all of an iteration is there; else None."""
        if self.chain is not None and tell is not None:
            self.chain.tell = tell

    def _detours(self, *, on_devices: bool, cuts: bool) -> dict[str, Detour]:
        """Return the handlers of stages that the kernel does not carry out, in jobs of this kind."""
        found: dict[str, Detour] = {}
        if isinstance(self.servers, ReplicaGroup):
            found["ordered"] = self._order_replicas
        if isinstance(self.servers, HostReplicas):
            found["updating"] = self._take_turn
        if on_devices or cuts:
            found["computing"] = self._compute
        if isinstance(self.servers, ReplicaGroup) or self.held is not None:
            found |= {"computed": self._hold_or_push, "pushing": self._push_elsewhere}
        return found

    def add(self, worker: int, at_s: float) -> None:
        self._enter(worker, at_s)
        self._draw_messages(worker)
        self.names[worker] = str(NodeId.worker(worker))
        self._there[worker] = self.machines.name_of(self.names[worker])

    def _draw_messages(self, worker: int) -> None:
        """Let a worker's messages have their own stream of factors."""
        self.messages[worker] = Jitter(self.seed, worker, self.costs.message_sigma, 0.0, of="messages")

    def moved(self, task: str, device: DeviceProfile | None) -> None:
        node = NodeId.parse(task)
        if node.role == "worker":
            self.profiles[node.number] = self.default if device is None else device

    def begin(self, order: ComputeOrder, result: Result, sent_s: float) -> None:
        samples, worker = samples_of(order.ranges), order.worker
        self._chain.begin(order, result, worker, samples, order.accum, order.delay_s, order.slowdown_frac, sent_s)

    # ---- replicas: parameters of their own, or of a parent -----------------------------------------------------------

    def _order_replicas(self, iteration: Chained) -> bool:
        """A child's parent sends it the parameters, after its own earlier orders; others have them once updated."""
        replicas, parent, sent_s = self.servers, iteration.order.parent, iteration.sent_s
        if isinstance(replicas, Replicas):
            iteration.missing += 1
            idle_s = replicas.idle_of(iteration.order.worker)
            replicas.deliver(sent_s, lambda _: self._update_made(iteration, idle_s))
        elif isinstance(replicas, HostReplicas) and parent is not None:
            iteration.missing += 1
            replicas.order(parent, sent_s, partial(self._send_child, iteration, parent))
        return False

    def _send_child(self, iteration: Chained, parent: int, done: Then) -> None:
        if not iteration.void:
            self._send_from(iteration, parent)
        done()

    def _send_from(self, iteration: Chained, parent: int) -> None:
        iteration.receiving_since_s, iteration.receiving = self.clock.now, 1
        self._between(iteration, (self.names[parent], self._name(iteration)), iteration.came)

    def _update_made(self, iteration: Chained, idle_s: float) -> None:
        """The replicas have the parameters; a child receives them from its parent.

        Another worker may still copy state or step: it has carried out its earlier orders at ``idle_s``.
        """
        if iteration.void:
            return
        if (parent := iteration.order.parent) is not None:
            self._send_from(iteration, parent)
        elif idle_s > self.clock.now:
            self.clock.at(idle_s, MACHINE, self._update_made, iteration, idle_s)
        else:
            iteration.received()

    def _take_turn(self, iteration: Chained) -> bool:
        """A replica makes its updates, and computes until it has nothing more to do with this gradient.

        With ``meanwhile`` it goes on to its next order when the iteration has begun.
        """
        assert isinstance(self.servers, HostReplicas)
        asked_s, meanwhile = self.clock.now, self.servers.meanwhile

        def in_turn(done: Then) -> None:
            if iteration.void:
                done()
                return
            iteration.updating_s = self.clock.now - asked_s
            if not meanwhile:
                self._turns[iteration.order.worker] = done
            iteration.go("loading")
            if meanwhile:
                done()

        self.servers.enqueue(iteration.order.worker, in_turn)
        return True

    def _between(self, iteration: Iteration, path: tuple[str, str], then: Then) -> None:
        """A message between a child and its parent."""
        assert isinstance(self.servers, ReplicaGroup)
        num_bytes = self.servers.model_bytes
        own_s, carry = self.servers.message(num_bytes)
        self.machines.send(self._name(iteration), path, num_bytes, own_s, then, carry)

    # ---- a device of which a plan takes a part, and iterations that may end early ------------------------------------

    def _compute(self, iteration: Chained) -> bool:
        if iteration.order.within_s is None:
            return self.on_devices and self._use_device(iteration)
        PartByPart(self, iteration).begin()
        return True

    def _use_device(self, iteration: Chained) -> bool:
        """A device with a profile is as slow as that says, and its turns are counted; nothing is left to pace."""
        real_s, profile = iteration.amount, self.profiles[iteration.order.worker]
        paced_s = 0.0
        if profile is not None:
            paced_s = profile.seconds(iteration.samples, iteration.order.accum) * iteration.factor
            iteration.overrun_s = max(0.0, real_s - paced_s)
        emulated = real_s < paced_s
        seconds = self.costs.slept_s(paced_s) if emulated else real_s
        self.machines.compute_on_device(self._name(iteration), seconds, iteration.delay, emulated=emulated)
        return True

    # ---- gradients that are held, summed on their way, or pushed to a parent -----------------------------------------

    def _hold_or_push(self, iteration: Chained) -> bool:
        if iteration.order.holds:
            self._keep(iteration)
        elif iteration.order.parent is not None:
            iteration.go("pushing")
        else:
            return False
        return True

    def _begin_push(self, iteration: Iteration) -> None:
        self.machines.awake(self._name(iteration), partial(self._copy_out, iteration))

    def _copy_out(self, iteration: Iteration) -> None:
        if iteration.void:
            self._sums.pop(iteration, None)
        else:
            cast("Chained", iteration).go("copying out")

    def _push_elsewhere(self, iteration: Chained) -> bool:
        """To an aggregator or to the parent, if that is where the gradient goes."""
        name, parent, made = self._name(iteration), iteration.order.parent, self._sums.pop(iteration, None)
        if made is not None:
            iteration.missing = 1
            carry, then = self.costs.carry_s(self.model_bytes), partial(self._on_gathered, made, iteration)
            path = (name, made.order.via)
            self.machines.send(name, path, self.model_bytes, self.costs.latency_s, then, carry)
        elif parent is not None:
            iteration.missing = 1
            self._between(iteration, (name, self.names[parent]), iteration.taken)
        else:
            return False
        return True

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
            self._sums[iteration] = made
            self._begin_push(iteration)

    def _on_gathered(self, made: Sum, iteration: Iteration) -> None:
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

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _name(self, iteration: Iteration) -> str:
        return self.names[iteration.order.worker]

    def _end(self, iteration: Iteration, taken_s: float) -> None:
        super()._end(iteration, taken_s)
        if (done := self._turns.pop(iteration.order.worker, None)) is not None:
            done()
        if isinstance(self.servers, ReplicaGroup):
            self.servers.computed(iteration.order.worker)

    def _abandon(self, worker: int, iteration: Iteration) -> None:
        self._turns.pop(worker, None)
        self._sums.pop(iteration, None)
        self.machines.forget(self.names[worker])
        if self.aggregators is not None:
            self.aggregators.left(iteration)
