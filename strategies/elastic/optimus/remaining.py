"""How many updates a job still needs: from its number of samples, or from its loss so far (Optimus; pure)."""

from __future__ import annotations

from math import ceil, isfinite
from typing import final

from strategies.elastic.optimus.loss import fit_loss
from strategies.parts.checks import check_number, check_whole
from strategies.protocol import Started

MAX_POINTS = 256
"""Means of the loss that are kept; beyond, two become one."""


@final
class Remaining:
    """Counts updates and averages their losses.

    Args:
        flat_steps: updates in which the loss of a converged job falls ...
        flat_loss: ... by less than this; both are used only if the number of updates is not known.
    """

    def __init__(self, flat_steps: int = 1000, flat_loss: float = 0.001) -> None:
        check_whole("flat_steps", flat_steps, least=1)
        check_number("flat_loss", flat_loss, above=0.0)
        self.flat_steps, self.flat_loss = flat_steps, flat_loss

    def start(self, started: Started) -> None:
        """Reset. An update uses one worker's batch, whatever the number of workers is later."""
        batch = sum(started.batch_samples) / len(started.batch_samples)
        self.total = None if started.total_samples is None else ceil(started.total_samples / batch)
        self.steps = 0
        self._losses: list[tuple[float, float]] = []
        self._every, self._sum, self._count = 1, 0.0, 0

    def count(self) -> None:
        """Count an update of the parameters."""
        self.steps += 1

    def rolled_back(self, version: int) -> None:
        """The parameters are those after ``version`` updates again."""
        self.steps = version
        self._losses = [point for point in self._losses if point[0] <= version]
        self._sum, self._count = 0.0, 0

    def observe_loss(self, loss: float | None) -> None:
        """Add the loss of a batch; one that is not above zero has no place on the curve."""
        if self.total is not None or loss is None or not isfinite(loss) or loss <= 0:
            return
        self._sum += loss
        self._count += 1
        if self._count < self._every:
            return
        self._losses.append((float(self.steps), self._sum / self._count))
        self._sum, self._count = 0.0, 0
        if len(self._losses) >= MAX_POINTS:
            pairs = zip(self._losses[::2], self._losses[1::2], strict=True)
            self._losses = [((k + then) / 2, (loss + after) / 2) for (k, loss), (then, after) in pairs]
            self._every *= 2

    def left(self) -> float | None:
        """Updates that remain; None: neither their number nor a curve of the loss is known."""
        if self.total is not None:
            return float(max(0, self.total - self.steps))
        try:
            curve = fit_loss([k for k, _ in self._losses], [loss for _, loss in self._losses])
        except ValueError:
            return None
        return max(0.0, curve.steps_until_flat(self.flat_steps, self.flat_loss) - self.steps)
