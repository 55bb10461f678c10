"""A cluster that carries out what a switch orders, with whatever may go wrong: for random walks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from strategies.parts.scaling.states import Effect, Phase
from strategies.parts.scaling.switch import Order, Switch
from strategies.protocol import NodeId


class Wrong(AssertionError):
    """An order that must not be given in this state."""


class SwitchWorld:
    """``holding`` are the servers with the parameters, ``pending`` and ``ready`` the new ones."""

    def __init__(self, switch: Switch, workers: int, random: Random) -> None:
        self.switch, self.random = switch, random
        self.workers = [NodeId.worker(number) for number in range(workers)]
        self.holding = set(switch.servers)
        self.pending: set[NodeId] = set()
        self.ready: set[NodeId] = set()
        self.down = False
        self.moving_to: frozenset[NodeId] | None = None
        self.t = 0.0
        self.number = len(self.holding)
        self.asked = self.ended = 0
        self.taken: set[tuple[Phase, str]] = set()

    # ---- what may happen ---------------------------------------------------------------------------------------------

    def step(self, calm: bool = False) -> bool:
        """One thing that happens; ``calm``: only what is awaited. False: nothing is."""
        self.t += self.random.random()
        possible = self.awaited() if calm else self.awaited() + self.wrong() + self.work()
        if not possible:
            return False
        self.random.choice(possible)()
        return True

    def awaited(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        if self.down:
            return [lambda: self.restore(self.random.random() < 0.5)]
        if self.moving_to is not None:
            return [lambda: self.restore(True)]
        if self.pending:
            found.append(lambda: self.join(self.random.choice(sorted(self.pending))))
        if self.switch.computing:
            found.append(lambda: self.end(self.random.choice(sorted(self.switch.computing))))
        return found

    def work(self) -> list[Callable[[], None]]:
        """What a job does meanwhile."""
        free = [worker for worker in self.workers if worker not in self.switch.computing]
        found: list[Callable[[], None]] = []
        if free and not self.switch.holds and not self.down:
            found.append(lambda: self.switch.begin_work(self.random.choice(free)))
        if self.switch.phase == Phase.TRAINING:
            found.append(self.ask)
        return found

    def wrong(self) -> list[Callable[[], None]]:
        """What goes wrong, or takes too long."""
        found = [lambda: self.lose(self.random.choice(sorted(self.holding)))]
        new = sorted(self.pending | self.ready)
        if new:
            found.append(lambda: self.lose_new(self.random.choice(new)))
        if self.switch.due_s < float("inf"):
            found.append(self.wake)
        if not self.down and self.moving_to is None:
            found.append(lambda: self.restore(False))
        return found

    # ---- how it happens ----------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Some of the servers, and some new ones."""
        keep = [server for server in sorted(self.holding) if self.random.random() < 0.6]
        new = [NodeId.server(self.number + one) for one in range(self.random.randint(0 if keep else 1, 3))]
        if set(keep) == self.holding and not new:
            return
        self.number += len(new)
        self.asked += 1
        self.follow(self.switch.ask(self.t, keep, new))

    def join(self, server: NodeId) -> None:
        self.pending.discard(server)
        self.ready.add(server)
        self.follow(self.switch.join(self.t, server))

    def end(self, worker: str) -> None:
        self.follow(self.switch.end_work(self.t, worker))

    def lose(self, server: NodeId) -> None:
        """One with parameters; the runtime starts it again and restores all."""
        self.down = True
        self.follow(self.switch.lose(self.t, server))

    def lose_new(self, server: NodeId) -> None:
        """Denied, or dead; while parameters move the runtime may start it again like any server."""
        again = self.moving_to is not None and not self.down and self.random.random() < 0.5
        self.pending.discard(server)
        if not again:
            self.ready.discard(server)
        self.down = self.down or self.moving_to is not None
        self.follow(self.switch.lose(self.t, server))

    def wake(self) -> None:
        """The time that is waited for has come."""
        self.t = max(self.t, self.switch.due_s)
        self.follow(self.switch.wake(self.t))

    def restore(self, moved: bool) -> None:
        """On the new servers if parameters were on their way there, and these live."""
        self.down = False
        moving_to, self.moving_to = self.moving_to, None
        if moved and moving_to is not None and moving_to <= self.holding | self.ready:
            self.ready -= moving_to
            self.holding |= moving_to
            self.follow(self.switch.restore(self.t, moving_to))
        else:
            self.follow(self.switch.restore(self.t, self.holding))

    # ---- what is ordered ---------------------------------------------------------------------------------------------

    def follow(self, orders: list[Order]) -> None:
        if self.down and orders:
            raise Wrong(f"{orders} are void while a server is lost")
        dropped = any(order.effect == Effect.DROP for order in orders)
        for effect, nodes in orders:
            if (why := self.unlawful(effect, set(nodes), dropped)) is not None:
                raise Wrong(f"{effect} {nodes}: {why}")
            match effect:
                case Effect.LAUNCH:
                    self.pending |= set(nodes)
                case Effect.MOVE:
                    self.moving_to = frozenset(nodes)
                case Effect.RETIRE_NEW:
                    self.pending -= set(nodes)
                    self.ready -= set(nodes)
                case Effect.RETIRE_OLD:
                    self.holding -= set(nodes)
                case Effect.FINISHED | Effect.ABANDONED:
                    self.ended += 1
        if self.switch.phase == Phase.TRAINING:
            self.check()

    def unlawful(self, effect: Effect, nodes: set[NodeId], dropped: bool) -> str | None:
        if effect == Effect.MOVE:
            if self.switch.computing and not dropped:
                return "while somebody computes"
            if self.pending or not nodes <= self.holding | self.ready:
                return "they are not all there"
        holders = {Effect.RETIRE_NEW: self.holding, Effect.RETIRE_OLD: self.switch.servers}.get(effect, set())
        return "they hold parameters" if nodes & holders else None

    def check(self) -> None:
        """Between two switches nothing is left of the last one."""
        if self.pending or self.ready or self.holding != self.switch.servers or self.moving_to is not None:
            raise Wrong(f"left over: {self.pending}, {self.ready}; {self.holding} hold, {self.switch.servers} should")
        if self.ended != self.asked:
            raise Wrong(f"{self.asked} switches were asked for, {self.ended} have ended")
