"""The answer of an experiment's runs to a claim: the median over seeds, paired by seed, with its interval.

A shape that needs more than one number has no interval. Its certainty is how often it holds when seeds are resampled
from those that ran (with replacement, whole seeds, so that pairs stay together).
"""

from __future__ import annotations

import math
from itertools import pairwise
from math import inf, isnan, nan
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.claims.cells import cell_of
from analysis.claims.ledger import Cell, Claim
from analysis.claims.shapes import SHAPES
from analysis.measures.small_samples import CONFIDENCE, interval, median

UNITS = {"s": 1.0, "min": 1 / 60, "h": 1 / 3600, "%": 100.0, "x": 1.0, "": 1.0}
"""Factor for a measure in seconds, or for a plain fraction."""


QUOTIENTS = {"lower": (-1.0, 1.0), "faster": (1.0, 1.0), "longer": (1.0, 1.0), "times": (1.0, 0.0)}
"""The ratio of times q in terms of what is reported of it: q = base + sign * reported."""
RESAMPLES = 200
NOTHING = 1e-6
"""Differences below this are rounding errors."""


class Answer(NamedTuple):
    """Our result, in the claim's unit. ``holds``, ``share``, ``same``: shapes only; ``text``: the observation.

    ``controls``: the answers of the claim's controls in the place of its subject. ``share``: of the resampled seeds
    with which the shape holds, NaN for one seed; ``same``: all seeds give the same result. ``cases``: all cases that
    count, of which the answer itself is the least (or most) favourable.
    """

    value: float = nan
    low: float = nan
    high: float = nan
    seeds: int = 0
    holds: bool | None = None
    text: str = ""
    share: float = nan
    same: bool = False
    cases: tuple[Answer, ...] = ()
    controls: tuple[Answer, ...] = ()


def answer(claim: Claim, runs: pd.DataFrame, chances: int = 1) -> Answer | None:
    """The answer to a claim, or None if the runs do not contain what the claim is about.

    Args:
        claim: an entry of the ledger.
        chances: number of cases of which the best counts; intervals get a correspondingly higher confidence
            (Bonferroni), since one of many succeeds by chance.
        runs: one row per run: a column for each axis, ``seed``, and measures (:mod:`analysis.experiments.results`).
    """
    if claim.controls:
        return with_controls(claim, runs)
    if claim.shape is not None:
        return answer_of_shape(claim, runs)
    if not claim.subject and claim.over is None:
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
        return median_answer(subject * UNITS[claim.unit])
    chances *= len(others) if claim.best else 1
    confidence = 1.0 - (1.0 - CONFIDENCE) / chances
    found = {
        ", ".join(cell.values()): versus(claim, subject, other, confidence)
        for cell, other in zip(claim.against, others, strict=True)
    }
    usable = {name: each for name, each in found.items() if each.seeds}
    return pick_case(claim, usable) if usable else None


def with_controls(claim: Claim, runs: pd.DataFrame) -> Answer | None:
    """The answer to a claim with the answers that its controls would give; a control that did not run has none."""
    alone = msgspec.structs.replace(claim, controls=())
    places = [msgspec.structs.replace(alone, subject={**claim.subject, **control}) for control in claim.controls]
    ours, theirs = answer(alone, runs), [answer(one, runs) for one in places]
    return None if ours is None else ours._replace(controls=tuple(one for one in theirs if one is not None))


def pick_case(claim: Claim, cases: dict[str, Answer]) -> Answer:
    """The least favourable case, or with ``best`` the most favourable; its text lists all if there are several.

    More is favourable, unless the claim accepts anything below a bound.
    """
    lowers = claim.accept is not None and claim.accept[0] is None
    chosen = (max if claim.best is not lowers else min)(cases.values(), key=lambda each: each.value)
    if len(cases) == 1:
        return chosen
    return chosen._replace(text=f"{cases_text(cases)} {claim.unit}".strip(), cases=tuple(cases.values()))


def cases_text(cases: dict[str, Answer]) -> str:
    """``lb_bsp 2.3 [2.2, 2.4], bsp 2.5 [2.4, 2.6]``."""
    return ", ".join(f"{name} {with_ends(each)}" for name, each in cases.items())


def with_ends(one: Answer) -> str:
    """A value with its interval: ``2.3 [2.2, 2.4]``."""
    return three_digits(one.value) + ("" if isnan(one.low) else f" [{three_digits(one.low)}, {three_digits(one.high)}]")


