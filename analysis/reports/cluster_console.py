"""Cluster runs as a table on a terminal."""

from __future__ import annotations

from math import isfinite, isnan

import pandas as pd
from rich.console import Console

from analysis.reports.columns import relative
from analysis.reports.console import MARKED, Column, mark_warned, number_text, print_cases, split_head


def cluster_columns(frame: pd.DataFrame, *, brief: bool = False) -> list[Column]:
    """The columns for one case (rows of a cluster comparison); ``brief``: no intervals."""
    baseline = frame.attrs.get("baseline")
    pairs = bool(baseline) and len(frame) > 1
    columns = [
        Column("run", lambda row: mark_warned(row["label"], row["warned"])),
        Column("seeds", lambda row: f"{row['seeds']}"),
        Column("jobs\ndone", lambda row: f"{row['jobs_completed']}/{row['jobs']}"),
        Column("mean\nJCT\n(s)", lambda row: spread_text(row, "jct_mean_s", 1, brief), "jct_mean_s", False),
        *(
            [Column(split_head(relative("JCT", str(baseline))), lambda row: spread_text(row, "jct_ratio", 2, brief))]
            if pairs
            else []
        ),
        Column("median\nJCT\n(s)", lambda row: number_text(row["jct_median_s"], 1), "jct_median_s", False),
        Column("99 %\nJCT\n(s)", lambda row: number_text(row["jct_p99_s"], 1), "jct_p99_s", False, minor=True),
        Column("mean\nwait\n(s)", lambda row: number_text(row["queue_mean_s"], 1), "queue_mean_s", False),
        Column(
            "median\nslowdown", lambda row: number_text(row["slowdown_median"], 2), "slowdown_median", False, minor=True
        ),
        Column("makespan\n(s)", lambda row: number_text(row["makespan_s"], 0), "makespan_s", False),
        Column("GPUs\nin use\n(%)", lambda row: number_text(row["gpu_use_frac"] * 100, 1), "gpu_use_frac", True),
        Column("preempted", lambda row: number_text(row["preemptions"], 0), minor=True),
    ]
    if frame[["granted", "refused"]].to_numpy().any():
        columns.append(Column("granted /\nrefused", reservations_text))
    if frame["iterations_with_straggler_frac"].notna().any():
        share, delay = "iterations_with_straggler_frac", "delay_frac"
        columns += [
            Column("straggling\n(% of\niterations)", lambda row: number_text(row[share] * 100, 1), share, False),
            Column("delay\n(%)", lambda row: number_text(row[delay] * 100, 1), delay, False),
        ]
    return columns


def reservations_text(row: pd.Series) -> str:
    """How many questions of jobs for more of their hosts were granted and refused."""
    return f"{number_text(row['granted'], 0)} / {number_text(row['refused'], 0)}"


def spread_text(row: pd.Series, name: str, digits: int, brief: bool = False) -> str:
    """A number with its interval, if it has one."""
    text, low, high = number_text(row[name], digits), row[f"{name}_low"], row[f"{name}_high"]
    if brief or isnan(low) or not isfinite(row[name]):
        return text
    return f"{text} [{number_text(low, digits)}, {number_text(high, digits)}]"


def print_clusters(frame: pd.DataFrame, console: Console | None = None) -> None:
    """Print a comparison of cluster runs (:func:`analysis.reports.cluster.compare_clusters`), or a single run."""
    console = console or Console()
    print_cases(frame, cluster_columns, console)
    if frame["warned"].any():
        console.print(MARKED, style="dim", soft_wrap=True)
