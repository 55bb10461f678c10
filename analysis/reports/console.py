"""The comparison as a table on a terminal, or in a file."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.figures.names import shown_name
from analysis.measures.targets import step_text
from analysis.reports.columns import relative

if TYPE_CHECKING:
    import pandas as pd

UNLIMITED = 1000
NAMES = ("strategy", "run")
"""Heads of columns of names, which stand at the left."""


WORDS = (
    "JCT: job completion time. TTA: time to accuracy, until the evaluation from which on the target is held; training "
    "may have reached it earlier, by at most the TTA error. Staleness: how many updates others made between reading "
    "the parameters and applying the gradient. Waiting: share of all workers' time. BPT: batch processing time, a "
    "worker's data and computing without waiting; a median over all iterations hides a rare straggler."
)
"""The meaning of a table's heads."""
ONE_SEED = "One seed decides nothing: a difference may be chance. Repeat the sweep with several, such as seed=0,1,2."
CUT_OFF = "Cut off: the job did not complete; if its time was up, a larger max_time_s lets it complete."
MARK = "*"
MARKED = f"{MARK} with a run that has a warning."
"""The meaning of the mark next to a name or a number."""


class Column(NamedTuple):
    """One column: its header, the text of a row, the compared value, and whether higher is better (None: neither).

    ``step`` is the column of the differences from which on two values differ. ``minor``: a terminal that is too narrow
    does without it.
    """

    head: str
    text: Callable[[pd.Series], str]
    key: str | None = None
    higher: bool | None = None
    step: str | None = None
    minor: bool = False


def columns(frame: pd.DataFrame, *, brief: bool = False) -> list[Column]:
    """The columns for one case (of :func:`analysis.reports.report.compare`); ``brief``: no intervals."""
    metric, higher = frame["metric"].iloc[0], bool(frame["higher_is_better"].iloc[0])
    baseline = frame.attrs.get("baseline")
    against = []
    if baseline and len(frame) > 1:
        against = [Column(split_head(relative("JCT", shown_name(baseline))), lambda row: ratio_text(row, "jct", brief))]
    step = Column("TTA\nerror\n(s)", lambda row: step_text(row["tta_step_s"]), minor=True)
    return [
        Column("strategy", lambda row: mark_warned(shown_name(row["strategy"]), row["warned"])),
        Column("seeds", lambda row: f"{row['seeds']}"),
        Column("JCT\n(s)", lambda row: time_text(row, "jct", "cut off", brief), "jct_s", False),
        *against,
        Column("TTA\n(s)", lambda row: time_text(row, "tta", "missed", brief), "tta_s", False, "tta_step_s"),
        *([step] if frame["tta_step_s"].notna().any() else []),
        Column(f"final\n{metric}", lambda row: number_text(row["final_metric"], 4), "final_metric", higher),
        Column("updates", lambda row: number_text(row["updates"], 0), minor=True),
        Column(
            "staleness\nmean\n(max)",
            lambda row: f"{number_text(row['staleness_mean'], 2)} ({number_text(row['staleness_max'], 0)})",
        ),
        Column("waiting\n(% of\ntime)", lambda row: number_text(row["wait_frac"] * 100, 1), "wait_frac", False),
        Column("gradients\ndropped\n(%)", lambda row: number_text(row["dropped_frac"] * 100, 1), minor=True),
        Column("median\nBPT\n(ms)", lambda row: number_text(row["bpt_median_s"] * 1e3, 1)),
    ]


def split_head(head: str) -> str:
    """The head of a ratio on three lines."""
    return head.replace(" relative to ", "\nrelative\nto ", 1)


def print_summary(frame: pd.DataFrame, console: Console | None = None, *, explain: bool = True) -> None:
    """Print a comparison, one table for each case, the best value of a column in bold.

    Intervals, then minor columns, are left out if the terminal is too narrow; files and pipes always have them.
    ``explain``: what the heads mean.
    """
    console = console or Console()
    print_cases(frame, columns, console)
    said = [
        *([WORDS] if explain else []),
        *([CUT_OFF] if frame["jct_missed"].any() else []),
        *([MARKED] if frame["warned"].any() else []),
    ]
    if said:
        console.print(Text(" ".join(said), style="dim"), soft_wrap=True)
    if len(frame) > 1 and frame["seeds"].max() == 1:
        console.print(Text(ONE_SEED), soft_wrap=True)


