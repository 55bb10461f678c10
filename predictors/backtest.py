"""Backtest of a straggler predictor: replay recorded iterations, and ask for tags when or before each begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from predictors.stragglers import Observation, StragglerPredictor

UPDATE, QUERY = 0, 1


class _Step(NamedTuple):
    """One update of the predictor, or one query.

    At equal times updates come before queries: a worker that starts its next iteration immediately knows the one that
    has just ended.
    """

    t: float
    kind: int
    order: int
    worker: int
    observation: Observation | None


def backtest(
    predictor: StragglerPredictor,
    iterations: Sequence[tuple[float, Observation]],
    losses: Iterable[tuple[float, int]] = (),
    lead_s: float = 0.0,
) -> list[bool]:
    """Whether each iteration's worker was tagged ``lead_s`` before the iteration began.

    Args:
        predictor: a new one.
        iterations: (start time in seconds, the observation made at its end), in any order.
        losses: (time in seconds, worker) of every lost worker process.
        lead_s: how much earlier is asked, in seconds; 0: when the iteration begins.

    Returns:
        One tag per iteration, in the order given. Each uses only iterations that had ended at the time of the
        prediction.
    """
    steps = [_Step(t, UPDATE, -1, worker, None) for t, worker in losses]
    for order, (begun_s, observation) in enumerate(iterations):
        steps.append(_Step(observation.t, UPDATE, order, observation.worker, observation))
        steps.append(_Step(begun_s - lead_s, QUERY, order, observation.worker, None))
    tags = [False] * len(iterations)
    cached: tuple[float, frozenset[int]] | None = None
    reads_time = getattr(predictor, "reads_time", True)
    for step in sorted(steps, key=lambda step: step[:3]):
        if step.kind == QUERY:
            if cached is None or (reads_time and cached[0] != step.t):
                cached = step.t, predictor.tags(step.t)
            tags[step.order] = step.worker in cached[1]
            continue
        cached = None
        if step.observation is None:
            predictor.forget(step.worker)
        else:
            predictor.update(step.observation)
    return tags
