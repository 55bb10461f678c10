"""A comparison of live and virtual runs (:mod:`analysis.reports.fidelity`) in a few lines, as tables, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf, isnan
from typing import Any

import pandas as pd

from analysis.measures.agreement import CASE, ENOUGH, OFF, PAIRS, SIDE, SIDES, UNCLEAR, WITHIN
from analysis.measures.warning_lines import stored_warnings, together
from analysis.reports.fidelity import TIMES, Fidelity
from analysis.reports.sheets import DASH, Sheet, number, percent, yes

MEANINGS = {"JCT": "job completion time", "TTA": "time to accuracy"}
"""The meaning of these abbreviations, which a page gives where it first uses them."""
NOTES = """\
Live and virtual: medians over the seeds. Error: the median over the seeds of virtual / live - 1 of the same job, with
its 95 % interval (bootstrap). The verdict is yes if the interval is within {percent:g} %, NO if all of it is outside on
one side, else inconclusive. Two strategies are distinguished if the interval of the ratio of their live times under
the same seed lies beyond {percent:g} %. The table's file also has "live twice", the difference of a second live run of
the same seed (median and worst), and "1 % slower", the change on devices (or cores of hosts) that are 1 % slower."""
NOISE = ("live twice", "1 % slower")
"""Columns of times that only the file of a table has; the page counts the cases in which they matter."""
AT = {"paced_": "at live's processor speed", "probed_": "at the memory's speed"}
"""Virtual runs whose processors' speed follows from the live run of the seed, by the prefix of their columns."""
AT_NOTES = {
    "paced_": """\
At live's processor speed: the error of another virtual run of each seed, on processors that need as long for an
iteration as they needed live. A machine computes faster or slower than while the costs were fitted.""",
    "probed_": """\
At the memory's speed: likewise, on processors whose speed follows, second by second, from copies of 4 MiB that were
timed during the live run. The law is fitted to the even seconds of all live runs, so its level also makes up for an
error of the cost model that all cases share.""",
}
FEW = 20
"""With fewer evaluations before the target, the step between two is as large as the tolerance."""


# ---- the results in lines -------------------------------------------------------------------------------------------


def verdict(found: Fidelity) -> list[str]:
    """The results; every miss and every inconclusive case is named."""
    lines = []
    if found.measures["seeds"].max() < ENOUGH:
        lines.append(f"fewer than {ENOUGH} seeds: every case is inconclusive, and no two strategies are distinguished")
    for measure, name in TIMES.items():
        what = f"{name} ({MEANINGS[name]}) within {100 * found.tolerance_frac:g} %:"
        for prefix, where in {"": "", **{prefix: f"{text}, " for prefix, text in AT.items()}}.items():
            rows = _rows(found.measures, measure, f"{prefix}verdict")
            if rows or not prefix:
                verdicts = [(row[f"{prefix}verdict"], _name_with_error(row, prefix), row["straggler"]) for row in rows]
                lines.append(_count(f"{where}{what}", "cases", verdicts))
        rows = _rows(found.rankings, measure, "verdict")
        if rows:
            verdicts = [(row["verdict"], row["swapped"] or row["undecided"], row["straggler"]) for row in rows]
            lines.append(_count(f"ranking of the strategies by {name} kept:", "patterns of stragglers", verdicts))
            kept, pairs = (sum(row[key] for row in rows) for key in ("kept", "pairs"))
            swapped, left = (
                sum(len(row[key].split(", ")) for row in rows if row[key]) for key in ("swapped", "undecided")
            )
            counts = f"{kept} of {pairs} in the same order, {swapped} swapped, {left} undecided"
            lines.append(f"pairs of strategies that {name} distinguishes live: {counts}")
    losses = zip(*(found.losses[name] for name in ("equal", "seed", "straggler")), strict=True)
    verdicts = [(WITHIN if equal else OFF, f"seed {seed}", straggler) for equal, seed, straggler in losses]
    if verdicts:
        lines.append(_count("losses of BSP bit-identical:", "pairs", verdicts))
    return [*lines, *_limits(found), *_of_memory(found), *_of_live(found)]


def _rows(frame: pd.DataFrame, measure: str, verdict: str) -> list[dict[Any, Any]]:
    known = frame[(frame["measure"] == measure) & frame[verdict].notna()]
    return [dict(row) for _, row in known.iterrows()]


