"""A strategy whose nodes come and go, and whose parameters move, by a script; for tests of runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import (
    Allocate,
    AnyCommand,
    AnyEvent,
    Apply,
    Command,
    Denied,
    Joined,
    Launch,
    Lost,
    NodeId,
    Priority,
    Repartition,
    Restored,
    Retire,
    ServerJoined,
    ServerLost,
    Started,
    Strategy,
)


@dataclass(kw_only=True)
class Switching(Strategy):
    """``rule`` is ``bsp`` or ``asp``. Each of ``steps`` begins when the one before is done:

    ``workers 4``, ``servers 4``: there are so many (more are launched, the newest retired); ``divide 4``: the first 4
    servers hold the parameters, ``divide 1:2:1:3``: with these shares; ``wait 5``: so many updates more; ``cores
    worker:0 0.5``, ``rate server:0 1e6``: allocate. A request that is denied is made again, unless ``insists`` is
    false; a ``divide`` that came to nothing is in any case.
    """

    needs: ClassVar[frozenset[type[Command]]] = BSP().needs | {Launch, Retire, Repartition}
    """And ``Allocate`` if one of the steps does."""
    topologies: ClassVar[frozenset[str]] = frozenset({"ps"})

    rule: str = "bsp"
    steps: tuple[str, ...] = ()
    data: str = "dynamic"
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    not_on: tuple[str, ...] = ()
    priority: Priority = "normal"
    """All four are of the nodes that are launched."""
    insists: bool = True

    def __post_init__(self) -> None:
        if any(step.startswith(("cores", "rate")) for step in self.steps):
            self.needs = type(self).needs | {Allocate}  # type: ignore[misc]
        self._inner = BSP() if self.rule == "bsp" else ASP(data="dynamic")
        self._steps = list(self.steps)
        self._there: dict[str, set[int]] = {"worker": set(), "server": set()}
        self._asked: dict[str, set[int]] = {"worker": set(), "server": set()}
        self._next = {"worker": 0, "server": 0}
        self._holders: tuple[int, ...] = ()
        self._halted = False
        self._updates = 0
        self._until: int | None = None

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = list(self._inner.handle(event))
        self._updates += sum(isinstance(command, Apply) for command in commands)
        self._see(event)
        while self._steps and not self._halted and (more := self._begin(self._steps[0])) is not None:
            commands += more
        return commands

    def log_state(self) -> dict[str, float | int | str]:
        return {"steps_left": len(self._steps)}

    def _see(self, event: AnyEvent) -> None:
        match event:
            case Started():
                self._there = {"worker": set(event.workers), "server": set(range(event.num_servers))}
                self._next = {role: len(numbers) for role, numbers in self._there.items()}
                self._holders = tuple(range(event.num_servers))
            case Joined():
                self._is_there("worker", event.worker)
            case ServerJoined():
                self._is_there("server", event.server)
            case Denied(node=name):
                self._was_denied(NodeId.parse(name))
            case Lost(restarting=False):
                self._there["worker"].discard(event.worker)
            case ServerLost(holding=False):
                self._there["server"].discard(event.server)
            case ServerLost():
                self._halted = True
            case Restored():
                self._halted, self._holders = False, event.servers
                for worker in event.workers:
                    self._is_there("worker", worker)

    def _was_denied(self, node: NodeId) -> None:
        self._asked[node.role].discard(node.number)
        if not self.insists and self._steps:
            del self._steps[0]

    def _is_there(self, role: str, number: int) -> None:
        self._asked[role].discard(number)
        self._there[role].add(number)

    def _begin(self, step: str) -> list[AnyCommand] | None:
        """The commands of a step; None: it is not done yet, and nothing is to be done now."""
        word, *about = step.split()
        match word:
            case "wait":
                return self._wait(int(about[0]))
            case "divide":
                shares = tuple(map(float, about[0].split(":"))) if ":" in about[0] else ()
                return self._divide(tuple(sorted(self._there["server"]))[: len(shares) or int(about[0])], shares)
            case "cores":
                return self._done([Allocate(node=about[0], cpu_cores=float(about[1]))])
            case "rate":
                return self._done([Allocate(node=about[0], link_bytes_per_s=float(about[1]))])
        return self._have(word.removesuffix("s"), int(about[0]))

    def _done(self, commands: list[AnyCommand]) -> list[AnyCommand]:
        del self._steps[0]
        return commands

    def _wait(self, updates: int) -> list[AnyCommand] | None:
        self._until = self._updates + updates if self._until is None else self._until
        if self._updates < self._until:
            return None
        self._until = None
        return self._done([])

    def _divide(self, servers: tuple[int, ...], shares: tuple[float, ...]) -> list[AnyCommand] | None:
        if self._holders == servers:
            return self._done([])
        self._halted = True
        return [Repartition(servers=servers, shares=shares)]

    def _have(self, role: str, count: int) -> list[AnyCommand] | None:
        there, asked = self._there[role], self._asked[role]
        if len(there) > count:
            leaving = sorted(there)[count:]
            there.difference_update(leaving)
            return [Retire(node=f"{role}:{number}") for number in leaving]
        if len(there) == count:
            return self._done([])
        missing = count - len(there) - len(asked)
        if not missing:
            return None
        new = range(self._next[role], self._next[role] + missing)
        self._next[role] += missing
        asked.update(new)
        limits = {"cpu_cores": self.cpu_cores, "memory_bytes": self.memory_bytes, "not_on": tuple(self.not_on)}
        return [Launch(node=f"{role}:{number}", priority=self.priority, **limits) for number in new]
