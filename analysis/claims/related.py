"""The values that follow from a paper's ratios: "24 % lower than backup workers" and 3982 s are 5239 s (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.claims.answers import QUOTIENTS, UNITS
from analysis.claims.ledger import Bounds, Claim

Levels = tuple[str, ...]
"""A cell: its level on each axis."""
Ends = tuple[float, float]
"""The least and the largest of several values; a single one twice."""
OVER_BASE = ("lower", "longer")
"""Comparisons whose quotient is the subject over the base; of the others it is the base over the subject."""


def extend_by_ratios(
    claims: Iterable[Claim], axes: Sequence[str], known: Mapping[Levels, Ends], scale: float = 1.0
) -> dict[Levels, Ends]:
    """Return ``known`` with the values of all cells that comparisons relate to it.

    Args:
        claims: entries about one measure; those count that compare one whole cell with another by a number or a range.
        axes: the axes of a cell.
        known: values, in the unit of the measure times ``scale``.
        scale: factor of the values for differences (``excess``).

    Returns:
        A cell has the values that its shortest ways from ``known`` give: the paper's own ratios may disagree.
    """
    pairs, found = list(_pairs(claims, axes, scale)), dict(known)
    while True:
        step = dict[Levels, list[float]]()
        for subject, base, how, amounts in pairs:
            for here, there, back in ((base, subject, False), (subject, base, True)):
                if here in found and there not in found:
                    step.setdefault(there, []).extend(
                        _move(how, value, amount, back) for value in found[here] for amount in amounts
                    )
        if not step:
            return found
        found |= {cell: (min(values), max(values)) for cell, values in step.items()}


def _pairs(claims: Iterable[Claim], axes: Sequence[str], scale: float) -> Iterator[tuple[Levels, Levels, str, Ends]]:
    for claim in claims:
        if claim.how in ("value", "order") or len(claim.against) != 1:
            continue
        subject, base = claim.subject, {**claim.subject, **claim.against[0]}
        ends = _ends(claim)
        if {*subject} != {*axes} or {*base} != {*axes} or ends[0] is None or ends[1] is None:
            continue
        factor = (scale if claim.how == "excess" else 1.0) / UNITS[claim.unit]
        yield (
            tuple(subject[axis] for axis in axes),
            tuple(base[axis] for axis in axes),
            claim.how,
            (ends[0] * factor, ends[1] * factor),
        )


def _ends(claim: Claim) -> Bounds:
    """Both ends of the reported number, in the claim's unit; open where it is a bound alone ("more than twice")."""
    if claim.magnitude is not None:
        return claim.magnitude
    is_end = claim.value is not None and claim.value in (claim.accept or ())
    return claim.accept if claim.accept is not None and is_end else (claim.value, claim.value)


def _move(how: str, value: float, amount: float, back: bool) -> float:
    """The subject's value from the base's, or ``back``."""
    if how == "excess":
        return value - amount if back else value + amount
    sign, base = QUOTIENTS[how]
    quotient = base + sign * amount
    return value * quotient if (how in OVER_BASE) is not back else value / quotient
