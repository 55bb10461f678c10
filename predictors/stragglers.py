"""The interface of straggler predictors: their observations and answers."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import NamedTuple, Protocol, runtime_checkable

STRAGGLER_FRAC = 0.2
"""STAR, section III: a straggler takes more than 20 % longer than the fastest worker."""
ROUNDING = 1e-9
"""Slack for rounding: a time that was converted to a speed and back may be off in its last bit."""


class Observation(NamedTuple):
    """One whole iteration of one worker, which ended at time ``t`` (seconds since the job's start).

    ``iter_s`` (above zero) is how long it took: data, computing and sending, without waiting. ``cpu`` and ``memory``
    are as in :class:`predictors.base.SpeedRecord`: any consistent unit, 1 where nothing is known. The iteration's own
    resources are ``cpu_frac``, its processor seconds per second, and ``bytes_per_s``, the size of the model over the
    time of sending; NaN where unknown. ``samples`` is its batch. ``data_s`` and ``send_s`` are parts of ``iter_s``, and
    ``work`` is what is known of the batch beforehand (such as its tokens, in any unit).
    """

    t: float
    worker: int
    iteration: int
    iter_s: float
    cpu: float = 1.0
    memory: float = 1.0
    cpu_frac: float = nan
    bytes_per_s: float = nan
    samples: float = 1.0
    data_s: float = nan
    send_s: float = nan
    work: float = nan


@runtime_checkable
class StragglerPredictor(Protocol):
    """Predicts whose next iteration will straggle; it receives all observations in order of event time."""

    def update(self, observation: Observation) -> None:
        """Add an iteration that has ended."""
        ...

    def forget(self, worker: int) -> None:
        """Discard the worker's history because its process was lost; its successor is measured from scratch."""
        ...

    def tags(self, t: float) -> frozenset[int]:
        """The workers whose iteration would straggle if it began at ``t``, which is not before the last observation.

        A worker without observations, or without other workers, is never tagged. A class with ``reads_time = False`` is
        not asked again while there is no new observation, however late it is.
        """
        ...


@runtime_checkable
class PredictsTimes(Protocol):
    """A straggler predictor that predicts the time of every worker's next iteration, which it takes to last."""

    def seconds(self) -> dict[int, float]:
        """Predicted seconds of the next iteration, by worker."""
        ...


@runtime_checkable
class NamesPart(Protocol):
    """A straggler predictor that also says which part of the step is slow."""

    @property
    def part(self) -> str:
        """``data``, ``compute`` or ``send``, of the last tags; meaningless without any."""
        ...


@runtime_checkable
class PredictsAhead(Protocol):
    """A straggler predictor that tells later iterations from the next one."""

    def seconds_ahead(self, first: int, last: int) -> dict[int, tuple[float, ...]]:
        """Predicted seconds of the iterations from ``first`` to ``last`` ahead (1: the next one), by worker."""
        ...


@runtime_checkable
class PredictsByFile(Protocol):
    """A straggler predictor that was fitted before the job."""

    @property
    def fitted(self) -> tuple[str, ...]:
        """The files that it predicts by: name and the start of the SHA-256 of each."""
        ...


def deviations(seconds: dict[int, float]) -> dict[int, float]:
    """Return (own time - fastest time) / fastest time for each worker; empty for fewer than two workers."""
    if len(seconds) < 2:
        return {}
    fastest_s = min(seconds.values())
    return {worker: (each_s - fastest_s) / fastest_s for worker, each_s in seconds.items()}


def exceeding(deviation_fracs: Mapping[int, float], tolerance_frac: float) -> frozenset[int]:
    """The workers whose deviation exceeds the tolerance by more than rounding."""
    bound = tolerance_frac + ROUNDING
    return frozenset(worker for worker, frac in deviation_fracs.items() if frac > bound)
