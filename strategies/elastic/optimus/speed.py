"""Steps per second of a job, measured at one size, and fitted to all by non-negative least squares (Optimus; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import final

import msgspec
import numpy as np


@final
class Speedometer:
    """Updates per second since the last change.

    Args:
        sample_s: seconds that a measurement takes.
        skip_s: seconds after a change that do not count: everybody connects, caches are cold.

    The time is that from the first update that counts to the last one, so a measurement needs two at different times.
    """

    def __init__(self, sample_s: float, skip_s: float = 0.0) -> None:
        self.sample_s, self.skip_s = sample_s, skip_s
        self.begin(0.0)

    def begin(self, t: float) -> None:
        """Something has changed: measure from the beginning."""
        self._from_s, self._first_s, self._last_s = t + self.skip_s, inf, -inf
        self._updates = 0

    def count(self, t: float) -> None:
        """Count an update of the parameters."""
        if t < self._from_s:
            return
        self._first_s = min(self._first_s, t)
        self._updates += t > self._first_s  # not those that came together with the first
        self._last_s = t

    def rate(self, t: float) -> float | None:
        """Updates per second; None: not measured for long enough yet."""
        if t < self._from_s + self.sample_s or self._last_s <= self._first_s:
            return None
        return self._updates / (self._last_s - self._first_s)


COEFFICIENTS = 4
"""So many sizes have to be measured before all coefficients are known."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """``steps_per_s`` of a job while it had ``servers`` and ``workers``."""

    servers: int
    workers: int
    steps_per_s: float


class SpeedModel(msgspec.Struct, frozen=True, kw_only=True):
    """``f(p, w) = w / (a0 + a1 w / p + a2 w + a3 p)``, a step for every worker; no coefficient is negative."""

    coefficients: tuple[float, ...]

    def rate(self, servers: int, workers: int) -> float:
        """Steps per second of the whole job."""
        return workers / float(np.dot(_terms(servers, workers), self.coefficients))


def fit_speed(points: Sequence[Measured]) -> SpeedModel:
    """The model of these measurements.

    Every equation is divided by its measured seconds, so that a slow size does not outweigh the others.

    Raises:
        ValueError: the sizes are too few or too alike to tell all coefficients, or nothing was done at one of them.
    """
    from scipy.optimize import nnls  # takes 0.5 s to import, and most strategies fit nothing

    for point in points:
        if point.steps_per_s <= 0 or point.servers < 1 or point.workers < 1:
            raise ValueError(f"{point}: must have a server, a worker, and a speed above zero")
    rows = [_terms(point.servers, point.workers) for point in points]
    seconds = [point.workers / point.steps_per_s for point in points]
    table = np.array(rows, dtype=float).reshape(-1, COEFFICIENTS) / np.array(seconds, dtype=float)[:, None]
    known = int(np.linalg.matrix_rank(table))
    if known < COEFFICIENTS:
        raise ValueError(f"{len(points)} measured sizes tell {known} of {COEFFICIENTS} coefficients apart")
    # columns of very different sizes would end the solver early
    scale = np.abs(table).max(axis=0)
    found, _ = nnls(table / scale, np.ones(len(rows)))
    return SpeedModel(coefficients=tuple(float(one) for one in found / scale))


def first_sizes(servers: int, workers: int, more_servers: int, more_workers: int) -> list[tuple[int, int]]:
    """Sizes (servers, workers) to measure first, by these increments: they tell all coefficients."""
    p, w = servers + more_servers, workers + more_workers
    return [(servers, workers), (servers, w), (p, workers), (p, w), (p, w + more_workers), (p + more_servers, w)]


def _terms(servers: int, workers: int) -> np.ndarray:
    """Values that the coefficients multiply, float [4]."""
    return np.array([1.0, workers / servers, workers, servers], dtype=float)


def read_profile(rows: object) -> tuple[Measured, ...]:
    """Speeds that were measured before, from rows of servers, workers and steps per second.

    Raises:
        ValueError: naming ``profile``; something else than such rows, all numbers above zero.
    """
    try:
        read = msgspec.convert(rows, list[tuple[int, int, float]])
    except msgspec.ValidationError as error:
        raise ValueError(f"profile={rows}: must be [servers, workers, steps per second], ...; {error}") from None
    for row in read:
        if min(row) <= 0:
            raise ValueError(f"profile={rows}: must be servers, workers and steps per second above zero")
    return tuple(Measured(servers=servers, workers=workers, steps_per_s=rate) for servers, workers, rate in read)
