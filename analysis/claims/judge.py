"""The rules by which our results are compared with the paper's; pure."""

from __future__ import annotations

from math import inf, isnan

from analysis.claims.answers import Answer
from analysis.claims.ledger import Bounds, Claim

TOLERANCE_FRAC = 0.15
"""Relative tolerance of a number."""
TOLERANCE_POINTS = 15.0
"""Tolerance of a percentage, in percentage points; a factor counts as the percentage above or below 1 ..."""
TOLERANCE_OF_EFFECT = 1 / 3
"""... and at most this part of the paper's percentage: 10 % does not match 24 %, though only 14 points less."""
FEWEST_SEEDS = 5
"""Minimum number of seeds for a shape: fewer agree too often by chance (four: one time in sixteen)."""
SHARE = 0.95
"""Part of the resampled seeds with which a shape must hold, or must not hold."""

MET, MISSED, INCONCLUSIVE = "met", "missed", "inconclusive"
CALIBRATED, ARITHMETIC, CONTEXT, OPEN = "calibrated", "by arithmetic", "context", "not run"
VERDICTS = (MET, MISSED, INCONCLUSIVE, CALIBRATED, ARITHMETIC, CONTEXT, OPEN)
RISING = (MISSED, INCONCLUSIVE, MET)
"""From the worst to the best."""


def judge(claim: Claim, answer: Answer | None) -> str:
    """One of ``VERDICTS``: by the range that the claim accepts, else by the tolerance of its rule."""
    if claim.check == "context":
        return CONTEXT
    if answer is None:
        return OPEN
    return _capped(claim, decided(claim, answer, claim.accept or ((0.0, None) if claim.how == "order" else None)))


def judge_magnitude(claim: Claim, answer: Answer | None) -> str:
    """For a claim that accepts everything on one side of a bound: whether our effect is also as large as the paper's.

    One of ``VERDICTS``, or empty if there is nothing to judge: the claim has two ends or none, or the paper reports no
    more than the bound.
    """
    if claim.check == "context" or claim.accept is None or None not in claim.accept:
        return ""
    if claim.magnitude is None and (claim.value is None or claim.value in claim.accept):
        return ""
    return OPEN if answer is None else _capped(claim, decided(claim, answer, claim.magnitude))


def _capped(claim: Claim, verdict: str) -> str:
    """The verdict of a fitted quantity: it can miss its number, but not confirm it."""
    if verdict == MISSED:
        return verdict
    return CALIBRATED if claim.calibrated else ARITHMETIC if claim.arithmetic else verdict


def decided(claim: Claim, answer: Answer, accept: Bounds | None) -> str:
    """The worst verdict of all cases, or with ``best`` the best."""
    verdicts = [_one(claim, case, accept) for case in answer.cases or (answer,)]
    return (max if claim.best else min)(verdicts, key=RISING.index)


def _one(claim: Claim, ours: Answer, accept: Bounds | None) -> str:
    if ours.cases and ours.cases != (ours,):
        return decided(claim, ours, accept)
    given = bool(claim.arithmetic or claim.calibrated)
    if ours.holds is not None:
        return (MET if ours.holds else MISSED) if given else shape(ours)
    low, high = (ours.value, ours.value) if given and isnan(ours.low) else (ours.low, ours.high)
    if isnan(ours.value):
        return MISSED
    if isnan(low) or isnan(high):  # one seed: the spread over seeds is unknown
        return INCONCLUSIVE
    return within(low, high, *accept) if accept is not None else near(claim, ours.value, low, high)


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


def near(claim: Claim, ours: float, low: float, high: float) -> str:
    """Whether our value is within the tolerance of the paper's, and its interval no wider than that."""
    paper = claim.value
    if paper is None:
        return MISSED
    allowed = tolerance(claim)
    if abs(ours - paper) < allowed and high - low <= allowed:
        return MET
    return MISSED if high <= paper - allowed or low >= paper + allowed else INCONCLUSIVE


def tolerance(claim: Claim) -> float:
    """The tolerance in the claim's unit, to either side of its value."""
    paper = claim.value or 0.0
    if claim.check != "ratio":
        return TOLERANCE_FRAC * abs(paper)
    points = 100.0 * (paper - 1.0) if claim.unit == "x" else paper
    allowed = min(TOLERANCE_POINTS, TOLERANCE_OF_EFFECT * abs(points))
    return allowed / 100.0 if claim.unit == "x" else allowed
