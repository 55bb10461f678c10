"""Backtest of a straggler predictor: replay recorded iterations, and ask for tags when or before each begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from predictors.stragglers import Observation, StragglerPredictor

UPDATE, QUERY = 0, 1


class Begun(NamedTuple):
    """An iteration for which a predictor is asked at time ``t`` (seconds), by its place in the order given."""

    t: float
    place: int
    worker: int


class Round(NamedTuple):
    """Observations that a predictor receives, and iterations for which it is asked before it receives more.

    At equal times updates come before queries: a worker that starts its next iteration immediately knows the one that
    has just ended.

    Attributes:
        seen: in order, iterations that have ended, and numbers of workers that were lost.
        begun: in order, the iterations for which the predictor is asked then.
    """

    seen: list[Observation | int]
    begun: list[Begun]


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
    tags = [False] * len(iterations)
    for begun, tagged in asked(predictor, replayed(iterations, losses, lead_s)):
        for _, place, worker in begun:
            tags[place] = worker in tagged
    return tags


def replayed(
    iterations: Sequence[tuple[float, Observation]], losses: Iterable[tuple[float, int]] = (), lead_s: float = 0.0
) -> list[Round]:
    """The updates and queries of :func:`backtest`, in order: several predictors can answer the same."""
    steps: list[tuple[float, int, int, Observation | int]] = [(t, UPDATE, -1, worker) for t, worker in losses]
    for place, (begun_s, observation) in enumerate(iterations):
        steps.append((observation.t, UPDATE, place, observation))
        steps.append((begun_s - lead_s, QUERY, place, observation.worker))
    rounds, seen = list[Round](), list[Observation | int]()
    for t, kind, place, what in sorted(steps, key=lambda step: step[:3]):
        if kind == UPDATE:
            seen.append(what)
            continue
        if seen or not rounds:
            rounds.append(Round(seen, []))
            seen = []
        assert isinstance(what, int)
        rounds[-1].begun.append(Begun(t, place, what))
    return rounds


def asked(predictor: StragglerPredictor, rounds: Iterable[Round]) -> Iterator[tuple[Sequence[Begun], frozenset[int]]]:
    """Iterations that begin, all of them and in order, and the workers that the predictor tags then."""
    reads_time = getattr(predictor, "reads_time", True)
    for seen, begun in rounds:
        for each in seen:
            if isinstance(each, int):
                predictor.forget(each)
            else:
                predictor.update(each)
        if not reads_time:
            yield begun, predictor.tags(begun[0].t)
            continue
        for t, some in groupby(begun, key=attrgetter("t")):
            yield list(some), predictor.tags(t)
