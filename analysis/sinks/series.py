"""The facts of a run that all sinks get: its settings, the numbers of its summary, and values over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from analysis.measures.metrics import summarise
from analysis.records.load import Run

NOT_METRICS = ("asked_s", "t", "version")
"""Columns of evaluations that are none."""


class Point(NamedTuple):
    """A value at a time."""

    name: str
    step: int
    """Number of updates, or for iterations of a worker their number."""
    t_s: float
    """Since the start of the job."""
    value: float


def evaluations(run: Run) -> Iterator[Point]:
    """Every metric on held-out data, at the time of the parameters' snapshot."""
    frame = run.tables.evaluations
    for name in [name for name in frame.columns if name not in NOT_METRICS]:
        for row in frame[["version", "asked_s", name]].dropna().itertuples(index=False):
            yield Point(f"evaluation/{name}", int(row[0]), float(row[1]), float(row[2]))


def iterations(run: Run) -> Iterator[Point]:
    """Seconds of each worker's iterations without waiting, and the staleness of applied gradients by update."""
    frame = run.tables.iterations
    for row in frame[["worker", "iteration", "t", "iter_s"]].itertuples(index=False):
        yield Point(f"iteration_s/worker_{row[0]}", int(row[1]), float(row[2]), float(row[3]))
    applied = frame[frame["fate"] == "applied"].sort_values("applied_t", kind="stable")
    for row in applied[["applied_version", "applied_t", "staleness"]].dropna().itertuples(index=False):
        yield Point("staleness", int(row[0]), float(row[1]), float(row[2]))


def started_s(run: Run) -> float:
    """Seconds since 1970 at which the record began: a label, by which tools sort runs."""
    return datetime.fromisoformat(run.meta["started_at"]).timestamp()


def settings(run: Run) -> dict[str, Any]:
    """The job's description, flat: ``strategy_fields.bound`` and the like."""
    head = {name: run.meta.get(name) for name in ("runtime", "calibration", "seed", "plan_sha256")}
    head["fitted"] = ", ".join(run.meta.get("fitted") or ())
    return dict(_flat(head | run.job, "")) | dict(_flat(run.meta["versions"], "versions."))


def numbers(run: Run) -> dict[str, float]:
    """All numbers of ``summary.json``; those in groups are named ``group.name``."""
    return {name: float(value) for name, value in _flat(summarise(run), "") if isinstance(value, int | float)}


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
