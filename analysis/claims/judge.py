"""The rules by which ours is held against the paper's; pure."""

from __future__ import annotations

from math import isfinite, isnan

from analysis.claims.answers import Answer
from analysis.claims.ledger import Claim

TOLERANCE_FRAC = 0.15
"""Of a number."""
TOLERANCE_POINTS = 15.0
"""Of a percentage; a factor counts as the percentage above or below 1."""
MET, MISSED, CONTEXT, OPEN = "met", "missed", "context", "not run"
VERDICTS = (MET, MISSED, CONTEXT, OPEN)


def judge(claim: Claim, answer: Answer | None) -> str:
    """One of ``VERDICTS``. The median decides; intervals are shown beside it."""
    if claim.check == "context":
        return CONTEXT
    if answer is None:
        return OPEN
    if answer.holds is not None:
        return MET if answer.holds else MISSED
    return MET if agrees(claim, answer.value) else MISSED


def agrees(claim: Claim, ours: float) -> bool:
    """Whether ``ours``, in the claim's unit, counts as reproduced."""
    if isnan(ours):
        return False
    if claim.accept is not None:
        return inside(ours, *claim.accept)
    if claim.value is None or not isfinite(ours):
        return False
    if claim.check == "number":
        return abs(ours - claim.value) <= TOLERANCE_FRAC * abs(claim.value)
    points = [100.0 * (each - 1.0) if claim.unit == "x" else each for each in (ours, claim.value)]
    return same_side(*points) and abs(points[0] - points[1]) <= TOLERANCE_POINTS


def inside(value: float, low: float | None, high: float | None) -> bool:
    """Both ends belong to it."""
    return (low is None or value >= low) and (high is None or value <= high)


def same_side(ours: float, theirs: float) -> bool:
    """A gain stays a gain, a loss a loss."""
    return ours * theirs > 0 or ours == theirs
