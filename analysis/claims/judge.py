"""The rules by which our results are compared with the papers'; pure. All papers are judged by the same rules.

A claim has two questions. **Side**: is the effect there, in the claimed direction? **Size**: is it as large as the
paper's? A shape has a side only, a plain number a size only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, isfinite, isnan
from typing import NamedTuple

from analysis.claims.answers import NOTHING, Answer
from analysis.claims.ledger import Bounds, Claim
from analysis.measures.small_samples import narrowing

TOLERANCE_FRAC = 0.15
"""Relative tolerance of a number."""
TOLERANCE_OF_EFFECT = 1 / 3
"""Part of the paper's effect by which ours may differ: neither 10 % nor 40 % matches 24 %."""
FEWEST_SEEDS = 5
"""Minimum number of seeds for a shape: fewer agree too often by chance (four: one time in sixteen)."""
SHARE = 0.95
"""Part of the resampled seeds with which a shape must hold, or must not hold."""

MANY_SEEDS = 100
"""Number of seeds beyond which an effect that the present spread hides is too close to a bound to be decided."""

MET, LARGER, MISSED, INCONCLUSIVE, TOO_CLOSE = "met", "larger", "missed", "inconclusive", "too close"
UNEXERCISED, CONSTRUCTION = "not exercised", "by construction"
CALIBRATED, ARITHMETIC, CONTEXT, OPEN = "calibrated", "by arithmetic", "context", "not run"
JUDGED = (MET, LARGER, MISSED, INCONCLUSIVE, TOO_CLOSE)
DECIDED = (MET, LARGER, MISSED)
NOT_JUDGED = (UNEXERCISED, CONSTRUCTION, CALIBRATED, ARITHMETIC, CONTEXT, OPEN)
RISING = (MISSED, TOO_CLOSE, INCONCLUSIVE, LARGER, MET)
"""From the worst to the best."""


class Verdict(NamedTuple):
    """One of ``JUDGED`` or ``NOT_JUDGED`` for each question; empty where the claim does not ask it."""

    side: str = ""
    size: str = ""


def judge(claim: Claim, answer: Answer | None) -> Verdict:
    """Both verdicts about a claim.

    A claim whose systems gave identical results with every seed (:func:`is_unexercised`) is not judged. Claims that
    were fitted, that no system here can miss, or whose runs depart from the paper, can be missed, but not met.
    """
    asks_size = has_size(claim)
    if claim.check == "context" or answer is None:
        why = CONTEXT if claim.check == "context" else OPEN
        return Verdict("" if claim.check == "number" else why, why if asks_size else "")
    if is_unexercised(claim, answer):
        return Verdict("" if claim.check == "number" else UNEXERCISED, UNEXERCISED if asks_size else "")
    by_any = any_system_meets(claim, answer)
    return Verdict(
        "" if claim.check == "number" else _cap(claim, side(claim, answer), by_any=by_any),
        _cap(claim, size(claim, answer), by_any=by_any) if asks_size else "",
    )


def any_system_meets(claim: Claim, answer: Answer) -> bool:
    """Whether any system would meet the claim: the ledger says why, or all its controls do meet it."""
    if claim.construction:
        return True
    question = size if claim.check == "number" else side
    met = [question(claim, control) == MET for control in answer.controls]
    return bool(claim.controls) and len(met) == len(claim.controls) and all(met)


def side(claim: Claim, answer: Answer) -> str:
    """Whether the effect is there: a ratio beyond no effect, else what the claim accepts."""
    accept = side_of(claim)
    return combine_cases(claim, answer, lambda case: _one(claim, case, accept))


def is_unexercised(claim: Claim, answer: Answer) -> bool:
    """Whether the compared systems gave identical results with all seeds, in all cases: a part that never acted."""
    if claim.how in ("value", "order") or claim.shape is not None or is_equivalence(claim):
        return False
    none = no_effect(claim)
    return all(
        case.seeds > 1 and abs(case.low - none) < NOTHING and abs(case.high - none) < NOTHING
        for case in answer.cases or (answer,)
    )


def no_effect(claim: Claim) -> float:
    """Return the value of a comparison between two equal systems, in the claim's unit."""
    return 1.0 if claim.how == "times" else 0.0


def is_equivalence(claim: Claim) -> bool:
    """Whether the claim is that two systems do not differ."""
    low, high = claim.accept or (None, None)
    return claim.how != "value" and low is not None and high is not None and low <= no_effect(claim) <= high


def side_of(claim: Claim) -> Bounds | None:
    """The range of the claimed side: of a ratio everything beyond no effect, else what the claim accepts."""
    if claim.check == "ratio" and claim.how != "value" and not is_equivalence(claim):
        return (no_effect(claim), None)
    return claim.accept or ((0.0, None) if claim.how == "order" else None)


def has_size(claim: Claim) -> bool:
    """Whether the paper reports a size beyond the side."""
    if claim.check == "context" or claim.shape is not None or claim.how == "order" or is_equivalence(claim):
        return claim.check == "number"
    if claim.check == "number" or claim.magnitude is not None:
        return True
    return claim.value is not None and (claim.check == "ratio" or claim.value not in (claim.accept or ()))


def size(claim: Claim, answer: Answer) -> str:
    """Whether our number is the paper's, or our effect as large as the paper's."""
    if claim.check == "number" or (claim.magnitude is None and _is_stated(claim)):
        return combine_cases(claim, answer, lambda case: _one(claim, case, claim.accept))
    least, most = claim.magnitude or (claim.value, claim.value)
    ends = (
        _part_of_effect(claim, least, 1 - TOLERANCE_OF_EFFECT),
        _part_of_effect(claim, most, 1 + TOLERANCE_OF_EFFECT),
    )
    return combine_cases(claim, answer, lambda case: _judge_size(claim, case, *ends))


