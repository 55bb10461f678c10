"""The gate: BSP for a part of the samples, then an update after every so many own steps of each worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import Number, PositiveInt
from strategies.parts.gates import AloneGate
from strategies.protocol import AnyEvent, Grad, Restored, Started


@final
@dataclass(kw_only=True)
class PeriodicGate(AloneGate):
    """``period`` own steps of every worker between two updates; ``bsp_frac`` of the job's samples by BSP first.

    ``samples`` counts, until each version, the samples of BSP's updates: a rollback returns to its version's phase.
    """

    period: PositiveInt = 8
    bsp_frac: Annotated[float, Number(0.0, most=1.0)] = 0.0

    def validate_length(self, epochs: int | None) -> None:
        if self.bsp_frac and epochs is None:
            raise ValueError(f"bsp_frac={self.bsp_frac}: is a part of the job, which has no end; set workload.epochs")

    def start(self, started: Started) -> None:
        self.bsp_samples = self.bsp_frac * (started.total_samples or 0)
        self.samples = [0]
        self._choose()

    def observe_event(self, event: AnyEvent) -> None:
        if isinstance(event, Restored):
            del self.samples[event.version + 1 :]
            self._choose()

    def applied(self, grads: tuple[Grad, ...]) -> None:
        if not self.alone:
            self.samples.append(self.samples[-1] + sum(grad.samples for grad in grads))
            self._choose()

    def _choose(self) -> None:
        self.alone = self.samples[-1] >= self.bsp_samples

    def waits(self, worker: int) -> bool:
        return self.steps[worker] >= self.period
