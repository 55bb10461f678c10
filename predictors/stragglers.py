"""What a predictor of stragglers is told and asked."""

from __future__ import annotations

from typing import NamedTuple, Protocol

STRAGGLER_FRAC = 0.2
"""STAR, section III: a straggler takes more than 20 % longer than the fastest worker."""


class Seen(NamedTuple):
    """One whole iteration of one worker, which ended at time ``t`` (seconds since the job's start).

    ``iter_s`` (above zero) are the seconds that it took: data, computing and sending, without waiting. ``cpu`` and
    ``memory`` are as in :class:`predictors.base.Record`: any unit that stays the same, 1 where nothing is known.
    """

    t: float
    worker: int
    iteration: int
    iter_s: float
    cpu: float = 1.0
    memory: float = 1.0


class StragglerPredictor(Protocol):
    """Says whose next iteration will straggle; it is told of all that has happened, in order of event time."""

    def update(self, seen: Seen) -> None:
        """An iteration has ended."""
        ...

    def gone(self, worker: int) -> None:
        """The worker's process is lost; what comes after it is measured afresh."""
        ...

    def tags(self, t: float) -> frozenset[int]:
        """The workers whose iteration would straggle if it began at ``t``, which is not before what was told.

        A worker of which nothing is known is not among them, and neither is one that is the only one.
        """
        ...


def deviations(seconds: dict[int, float]) -> dict[int, float]:
    """By worker, the part of the fastest one's time by which it takes longer; empty for fewer than two workers."""
    if len(seconds) < 2:
        return {}
    fastest_s = min(seconds.values())
    return {worker: (each_s - fastest_s) / fastest_s for worker, each_s in seconds.items()}
