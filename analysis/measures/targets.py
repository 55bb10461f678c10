"""When a run reached its target, and whether it converged. Frames are ``evaluations``: ``asked_s`` and the metric."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

WINDOW = 5
TOLERANCE = 0.001
"""STAR, section III: converged when five successive evaluations differ by less than 0.001. For jobs without a rule."""
SETTLED_FRAC = 0.2


def scores(evaluations: pd.DataFrame, metric: str) -> pd.DataFrame:
    """``asked_s`` and ``value`` of one metric, without NaN; empty if it was never evaluated."""
    if metric not in evaluations:
        import pandas as pd

        return pd.DataFrame({"asked_s": [], "value": []}, dtype="float64")
    frame = evaluations[["asked_s", metric]].rename(columns={metric: "value"})
    return frame.dropna().reset_index(drop=True)


def tta_s(scored: pd.DataFrame, target: float, higher_is_better: bool = True, evals: int = 1) -> float:
    """Time to accuracy: ``asked_s`` of the first of ``evals`` evaluations in a row that reach the target.

    Infinite if there is none. Where fewer follow, all of them must reach it.
    """
    hit = _is_held(scored, target, higher_is_better, evals)
    return float(scored["asked_s"][hit].iloc[0]) if hit.any() else inf


def tta_step_s(scored: pd.DataFrame, target: float, higher_is_better: bool = True, evals: int = 1) -> float:
    """How long before that evaluation the target may have been reached: since the one before, or the job's start.

    NaN if none reaches it.
    """
    hit = _is_held(scored, target, higher_is_better, evals).to_numpy()
    if not hit.any():
        return nan
    first, asked_s = int(hit.argmax()), scored["asked_s"].to_numpy()
    return float(asked_s[first] - (asked_s[first - 1] if first else 0.0))


def tta_interp_s(scored: pd.DataFrame, target: float, higher_is_better: bool = True, evals: int = 1) -> float:
    """The same, interpolated linearly between that evaluation and the one before it."""
    hit = _is_held(scored, target, higher_is_better, evals)
    if not hit.any():
        return inf
    after = int(hit.to_numpy().argmax())
    if after == 0:
        return float(scored["asked_s"].iloc[0])
    (t0, v0), (t1, v1) = scored[["asked_s", "value"]].iloc[after - 1 : after + 1].to_numpy()
    return float(t0 + (t1 - t0) * (target - v0) / (v1 - v0))


def rule_of(job: Mapping[str, Any]) -> tuple[bool, int]:
    """Return the rule of a job's target: whether more is better, and evaluations in a row (1 in older records)."""
    return bool(job["higher_is_better"]), job.get("target_evals") or 1


def converged_value(scored: pd.DataFrame) -> float:
    """The value converged to: the mean over the last fifth of the time; NaN without values.

    The window of :func:`converged_s` would need a finer metric than the accuracy on a few hundred images.
    """
    late = scored["asked_s"] >= (1.0 - SETTLED_FRAC) * scored["asked_s"].max()
    return float(scored["value"][late].mean())


def gain(scored: pd.DataFrame, since_s: float, for_s: float) -> float:
    """Increase of the value in the ``for_s`` after ``since_s``, interpolated; NaN if the job ended before."""
    if not len(scored) or since_s + for_s > scored["asked_s"].iloc[-1]:
        return nan
    before, after = np.interp([since_s, since_s + for_s], scored["asked_s"], scored["value"])
    return float(after - before)


def converged_s(scored: pd.DataFrame, window: int = WINDOW, tolerance: float = TOLERANCE) -> float:
    """Time of the last of the first ``window`` successive evaluations within ``tolerance``; infinite if never."""
    rolling = scored["value"].rolling(window)
    flat = (rolling.max() - rolling.min()) < tolerance
    return float(scored["asked_s"][flat].iloc[0]) if flat.any() else inf


def final(scored: pd.DataFrame) -> float:
    """The last value; NaN if there is none."""
    return float(scored["value"].iloc[-1]) if len(scored) else nan


def best(scored: pd.DataFrame, higher_is_better: bool = True) -> float:
    """The best value; NaN if there is none."""
    if not len(scored):
        return nan
    return float(scored["value"].max() if higher_is_better else scored["value"].min())


def _is_held(scored: pd.DataFrame, target: float, higher_is_better: bool, evals: int) -> pd.Series:
    """Whether an evaluation and the ``evals`` - 1 after it (or all, if there are fewer) reach the target."""
    reached = scored["value"] >= target if higher_is_better else scored["value"] <= target
    return reached[::-1].rolling(evals, min_periods=1).min()[::-1].astype(bool)


def step_text(step_s: float) -> str:
    """Seconds between two evaluations, of two digits or more; a dash for NaN."""
    return "\N{EN DASH}" if isnan(step_s) else f"{step_s:.2g}" if step_s < 10 else f"{step_s:.0f}"
