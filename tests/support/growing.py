"""Asynchronous jobs in milliseconds whose speed is a function of their size; for strategies that change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.job import ComputeOrder
from strategies.protocol import Denied, NodeId, Strategy
from tests.support.faults import Fault
from tests.support.harness import HeapRun, make_job

Rate = Callable[[int, int], float]
"""Updates per second of (servers, workers)."""


class Elastic(HeapRun):
    """A job whose changes of nodes can be read off."""

    @property
    def size(self) -> tuple[int, int]:
        """Servers that hold parameters, and workers, those on their way among them."""
        layout = self.core.members.layout
        return len(layout.holders), len(layout.workers)

    @property
    def asked(self) -> str:
        """Launches in their order, W for a worker and P for a server."""
        roles = [NodeId.parse(order.node).role for _, order in self.launches]
        return "".join({"worker": "W", "server": "P"}[role] for role in roles)

    @property
    def decisions(self) -> list[str]:
        """All decisions, each as the record shows it when it was made."""
        said = [str((line.state or {}).get("decision", "")) for line in self.lines]
        return [
            one for one in dict.fromkeys(one.removesuffix(" (done)").removesuffix(" (denied)") for one in said) if one
        ]

    @property
    def denied(self) -> list[str]:
        """Nodes that were asked for and did not come."""
        return [line.event.node for line in self.lines if isinstance(line.event, Denied)]


class GrowingRun(Elastic):
    """Every worker's iteration takes as long as gives the job its ``rate``; ``slower`` multiplies that of some workers.

    It ends after ``max_time_s``, unless the ``samples`` of its only epoch, one an update, are done before.
    """

    def __init__(
        self,
        strategy: Strategy,
        rate: Rate,
        workers: int = 1,
        max_time_s: float = 2000.0,
        samples: int = 1_000_000,
        slower: dict[int, float] | None = None,
        faults: Sequence[Fault] = (),
        **options: Any,
    ) -> None:
        self.rate, self.slower = rate, slower or {}
        job = make_job(
            num_workers=workers,
            global_batch_samples=workers,
            num_samples=samples,
            batches_per_shard=10,
            epochs=1,
            max_time_s=max_time_s,
            checkpoint_every_s=100.0,
        )
        super().__init__(strategy, job, self._seconds, faults, **options)

    def _seconds(self, worker: int, order: ComputeOrder) -> float:
        servers, workers = self.size
        return self.slower.get(worker, 1.0) * workers / self.rate(servers, workers)


def numbers(decision: str) -> dict[str, float]:
    """Of the end of a decision, in brackets."""
    return {name: float(value) for name, value in (one.split() for one in decision.rsplit("(", 1)[1][:-1].split(", "))}
