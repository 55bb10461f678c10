"""A job in milliseconds that is observed: what its nodes use follows from what they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from runtime.core import inputs
from runtime.core.recovery import inputs as recovery
from strategies.protocol import NodeId, NodeUse, Strategy
from tests.support.growing import Elastic
from tests.support.harness import make_job

GIB = 2**30


class Used(NamedTuple):
    """Cores, and the part of the time in updates."""

    cores: float
    busy_frac: float = 0.2


Uses = Callable[[Mapping[NodeId, float]], Mapping[NodeId, Used]]
"""What nodes use, by the cores that they have."""


class ObservedRun(Elastic):
    """Every worker's iteration takes a second; all nodes are observed every ten seconds, and use what ``uses`` says."""

    def __init__(
        self,
        strategy: Strategy,
        uses: Uses,
        *,
        workers: int = 1,
        servers: int = 1,
        max_time_s: float = 700.0,
        **options: Any,
    ) -> None:
        self.uses, self.killed = uses, set[NodeId]()
        job = make_job(
            num_workers=workers, num_servers=servers, global_batch_samples=workers, max_time_s=max_time_s, epochs=None
        )
        super().__init__(strategy, job, lambda worker, order: 1.0, **options)
        self.push(10.0, 0, self._observe)

    @property
    def cores(self) -> dict[NodeId, float]:
        """What every present node has."""
        given = self.core.elastic.cores
        present = [node for node in self.core.members.layout.nodes if node not in self.core.members.awaited]
        return {node: cores for node in present if (cores := given.of(node)) is not None}

    def _observe(self, t: float) -> None:
        uses = self.uses(self.cores)
        nodes = tuple(
            NodeUse(node=str(node), cpu_cores=used.cores, busy_frac=used.busy_frac, memory_bytes=GIB)
            for node, used in uses.items()
        )
        self.core.receive(t, inputs.Observed(10.0, nodes))
        self.push(t + 10.0, 0, self._observe)

    def out_of_memory(self, t: float, node: NodeId, back_s: float | None = None) -> None:
        """The kernel kills a process at ``t``; it is there again at ``back_s``, or never."""
        key = (node.role, node.number)

        def kill(now: float) -> None:
            incarnation, for_good = self.recovery.tasks[key].incarnation, back_s is None
            if back_s is not None:
                self._starts_at[key] = back_s
            self.happen(now, recovery.Gone(key, incarnation, "out of memory", for_good=for_good, cause="oom"))

        self.push(t, 0, kill)
