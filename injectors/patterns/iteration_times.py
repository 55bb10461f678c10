"""Slow-downs from a table of iteration times, which most jobs log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    MAX_WINDOWS,
    check_flag,
    check_name,
    check_number,
    check_targets,
    expand_targets,
    one_line,
)
from injectors.patterns.tables import Floats, check_path, column_numbers, read_table, to_number
from injectors.plan import DECIMALS, RULES, ClusterShape, Disturbance, Plan, build_plan

LAYOUTS = ("barrier", "own")
BASELINES = ("median", "least")
LEAD_FRAC = 0.01
"""Part of the shortest iteration by which windows begin early, so that an iteration at an edge meets its own window."""


class IterationSlowdowns(NamedTuple):
    """A table of iteration times, as factors and positions in time."""

    workers: tuple[str, ...]
    """Sorted by number, or by name if some are not numbers."""
    baseline_s: float
    """Time of an iteration without any slow-down, in the table's seconds."""
    slowdown_frac: Floats
    """[iterations, workers]: seconds / baseline - 1; 0 for faster iterations and missing rows."""
    edges: Floats
    """[iterations + 1, workers]: start of each iteration and end of the last, in baselines; the first is 0."""


@final
@dataclass(frozen=True, kw_only=True)
class IterationTimes(Pattern):
    """Each target's iterations take as long as a real worker's. Nothing is random.

    The file is CSV or Parquet with one row per worker and iteration, in any order, and its time; other columns are
    ignored. Seconds over the baseline are the factor by which the job's own computing takes longer. Iterations follow
    each other in time:

    - ``barrier``: iteration i + 1 of all workers begins when the slowest has finished iteration i, as in a synchronous
    job;
    - ``own``: every worker's iterations follow each other, independent of the others, as in an asynchronous job.

    So the job meets row (w, i) if it runs in that manner and an undisturbed iteration of its worker takes the baseline
    times ``time_scale``: the times of a plan are fixed and cannot wait for a job that is late. Time that is lengthened
    other than by computing (messages, updates) makes the job lag behind the plan; ``time_scale`` can allow for it.

    Attributes:
        path: of the file, relative to the working directory or the repository; it ends in ``.csv`` or ``.parquet``.
        worker_column: column of the worker: a number or a name.
        iteration_column: column of the iteration's number; gaps between numbers are ignored.
        seconds_column: column of the time.
        unit_s: seconds per unit of that column; 0.001 for milliseconds.
        baseline: ``median`` or ``least`` of all rows, or seconds; faster iterations count as undisturbed.
        layout: ``barrier`` or ``own``, as above.
        time_scale: the plan's seconds per second of the table; null: such that the baseline is an undisturbed iteration
            of this job, which requires a device profile.
        targets: ``worker:1``, ``server:0``, ``worker:*``; the first one is slowed like the first worker, and so on.
        repeat: start over at the end of the table, up to the horizon; False: no disturbance after its end.
        name: see :class:`Pattern`.
    """

    path: str
    worker_column: str = "worker"
    iteration_column: str = "iteration"
    seconds_column: str = "seconds"
    unit_s: float = 1.0
    baseline: str | float = "median"
    layout: str = "barrier"
    time_scale: float | None = None
    targets: tuple[str, ...] = ("worker:*",)
    repeat: bool = True
    name: str = "iteration_times"

    def __post_init__(self) -> None:
        check_path(self.path)
        for field in ("worker_column", "iteration_column", "seconds_column"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise ValueError(f"{field}={one_line(getattr(self, field))}: must name a column of the file")
        if len({self.worker_column, self.iteration_column, self.seconds_column}) < len(LAYOUTS) + 1:
            raise ValueError(
                f"seconds_column={self.seconds_column}: worker, iteration and seconds must be three columns"
            )
        check_number("unit_s", self.unit_s, above=0)
        if self.baseline not in BASELINES:
            if isinstance(self.baseline, str):
                raise ValueError(f"baseline={one_line(self.baseline)}: must be median, least or a number of seconds")
            check_number("baseline", self.baseline, above=0)
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout={one_line(self.layout)}: must be {' or '.join(LAYOUTS)}")
        if self.time_scale is not None:
            check_number("time_scale", self.time_scale, above=0)
        check_targets(self.targets, "slowdown")
        check_flag("repeat", self.repeat)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window for each iteration of a target that took longer than the baseline."""
        targets = expand_targets(self.targets, cluster)
        columns = (self.worker_column, self.iteration_column, self.seconds_column)
        settings = dict(zip(columns, ("worker_column", "iteration_column", "seconds_column"), strict=True))
        table = read_table(self.path, columns, others=True, settings=settings)
        try:
            found = iteration_slowdowns(
                table.columns[self.worker_column],
                table.columns[self.iteration_column],
                table.columns[self.seconds_column],
                table.places,
                names=columns,
                unit_s=self.unit_s,
                baseline=self.baseline,
                layout=self.layout,
            )
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None
        if len(targets) > len(found.workers):
            raise ValueError(
                f"targets={', '.join(self.targets)}: are {len(targets)}, but the table has only {len(found.workers)} "
                f"workers; name at most {len(found.workers)}, or use a larger table"
            )
        scale_s = self._baseline_in_plan_s(found.baseline_s, cluster)
        length_s = float(found.edges[-1].max()) * scale_s
        rounds = horizon_s / length_s if self.repeat else 1
        if rounds * found.slowdown_frac.shape[0] * len(targets) > MAX_WINDOWS:
            raise ValueError(
                f"time_scale={self.time_scale}: makes iterations too short for {horizon_s:g} s and {len(targets)} "
                "targets; use a larger one, repeat=false or a smaller max_time_s"
            )
        windows = (
            one
            for turn in range(math.ceil(rounds))
            for place, target in enumerate(targets)
            for one in _windows(found, place, target, turn * length_s, scale_s)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _baseline_in_plan_s(self, baseline_s: float, cluster: ClusterShape) -> float:
        if self.time_scale is not None:
            return baseline_s * self.time_scale
        if cluster.base_iter_s is None:
            raise ValueError(
                "time_scale=null: the time of an iteration is not known here (cluster.device=null); give a number"
            )
        return cluster.base_iter_s


def _windows(
    found: IterationSlowdowns, place: int, target: str, start_s: float, scale_s: float
) -> Iterator[Disturbance]:
    lead_s = LEAD_FRAC * scale_s
    edges_s = (start_s + found.edges[:, place] * scale_s - lead_s).tolist()
    for index, slowdown_frac in enumerate(found.slowdown_frac[:, place].tolist()):
        begin_s = max(edges_s[index], 0.0)
        yield Disturbance(
            start_s=begin_s, end_s=edges_s[index + 1], target=target, kind="slowdown", magnitude=slowdown_frac
        )


def iteration_slowdowns(
    worker: Sequence[object],
    iteration: Sequence[object],
    seconds: Sequence[object],
    places: Sequence[str],
    *,
    names: tuple[str, str, str] = ("worker", "iteration", "seconds"),
    unit_s: float = 1.0,
    baseline: str | float = "median",
    layout: str = "barrier",
) -> IterationSlowdowns:
    """The factors and positions in time of a table, given as columns (pure); ``places`` name its rows in messages.

    Raises ``ValueError`` naming the row and column of what is wrong.
    """
    if not len(places):
        raise ValueError("has no rows")
    times_s = column_numbers(names[2], seconds, places) * unit_s
    for bad in np.flatnonzero(times_s <= 0)[:1]:
        raise ValueError(f"{places[bad]}, column {names[2]}, {one_line(seconds[bad])}: must be more than 0")
    numbers, row_of = np.unique(column_numbers(names[1], iteration, places), return_inverse=True)
    workers, column_of = _labels(names[0], worker, places)
    flat = row_of * len(workers) + column_of
    _, first = np.unique(flat, return_index=True)
    for twice in np.setdiff1d(np.arange(len(flat)), first)[:1]:
        raise ValueError(
            f"{places[twice]}: {names[0]} {one_line(worker[twice])} has {names[1]} {one_line(iteration[twice])} twice"
        )
    base_s = (
        float(baseline)
        if not isinstance(baseline, str)
        else float(np.median(times_s) if baseline == "median" else times_s.min())
    )
    excess = np.round(np.maximum(times_s / base_s - 1.0, 0.0), DECIMALS)
    most = RULES["slowdown"].most
    for bad in np.flatnonzero(excess > most)[:1]:
        raise ValueError(
            f"{places[bad]}, column {names[2]}: is more than {most + 1:g} times the baseline, {base_s:g} s"
        )
    frac = np.zeros((len(numbers), len(workers)))
    frac[row_of, column_of] = excess
    lengths = 1.0 + (frac if layout == "own" else np.broadcast_to(frac.max(axis=1, keepdims=True), frac.shape))
    edges = np.concatenate([np.zeros((1, len(workers))), np.cumsum(lengths, axis=0)])
    return IterationSlowdowns(tuple(workers), base_s, frac, edges)


def _labels(
    column: str, values: Sequence[object], places: Sequence[str]
) -> tuple[list[str], np.ndarray[Any, np.dtype[np.intp]]]:
    """(sorted workers, index of each row's worker)."""
    for place, value in zip(places, values, strict=True):
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            raise ValueError(f"{place}, column {column}, nothing: must be a number or a name")
    texts = [str(value) for value in values]
    order = sorted(set(texts), key=lambda text: (math.inf if math.isnan(to_number(text)) else to_number(text), text))
    index = {text: number for number, text in enumerate(order)}
    return order, np.array([index[text] for text in texts])
