"""A comparison of live and virtual runs as tables and as a page (:mod:`analysis.reports.fidelity`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf, isnan
from typing import Any, NamedTuple

import pandas as pd

from analysis.markup import markdown_lines, to_csv
from analysis.measures.warning_lines import stored, together
from analysis.reports.fidelity import NAMES, Fidelity
from analysis.reports.fidelity_summary import DASH, error_text, percent

NOTES = """\
Live and virtual: medians over the seeds. Error: the median over the seeds of virtual / live - 1 of the same job, with
its 95 % interval (bootstrap). The verdict is yes if the interval is within {percent:g} %, NO if all of it is outside on
one side, else inconclusive. "Live twice": the difference of a second live run of the same seed, median and worst. "1 %
slower": the change on devices (or cores of hosts) that are 1 % slower. Two strategies are distinguished if the
interval of the ratio of their live times under the same seed lies beyond {percent:g} %."""
AT_LIVE_SPEED = "at live's processor speed"
PACED_NOTES = """\
At live's processor speed: the error of another virtual run of each seed, on processors that need as long for an
iteration as they needed live. A machine computes faster or slower than while the costs were fitted."""
SHOWN = 1
"""Tables on the page; the others are files next to its figure."""


class Sheet(NamedTuple):
    """A table of the page: title, header and rows of text."""

    title: str
    heads: Sequence[str]
    rows: list[list[str]]


def sheets(found: Fidelity) -> Iterator[Sheet]:
    """All tables of the comparison, misses included."""
    first = ["straggler", "strategy"]
    cases = {case: rows.set_index("measure") for case, rows in found.measures.groupby(first, sort=False)}
    within = f"within {100 * found.tolerance_frac:g} %"
    for name, measure in (("Job completion time", "jct_s"), ("Time to the target", "tta_s")):
        heads = [*first, "live (s)", "virtual (s)", "error", "95 % interval", within, "live twice", "1 % slower"]
        heads += ["error, interpolated"] if measure == "tta_s" else []
        heads += [AT_LIVE_SPEED, "95 % interval", within] if has_paced(found) else []
        rows = [
            [*case, *time_cells(at, measure), *(paced_cells(at.loc[measure]) if has_paced(found) else ())]
            for case, at in cases.items()
        ]
        yield Sheet(f"{name}, {seeds_text(found)}", heads, rows)
    heads = [*first, "BPT median (ms)", "BPT 90 % (ms)", "processor (ms)", "updates"]
    heads += ["mean staleness", "largest", "distance", "dropped"]
    yield Sheet("Work, live / virtual", heads, [[*case, *work_cells(at)] for case, at in cases.items()])
    heads = ["straggler", "by", "live order", "virtual order", "apart", "kept", "swapped", "undecided", "same order"]
    rows = [
        [name, NAMES[by], *map(str, row), strict_text(same)]
        for name, by, *row, same in found.rankings.itertuples(index=False)
    ]
    yield Sheet("Ranking, fastest first", heads, rows)
    heads = ["straggler", "seed", "losses", "different", "in one only", "first difference", "bitwise equal"]
    rows = [[*map(str, row), yes(equal)] for *row, equal in found.losses.itertuples(index=False)]
    yield Sheet("Losses of BSP, live against virtual of the same seed", heads, rows)


def seeds_text(found: Fidelity) -> str:
    """The number of seeds of the cases, as text."""
    numbers = sorted(set(found.measures["seeds"]))
    return f"{' to '.join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1])))} seeds"


def time_cells(at: pd.DataFrame, measure: str) -> Iterator[str]:
    """Live, virtual, error with interval and verdict, noise, amplification; for the TTA also interpolated."""
    row = at.loc[measure]
    for side in ("live", "virtual"):
        missed, value = row[f"{side}_missed"], row[side]
        gone = f"{missed}/{row['seeds']} {'cut off' if measure == 'jct_s' else 'missed'}" if missed else ""
        yield " ".join(filter(None, [number(value, ".2f") if not isinf(value) else "", gone]))
    yield error_text(row)
    yield interval_text(row)
    yield strict_text(row["verdict"])
    yield noise_text(row, "again", ".1%")
    yield noise_text(row, "slowed", "+.1%")
    if measure == "tta_s":
        yield f"{error_text(at.loc['tta_interp_s'])} {interval_text(at.loc['tta_interp_s'])}"


def has_paced(found: Fidelity) -> bool:
    """Whether there are virtual runs at live's processor speed."""
    return bool(found.measures["paced_pairs"].fillna(0).any())


def paced_cells(row: Any) -> Iterator[str]:
    """The error at live's processor speed, its interval and its verdict."""
    yield percent(row["paced"])
    yield interval_text(row, "paced_")
    yield strict_text(row["paced_verdict"])


