"""Fit a progress model (``runtime/training/progress.py``) to training records: the noise scale phi, and the curve.

An update of B samples at the learning rate s * lr makes the progress s / (1 + s * phi / B). The right phi is the one
with which runs of different batch sizes reach the same metric after the same progress. So for many levels of the metric
the progress at which each run reaches the level is computed, and the mean absolute deviation of its logarithm from the
median of the runs is minimised. Logarithms make the unit of progress and the size of phi irrelevant; absolute values
are robust, since runs near their best cross a level by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.records.load import RecordError, Run

Floats = NDArray[np.float64]

MIN_EVALUATIONS = 5
LEVELS = 24
"""Number of compared metric levels, taken from a typical run at equal steps of the logarithm of its updates."""
POINTS = 40
"""Number of points of the fitted curve, spaced likewise."""
GRID = 81
MAX_PHI = 100.0
"""In units of the largest batch: beyond, progress is proportional to samples, and a larger phi makes no difference."""
SAME_NOISE = 1.05
"""Runs whose ratios of learning rate to batch size differ by no more than this factor cannot determine phi."""


@dataclass(frozen=True, eq=False)
class TrainingTrace:
    """One run: its updates, and the metric after some of them."""

    name: str
    kind: dict[str, Any]
    """Settings that must be equal in all runs of a fit."""
    higher_is_better: bool
    target: float | None
    batch_samples: int
    """Global batch."""
    lr: float
    samples: NDArray[np.int64]
    """Batch size of each update, int64 [updates]."""
    lrs: Floats
    """Learning rate of each update, float64 [updates]."""
    versions: NDArray[np.int64]
    """Number of updates before each evaluation, int64 [evaluations]."""
    values: Floats
    """The metric at each evaluation, float64 [evaluations]."""

    @property
    def noise(self) -> float:
        """Ratio of learning rate to batch size of the median update; it decides what noise costs."""
        return float(np.median(self.lrs / self.samples))

    def progress(self, phi_samples: float, lr: float) -> Floats:
        """Progress after 0, 1, ... updates, float64 [updates + 1], if phi is ``phi_samples`` at the rate ``lr``."""
        scale = self.lrs / lr
        return np.concatenate([[0.0], np.cumsum(scale / (1 + scale * phi_samples / self.samples))])

    @cached_property
    def curve(self) -> Floats:
        """The monotone curve through the run's evaluations: float64 [n, 2], updates and metric."""
        return _monotone(
            self.versions.astype(np.float64), self.values, np.ones(len(self.values)), self.higher_is_better
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model; ``points`` float64 [n, 2] are progress and metric.

    ``spread_frac``: by how much the runs differ in the progress needed for the same level, on average; NaN for a
    single run.
    """

    lr: float
    phi_samples: float
    points: Floats
    spread_frac: float

    def updates(self, target: float, batch_samples: int, lr: float) -> float:
        """Updates of this size at the rate ``lr`` until the metric reaches ``target``; NaN if it never does."""
        return crossing(self.points, target) * (self.lr / lr + self.phi_samples / batch_samples)


def read_trace(run: Run) -> TrainingTrace:
    """The trace of a record; raises :class:`RecordError` for one that the model cannot describe."""
    if refusal := next(_refusals(run), None):
        raise RecordError(f"{run.path}: {refusal}")
    job, updates = run.job, run.tables.updates
    rows = _read_evaluated(run)
    task = {key: value for key, value in job.get("task_fields", {}).items() if key != "data_dir"}
    optimizer = {key: value for key, value in job.get("optimizer", {}).items() if key != "lr"}
    return TrainingTrace(
        name=str(run.meta.get("run_id", run.path.name)),
        kind={"workload": job.get("workload"), "task": task, "optimizer": optimizer, "metric": job["metric"]},
        higher_is_better=bool(job["higher_is_better"]),
        target=job.get("target"),
        batch_samples=int(job["global_batch_samples"]),
        lr=float(job["lr"]),
        samples=updates["samples"].to_numpy(np.int64),
        lrs=float(job["lr"]) * updates["lr_scale"].to_numpy(np.float64),
        versions=rows["version"].to_numpy(np.int64),
        values=rows["value"].to_numpy(np.float64),
    )


def _refusals(run: Run) -> Iterator[str]:
    """Why a run cannot be used, and what to do about it."""
    job, tables = run.job, run.tables
    if job.get("backend") == "none" or tables.iterations["loss"].isna().all():
        yield "computed no gradients (backend=none), so it says nothing about learning. Leave it out"
    if not job.get("lr") or job.get("lr_schedule", {"name": "constant"}).get("name") != "constant":
        yield "has no constant learning rate. Repeat it with workload.lr_schedule.name=constant"
    if tables.updates["void"].any():
        yield "was rolled back to a checkpoint. Leave it out"
    if (tables.iterations["staleness"].dropna() > 0).any():
        yield "applied stale gradients, whose effect is not in the model. Use runs of strategy=bsp"
    if (count := _read_evaluated(run)["version"].nunique()) < MIN_EVALUATIONS:
        yield f"scored {job['metric']} {count} times, below {MIN_EVALUATIONS}. Repeat it with a smaller eval_every_s"


def _read_evaluated(run: Run) -> pd.DataFrame:
    """``version`` and ``value`` of the job's metric where it is finite."""
    rows = run.tables.evaluations
    return rows[["version"]].assign(value=rows.get(run.job["metric"], np.nan)).dropna()


def fit(traces: Sequence[TrainingTrace], phi_samples: float | None = None) -> Fit:
    """Fit the model, at the learning rate of the largest batch; ``phi_samples``: given instead of fitted.

    Raises :class:`RecordError` for runs of different jobs, and for runs that do not determine phi.
    """
    _check_same_job(traces)
    largest = max(traces, key=lambda trace: trace.batch_samples)
    levels = _levels(traces, largest.lr)
    if phi_samples is None:
        _check_identifiable(traces)
        phi_samples = _best_phi(traces, levels, largest)
    points = _thin(_pool(traces, phi_samples, largest.lr))
    return Fit(largest.lr, phi_samples, points, _spread(traces, levels, phi_samples, largest.lr))


def held_out(
    traces: Sequence[TrainingTrace], model: Fit, target: float, phi_samples: float | None = None
) -> pd.DataFrame:
    """How well updates to ``target`` are predicted. One row per batch size and learning rate.

    ``batch_samples``, ``lr``, ``runs``; ``updates``: median over the runs (NaN if most never reached the target);
    ``fitted``: by ``model``; ``predicted``: by a fit to the *other* rows, and its ``phi_samples`` (NaN if they do not
    determine one). All use smoothed curves.
    """
    rows = []
    for batch_samples, lr in sorted({(trace.batch_samples, trace.lr) for trace in traces}):
        inside = [trace for trace in traces if (trace.batch_samples, trace.lr) == (batch_samples, lr)]
        try:
            other = fit([trace for trace in traces if trace not in inside], phi_samples)
        except RecordError:
            other = None
        rows.append(
            {
                "batch_samples": batch_samples,
                "lr": lr,
                "runs": len(inside),
                "updates": _median([crossing(trace.curve, target) for trace in inside]),
                "fitted": model.updates(target, batch_samples, lr),
                "predicted": other.updates(target, batch_samples, lr) if other else np.nan,
                "phi_samples": other.phi_samples if other else np.nan,
            }
        )
    return pd.DataFrame(rows)


def errors(tested: pd.DataFrame) -> dict[str, float]:
    """Errors of a model, from :func:`held_out`'s rows, as far as they can be determined.

    ``updates_frac``: mean absolute relative error of the predicted updates. ``phi_samples``: standard error of phi, by
    the jackknife over the rows.
    """
    frac = (tested["predicted"] / tested["updates"] - 1).abs().dropna()
    phi = tested["phi_samples"].dropna()
    found = {"updates_frac": float(frac.mean())} if len(frac) else {}
    if phi.nunique() > 1:  # it was fitted, not given
        found["phi_samples"] = float(np.sqrt((len(phi) - 1) * phi.var(ddof=0)))
    return found


def crossing(curve: Floats, level: float) -> float:
    """Where a monotone ``curve``, float64 [n, 2], reaches ``level``; NaN if never, or before its start."""
    where, values = curve[:, 0], curve[:, 1]
    sign = 1.0 if values[-1] >= values[0] else -1.0
    after = int(np.searchsorted(sign * values, sign * level))
    if after in (0, len(values)):
        return float("nan")
    share = (level - values[after - 1]) / (values[after] - values[after - 1])
    return float(where[after - 1] + share * (where[after] - where[after - 1]))


def _check_same_job(traces: Sequence[TrainingTrace]) -> None:
    if not traces:
        raise RecordError("no runs to fit to")
    first = traces[0]
    for trace in traces[1:]:
        for key, value in first.kind.items():
            if trace.kind[key] != value:
                raise RecordError(
                    f"{trace.name}: {key} is {trace.kind[key]}, but {value} in {first.name}. Fit them apart"
                )


def _check_identifiable(traces: Sequence[TrainingTrace]) -> None:
    ratios = [trace.noise for trace in traces]
    if max(ratios) <= SAME_NOISE * min(ratios):
        first = traces[0]
        raise RecordError(
            f"all runs have the same ratio of learning rate to batch ({first.lr:g}/{first.batch_samples}): it does not "
            "determine phi. Add runs with this rate and another workload.global_batch_samples, or give phi (--phi)"
        )


def _best_phi(traces: Sequence[TrainingTrace], levels: Floats, largest: TrainingTrace) -> float:
    """The best phi on a grid, refined; the grid is uniform in log(1 + phi / B), so that it contains phi = 0."""
    from scipy.optimize import minimize_scalar

    unit = float(min(trace.batch_samples for trace in traces))
    top = np.log1p(MAX_PHI * largest.batch_samples / unit)

    def loss(place: float) -> float:
        return _spread(traces, levels, unit * float(np.expm1(place)), largest.lr)

    if np.isnan(loss(0.0)):
        raise RecordError("no two runs reach the same value of the metric. Train longer, or give phi (--phi)")
    grid = np.linspace(0.0, top, GRID)
    best = int(np.argmin([loss(place) for place in grid]))
    if best == GRID - 1:
        raise RecordError("no phi fits: the larger, the better. Add runs with other batches, or give phi (--phi)")
    found = minimize_scalar(loss, bounds=(grid[max(best - 1, 0)], grid[best + 1]), method="bounded")
    return unit * float(np.expm1(found.x)) if found.fun < loss(grid[best]) else unit * float(np.expm1(grid[best]))


def _levels(traces: Sequence[TrainingTrace], lr: float) -> Floats:
    curve = _thin(_pool(traces, 0.0, lr), LEVELS + 1)
    return np.unique(curve[1:, 1])


def _spread(traces: Sequence[TrainingTrace], levels: Floats, phi_samples: float, lr: float) -> float:
    """Mean absolute deviation of log progress from the runs' median, over shared levels; NaN without any."""
    logs = np.array([[np.nan] * len(levels)] * len(traces))
    for row, trace in zip(logs, traces, strict=True):
        progress = trace.progress(phi_samples, lr)
        updates = np.array([crossing(trace.curve, level) for level in levels])
        row[:] = np.log(np.interp(updates, np.arange(len(progress)), progress))
    shared = logs[:, (~np.isnan(logs)).sum(axis=0) >= 2]
    return float(np.nanmean(np.abs(shared - np.nanmedian(shared, axis=0)))) if shared.size else float("nan")


def _pool(traces: Sequence[TrainingTrace], phi_samples: float, lr: float) -> Floats:
    """The monotone curve through the evaluations of all runs, with equal weight for each run."""
    progress = np.concatenate([trace.progress(phi_samples, lr)[trace.versions] for trace in traces])
    values = np.concatenate([trace.values for trace in traces])
    weights = np.concatenate([np.full(len(trace.values), 1.0 / len(trace.values)) for trace in traces])
    return _monotone(progress, values, weights, traces[0].higher_is_better)


def _monotone(where: Floats, values: Floats, weights: Floats, rising: bool) -> Floats:
    """Isotonic regression: the corners of the best monotone curve, float64 [n, 2]."""
    from sklearn.isotonic import IsotonicRegression

    found = IsotonicRegression(increasing=rising).fit(where, values, sample_weight=weights)
    return np.column_stack([found.X_thresholds_, found.y_thresholds_])


def _thin(curve: Floats, num_points: int = POINTS) -> Floats:
    """A subset of a curve's points: its start, then equal steps of the logarithm from its first positive position."""
    where = curve[:, 0]
    places = np.unique([where[0], *np.geomspace(where[where > 0][0], where[-1], num_points - 1)])
    return np.column_stack([places, np.interp(places, where, curve[:, 1])])


def _median(values: Sequence[float]) -> float:
    """Median with NaN as infinity, so that runs that never reached the level count; NaN if that is the median."""
    median = float(np.median(np.nan_to_num(values, nan=np.inf)))
    return median if np.isfinite(median) else float("nan")