def _name_with_error(row: Any, prefix: str) -> str:
    return f"{row['strategy']} ({percent(row[f'{prefix}error']) if prefix else error_text(row)})"


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


def _limits(found: Fidelity) -> Iterator[str]:
    """The limits of any model: other processors than in the fit, noise of live runs, jobs that amplify small errors."""
    errors = found.measures.loc[found.measures["measure"] == "cpu_s", "error"].dropna()
    if len(errors):
        span = f"{percent(errors.min())} to {percent(errors.max())} by case"
        yield f"processor time of an iteration, virtual against live: {percent(errors.median())} in the median, {span}"
    bound, most = found.tolerance_frac, f"{100 * found.tolerance_frac:g} %"
    for name, what in (
        ("again", f"JCT of two live runs of the same seed more than {most} apart:"),
        ("slowed", f"virtual JCT moved by more than {most} by devices that are 1 % slower:"),
    ):
        if rows := _rows(found.measures, "jct_s", f"{name}_verdict"):
            named = [
                f"{row['strategy']} under {row['straggler']} ({percent(row[f'{name}_worst'])})"
                for row in rows
                if abs(row[f"{name}_worst"]) > bound
            ]
            yield f"{what} {len(named)} of {len(rows)} cases" + (f": {', '.join(named)}" if named else "")


def _of_memory(found: Fidelity) -> Iterator[str]:
    """How well the speed of this machine's memory predicts the processor time of iterations."""
    if found.memory is not None:
        law, even, odd = found.memory
        yield (
            f"processor time of an iteration, live against virtual, by the memory's speed: {law.level:.2f} times "
            f"(copy / {1e6 * law.usual_s:.0f} us)^{law.exponent:.2f}, fitted to {even.windows} even seconds live: "
            f"{even.by_memory:.1%} off in the median, {odd.by_memory:.1%} in {odd.windows} odd ones; with one factor "
            f"for all seconds {even.constant:.1%} and {odd.constant:.1%}"
        ).replace("%", " %")


def _of_live(found: Fidelity) -> Iterator[str]:
    """Whether times to the target are fine enough, whether evaluators and paced devices kept up, and all warnings."""
    live = found.runs[found.runs[SIDE].isin(PAIRS["again_"])]
    known = live["before_target"].dropna()
    if len(known):
        few = int((known < FEW).sum())
        late, all_of = int(live["behind"].sum()), int(live["evaluations"].sum())
        yield (
            f"evaluations before the target: {known.min():.0f} or more"
            + (f"; fewer than {FEW} in {few} of {len(known)} live runs" if few else "")
            + f"; live ones whose result came after the next was asked for: {late} of {all_of}"
        )
    first = live[live[SIDE] == SIDES[0]]
    if first["paced_devices"].any():
        late = first["overruns"].sum() / max(1, first["iterations"].sum())
        yield f"live iterations that took longer than their device: {100 * late:.1f} %"
    for (straggler, strategy), group in first.groupby(CASE, sort=False):
        alike = together((stored_warnings({"warnings": each}) for each in group["warnings"]), "live runs")
        yield from (f"{strategy} under {straggler}, {one.text}" for one in alike)


# ---- the tables -----------------------------------------------------------------------------------------------------


def sheets(found: Fidelity) -> Iterator[Sheet]:
    """All tables of the comparison, misses included."""
    at = {case: rows.set_index("measure") for case, rows in found.measures.groupby(CASE, sort=False)}
    within, there = f"within {100 * found.tolerance_frac:g} %", following(found)
    seeds = " to ".join(map(str, dict.fromkeys((found.measures["seeds"].min(), found.measures["seeds"].max()))))
    for name, measure in (("Job completion time", "jct_s"), ("Time to the target", "tta_s")):
        heads = [*CASE, "live (s)", "virtual (s)", "error", "95 % interval", within, *NOISE]
        heads += ["error, interpolated"] if measure == "tta_s" else []
        heads += [head for prefix in there for head in (AT[prefix], "95 % interval", within)]
        yield Sheet(
            f"{name}, {seeds} seeds", heads, [[*case, *_times(rows, measure, there)] for case, rows in at.items()]
        )
    heads = [*CASE, "BPT median (ms)", "BPT 90 % (ms)", "processor (ms)", "updates"]
    heads += ["mean staleness", "largest", "distance", "dropped"]
    yield Sheet(
        "Work, live / virtual", heads, [[*case, *_work(rows, found.distances[case])] for case, rows in at.items()]
    )
    heads = ["straggler", "by", "live order", "virtual order", "apart", "kept", "swapped", "undecided", "same order"]
    rows = [
        [name, TIMES[by], *map(str, row), strict_text(same)]
        for name, by, *row, same in found.rankings.itertuples(index=False)
    ]
    yield Sheet("Ranking, fastest first", heads, rows)
    heads = ["straggler", "seed", "losses", "different", "in one only", "first difference", "bitwise equal"]
    rows = [[*map(str, row), yes(equal)] for *row, equal in found.losses.itertuples(index=False)]
    yield Sheet("Losses of BSP, live against virtual of the same seed", heads, rows)


