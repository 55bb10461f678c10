"""Slow-downs of real jobs, from operator traces."""

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
from injectors.patterns.tables import check_path, read_table
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan, target_of, task_of

COLUMNS = ("dp_rank", "stage", "step", "optype", "start_ts", "duration")
COMPUTE = ("forward-compute", "backward-compute")
BASELINES = ("balanced", "median")

Floats = np.ndarray[Any, np.dtype[np.float64]]


class StepSlowdowns(NamedTuple):
    """The slow-down of each data-parallel rank, or of each of its stages, relative to the baseline, by step."""

    edges_s: Floats
    """[steps + 1]: start of each step and end of the last, in seconds; the first is 0."""
    slowdown_frac: Floats
    """[steps, ranks], sorted by rank: extent / baseline - 1; 0 for faster or absent ranks. By stage: [steps, ranks *
    stages], sorted by rank and stage: computing time / baseline - 1."""
    stages: int = 1
    """Stages of each rank, each with its own slow-downs."""


@final
@dataclass(frozen=True, kw_only=True)
class OperatorTrace(Pattern):
    """Each target is slowed, step by step, like a data-parallel rank of a real job. Nothing is random.

    Source of the format: the traces published with "Understanding Stragglers in Large Model Training Using What-if
    Analysis" (OSDI 2025; ByteDance-Seed/StragglerAnalysis): a row per operator with ``dp_rank``, ``stage``, ``step``,
    ``optype``, ``start_ts`` and ``duration`` in seconds (other columns are ignored). In a step, a rank's extent is the
    time from its first ``forward-compute`` to the end of its last ``backward-compute``, over all its pipeline stages,
    including the time that stages wait for each other: so it reflects a slow stage, which a sum of computing times
    would hide. A rank's slow-down is its extent relative to the baseline:

    - ``balanced``: the extent of a pipeline of equal operators, as in the paper's what-if analysis: with m
      micro-batches and p stages (m + p - 1)(f + b), where f and b are the means of the whole trace. Delays that all
      ranks share, such as uneven stages, slow all targets.
    - ``median``: the median of the ranks in that step, which leaves only the differences between ranks.

    Targets may be ranks of workers that are replicas, such as ``rank:*``: then every stage is slowed by itself, like
    the same stage of the trace, and the job's own pipeline decides what that costs. A stage's slow-down is the sum of
    its computing times in the step relative to as many operations of mean duration (``balanced``), or to the median of
    the same stage in all ranks (``median``).

    Not represented: anything outside the pipeline (launch, optimizer, collectives, garbage collection), ranks faster
    than the baseline, and, unless targets are ranks, which stage was slow. Steps follow each other in the order of
    their numbers, without the gaps between them, each as long as it was.

    Attributes:
        path: of the file, relative to the working directory or the repository; it ends in ``.csv`` or ``.parquet``.
        time_scale: times are multiplied by it. A step should last about as long as a disturbed iteration of the job:
            an iteration meets the step in which it begins.
        targets: ``worker:1``, ``server:0``, ``worker:*``; the first one is slowed like the first rank, and so on. Or
            ``rank:(1,0,0)``, ``rank:*``, of which the first worker is slowed like the first rank, stage by stage.
        repeat: start over at the end of the trace, up to the horizon; False: no disturbance after its end.
        baseline: ``balanced`` or ``median``, as above.
        name: see :class:`Pattern`.
    """

    path: str
    time_scale: float = 1.0
    targets: tuple[str, ...] = ("worker:*",)
    repeat: bool = True
    baseline: str = "balanced"
    name: str = "operator_trace"

    def __post_init__(self) -> None:
        check_path(self.path)
        check_number("time_scale", self.time_scale, above=0)
        check_targets(self.targets, "slowdown")
        check_flag("repeat", self.repeat)
        if self.baseline not in BASELINES:
            raise ValueError(f"baseline={one_line(self.baseline)}: must be {' or '.join(BASELINES)}")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window for each step of a target in which its rank was slower than the baseline."""
        targets = expand_targets(self.targets, cluster)
        inside = [target for target in map(target_of, targets) if target.is_inside]
        if inside and len(inside) < len(targets):
            raise ValueError(f"targets={', '.join(self.targets)}: name either ranks of workers, or none")
        columns = read_table(self.path, COLUMNS, others=True).columns
        try:
            steps = step_slowdowns(*(columns[name] for name in COLUMNS), baseline=self.baseline, by_stage=bool(inside))
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None
        workers = list(dict.fromkeys(map(task_of, targets)))
        num_ranks = steps.slowdown_frac.shape[1] // steps.stages
        if len(workers) > num_ranks:
            raise ValueError(
                f"targets={', '.join(self.targets)}: are {len(workers)}, but the trace has only {num_ranks} ranks; "
                f"name at most {num_ranks}, or use a longer trace"
            )
        if inside and (stages := 1 + max(target.ids[1] for target in inside)) > steps.stages:
            raise ValueError(
                f"targets={', '.join(self.targets)}: are on {stages} stages, but the trace has only {steps.stages}; "
                f"use cluster.replica.pipeline={steps.stages}, or name no later stage"
            )
        rounds = self._rounds(steps, horizon_s, len(targets))
        place_of = {worker: place * steps.stages for place, worker in enumerate(workers)}
        columns_of = {one: place_of[task_of(one)] + (target_of(one).ids[1] if inside else 0) for one in targets}
        windows = (one for target, place in columns_of.items() for one in self._windows(steps, place, target, rounds))
        return build_plan(self.name, seed, horizon_s, windows)

    def _rounds(self, steps: StepSlowdowns, horizon_s: float, num_targets: int) -> int:
        rounds = horizon_s / (float(steps.edges_s[-1]) * self.time_scale) if self.repeat else 1
        if rounds * len(steps.slowdown_frac) * num_targets > MAX_WINDOWS:
            raise ValueError(
                f"time_scale={self.time_scale}: makes steps too short for {horizon_s:g} s and {num_targets} targets; "
                "use a larger one, repeat=false or a smaller max_time_s"
            )
        return math.ceil(rounds)

    def _windows(self, steps: StepSlowdowns, place: int, target: str, rounds: int) -> Iterator[Disturbance]:
        edges_s, fracs = steps.edges_s.tolist(), steps.slowdown_frac[:, place].tolist()
        for turn in range(rounds):
            for step, slowdown_frac in enumerate(fracs):
                yield Disturbance(
                    start_s=(turn * edges_s[-1] + edges_s[step]) * self.time_scale,
                    end_s=(turn * edges_s[-1] + edges_s[step + 1]) * self.time_scale,
                    target=target,
                    kind="slowdown",
                    magnitude=slowdown_frac,
                )


def step_slowdowns(
    dp_rank: Sequence[object],
    stage: Sequence[object],
    step: Sequence[object],
    optype: Sequence[object],
    start_ts: Sequence[object],
    duration: Sequence[object],
    *,
    baseline: str = "balanced",
    by_stage: bool = False,
) -> StepSlowdowns:
    """The slow-downs of a trace, given as columns with one row per operator (pure); times in seconds.

    Raises ``ValueError`` naming the column or the step of what is wrong.
    """
    start, seconds = _numbers("start_ts", start_ts), _numbers("duration", duration)
    if not len(seconds):
        raise ValueError("has no rows")
    if seconds.min() < 0:
        raise ValueError("column duration: holds a negative number")
    numbers, step_of = np.unique(_numbers("step", step), return_inverse=True)
    ranks, rank_of = np.unique(_numbers("dp_rank", dp_rank), return_inverse=True)
    stages, stage_of = np.unique(_numbers("stage", stage), return_inverse=True)
    begin, end = _span(step_of, start, start + seconds, len(numbers))
    kinds = np.array(optype, dtype=str)
    computes = np.isin(kinds, COMPUTE)
    busy_s = np.bincount(step_of[computes], seconds[computes], len(numbers))
    if idle := [f"{number:g}" for number, busy in zip(numbers, busy_s, strict=True) if not busy > 0]:
        raise ValueError(f"step {idle[0]}: no rank computed ({' or '.join(COMPUTE)}) for any time")
    pipeline_of = step_of * len(ranks) + rank_of
    edges_s = np.concatenate([[0.0], np.cumsum(end - begin)])
    place_of, shape = pipeline_of * len(stages) + stage_of, (len(numbers), len(ranks), len(stages))
    if by_stage:
        own_s = np.bincount(place_of[computes], seconds[computes], math.prod(shape)).reshape(shape)
        usual_s = np.zeros(shape)
        if baseline == "median":
            usual_s += np.apply_along_axis(_median_of_present, 1, own_s)[:, None]
        for kind in COMPUTE if baseline == "balanced" else ():
            mine = kinds == kind
            mean_s = seconds[mine].mean() if mine.any() else 0.0
            usual_s += np.bincount(place_of[mine], minlength=math.prod(shape)).reshape(shape) * mean_s
        added = np.divide(own_s, usual_s, out=np.ones(shape), where=(own_s > 0) & (usual_s > 0)) - 1.0
        return StepSlowdowns(edges_s, np.maximum(added, 0.0).reshape(len(numbers), -1), len(stages))
    first, last = _span(pipeline_of[computes], start[computes], (start + seconds)[computes], len(numbers) * len(ranks))
    extent_s = (last - first).reshape(len(numbers), len(ranks))  # minus infinity for absent ranks
    base_s = np.array([np.median(row[row > 0]) for row in extent_s])
    if baseline == "balanced":
        base_s = np.zeros(len(numbers))
        for kind in COMPUTE:
            mine = kinds == kind
            counts = np.bincount(place_of[mine], minlength=extent_s.size * len(stages)).reshape(len(numbers), -1)
            batches = np.array([np.median(row[row > 0]) if row.any() else 1 - len(stages) for row in counts])
            base_s += (batches + len(stages) - 1) * (seconds[mine].mean() if mine.any() else 0.0)
    slowdown_frac = np.maximum(extent_s / base_s[:, None] - 1.0, 0.0)
    return StepSlowdowns(edges_s, slowdown_frac)


def _median_of_present(values: Floats) -> float:
    """The median of values above 0; 0 if there are none."""
    return float(np.median(values[values > 0])) if values.any() else 0.0


def _span(group: np.ndarray[Any, Any], start: Floats, end: Floats, number: int) -> tuple[Floats, Floats]:
    """The smallest start and the largest end of each group; infinity and minus infinity for an empty group."""
    first, last = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    return first, last


def _numbers(column: str, values: Sequence[object]) -> Floats:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {column}: holds something that is not a number") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"column {column}: holds something that is not a finite number")
    return numbers