def interval_text(row: Any, of: str = "") -> str:
    """The interval in per cent: ``-1.2 to +0.3``; ``of``: the prefix of its limits' names."""
    limits = row[f"{of}low"], row[f"{of}high"]
    if any(map(isnan, limits)):
        return DASH
    return " to ".join("never" if isinf(value) else f"{100 * value:+.1f}" for value in limits)


def noise_text(row: Any, name: str, spec: str) -> str:
    """Median and worst of the change by ``name``; a dash if there are no such runs."""
    if pd.isna(row[f"{name}_pairs"]) or not row[f"{name}_pairs"]:
        return DASH
    return f"{number(row[name], spec)} (worst {number(row[f'{name}_worst'], spec)})".replace("%", " %")


def work_cells(at: pd.DataFrame) -> Iterator[str]:
    """Live / virtual and the error, if there is one."""
    times = [(measure, 1e3, ".1f") for measure in ("bpt_median_s", "bpt_p90_s", "cpu_s")]
    for measure, factor, spec in (*times, ("updates", 1, ".0f")):
        row = at.loc[measure]
        yield f"{number(row['live'] * factor, spec)} / {number(row['virtual'] * factor, spec)} ({error_text(row)})"
    for measure, spec in (("staleness_mean", ".2f"), ("staleness_max", ".0f")):
        yield f"{number(at.loc[measure, 'live'], spec)} / {number(at.loc[measure, 'virtual'], spec)}"
    yield number(at.loc["staleness", "error"], ".3f")
    yield f"{number(at.loc['dropped_frac', 'live'], '.1%')} / {number(at.loc['dropped_frac', 'virtual'], '.1%')}"


def overran(found: Fidelity) -> str:
    """Share of live iterations that took longer than their device should."""
    live = found.runs[found.runs["side"] == "live"]
    late = live["overruns"].sum() / max(1, live["iterations"].sum())
    return f"live iterations that took longer than their device: {late:.1%}"


def live_warnings(found: Fidelity) -> list[str]:
    """Return the warnings of live runs, for each case the worst."""
    lines = []
    live = found.runs[found.runs["side"] == "live"]
    for (straggler, strategy), group in live.groupby(["straggler", "strategy"], sort=False):
        alike = together((stored({"warnings": each}) for each in group["warnings"]), "live runs")
        lines += [f"{strategy} under {straggler}, {one.text}" for one in alike]
    return lines


def markdown(
    head: str, points: Sequence[str], picture: str, tables: Sequence[Sheet], files: Sequence[str], tolerance_frac: float
) -> str:
    """The page: what was compared (``head``), the results (``points``), the figure, the first table, links."""
    lines = [head, "", *(f"- {point}" for point in points), ""]
    lines += [f"![job completion times]({picture})", "", NOTES.format(percent=100 * tolerance_frac)]
    lines += [PACED_NOTES] if any(AT_LIVE_SPEED in sheet.heads for sheet in tables) else []
    return "\n".join([*lines, *_tables(tables, files, "##"), ""])


def addition(page: str, head: str, points: Sequence[str], tables: Sequence[Sheet], files: Sequence[str]) -> str:
    """The page with a group of cases more, which were run at another time and are compared with each other alone."""
    lines = [page.rstrip("\n"), "", head, "", *(f"- {point}" for point in points)]
    return "\n".join([*lines, *_tables(tables, files, "###"), ""])


def in_files(tables: Sequence[Sheet]) -> dict[str, str]:
    """The tables that a page does not show, as CSV, by a name that follows from their title."""
    return {
        "_".join(sheet.title.partition(",")[0].lower().split()): to_csv(sheet.heads, sheet.rows)
        for sheet in tables[SHOWN:]
        if sheet.rows
    }


def has_case(page: str, straggler: str, strategy: str) -> bool:
    """Whether a table of the page has a row of this case."""
    return f"\n| {straggler} | {strategy} |" in page


def _tables(tables: Sequence[Sheet], files: Sequence[str], level: str) -> Iterator[str]:
    for sheet in tables[:SHOWN]:
        yield from ("", f"{level} {sheet.title}", "", *markdown_lines(sheet.heads, sheet.rows))
    if files:
        links = ", ".join(f"[{file.rpartition('/')[2]}]({file})" for file in files)
        yield from ("", f"Tables of the same cases: {links}.")


def number(value: float, spec: str) -> str:
    """The number; a dash if it was not measured."""
    return DASH if isnan(value) else format(value, spec)


def yes(value: Any) -> str:
    """A verdict; a dash if there is none."""
    return DASH if pd.isna(value) else "yes" if value else "NO"


def strict_text(verdict: Any) -> str:
    """A strict verdict; a dash if there is none."""
    return DASH if pd.isna(verdict) else str(verdict)
