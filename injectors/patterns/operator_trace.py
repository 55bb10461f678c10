"""Slow-downs of real jobs, from traces of their operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from injectors.patterns.base import Pattern
from injectors.patterns.fields import MAX_WINDOWS, check_name, check_number, check_targets, expand_targets
from injectors.patterns.tables import check_path, read_table
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan

COLUMNS = ("dp_rank", "step", "optype", "start_ts", "duration")
COMPUTE = ("forward-compute", "backward-compute")

Floats = np.ndarray[Any, np.dtype[np.float64]]


class StepSlowdowns(NamedTuple):
    """How much longer each data-parallel rank computed in each step than the median rank did."""

    edges_s: Floats
    """[steps + 1]: where the steps begin and the last one ends, in seconds, the first at 0."""
    slowdown_frac: Floats
    """[steps, ranks], ascending by number: computing time over the median's, less 1; 0 for who was faster or absent."""


@final
@dataclass(frozen=True, kw_only=True)
class OperatorTrace(Pattern):
    """Each target is slowed, step by step, as a data-parallel rank of a real job was. Nothing is random.

    Source of the format: the traces published with "Understanding Stragglers in Large Model Training Using What-if
    Analysis" (OSDI 2025; ByteDance-Seed/StragglerAnalysis): a row per operator with ``dp_rank``, ``step``, ``optype``,
    ``start_ts`` and ``duration`` in seconds (other columns are not read). In a step, a rank's computing time is the sum
    of its ``forward-compute`` and ``backward-compute`` over all its pipeline stages and micro-batches, and it is slowed
    by what that takes longer than the median of the ranks. What all ranks share, such as an uneven cut into stages, and
    who was faster than the median do not show. Steps follow each other in the order of their numbers, without the gaps
    between these, each as long as it was.

    Attributes:
        path: of the file, from the working directory or from the repository; it ends in ``.csv`` or ``.parquet``.
        time_scale: times are multiplied by it. A step should last about as long as a disturbed iteration of the job:
            an iteration meets the step in which it begins.
        targets: ``worker:1``, ``server:0``, ``worker:*``; the first one is slowed as the first rank, and so on.
        repeat: start over at the end of the trace, up to the horizon; False: nothing happens from there on.
        name: see :class:`Pattern`.
    """

    path: str
    time_scale: float = 1.0
    targets: tuple[str, ...] = ("worker:*",)
    repeat: bool = True
    name: str = "operator_trace"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_path(self.path)
        check_number("time_scale", self.time_scale, above=0)
        check_targets(self.targets)
        if type(self.repeat) is not bool:
            raise ValueError(f"repeat={self.repeat}: must be true or false")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and step in which its rank was slower than the median."""
        targets = expand_targets(self.targets, cluster)
        columns = read_table(self.path, COLUMNS, others=True).columns
        try:
            steps = step_slowdowns(*(columns[name] for name in COLUMNS))
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None
        num_ranks = steps.slowdown_frac.shape[1]
        if len(targets) > num_ranks:
            raise ValueError(
                f"targets={', '.join(self.targets)}: are {len(targets)}, but the trace has only {num_ranks} ranks; "
                f"name at most {num_ranks}, or use a longer trace"
            )
        rounds = self._rounds(steps, horizon_s, len(targets))
        windows = (one for rank, target in enumerate(targets) for one in self._windows(steps, rank, target, rounds))
        return build_plan(self.name, seed, horizon_s, windows)

    def _rounds(self, steps: StepSlowdowns, horizon_s: float, num_targets: int) -> int:
        rounds = horizon_s / (float(steps.edges_s[-1]) * self.time_scale) if self.repeat else 1
        if rounds * len(steps.slowdown_frac) * num_targets > MAX_WINDOWS:
            raise ValueError(
                f"time_scale={self.time_scale}: makes steps too short for {horizon_s:g} s and {num_targets} targets; "
                "use a larger one, repeat=false or a smaller max_time_s"
            )
        return math.ceil(rounds)

    def _windows(self, steps: StepSlowdowns, rank: int, target: str, rounds: int) -> Iterator[Disturbance]:
        edges_s, fracs = steps.edges_s.tolist(), steps.slowdown_frac[:, rank].tolist()
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
    step: Sequence[object],
    optype: Sequence[object],
    start_ts: Sequence[object],
    duration: Sequence[object],
) -> StepSlowdowns:
    """The slow-downs in a trace, given as columns with a row per operator (pure); times in seconds.

    Raises ``ValueError`` naming the column or the step in which something is wrong.
    """
    start, seconds = _numbers("start_ts", start_ts), _numbers("duration", duration)
    if not len(seconds):
        raise ValueError("has no rows")
    if seconds.min() < 0:
        raise ValueError("column duration: holds a negative number")
    numbers, step_of = np.unique(_numbers("step", step), return_inverse=True)
    ranks, rank_of = np.unique(_numbers("dp_rank", dp_rank), return_inverse=True)
    begin, end = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
    np.minimum.at(begin, step_of, start)
    np.maximum.at(end, step_of, start + seconds)
    computes = np.isin(np.array(optype, dtype=str), COMPUTE)
    compute_s = np.zeros((len(numbers), len(ranks)))
    np.add.at(compute_s, (step_of[computes], rank_of[computes]), seconds[computes])
    if idle := [f"{number:g}" for number, row in zip(numbers, compute_s, strict=True) if not row.any()]:
        raise ValueError(f"step {idle[0]}: nobody computed ({' or '.join(COMPUTE)}) for any time")
    median_s = np.array([np.median(row[row > 0]) for row in compute_s])
    slowdown_frac = np.maximum(compute_s / median_s[:, None] - 1.0, 0.0)
    return StepSlowdowns(np.concatenate([[0.0], np.cumsum(end - begin)]), slowdown_frac)


def _numbers(column: str, values: Sequence[object]) -> Floats:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {column}: holds something that is not a number") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"column {column}: holds something that is not a finite number")
    return numbers
