"""The results of comparing live and virtual runs, in a few lines (:mod:`analysis.reports.fidelity`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf, isnan
from typing import Any

import pandas as pd

from analysis.measures.agreement import OFF, UNCLEAR, WITHIN
from analysis.reports.fidelity import MEANINGS, NAMES, Fidelity

DASH = "\N{EN DASH}"
FEW = 20
"""With fewer evaluations before the target, the step between two is as large as the tolerance."""


def verdict(found: Fidelity) -> list[str]:
    """The results; every miss and every inconclusive case is named."""
    lines = []
    for measure, name in NAMES.items():
        rows = found.measures[(found.measures["measure"] == measure) & found.measures["verdict"].notna()]
        verdicts = [(row["verdict"], f"{row['strategy']} ({error_text(row)})", row["straggler"]) for row in _rows(rows)]
        what = f"{name} ({MEANINGS[measure]}) within {100 * found.tolerance_frac:g} %:"
        lines.append(_count(what, "cases", verdicts))
        lines += _at_live_speed(found, measure, what)
        rows = found.rankings[(found.rankings["measure"] == measure) & found.rankings["verdict"].notna()]
        verdicts = [(row["verdict"], row["swapped"] or row["undecided"], row["straggler"]) for row in _rows(rows)]
        lines.append(_count(f"ranking of the strategies by {name} kept:", "patterns of stragglers", verdicts))
        lines.append(f"pairs of strategies that {name} distinguishes live: {_say_kept(rows)}") if len(rows) else None
    verdicts = [
        (WITHIN if row["equal"] else OFF, f"seed {row['seed']}", row["straggler"]) for row in _rows(found.losses)
    ]
    lines.append(_count("losses of BSP bit-identical:", "pairs", verdicts))
    return [*lines, *_processor(found), *_noise(found), *_evaluations(found)]


def _at_live_speed(found: Fidelity, measure: str, what: str) -> Iterator[str]:
    """The same verdicts on virtual runs whose processors are as fast as live."""
    rows = found.measures[(found.measures["measure"] == measure) & found.measures["paced_verdict"].notna()]
    verdicts = [
        (row["paced_verdict"], f"{row['strategy']} ({percent(row['paced'])})", row["straggler"]) for row in _rows(rows)
    ]
    if verdicts:
        yield _count(f"at live's processor speed, {what.removesuffix(':')}:", "cases", verdicts)


def _rows(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    return [dict(row) for _, row in rows.iterrows()]


def _case(row: dict[Any, Any]) -> str:
    return f"{row['strategy']} under {row['straggler']}"


def _say_kept(rows: pd.DataFrame) -> str:
    swapped, undecided = (
        sum(len(text.split(", ")) for text in rows[name] if text) for name in ("swapped", "undecided")
    )
    return f"{rows['kept'].sum()} of {rows['pairs'].sum()} in the same order, {swapped} swapped, {undecided} undecided"


def _count(what: str, units: str, verdicts: Sequence[tuple[str, str, str]]) -> str:
    """``what`` 3 of 5 ``units``; not (those); inconclusive (those): verdict, name and straggler of each."""
    if not verdicts:
        return f"{what} nothing to compare"
    text = f"{what} {sum(given == WITHIN for given, *_ in verdicts)} of {len(verdicts)} {units}"
    for key, word in ((OFF, "not"), (UNCLEAR, "inconclusive")):
        by_straggler = dict[str, list[str]]()
        for given, name, straggler in verdicts:
            if given == key:
                by_straggler.setdefault(straggler, []).append(name)
        named = [f"{', '.join(names)} under {straggler}" for straggler, names in by_straggler.items()]
        text += f"; {word} {', '.join(named)}" if named else ""
    return text


def _processor(found: Fidelity) -> Iterator[str]:
    """How much faster or slower this machine computed live than while the costs were fitted, which times contain."""
    errors = found.measures.loc[found.measures["measure"] == "cpu_s", "error"].dropna()
    if len(errors):
        span = f"{percent(errors.min())} to {percent(errors.max())} by case"
        yield f"processor time of an iteration, virtual against live: {percent(errors.median())} in the median, {span}"


def _noise(found: Fidelity) -> Iterator[str]:
    """The limits of any model: how far two live runs of a seed differ, and how much jobs amplify small errors."""
    rows = found.measures[found.measures["measure"] == "jct_s"]
    bound, most = found.tolerance_frac, f"{100 * found.tolerance_frac:g} %"
    for name, what in (
        ("again", f"JCT of two live runs of the same seed more than {most} apart:"),
        ("slowed", f"virtual JCT moved by more than {most} by devices that are 1 % slower:"),
    ):
        known = rows[rows[f"{name}_pairs"] > 0]
        if len(known):
            bad = [
                f"{_case(row)} ({percent(row[f'{name}_worst'])})"
                for row in _rows(known[known[f"{name}_worst"].abs() > bound])
            ]
            yield f"{what} {len(bad)} of {len(known)} cases" + (f": {', '.join(bad)}" if bad else "")


def _evaluations(found: Fidelity) -> Iterator[str]:
    """Whether the times to the target are fine enough, and whether the evaluator kept up."""
    live = found.runs[found.runs["side"].isin(["live", "again"])]
    known = live["before_target"].dropna()
    if len(known):
        few = int((known < FEW).sum())
        yield f"evaluations before the target: {known.min():.0f} or more" + (
            f"; fewer than {FEW} in {few} of {len(known)} live runs" if few else ""
        )
        late, all_of = int(live["behind"].sum()), int(live["evaluations"].sum())
        yield f"live evaluations whose result came after the next was asked for: {late} of {all_of}"


def error_text(row: Any) -> str:
    """The relative error of a row of ``measures``; it has no number if only one side finished."""
    return "one side only" if isinf(row["live"]) != isinf(row["virtual"]) else percent(row["error"])


def percent(value: float) -> str:
    """A fraction in per cent, with its sign."""
    return DASH if isnan(value) else f"{100 * value:+.1f} %"
