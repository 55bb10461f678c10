"""A strategy that restarts nodes on request, for tests of runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import AnyCommand, AnyEvent, Command, Joined, Lost, Restart, Started, Strategy, Wake, Woke


@dataclass(kw_only=True)
class Restarting(Strategy):
    """``rule`` is ``bsp`` or ``asp``; ``orders``, such as ``worker:1@2.5``, say which node to restart when.

    A worker that is not there at that time is left alone.
    """

    needs: ClassVar[frozenset[type[Command]]] = BSP().needs | {Restart}
    topologies: ClassVar[frozenset[str]] = BSP().topologies
    watches_servers: ClassVar[bool] = True

    rule: str = "bsp"
    orders: tuple[str, ...] = ()
    data: str = "dynamic"

    def __post_init__(self) -> None:
        self._inner = BSP() if self.rule == "bsp" else ASP(data="dynamic")
        self._away: set[int] = set()

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        match event:
            case Started():
                wakes = [
                    Wake(at_s=float(at_s), tag=node) for node, _, at_s in (one.partition("@") for one in self.orders)
                ]
                return [*self._inner.handle(event), *wakes]
            case Woke(tag=node):
                return [] if node in {f"worker:{worker}" for worker in self._away} else [Restart(node=node)]
            case Lost(worker=worker):
                self._away.add(worker)
            case Joined(worker=worker):
                self._away.discard(worker)
        return self._inner.handle(event)
