"""Nodes that come and go, and parameters that move between servers, while a job trains (pure).

Carries out ``Launch``, ``Retire``, ``Repartition`` and ``Allocate`` of a strategy, and the joins and leaves that an
operator orders by a plan. The layout changes when a node is requested, so that its number is taken, and again when it
has left or is denied. The servers that hold the parameters change when the runtime says so (``Restored``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from runtime.core import inputs
from runtime.core.asked_cores import AskedCores
from runtime.core.executor import Executor
from runtime.core.job import Port, RecordSink
from runtime.core.node_orders import AllocateOrder, LaunchOrder, RepartitionOrder, RestartOrder, RetireOrder
from runtime.core.scheduling import Grant, Request, Scheduler
from strategies.protocol import (
    Allocate,
    AnyEvent,
    Denied,
    Launch,
    LossCause,
    NodeId,
    Priority,
    ProtocolError,
    Repartition,
    Restart,
    Retire,
    ServerJoined,
    ServerLost,
)

RETIRED = "retired"
"""Reason for the loss of a node that a strategy or an operator ends."""
EVICTED = "taken away by the cluster"

Told = Callable[[AnyEvent], None]
Lose = Callable[[float, int, str, LossCause], None]


class Elastic:
    """``tell`` notifies the strategy, ``lose`` books a worker's loss, ``store_and_halt`` voids work after a checkpoint.

    ``void`` voids it without one.
    """

    def __init__(
        self,
        executor: Executor,
        port: Port,
        record: RecordSink,
        scheduler: Scheduler,
        seed: int,
        *,
        tell: Told,
        lose: Lose,
        store_and_halt: Callable[[], None],
        void: Callable[[], None],
    ) -> None:
        self.executor, self.members, self.port, self.record = executor, executor.members, port, record
        self.scheduler, self.seed = scheduler, seed
        self.tell, self.lose, self.store_and_halt, self.void = tell, lose, store_and_halt, void
        self.cores = AskedCores()
        self._evicted: set[NodeId] = set()
        """Servers that hold parameters and are being taken away."""
        self._launches = 0

    # ---- commands ----------------------------------------------------------------------------------------------------

    def launch(self, t: float, command: Launch) -> None:
        """Request a node; ``Denied`` for a number that a node has had already, such as an operator's newcomer."""
        node = self._parse(command)
        if node.role == "server" and not self.members.layout.shares:
            raise ProtocolError(f"{command}: with topology=allreduce there are no servers")
        following = self.members.layout.next_number(node.role)
        if node.number < following:
            self._refuse(t, node, f"the number is taken; the next one is {NodeId(node.role, following)}")
            return
        self.executor.admit(t, node)
        request = self._request(command.cpu_cores, command.priority, node)
        grant = self._ask(t, request)
        if grant.denied is not None:
            self._deny(t, node, grant.denied)
            return
        self.cores.set(node, command.cpu_cores)
        if command.priority == "low":
            self.cores.set_low(node)
        about = {"cpu_cores": command.cpu_cores, "memory_bytes": command.memory_bytes, "priority": command.priority}
        self.record.note(t, "Requested", node=str(node), pending_s=grant.pending_s, **about)
        if grant.evicted_after_s is not None:
            self.port.wake(t + grant.pending_s + grant.evicted_after_s, f"runtime:evict:{node}")
        self.port.order_node(
            LaunchOrder(
                node=str(node),
                pending_s=grant.pending_s,
                cpu_cores=command.cpu_cores,
                memory_bytes=command.memory_bytes,
                not_on=command.not_on,
                low=command.priority == "low",
            )
        )

    def retire(self, t: float, command: Retire) -> None:
        """End a node; ``Denied`` for a server that holds parameters, and for the last worker."""
        node, layout = self.member(command), self.members.layout
        if node in layout.holders:
            self._refuse(t, node, "holds parameters; divide them among others first (Repartition)")
        elif layout.workers == (node,):
            self._refuse(t, node, "is the last worker")
        else:
            self.end(t, node, RETIRED, "retired")

    def repartition(self, t: float, command: Repartition) -> None:
        """Store a checkpoint, and let these servers read it; raises :class:`ProtocolError` for impossible ones."""
        servers = tuple(NodeId.server(number) for number in command.servers)
        shares = command.shares or self.executor.job.shares_of(len(servers))
        if missing := [str(server) for server in servers if server in self.members.awaited]:
            raise ProtocolError(f"{command}: {missing[0]} has not joined yet")
        try:
            self.members.layout.repartitioned(servers, shares)
        except ValueError as error:
            raise ProtocolError(f"{command}: {error}") from None
        self.record.note(t, "Repartitioning", shares=dict(zip(map(str, servers), shares, strict=True)))
        self.store_and_halt()
        self.port.order_node(RepartitionOrder(tuple(zip(map(str, servers), shares, strict=True))))

    def allocate(self, t: float, command: Allocate) -> None:
        """Change what a node may use."""
        node = self._parse(command)
        if node not in self.members.layout.nodes or node in self.members.awaited:
            raise ProtocolError(f"{command}: there is no such node now")
        if command.cpu_cores is not None:
            wanted = self._request(command.cpu_cores, "low" if self.cores.is_low(node) else "normal", node)
            if (denied := self.scheduler.refuses(wanted)) is not None:
                self._refuse(t, node, denied)
                return
        order = AllocateOrder(str(node), command.cpu_cores, command.link_bytes_per_s)
        if (denied := self.port.book(order)) is not None:
            self._refuse(t, node, denied)
            return
        self.port.order_node(order)
        self.cores.set(node, command.cpu_cores)
        about = {"cpu_cores": command.cpu_cores, "link_bytes_per_s": command.link_bytes_per_s}
        self.record.note(t, "Allocated", node=str(node), **about)

    # ---- what happens to nodes ---------------------------------------------------------------------------------------

    def server_joined(self, t: float, node: NodeId, incarnation: int, place: str | None) -> None:
        """A server that was launched is there, and may hold parameters from now on."""
        self.members.awaited.discard(node)
        self.tell(ServerJoined(t=t, server=node.number, incarnation=incarnation, place=place))

    def died_early(self, t: float, node: NodeId, reason: str, *, restarting: bool) -> None:
        """A node that was launched died before it joined; unless it is ``restarting`` it does not come."""
        if restarting:
            self.members.postponed(node.number)
        else:
            self.cores.forget(node)
            self._deny(t, node, f"did not join: {reason}")

    def server_left(self, t: float, node: NodeId, reason: str) -> bool:
        """A server that held nothing is gone. True if it had joined; else it was denied."""
        if node in self.members.awaited:
            self.died_early(t, node, reason, restarting=False)
            return False
        self.cores.forget(node)
        self.executor.remove(t, node)
        return True

    def end(self, t: float, node: NodeId, reason: str, cause: LossCause) -> None:
        """End a node that may go, even if it works now."""
        self.cores.forget(node)
        awaited = node in self.members.awaited
        if node.role == "worker" and not awaited:
            self.lose(t, node.number, reason, cause)
        else:
            self._remove(t, node)
        if awaited and cause != "retired":
            self.tell(Denied(t=t, node=str(node), reason=reason))
        elif node.role == "server" and cause != "retired":
            self.tell(ServerLost(t=t, server=node.number, incarnation=0, reason=reason, cause=cause, holding=False))
        self.port.order_node(RetireOrder(str(node), reason))

    def evict(self, t: float, name: str) -> None:
        """The cluster takes a node of low priority away, if it is still there."""
        node = NodeId.parse(name)
        layout = self.members.layout
        if node in layout.holders:
            self._evict_holder(t, node)
        elif node in layout.nodes and layout.workers != (node,):
            self.end(t, node, EVICTED, "evicted")

    def _evict_holder(self, t: float, node: NodeId) -> None:
        """The job needs its part, so the server starts again elsewhere as soon as the cluster has another place.

        The strategy decides where parameters are, so they do not move to the servers that are left. With notice they
        are stored first, and nothing is lost; else all go back to the last checkpoint.
        """
        request = self._request(self.cores.of(node), "low", node)
        grant = self._ask(t, request)
        pending_s = grant.pending_s if grant.denied is None else self.scheduler.draw_s(t, self.seed, self._launches)
        if grant.evicted_after_s is not None:
            self.port.wake(t + pending_s + grant.evicted_after_s, f"runtime:evict:{node}")
        self._evicted.add(node)
        self.record.note(t, "Evicting", node=str(node), pending_s=pending_s, notice=self.scheduler.evict_notice)
        if self.scheduler.evict_notice:
            self.store_and_halt()
        else:
            self.void()
        self.port.order_node(RestartOrder(str(node), pending_s))

    def explained(self, given: inputs.ServerLost) -> inputs.ServerLost:
        """The loss of a server that held parameters, with its cause if the cluster took it away."""
        node = NodeId.server(given.server)
        if node not in self._evicted or given.cause != "restarted":
            return given
        self._evicted.discard(node)
        return msgspec.structs.replace(given, reason=EVICTED, cause="evicted")

    def not_evicted(self) -> list[str]:
        """Servers that were to be taken away when another loss came first; they are still there."""
        left, self._evicted = sorted(map(str, self._evicted)), set()
        return left

    # ---- the rest ----------------------------------------------------------------------------------------------------

    def _deny(self, t: float, node: NodeId, reason: str) -> None:
        self._remove(t, node)
        self._refuse(t, node, reason)

    def _remove(self, t: float, node: NodeId) -> None:
        """A node that has not joined is no member any more."""
        if node.role == "worker":
            self.members.lost(node.number, restarting=False)
        self.executor.remove(t, node)

    def _refuse(self, t: float, node: NodeId, reason: str) -> None:
        self.tell(Denied(t=t, node=str(node), reason=reason))

    def _ask(self, t: float, request: Request) -> Grant:
        grant = self.scheduler.place(t, self.seed, self._launches, request)
        self._launches += 1
        return grant

    def _request(self, cpu_cores: float | None, priority: Priority, node: NodeId) -> Request:
        in_use, in_use_low = self.cores.in_use(without=node)
        return Request(cpu_cores=cpu_cores, priority=priority, in_use_cores=in_use, in_use_low_cores=in_use_low)

    def member(self, command: Restart | Retire) -> NodeId:
        """The member that a command names; raises :class:`ProtocolError` for any other."""
        with suppress(ValueError):
            if (node := NodeId.parse(command.node)) in self.members.layout.nodes:
                return node
        raise ProtocolError(f"{command}: there is no such node")

    @staticmethod
    def _parse(command: Launch | Allocate) -> NodeId:
        with suppress(ValueError):
            if (node := NodeId.parse(command.node)).role in ("worker", "server"):
                return node
        raise ProtocolError(f"{command}: {command.node} is neither a worker nor a server")
