"""The numbers of a set of jobs for its summary table (pure), and the table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from runtime.record.cluster import JobRow


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of a set of jobs; times are None if no job has one."""

    jobs: int
    statuses: dict[str, int]
    jct_mean_s: float | None
    jct_median_s: float | None
    jct_p90_s: float | None
    """JCT: from a job's submission to its end, of jobs that are done."""
    queueing_mean_s: float | None
    """From a job's submission to its first start, of jobs that have started."""
    makespan_s: float | None
    """From the first submission to the last end."""
    gpu_use_frac: float | None
    """Part of the makespan's GPU seconds in which a job held the GPU."""


def summarise(rows: Sequence[JobRow], num_gpus: int, held_s: float) -> Summary:
    """``held_s``: GPU seconds that jobs held."""
    done = [row.end_s - row.submit_s for row in rows if row.status == "done" and row.end_s is not None]
    queued = [row.start_s - row.submit_s for row in rows if row.start_s is not None]
    ends = [row.end_s for row in rows if row.end_s is not None]
    makespan_s = max(ends) - min(row.submit_s for row in rows) if ends else None
    statuses: dict[str, int] = {}
    for row in rows:
        statuses[row.status] = statuses.get(row.status, 0) + 1
    return Summary(
        jobs=len(rows),
        statuses=statuses,
        jct_mean_s=float(np.mean(done)) if done else None,
        jct_median_s=float(np.median(done)) if done else None,
        jct_p90_s=float(np.quantile(done, 0.9)) if done else None,
        queueing_mean_s=float(np.mean(queued)) if queued else None,
        makespan_s=makespan_s,
        gpu_use_frac=held_s / (num_gpus * makespan_s) if makespan_s else None,
    )


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """The table at the end of a run, on standard output."""
    table = Table(box=None, pad_edge=False)
    times = {
        "JCT mean": summary.jct_mean_s,
        "median": summary.jct_median_s,
        "p90": summary.jct_p90_s,
        "queueing": summary.queueing_mean_s,
        "makespan": summary.makespan_s,
    }
    for name in ("jobs", "status", *(f"{name} s" for name in times), "GPU use"):
        table.add_column(name, justify="left" if name == "status" else "right")
    statuses = ", ".join(f"{number} {status}" for status, number in sorted(summary.statuses.items()))
    cells = ("-" if value is None else f"{value:.1f}" for value in times.values())
    use = "-" if summary.gpu_use_frac is None else f"{summary.gpu_use_frac:.1%}"
    table.add_row(str(summary.jobs), statuses, *cells, use)
    (console or Console(width=120)).print(table)