def three_digits(value: float) -> str:
    """Three significant digits; differences below rounding are 0."""
    return f"{0.0 if abs(value) < NOTHING else value:.3g}"


def answer_of_shape(claim: Claim, runs: pd.DataFrame) -> Answer | None:
    """The answer of a function of the whole experiment, and its certainty."""
    look, runs = SHAPES[claim.shape or ""], mask_cut_off(runs)
    result = look(runs, claim)
    if result is None:
        return None
    parts = [rows for _, rows in runs.groupby("seed")]
    ours = Answer(holds=result.holds, text=result.text, seeds=len(parts))
    if len(parts) < 2:
        return ours
    values = [rows[claim.of].to_numpy("float64") for rows in parts]
    if all(np.array_equal(each, values[0], equal_nan=True) for each in values):
        return ours._replace(share=float(result.holds), same=True)
    draws = np.random.default_rng(0).integers(len(parts), size=(RESAMPLES, len(parts)))
    again = [look(pd.concat([parts[index] for index in draw]), claim) for draw in draws]
    usable = [each.holds for each in again if each is not None]
    return ours._replace(share=float(np.mean(usable)) if usable else nan)


def over_levels(claim: Claim, runs: pd.DataFrame) -> Answer | None:
    """The least favourable level of the claim's axis, or with ``best`` the most favourable; the text lists all."""
    axis, found = str(claim.over), {}
    levels = list(runs[axis].unique()) if axis in runs else []
    for level in levels:
        cell = msgspec.structs.replace(claim, over=None, subject={**claim.subject, axis: level})
        if (ours := answer(cell, runs, len(levels) if claim.best else 1)) is not None and ours.seeds:
            found[f"{axis} {level}"] = ours
    if not found:
        return None
    chosen = pick_case(claim, found)
    return chosen._replace(text=f"{cases_text(found)} {claim.unit}".strip(), cases=tuple(found.values()))


def by_seed(runs: pd.DataFrame, cell: Cell, measure: str) -> pd.Series:
    """A measure of a cell by seed; infinite for a job that was cut off, missing measurements are left out."""
    mine = mask_cut_off(cell_of(runs, cell))
    if measure not in mine or mine.empty:
        return pd.Series(dtype="float64")
    return mine[measure].astype("float64").groupby(mine["seed"]).median().dropna()


def mask_cut_off(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs, of which a job that was cut off takes infinitely long: how long it lasted is no completion time."""
    if "jct_s" not in runs or "completed" not in runs:
        return runs
    return runs.assign(jct_s=runs["jct_s"].astype("float64").where(runs["completed"].astype(bool), inf))


def versus(claim: Claim, subject: pd.Series, other: pd.Series, confidence: float = CONFIDENCE) -> Answer:
    """Median and interval of the comparison ``how`` of two systems; for a ratio, computed from its logarithms."""
    values, factor = comparison(claim.how, subject, other), UNITS[claim.unit]
    found = median_answer(values * factor, confidence)
    if claim.how not in QUOTIENTS or not np.isfinite(values).all() or isnan(found.low):
        return found
    sign, base = QUOTIENTS[claim.how]
    quotients = base + sign * values
    if not (quotients > 0).all():
        return found
    ends = [(math.exp(end) - base) * sign * factor for end in interval(np.log(quotients), confidence)]
    return found._replace(low=min(*ends, found.value), high=max(*ends, found.value))


def comparison(how: str, subject: pd.Series, other: pd.Series) -> pd.Series:
    """The comparison by seed; seeds that only one side has are left out. Percentages are fractions here."""
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


def median_answer(values: pd.Series, confidence: float = CONFIDENCE) -> Answer:
    """Median of the values with its interval, as an answer."""
    low, high = interval(values, confidence)
    return Answer(median(values), low, high, len(values))


def rising(claim: Claim, values: list[pd.Series]) -> Answer:
    """The steps from one cell to the next, by seed, and the medians."""
    medians = [median(each) for each in values]
    names = [next(iter(cell.values()), "") for cell in (claim.against[0], *claim.against)]
    names[0] = next((level for axis, level in claim.subject.items() if axis in claim.against[0]), "subject")
    text = " < ".join(f"{name} {value * UNITS[claim.unit]:.3g}" for name, value in zip(names, medians, strict=True))
    steps = tuple(median_answer(comparison("excess", b, a) * UNITS[claim.unit]) for a, b in pairwise(values))
    least = min(steps, key=lambda step: step.value)
    order = text if least.value > NOTHING else f"not {text}"
    return least._replace(text=f"{order}; {cases_text({'least step': least})}", cases=steps)
