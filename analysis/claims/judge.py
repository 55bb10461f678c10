"""The rules by which ours is held against the paper's; pure."""

from __future__ import annotations

from math import inf, isnan

from analysis.claims.answers import Answer
from analysis.claims.ledger import Bounds, Claim

TOLERANCE_FRAC = 0.15
"""Of a number."""
TOLERANCE_POINTS = 15.0
"""Of a percentage; a factor counts as the percentage above or below 1 ..."""
TOLERANCE_OF_EFFECT = 1 / 3
"""... and this part of the paper's percentage at most: 10 % are not 24 %, though only 14 points less."""
FEWEST_SEEDS = 5
"""For a shape: of fewer, all agree too often by chance (of four, one time in sixteen)."""
SHARE = 0.95
"""Of the resampled seeds with which a shape must hold, or not hold."""

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
    return _said(claim, decided(claim, answer, claim.accept or ((0.0, None) if claim.how == "order" else None)))


def judge_magnitude(claim: Claim, answer: Answer | None) -> str:
    """Of a claim that accepts whatever is on one side of a bound: whether ours is also as large as the paper's.

    One of ``VERDICTS``, or nothing where that is not asked: the claim has two ends or none, or the paper tells no more
    than the bound.
    """
    if claim.check == "context" or claim.accept is None or None not in claim.accept:
        return ""
    if claim.magnitude is None and (claim.value is None or claim.value in claim.accept):
        return ""
    return OPEN if answer is None else _said(claim, decided(claim, answer, claim.magnitude))


def _said(claim: Claim, verdict: str) -> str:
    """What was fitted to a number can miss it, but not confirm it."""
    if verdict == MISSED:
        return verdict
    return CALIBRATED if claim.calibrated else ARITHMETIC if claim.arithmetic else verdict


def decided(claim: Claim, answer: Answer, accept: Bounds | None) -> str:
    """The worst of all cases, or with ``best`` the best."""
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
    if isnan(low) or isnan(high):  # one seed: nobody knows what another would give
        return INCONCLUSIVE
    return within(low, high, *accept) if accept is not None else near(claim, ours.value, low, high)


def shape(seen: Answer) -> str:
    """Held with the seeds as they are, and with nearly all samples of them."""
    if isnan(seen.share) or (seen.seeds < FEWEST_SEEDS and not seen.same):
        return INCONCLUSIVE
    if seen.holds:
        return MET if seen.share >= SHARE else INCONCLUSIVE
    return MISSED if seen.share <= 1.0 - SHARE else INCONCLUSIVE


def within(low: float, high: float, least: float | None, most: float | None) -> str:
    """Whether an interval lies between bounds that do not belong to them; bounds that are one number demand it."""
    if least is not None and least == most:
        return MET if low == high == least else MISSED if high < least or low > least or low == high else INCONCLUSIVE
    bottom, top = -inf if least is None else least, inf if most is None else most
    if bottom < low and high < top:
        return MET
    return MISSED if high <= bottom or low >= top else INCONCLUSIVE


def near(claim: Claim, ours: float, low: float, high: float) -> str:
    """Whether ours is the paper's within the tolerance, and its interval no wider than that."""
    paper = claim.value
    if paper is None:
        return MISSED
    allowed = tolerance(claim)
    if abs(ours - paper) < allowed and high - low <= allowed:
        return MET
    return MISSED if high <= paper - allowed or low >= paper + allowed else INCONCLUSIVE


def tolerance(claim: Claim) -> float:
    """In the claim's unit; to either side of its value."""
    paper = claim.value or 0.0
    if claim.check != "ratio":
        return TOLERANCE_FRAC * abs(paper)
    points = 100.0 * (paper - 1.0) if claim.unit == "x" else paper
    allowed = min(TOLERANCE_POINTS, TOLERANCE_OF_EFFECT * abs(points))
    return allowed / 100.0 if claim.unit == "x" else allowed
