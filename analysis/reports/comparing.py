"""Compare any runs: how a time of each strategy relates to the baseline's, with a verdict; as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isinf, isnan, nan
from typing import NamedTuple

import numpy as np

from analysis.figures.names import NO_NAMES, shown_case, shown_name
from analysis.measures.distinguishing import MOST_SEEDS, Distinction, distinguish
from analysis.measures.profiles import MOST, profile_scores
from analysis.measures.run_rows import (
    CELL,
    Rows,
    group_rows,
    largest,
    numbers,
    of_cell,
    paired_ratios,
    seeds,
    warned_counts,
)
from analysis.measures.small_samples import median
from analysis.reports.columns import COLUMNS, NAMES, Name, Quantity, relative
from analysis.reports.console import MARK, MARKED, mark_warned, number_text

DASH = "\N{EN DASH}"


class Compared(NamedTuple):
    """One strategy in one case."""

    case: str
    strategy: str
    seeds: int
    median_s: float
    step_s: float
    """Seconds by which the target may have been reached sooner, at most; NaN for other times."""
    against: Distinction | None
    """None: it is the baseline itself, or the baseline was not run in this case."""
    score: float
    """Area below the performance profile over all cases; NaN unless there are several."""
    warned: int
    """How many of its runs have warnings."""
    warned_pairs: int
    """How many of its pairs have one with warnings."""


class Sheet(NamedTuple):
    """A table of text: a head, rows of as many cells, and what is to be said below it."""

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


def comparison_rows(runs: Rows, baseline: str, quantity: Quantity) -> list[Compared]:
    """A row per strategy of :func:`analysis.measures.run_rows.run_rows`, case by case, in order of appearance."""
    scores = _scores(runs, f"{quantity}_s")
    found = []
    for (case, strategy), group in group_rows(runs, *CELL).items():
        other = of_cell(runs, case, baseline)
        step_s = largest(numbers(group, "tta_step_s")) if quantity == "tta" else nan
        against = None if strategy == baseline or not other else _distinguish(group, other, quantity)
        head = (case, strategy, seeds(group), median(numbers(group, f"{quantity}_s")), step_s)
        warned = warned_counts(group, other)
        found.append(Compared(*head, against, scores[strategy], warned["warned"], warned["warned_pairs"]))
    cases = list(dict.fromkeys(row.case for row in found))
    return sorted(found, key=lambda row: cases.index(row.case))


def _distinguish(group: Rows, other: Rows, quantity: Quantity) -> Distinction:
    """Times to the target are as coarse as the evaluations of both."""
    ratios = paired_ratios(group, other, f"{quantity}_s")
    if quantity == "jct":
        return distinguish(ratios)
    step_s = np.float64(largest(numbers([*group, *other], "tta_step_s")))
    with np.errstate(divide="ignore", invalid="ignore"):  # the target was reached at once
        coarse_frac = float(step_s / median(numbers(other, "tta_s")))
    return distinguish(ratios, coarse_frac)


def _scores(runs: Rows, name: str) -> dict[str, float]:
    medians = {cell: median(numbers(group, name)) for cell, group in group_rows(runs, *CELL).items()}
    cases, strategies = (list(dict.fromkeys(names)) for names in zip(*medians, strict=True))
    if len(cases) < 2:
        return dict.fromkeys(strategies, nan)
    times = np.array([[medians.get((case, strategy), nan) for strategy in strategies] for case in cases])
    scores = dict(zip(strategies, profile_scores(times).tolist(), strict=True))
    scored = sum(not isnan(score) for score in scores.values())
    return scores if scored > 1 else dict.fromkeys(strategies, nan)  # the score of one alone compares nothing


def sheet(
    rows: Sequence[Compared],
    baseline: str,
    quantity: Quantity,
    names: Mapping[str, str] | None = NO_NAMES,
    columns: Sequence[Name] = COLUMNS,
) -> Sheet:
    """The rows as text; columns that say nothing here are left out.

    ``names`` of cases and strategies are for people and override the strategies' own; None keeps the configurations'
    names, for programs, whose cells are numbers, or empty.
    """
    known = NO_NAMES if names is None else names
    shown = str if names is None else partial(shown_name, names=known)
    form = _Form(shown(baseline), quantity, baseline, for_people=names is not None)
    cases = any(row.case for row in rows)
    there = [name for name in columns if _says_something(name, rows)]
    counted = names is None and any(row.warned or row.warned_pairs for row in rows)
    head = [*(["case"] if cases else []), "strategy", *(text for name in there for text in form.head(name))]
    texts = []
    for row in rows:
        case = row.case if names is None else shown_case(row.case, known)
        label = shown(row.strategy) if names is None else mark_warned(shown(row.strategy), row.warned)
        cells = [*([case] if cases else []), label, *(text for name in there for text in form.cells(name, row))]
        texts.append((*cells, *([str(row.warned), str(row.warned_pairs)] if counted else [])))
    return Sheet((*head, *(WARNED if counted else ())), texts, tuple(_notes(rows, baseline, quantity, there, shown)))


def _says_something(name: Name, rows: Sequence[Compared]) -> bool:
    values = {"step": [row.step_s for row in rows], "score": [row.score for row in rows]}
    return name not in values or not all(map(isnan, values[name]))


class _Form(NamedTuple):
    """How the cells of a sheet are written: for people, or numbers for programs."""

    baseline: str
    quantity: Quantity
    label: str
    for_people: bool

    def head(self, name: Name) -> tuple[str, ...]:
        """One head, or two for the ends of an interval."""
        if name == "interval" and not self.for_people:
            return "95 % low", "95 % high"
        named = NAMES[self.quantity]
        texts = {"time": f"{named} (s)", "step": f"{named} error (s)", "ratio": relative(named, self.baseline)}
        texts |= {"interval": "95 % interval", "score": "profile score"}
        return (texts.get(name, name),)

    def cells(self, name: Name, row: Compared) -> tuple[str, ...]:
        """As many as there are heads."""
        found = row.against
        match name:
            case "seeds":
                return (str(row.seeds),)
            case "time":
                return (self.number(row.median_s, 2),)
            case "step":
                return (self.number(row.step_s, 3),)
            case "score":
                return (self.number(row.score, 2),)
            case "ratio":
                ratio = self.number(1.0 if row.strategy == self.label else found.ratio if found else nan, 2)
                return (f"{ratio}{MARK}" if self.for_people and found and found.pairs and row.warned_pairs else ratio,)
            case "verdict":
                return (_verdict(row, self.label) if self.for_people else found.verdict if found else "",)
        low, high = (self.number(end, 2) for end in ((found.low, found.high) if found else (nan, nan)))
        if not self.for_people:
            return low, high
        return (DASH if low == DASH else f"[{low}, {high}]",)

    def number(self, value: float, digits: int) -> str:
        """The number; for people a missing one is a dash."""
        if self.for_people:
            return number_text(value, digits)
        return "" if isnan(value) else f"{value:.{digits}f}"


WARNED = ("runs with warnings", "pairs with warnings")
"""Columns for programs; people see a mark."""


def _verdict(row: Compared, baseline: str) -> str:
    """``never``: most runs did not get there; where the baseline did not either, there is no ratio."""
    if row.against is None:
        return "baseline" if row.strategy == baseline else "no baseline here"
    never = isinf(row.median_s) and not row.against.pairs
    return "never at any seed of both" if never else verdict_text(row.against)


def _notes(
    rows: Sequence[Compared], baseline: str, quantity: Quantity, there: Sequence[Name], shown: Callable[[str], str]
) -> Iterator[str]:
    """Return the notes that a reader of the numbers alone must know."""
    others = [row for row in rows if row.strategy != baseline]
    if quantity == "tta":
        yield (
            "TTA (time to accuracy): until the evaluation from which on the target is held (target_evals); training "
            "may have reached it earlier, by at most the TTA error; times that differ by less are not distinguished."
        )
    if "score" in there:
        yield (
            f"profile score: 1 if the strategy is the fastest in every case, 0 if it never comes within {MOST:g} times "
            f"the fastest; {DASH}: it was not run in every case."
        )
    if others and all(row.against is None or row.against.pairs < 2 for row in others):
        yield "One pair of runs decides nothing: a difference may be chance. Repeat with several seeds."
    if any(row.warned or row.warned_pairs for row in rows):
        yield MARKED
    if "ratio" in there and any(row.against is None for row in others):
        yield f"{DASH} for a ratio: {shown(baseline)} was not run in this case."
    if "ratio" in there and any(row.against is not None and isnan(row.against.ratio) for row in others):
        yield f"{DASH} for a ratio: no seed at which {shown(baseline)} or the other one got there."
    if "interval" in there and any(row.against is not None and row.against.pairs == 1 for row in others):
        yield f"{DASH} for an interval: one pair of runs has none."
    if any(isinf(row.median_s) for row in rows):
        yield "\N{INFINITY}: half of the runs or more never got there."


def verdict_text(found: Distinction) -> str:
    """The verdict, and if there is none, how many seeds it would take."""
    if found.coarse:
        return f"{found.verdict} (less than the TTA error)"
    if found.verdict == "too few seeds":
        return f"too few seeds ({found.pairs} paired)"
    if found.verdict != "not distinguishable" or not found.seeds_needed:
        return found.verdict
    if found.seeds_needed <= found.pairs:
        return found.verdict
    more = f"over {MOST_SEEDS - 1}" if found.seeds_needed >= MOST_SEEDS else f"some {found.seeds_needed}"
    return f"{found.verdict} ({found.pairs} seeds; {more} needed)"
