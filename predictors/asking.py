"""A predictor goes through what happened, and is asked at the beginning of every iteration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from predictors.stragglers import Seen, StragglerPredictor

TOLD, ASKED = 0, 1


class _Happening(NamedTuple):
    """At equal times, what happened comes before the questions: who goes on at once knows of what has just ended."""

    t: float
    kind: int
    order: int
    worker: int
    seen: Seen | None


def foresee(
    predictor: StragglerPredictor,
    iterations: Sequence[tuple[float, Seen]],
    losses: Iterable[tuple[float, int]] = (),
) -> list[bool]:
    """For every iteration, whether it was tagged when it began.

    Args:
        predictor: a fresh one.
        iterations: (when it began, what it was like when it ended), in any order; seconds.
        losses: (when, which worker) was lost.

    Returns:
        A tag per iteration, in the order given; each from what had ended by its beginning, and nothing else.
    """
    happenings = [_Happening(t, TOLD, -1, worker, None) for t, worker in losses]
    for order, (begun_s, seen) in enumerate(iterations):
        happenings.append(_Happening(seen.t, TOLD, order, seen.worker, seen))
        happenings.append(_Happening(begun_s, ASKED, order, seen.worker, None))
    tags = [False] * len(iterations)
    asked: tuple[float, frozenset[int]] | None = None
    for one in sorted(happenings, key=lambda one: one[:3]):
        if one.kind == ASKED:
            if asked is None or asked[0] != one.t:
                asked = one.t, predictor.tags(one.t)
            tags[one.order] = one.worker in asked[1]
            continue
        asked = None
        if one.seen is None:
            predictor.gone(one.worker)
        else:
            predictor.update(one.seen)
    return tags
