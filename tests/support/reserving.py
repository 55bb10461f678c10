"""A strategy that reserves room on its hosts on request, and a policy that grants it, for tests of runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strategies.basic.bsp import BSP
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Asked,
    Command,
    Demand,
    Grant,
    Reserve,
    Reserved,
    Share,
    Started,
    Strategy,
    Wake,
    Woke,
)

AGAIN_S = 0.3


@dataclass(kw_only=True)
class Reserving(Strategy):
    """BSP that asks for ``more`` cores of its nodes, such as ``server:0@0.5``, until it has them, and keeps them.

    Without any it asks for nothing. Whatever other jobs lose is worth it.
    """

    needs: ClassVar[frozenset[type[Command]]] = BSP().needs | {Reserve, Wake}

    more: tuple[str, ...] = ()
    data: str = "dynamic"

    def __post_init__(self) -> None:
        self._inner = BSP()
        self._granted = not self.more

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        return self._inner.waiting_groups()

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        match event:
            case Started() if not self._granted:
                return [*self._inner.handle(event), Wake(at_s=event.t + AGAIN_S, tag="reserve")]
            case Woke(tag="reserve"):
                asked = [one.partition("@") for one in self.more]
                demands = tuple(Demand(node=node, cpu_cores=float(cores)) for node, _, cores in asked)
                return [Reserve(demands=demands, worth_s=1e9)]
            case Reserved(ok=ok):
                self._granted = ok
                return [] if ok else [Wake(at_s=event.t + AGAIN_S, tag="reserve")]
        return self._inner.handle(event)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Leaves this part of their shares to all tasks of other jobs, whoever asks for whatever."""

    takes: ClassVar[bool] = True

    left_frac: float = 0.5

    def answer(self, asked: Asked) -> Grant:
        left = {
            (job.job, task.node): Share(
                node=task.node,
                cpu_cores=self.left_frac * task.cpu_cores,
                link_bytes_per_s=self.left_frac * task.link_bytes_per_s,
            )
            for job in asked.jobs
            for task in job.tasks
            if job.job != asked.job
        }
        return Grant(ok=True, shares=left)
