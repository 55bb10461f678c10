"""Iterations that a lab has skipped (notes ``Jumped``), put back into the tables of a run.

The record says how many there were and since when the job had been measured. Every skipped iteration of a worker is a
copy of one of those that were carried out since then, by turns, at evenly spaced times. So whatever is computed from
the tables weighs them as if all had been carried out; ``skipped`` says which are copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.records.schema import Jumped, Line

TIMES = ("t", "start_s", "issued_s", "applied_t")
COPY = -1
"""``grad`` of a copy: it has no number."""


class Jump(NamedTuple):
    """A note, and when the jump ended."""

    t: float
    note: Jumped

    @property
    def version(self) -> int:
        """The number of updates before it."""
        return self.note.version - self.note.updates


def jumps_of(lines: Sequence[Line]) -> list[Jump]:
    """The jumps of a run, in order."""
    return [Jump(line.t, line.note) for line in lines if isinstance(line.note, Jumped)]


def iterations_with(iterations: pd.DataFrame, jumps: Sequence[Jump]) -> pd.DataFrame:
    """All iterations, those that were skipped included, by time."""
    parts = [iterations.assign(skipped=False)]
    by_worker = dict(list(iterations[iterations["samples"] == iterations["assigned_samples"]].groupby("worker")))
    last = iterations.groupby("worker")
    for jump in jumps:
        begun_s = jump.t - jump.note.seconds
        for name, count in jump.note.iterations.items():
            worker = int(name)
            if not count or worker not in by_worker:
                continue
            rows = by_worker[worker]
            source = rows[(rows["t"] > jump.note.since_s) & (rows["t"] <= begun_s)]
            if len(source):
                before = last.get_group(worker)
                number = before.loc[before["t"] <= begun_s, "iteration"].max() + 1
                parts.append(_copies(source, jump, count, int(number), begun_s))
    return pd.concat(parts, ignore_index=True).sort_values("t", kind="stable", ignore_index=True)


def _copies(source: pd.DataFrame, jump: Jump, count: int, number: int, begun_s: float) -> pd.DataFrame:
    """So many iterations of one worker, of which the first has this number."""
    place = np.arange(count)
    rows = source.iloc[place % len(source)].reset_index(drop=True)
    later_s = begun_s + jump.note.seconds * (place + 0.5) / count - rows["t"]
    rows = rows.assign(**{name: rows[name] + later_s for name in TIMES})
    update = jump.version + 1 + place * jump.note.updates // count
    stale = rows["staleness"].fillna(0)
    return rows.assign(
        iteration=number + place,
        grad=COPY,
        loss=np.nan,
        fate="applied",
        applied_version=pd.Series(update, dtype="Int64"),
        version_read=(update - 1 - stale).astype("int64"),
        skipped=True,
    )


def updates_with(updates: pd.DataFrame, jumps: Sequence[Jump]) -> pd.DataFrame:
    """All updates, those that were skipped included, by version; their samples are spread evenly."""
    parts = [updates]
    for jump in jumps:
        count, samples = jump.note.updates, jump.note.samples
        if not count:
            continue
        place = np.arange(count)
        parts.append(
            pd.DataFrame(
                {
                    "t": jump.t - jump.note.seconds * (1.0 - (place + 0.5) / count),
                    "version": jump.version + 1 + place,
                    "num_grads": round(sum(jump.note.iterations.values()) / count),
                    "samples": samples * (place + 1) // count - samples * place // count,
                    "lr_scale": np.nan,
                    "void": False,
                }
            )
        )
    return pd.concat(parts, ignore_index=True).sort_values("version", kind="stable", ignore_index=True)