def print_cases(frame: pd.DataFrame, make: Callable[..., list[Column]], console: Console) -> None:
    """Print a table for each ``case`` of the frame, with the columns that ``make(rows, brief=...)`` gives for it."""
    width = console.width
    console.width = width if console.is_terminal else UNLIMITED
    for case, rows in frame.groupby("case", sort=False):
        if case:
            console.print(Text(str(case), style="bold"))
        table, left_out = _fitting(rows, make, console)
        console.print(table)
        if left_out:
            console.print(Text(f"The terminal is too narrow for: {', '.join(left_out)}.", style="dim"), soft_wrap=True)
    console.width = width


def _fitting(rows: pd.DataFrame, make: Callable[..., list[Column]], console: Console) -> tuple[Table, list[str]]:
    """The whole table if it fits, else without intervals and as many minor columns as must be; their heads."""

    def fits(table: Table) -> bool:
        return console.measure(table, options=console.options.update_width(UNLIMITED)).maximum <= console.width

    if fits(table := _table(rows, make(rows))):
        return table, []
    shown, left_out = make(rows, brief=True), []
    while not fits(table := _table(rows, shown, brief=True)) and (minor := [one for one in shown if one.minor]):
        shown.remove(minor[-1])
        left_out.append(plain(minor[-1].head))
    return table, left_out


def plain(head: str) -> str:
    """A head on one line."""
    return head.replace("\n", " ")


def _table(frame: pd.DataFrame, shown: list[Column], *, brief: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0 if brief else 1), header_style="bold")
    for column in shown:
        left = column.head in NAMES
        table.add_column(column.head, justify="left" if left else "right", vertical="bottom", no_wrap=not left)
    best = [best_rows(frame, column) for column in shown]
    for number, (_, row) in enumerate(frame.iterrows()):
        cells = zip(shown, best, strict=True)
        table.add_row(*(Text(c.text(row), style="bold" if number in winners else "") for c, winners in cells))
    return table


def best_rows(frame: pd.DataFrame, column: Column) -> set[int]:
    """Positions of the rows with the best value, or less than a step from it; empty if there is nothing to compare."""
    if column.key is None or column.higher is None or not len(frame):
        return set()
    values = frame[column.key].reset_index(drop=True)
    top = values.max() if column.higher else values.min()
    if values.nunique(dropna=False) < 2 or not isfinite(top):
        return set()
    step = frame[column.step].max() if column.step else nan
    best = (values - top).abs() < step if step > 0 else values == top
    return set() if best.all() else {int(index) for index in values.index[best]}


def time_text(row: pd.Series, name: str, miss: str, brief: bool = False) -> str:
    """Median and interval of ``jct`` or ``tta``; a dash for an infinite median, and how many runs missed."""
    value, low, high, missed = (row[f"{name}_{key}"] for key in ("s", "low_s", "high_s", "missed"))
    if isnan(value):
        return "\N{EN DASH}"
    text = "\N{EM DASH}" if value == inf else f"{value:.1f}"
    spread = f" [{number_text(low, 1)}, {number_text(high, 1)}]"
    if isfinite(value) and not isnan(low) and spread != f" [{text}, {text}]" and not brief:
        text += spread
    if missed:
        text += f" {missed}/{row['runs']} {miss}" if row["runs"] > 1 else f" {miss}"
    return text


def ratio_text(row: pd.Series, name: str, brief: bool = False) -> str:
    """Median of the ratios to the baseline by seed, and its interval; marked if a run of any pair has a warning."""
    found = number_text(row[f"{name}_ratio"], 2)
    if isnan(row[f"{name}_ratio"]):
        return found
    low, high = (number_text(row[f"{name}_ratio_{end}"], 2) for end in ("low", "high"))
    alone = brief or low == high or "\N{EN DASH}" in (low, high)
    return f"{found}{MARK if row['warned_pairs'] else ''}" + ("" if alone else f" [{low}, {high}]")


def mark_warned(name: str, warned: int) -> str:
    """The name of something of which ``warned`` runs have warnings."""
    return f"{name} {MARK}" if warned else name


def seconds_text(seconds: float) -> str:
    """Seconds with three or four digits, and never with an exponent: 0.4001, 83.2, 1,083."""
    return f"{seconds:,.0f}" if seconds >= 999.5 else f"{seconds:.4g}"


def number_text(value: float, digits: int) -> str:
    """The number with so many decimals; a dash for NaN."""
    if isnan(value):
        return "\N{EN DASH}"
    return f"{value:.{digits}f}" if isfinite(value) else "\N{INFINITY}"