def brief(sheet: Sheet) -> Sheet:
    """The table of times for the page: without the columns ``NOISE``."""
    kept = [place for place, head in enumerate(sheet.heads) if head not in NOISE]
    return Sheet(
        sheet.title, [sheet.heads[place] for place in kept], [[row[place] for place in kept] for row in sheet.rows]
    )


def _times(at: pd.DataFrame, measure: str, there: Sequence[str]) -> Iterator[str]:
    """Live, virtual, error with interval and verdict, noise, amplification; of the TTA interpolated, too; ``there``."""
    row = at.loc[measure]
    for side in SIDES[:2]:
        missed, value = row[f"{side}_missed"], row[side]
        gone = f"{missed}/{row['seeds']} {'cut off' if measure == 'jct_s' else 'missed'}" if missed else ""
        yield " ".join(filter(None, [number(value, ".2f") if not isinf(value) else "", gone]))
    yield from (error_text(row), interval_text(row), strict_text(row["verdict"]))
    for name, spec in (("again", ".1%"), ("slowed", "+.1%")):
        said = f"{number(row[f'{name}_error'], spec)} (worst {number(row[f'{name}_worst'], spec)})".replace("%", " %")
        yield said if row[f"{name}_pairs"] else DASH
    if measure == "tta_s":
        yield f"{error_text(at.loc['tta_interp_s'])} {interval_text(at.loc['tta_interp_s'])}"
    for prefix in there:
        yield from (percent(row[f"{prefix}error"]), interval_text(row, prefix), strict_text(row[f"{prefix}verdict"]))


def _work(at: pd.DataFrame, distance: float) -> Iterator[str]:
    """Live / virtual and the error, if there is one."""
    for measure, factor, spec, suffix in (
        *((measure, 1e3, ".1f", True) for measure in ("bpt_median_s", "bpt_p90_s", "cpu_s")),
        *(("updates", 1, ".0f", True), ("staleness_mean", 1, ".2f", False), ("staleness_max", 1, ".0f", False)),
        ("dropped_frac", 1, ".1%", False),
    ):
        if measure == "dropped_frac":
            yield number(distance, ".3f")
        row = at.loc[measure]
        error = f" ({error_text(row)})" if suffix else ""
        yield f"{number(row['live'] * factor, spec)} / {number(row['virtual'] * factor, spec)}{error}"


def following(found: Fidelity) -> list[str]:
    """The prefixes of the virtual runs in ``AT`` that there are."""
    return [prefix for prefix in AT if (found.runs[SIDE] == PAIRS[prefix][1]).any()]


def error_text(row: Any) -> str:
    """The relative error of a row of ``measures``; it has no number if only one side finished."""
    return "one side only" if isinf(row["live"]) != isinf(row["virtual"]) else percent(row["error"])


def interval_text(row: Any, of: str = "") -> str:
    """The interval in per cent: ``-1.2 to +0.3``; ``of``: the prefix of its limits' names."""
    limits = row[f"{of}low"], row[f"{of}high"]
    if any(map(isnan, limits)):
        return DASH
    return " to ".join("never" if isinf(value) else f"{100 * value:+.1f}" for value in limits)


def strict_text(verdict: Any) -> str:
    """A strict verdict; a dash if there is none."""
    return DASH if pd.isna(verdict) else str(verdict)


def notes(found: Fidelity) -> str:
    """The meaning of the columns of the page's table."""
    text = NOTES.format(percent=100 * found.tolerance_frac)
    return "\n".join([text, *(AT_NOTES[prefix] for prefix in following(found))])


def has_case(page: str, straggler: str, strategy: str) -> bool:
    """Whether a table of the page has a row of this case."""
    return f"\n| {straggler} | {strategy} |" in page
