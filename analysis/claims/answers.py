"""What an experiment's runs say to a claim: the median over seeds, paired by seed, with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf, nan
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.claims.cells import cell_of
from analysis.claims.ledger import Cell, Claim
from analysis.claims.shapes import SHAPES
from analysis.stats import interval, median

UNITS = {"s": 1.0, "min": 1 / 60, "h": 1 / 3600, "%": 100.0, "x": 1.0, "": 1.0}
"""What a measure in seconds, or a plain fraction, is multiplied with."""


class Answer(NamedTuple):
    """Ours, in the claim's unit. ``holds`` is set for shapes only; ``text`` says what they saw."""

    value: float = nan
    low: float = nan
    high: float = nan
    seeds: int = 0
    holds: bool | None = None
    text: str = ""


def answer(claim: Claim, runs: pd.DataFrame) -> Answer | None:
    """None where the runs do not hold what the claim is about.

    Args:
        claim: of the ledger.
        runs: a row per run: a column for each axis, ``seed``, and measures (:mod:`analysis.experiments.results`).
    """
    if claim.shape is not None:
        seen = SHAPES[claim.shape](runs, claim)
        return None if seen is None else Answer(holds=seen.holds, text=seen.text, seeds=seeds_of(runs))
    if not claim.subject:
        return None
    if claim.over is not None:
        return over_levels(claim, runs)
    subject = by_seed(runs, claim.subject, claim.of)
    others = [by_seed(runs, {**claim.subject, **cell}, claim.of) for cell in claim.against]
    if subject.empty or any(other.empty for other in others):
        return None
    if claim.how == "order":
        return rising(claim, [subject, *others])
    if not others:
        return described(subject * UNITS[claim.unit])
    found = [described(compared(claim.how, subject, other) * UNITS[claim.unit]) for other in others]
    usable = [each for each in found if each.seeds]
    return (max if claim.best else min)(usable, key=lambda each: each.value) if usable else None


def over_levels(claim: Claim, runs: pd.DataFrame) -> Answer | None:
    """The least favourable level of the claim's axis, or with ``best`` the most favourable; the text has all."""
    axis, found = str(claim.over), {}
    for level in runs[axis].unique() if axis in runs else ():
        cell = msgspec.structs.replace(claim, over=None, subject={**claim.subject, axis: level})
        if (ours := answer(cell, runs)) is not None and ours.seeds:
            found[level] = ours
    if not found:
        return None
    text = ", ".join(
        f"{axis} {level} {each.value:.3g} [{each.low:.3g}, {each.high:.3g}]" for level, each in found.items()
    )
    chosen = (max if claim.best else min)(found.values(), key=lambda each: each.value)
    return chosen._replace(text=f"{text} {claim.unit}".strip())


def by_seed(runs: pd.DataFrame, cell: Cell, measure: str) -> pd.Series:
    """A measure of a cell by seed; a job that was cut off took for ever, what was not measured is left out."""
    mine = cell_of(runs, cell)
    if measure not in mine or mine.empty:
        return pd.Series(dtype="float64")
    values = mine[measure].astype("float64").copy()
    if measure == "jct_s" and "completed" in mine:
        values[~mine["completed"].astype(bool)] = inf
    return values.groupby(mine["seed"]).median().dropna()


def compared(how: str, subject: pd.Series, other: pd.Series) -> pd.Series:
    """By seed; seeds that only one side has are left out. Percentages are fractions here."""
    ours, theirs = subject.align(other, join="inner")
    with np.errstate(invalid="ignore", divide="ignore"):
        match how:
            case "lower":
                found = 1.0 - ours / theirs
            case "faster":
                found = theirs / ours - 1.0
            case "longer":
                found = ours / theirs - 1.0
            case "times":
                found = theirs / ours
            case _:
                found = ours - theirs
    return found.dropna()


def described(values: pd.Series) -> Answer:
    """Median and its bootstrap interval."""
    low, high = interval(values)
    return Answer(median(values), low, high, len(values))


def rising(claim: Claim, values: list[pd.Series]) -> Answer:
    """Whether the medians rise from one cell to the next."""
    medians = [median(each) for each in values]
    names = [next(iter(cell.values()), "") for cell in (claim.against[0], *claim.against)]
    names[0] = next((level for axis, level in claim.subject.items() if axis in claim.against[0]), "subject")
    text = " < ".join(f"{name} {value * UNITS[claim.unit]:.3g}" for name, value in zip(names, medians, strict=True))
    holds = all(a < b for a, b in pairwise(medians))
    return Answer(holds=holds, text=text if holds else f"not {text}", seeds=min(map(len, values)))


def seeds_of(runs: pd.DataFrame | Iterable[int]) -> int:
    """How many different ones."""
    return int(runs["seed"].nunique()) if isinstance(runs, pd.DataFrame) else len(set(runs))
