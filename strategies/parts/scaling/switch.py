"""The switch to other servers as an automaton: events in, orders out (DLRover section 5.3; pure).

This module keeps the computing workers, the awaited servers and the deadline; the tables of ``states`` say what
follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf
from typing import NamedTuple, final

from strategies.parts.scaling.states import (
    HOLDING,
    LAUNCHES,
    SEAMLESS,
    STOP_RESTART,
    Effect,
    Input,
    Phase,
    after,
)
from strategies.protocol import NodeId

MOST_MOVES = 3
"""How often parameters are moved if a server dies meanwhile, before the switch is abandoned."""


class Order(NamedTuple):
    """An effect and its servers; a drop has workers instead."""

    effect: Effect
    nodes: tuple[NodeId, ...] = ()


@final
class Switch:
    """One switch at a time. Names of nodes are never used again.

    Args:
        servers: that hold the parameters at the start.
        seamless: whether workers train while new servers start; False: training stops first, and workers restart.
        launch_s: seconds that new servers may take to join.
        drain_s: seconds that gradients may take to arrive; after them the switch does without.
    """

    def __init__(
        self, servers: Iterable[NodeId], seamless: bool = True, launch_s: float = 600.0, drain_s: float = 60.0
    ) -> None:
        self.seamless, self.launch_s, self.drain_s = seamless, launch_s, drain_s
        self.servers = frozenset(servers)
        self.phase = Phase.TRAINING
        self.computing: set[NodeId] = set()
        self._table = SEAMLESS if seamless else STOP_RESTART
        self._forget()

    def _forget(self) -> None:
        self._wanted: frozenset[NodeId] = frozenset()
        self._new: tuple[NodeId, ...] = ()
        self._launched: set[NodeId] = set()
        self._awaited: set[NodeId] = set()
        self._moves = 0
        self._launch_by_s = self._drain_by_s = inf

    @property
    def holds(self) -> bool:
        """Whether no worker may begin to compute."""
        return self.phase in HOLDING

    @property
    def due_s(self) -> float:
        """When ``wake`` should be called next, in seconds since the start of the job; infinite: not at all."""
        if self.phase == Phase.DRAINING:
            return self._drain_by_s
        return self._launch_by_s if self._awaited and self.phase in LAUNCHES else inf

    # ---- what happens ------------------------------------------------------------------------------------------------

    def ask(self, t: float, keep: Collection[NodeId], launch: Collection[NodeId]) -> list[Order]:
        """Go over to ``keep``, of the present servers, and ``launch``, new ones.

        Raises:
            RuntimeError: another switch is under way, or a server is lost.
            ValueError: no server would be left, nothing would change, or a name is of the wrong kind.
        """
        wanted = frozenset(keep) | frozenset(launch)
        if not wanted:
            raise ValueError("servers: none would be left to hold the parameters")
        if not self.servers.issuperset(keep) or not self.servers.isdisjoint(launch):
            raise ValueError(
                f"servers: of {_names(self.servers)} one cannot keep {_names(keep)} and launch {_names(launch)}"
            )
        if wanted == self.servers:
            raise ValueError("servers: nothing would change")
        after(self._table, self.phase, Input.ASKED)
        self._forget()
        self._wanted, self._new = wanted, tuple(launch)
        return self._take(t, Input.ASKED)

    def join(self, t: float, server: NodeId) -> list[Order]:
        """A server can be reached; one that is no longer wanted has been retired already."""
        self._awaited.discard(server)
        return self._continue(t)

    def lose(self, t: float, server: NodeId) -> list[Order]:
        """A server was denied, or its process is lost; of those that hold nothing only new ones matter.

        One that is lost while parameters move may be started again by the runtime, so it is retired if they come back.
        """
        if server in self.servers:
            return self._take(t, Input.SERVER_LOST)
        if server not in self._launched:
            return []
        if self.phase != Phase.MOVING:
            self._launched.discard(server)
        return self._take(t, Input.NEW_LOST)

    def begin_work(self, worker: NodeId) -> None:
        """A worker computes from now on."""
        self.computing.add(worker)

    def end_work(self, t: float, worker: NodeId) -> list[Order]:
        """Its gradient has arrived, or never will."""
        self.computing.discard(worker)
        return self._continue(t)

    def restore(self, t: float, servers: Collection[NodeId]) -> list[Order]:
        """These hold the parameters; no worker computes.

        Raises:
            RuntimeError: they are neither the servers of before nor those that they are moved to.
        """
        self.computing.clear()
        if frozenset(servers) == self.servers:
            spent = self.phase == Phase.MOVING and self._moves >= MOST_MOVES
            return self._take(t, Input.GIVEN_UP if spent else Input.RESTORED_OLD)
        if frozenset(servers) != self._wanted:
            raise RuntimeError(f"restored on {_names(servers)}: neither {_names(self.servers)} nor those asked for")
        return self._take(t, Input.RESTORED_NEW)

    def wake(self, t: float) -> list[Order]:
        """It is ``due_s``, or earlier: then nothing happens."""
        if t < self.due_s:
            return []
        return self._take(t, Input.DRAIN_OVER if self.phase == Phase.DRAINING else Input.TOO_LATE)

    # ---- what follows ------------------------------------------------------------------------------------------------

    def _take(self, t: float, given: Input) -> list[Order]:
        before, (self.phase, effects) = self.phase, after(self._table, self.phase, given)
        if self.phase == Phase.DRAINING != before:
            self._drain_by_s = t + self.drain_s
        orders = [order for effect in effects if (order := self._order(t, effect)) is not None]
        return orders + self._continue(t)

    def _continue(self, t: float) -> list[Order]:
        """Take the next step of the switch at once if it waits for no worker or server."""
        if self.phase in (Phase.LAUNCHING, Phase.STOPPED) and not self._awaited:
            return self._take(t, Input.ALL_JOINED)
        if self.phase == Phase.DRAINING and not self.computing:
            return self._take(t, Input.DRAINED)
        return []

    def _order(self, t: float, effect: Effect) -> Order | None:
        """None: there is no node to do it with."""
        nodes: Collection[NodeId] | None = None
        match effect:
            case Effect.LAUNCH:
                self._launched, self._awaited = set(self._new), set(self._new)
                self._launch_by_s = t + self.launch_s
                nodes = self._new
            case Effect.DROP:
                nodes, self.computing = sorted(self.computing), set()
            case Effect.MOVE:
                self._moves += 1
                nodes = sorted(self._wanted)
            case Effect.RETIRE_NEW:
                nodes = sorted(self._launched)
            case Effect.RETIRE_OLD:
                nodes, self.servers = sorted(self.servers - self._wanted), self._wanted
            case Effect.FINISHED | Effect.ABANDONED:
                self._forget()
        if nodes is None:
            return Order(effect)
        return Order(effect, tuple(nodes)) if nodes else None


def _names(nodes: Iterable[NodeId]) -> str:
    return ", ".join(map(str, sorted(nodes))) or "none"
