"""How many updates a job still needs: from its number of samples, or from its loss so far (Optimus; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, sqrt
from typing import final

import msgspec
import numpy as np

from strategies.protocol import Started

MIN_POINTS = 4
"""One more than there are coefficients."""


class LossCurve(msgspec.Struct, frozen=True, kw_only=True):
    """``l(k) = 1 / (b0 k + b1) + b2`` after k steps: the loss above its limit b2 falls as SGD's O(1 / k)."""

    b0: float
    b1: float
    b2: float

    def loss(self, steps: float) -> float:
        """After so many steps."""
        return 1.0 / (self.b0 * steps + self.b1) + self.b2

    def steps_until_flat(self, steps_per_epoch: int, least_decrease: float) -> float:
        """Steps from the start until an epoch lowers the loss by less than ``least_decrease``: Optimus' convergence.

        With x = b0 k + b1 and c = b0 E the decrease is 1 / x - 1 / (x + c) = c / (x (x + c)).
        """
        c = self.b0 * steps_per_epoch
        x = (sqrt(c * c + 4 * c / least_decrease) - c) / 2
        return max(0.0, (x - self.b1) / self.b0) if self.b0 > 0 else 0.0


def fit_loss(steps: Sequence[float], losses: Sequence[float]) -> LossCurve:
    """The curve through these points by least squares, all coefficients at least zero.

    For every limit b2 below the losses, ``1 / (l - b2) = b0 k + b1`` is linear: the best of several such fits is where
    the least-squares solver begins.

    Args:
        steps: at which the losses were measured, from the start of the job.
        losses: above zero; single batches vary, so means over some steps are better.

    Raises:
        ValueError: fewer than four different points, or a loss that is not above zero.
    """
    from scipy.optimize import least_squares  # takes 0.5 s to import

    k, measured = np.asarray(steps, dtype=float), np.asarray(losses, dtype=float)
    if len(set(k.tolist())) < MIN_POINTS:
        raise ValueError(f"{len(set(k.tolist()))} losses: a curve of three coefficients needs {MIN_POINTS} or more")
    if not np.all(np.isfinite(measured)) or np.any(measured <= 0):
        raise ValueError("a loss that is not above zero has no curve 1 / (b0 k + b1) + b2")
    span, unit = float(k.max()), float(measured.max())  # so that all three coefficients are of order one
    x, y = k / span, measured / unit

    def residuals(b: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 / (b[0] * x + b[1]) + b[2] - y)

    starts = [_linear(x, y, share * float(y.min())) for share in (0.0, 0.5, 0.9, 0.99)]
    start = min(starts, key=lambda b: float(np.sum(residuals(b) ** 2)))
    found = least_squares(residuals, start, bounds=([0.0, 1e-9, 0.0], [np.inf, np.inf, 1.0]), xtol=1e-12, ftol=1e-12)
    b0, b1, b2 = (float(one) for one in found.x)
    return LossCurve(b0=b0 / (span * unit), b1=b1 / unit, b2=b2 * unit)


def _linear(x: np.ndarray, y: np.ndarray, limit: float) -> np.ndarray:
    """b0, b1 by a straight line for a given b2, float [3]; inside the bounds."""
    slope, intercept = np.polyfit(x, 1.0 / (y - limit), 1)
    return np.array([max(slope, 1e-6), max(intercept, 1e-6), limit])


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

    def roll_back(self, version: int) -> None:
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

    def updates_left(self) -> float | None:
        """Updates that remain; None: neither their number nor a curve of the loss is known."""
        if self.total is not None:
            return float(max(0, self.total - self.steps))
        try:
            curve = fit_loss([k for k, _ in self._losses], [loss for _, loss in self._losses])
        except ValueError:
            return None
        return max(0.0, curve.steps_until_flat(self.flat_steps, self.flat_loss) - self.steps)