def _is_stated(claim: Claim) -> bool:
    """Whether the accepted range is what the paper says ("more than 2 times"), and not merely the side."""
    low, high = claim.accept or (None, None)
    return claim.accept is not None and (claim.value in claim.accept or None not in (low, high))


def _part_of_effect(claim: Claim, end: float | None, part: float) -> float | None:
    """A value with this part of the paper's effect; the effect of a factor is its excess over 1."""
    base = no_effect(claim)
    return None if end is None else base + part * (end - base)


def _cap(claim: Claim, verdict: str, *, by_any: bool) -> str:
    """The verdict of a claim that was fitted, that no system can miss, or whose runs depart: it can be missed alone.

    Arithmetic gives the printed digits or does not: where runs leave that open, it was not arithmetic.
    """
    if verdict == MISSED or (claim.arithmetic and verdict in (INCONCLUSIVE, TOO_CLOSE)):
        return verdict
    if claim.calibrated or by_any:
        return CALIBRATED if claim.calibrated else CONSTRUCTION
    if claim.departure:
        return CONTEXT
    return ARITHMETIC if claim.arithmetic else verdict


def combine_cases(claim: Claim, answer: Answer, one: Callable[[Answer], str]) -> str:
    """The worst verdict of all cases, or with ``best`` the best."""
    verdicts = [
        combine_cases(claim, case, one) if case.cases and case.cases != (case,) else _by_seeds(case, one)
        for case in answer.cases or (answer,)
    ]
    return (max if claim.best else min)(verdicts, key=RISING.index)


def _by_seeds(case: Answer, one: Callable[[Answer], str]) -> str:
    """The verdict of a case; ``TOO_CLOSE`` if ``MANY_SEEDS`` with the same spread would leave it open, too.

    That is so if their interval contains a bound both around the median and around the middle of the present interval.
    Shapes, and intervals that are not finite, say nothing about other numbers of seeds.
    """
    verdict = one(case)
    if verdict != INCONCLUSIVE or not 1 < case.seeds < MANY_SEEDS or not (isfinite(case.low) and isfinite(case.high)):
        return verdict
    half = (case.high - case.low) / 2 * narrowing(case.seeds, MANY_SEEDS)
    centres = (case.value, (case.low + case.high) / 2)
    later = {one(case._replace(value=centre, low=centre - half, high=centre + half)) for centre in centres}
    return TOO_CLOSE if later == {INCONCLUSIVE} else verdict


def _interval(claim: Claim, ours: Answer) -> tuple[float, float]:
    """The interval of a case; of what is fitted or computed without one, the value itself."""
    given = bool(claim.arithmetic or claim.calibrated) and isnan(ours.low)
    return (ours.value, ours.value) if given else (ours.low, ours.high)


def _judge_size(claim: Claim, ours: Answer, least: float | None, most: float | None) -> str:
    low, high = _interval(claim, ours)
    if verdict := _unusable(ours.value, low, high):
        return verdict
    if least is None or low > least:
        return MET if most is None or high < most else LARGER
    return MISSED if high <= least else INCONCLUSIVE


def _unusable(value: float, low: float, high: float) -> str:
    """The verdict of a value that does not exist, or whose spread over seeds is unknown; else empty."""
    if isnan(value):
        return MISSED
    return INCONCLUSIVE if isnan(low) or isnan(high) else ""


def _one(claim: Claim, ours: Answer, accept: Bounds | None) -> str:
    if ours.holds is not None:
        return (MET if ours.holds else MISSED) if claim.arithmetic or claim.calibrated else shape(ours)
    low, high = _interval(claim, ours)
    if verdict := _unusable(ours.value, low, high):
        return verdict
    return within(low, high, *accept) if accept is not None else near(claim, low, high)


def shape(result: Answer) -> str:
    """Whether a shape holds with the seeds as they are, and with nearly all resamples of them."""
    if isnan(result.share) or (result.seeds < FEWEST_SEEDS and not result.same):
        return INCONCLUSIVE
    if result.holds:
        return MET if result.share >= SHARE else INCONCLUSIVE
    return MISSED if result.share <= 1.0 - SHARE else INCONCLUSIVE


def within(low: float, high: float, least: float | None, most: float | None) -> str:
    """Whether an interval lies strictly between two bounds; equal bounds require exactly that value."""
    if least is not None and least == most:
        return MET if low == high == least else MISSED if high < least or low > least or low == high else INCONCLUSIVE
    bottom, top = -inf if least is None else least, inf if most is None else most
    if bottom < low and high < top:
        return MET
    return MISSED if high <= bottom or low >= top else INCONCLUSIVE


def near(claim: Claim, low: float, high: float) -> str:
    """Whether the whole interval of our number is within 15 % of the paper's, and no wider than that."""
    if claim.value is None:
        return MISSED
    allowed = TOLERANCE_FRAC * abs(claim.value)
    verdict = within(low, high, claim.value - allowed, claim.value + allowed)
    return INCONCLUSIVE if verdict == MET and high - low > allowed else verdict


def of_group(verdicts: Iterable[str]) -> str:
    """The verdict about claims that are one observation: the worst of those that are judged, else the first."""
    given = [verdict for verdict in verdicts if verdict]
    judged = [verdict for verdict in given if verdict in JUDGED]
    return min(judged, key=RISING.index) if judged else given[0] if given else ""
