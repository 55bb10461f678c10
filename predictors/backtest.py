"""Backtest of a straggler predictor: replay recorded iterations, and ask for tags when or before each begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from predictors.stragglers import Observation, StragglerPredictor

UPDATE, QUERY = 0, 1


class Step(NamedTuple):
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
    return answers(predictor, replayed(iterations, losses, lead_s))


def replayed(
    iterations: Sequence[tuple[float, Observation]], losses: Iterable[tuple[float, int]] = (), lead_s: float = 0.0
) -> list[Step]:
    """The updates and queries of :func:`backtest`, in order: several predictors can answer the same."""
    steps = [Step(t, UPDATE, -1, worker, None) for t, worker in losses]
    for order, (begun_s, observation) in enumerate(iterations):
        steps.append(Step(observation.t, UPDATE, order, observation.worker, observation))
        steps.append(Step(begun_s - lead_s, QUERY, order, observation.worker, None))
    return sorted(steps, key=lambda step: step[:3])


def answers(predictor: StragglerPredictor, steps: Sequence[Step]) -> list[bool]:
    """The tags of a new predictor in these steps of :func:`replayed`, by iteration."""
    tags = [False] * sum(step.kind == QUERY for step in steps)
    for step, tagged in asked(predictor, steps):
        tags[step.order] = step.worker in tagged
    return tags


def asked(predictor: StragglerPredictor, steps: Iterable[Step]) -> Iterator[tuple[Step, frozenset[int]]]:
    """Every query of these steps, and the workers that the predictor tags then."""
    cached: tuple[float, frozenset[int]] | None = None
    reads_time = getattr(predictor, "reads_time", True)
    for step in steps:
        if step.kind == QUERY:
            if cached is None or (reads_time and cached[0] != step.t):
                cached = step.t, predictor.tags(step.t)
            yield step, cached[1]
            continue
        cached = None
        if step.observation is None:
            predictor.forget(step.worker)
        else:
            predictor.update(step.observation)
