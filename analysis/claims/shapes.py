"""Shapes that need more than one number: functions of all runs of an experiment.

Each returns whether the shape holds and what was observed, or None if the runs it needs are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.claims import elastic_shapes
from analysis.claims.cells import cell_of
from analysis.claims.ledger import Claim

LINEAR_R2 = 0.98
"""Minimum share of the variance that a straight line explains."""
FLAT_FRAC = 0.10
"""Maximum growth of something flat."""
EQUAL_FRAC = 0.01
"""Differences below this are none."""
FAULT = "fault"
"""The level of the endless delay."""


class ShapeResult(NamedTuple):
    """The outcome of a shape check."""

    holds: bool
    text: str


def grows_less(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """From the first to the last intensity, the subject grows less than what it is compared with."""
    table = medians(runs, claim, "intensity")
    if table is None:
        return None
    growth = {system: table[system].iloc[-1] / table[system].iloc[0] - 1.0 for system in table}
    ours, other = growth[claim.subject["system"]], growth[claim.against[0]["system"]]
    return ShapeResult(bool(ours < other), f"{ours:+.1%} against {other:+.1%}")


def steadier(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The standard deviation over seeds is smaller than the other's, in every row; unbounded if one never ends."""
    ours, other = claim.subject["system"], claim.against[0]["system"]
    rows = runs[runs["system"].isin([ours, other])]
    if rows.empty or rows["seed"].nunique() < 2:
        return None
    axes = [axis for axis in ("role", "intensity") if axis in rows]
    seeds = rows.assign(row=0).groupby(["row", *axes, "system"])[claim.of]
    spread = seeds.std().mask(seeds.max() == np.inf, np.inf).unstack("system")
    if ours not in spread or other not in spread:
        return None
    less = int((spread[ours] < spread[other]).sum())
    return ShapeResult(less == len(spread), f"in {less} of {len(spread)} rows")


def falls_then_rises(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """Over the intervals the subject has an interior minimum, and the other is flat and below it."""
    table = medians(runs, claim, "interval")
    if table is None or len(table) < 3:
        return None
    ours, other = table[claim.subject["failover"]], table[claim.against[0]["failover"]]
    lowest = int(ours.to_numpy().argmin())
    inner = 0 < lowest < len(ours) - 1
    flat = bool(other.max() - other.min() <= FLAT_FRAC * ours.min())
    below = bool((other < ours).all())
    spread = f"{other.min() / 60:.1f} to {other.max() / 60:.1f}"
    text = f"minimum {ours.min() / 60:.1f} min at {ours.index[lowest]:g}, the other {spread} min"
    return ShapeResult(inner and flat and below, text)


def dips(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """Over the waits the measure falls, and then rises: both ends are above the least by a hundredth or more."""
    if "wait_ms" not in runs or claim.of not in runs:
        return None
    values = runs.groupby(runs["wait_ms"].astype("float64"))[claim.of].median().dropna().sort_index()
    if len(values) < 3:
        return None
    least, (first, last) = values.min(), values.iloc[[0, -1]]
    begin, middle, end = values.index[0], values.idxmin(), values.index[-1]
    text = f"{first:.3g} ({begin:g}), least {least:.3g} ({middle:g}), {last:.3g} ({end:g} ms)"
    return ShapeResult(bool(min(first, last) > (1.0 + EQUAL_FRAC) * least), text)


def linear(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The measure is a straight line over the batch size."""
    sizes, values = over_batch(runs, claim)
    if len(sizes) < 3:
        return None
    r2 = r_squared(sizes, values)
    return ShapeResult(r2 >= LINEAR_R2, f"R2 {r2:.3f} over {sizes[0]:g} to {sizes[-1]:g} samples")


def saturates(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """Flat at first, then linear: at least two sizes within 10 % of the smallest, and a line through the rest."""
    sizes, values = over_batch(runs, claim)
    if len(sizes) < 5:
        return None
    flat = int((values <= values[0] * (1.0 + FLAT_FRAC)).sum())
    rest_sizes, rest = sizes[flat - 1 :], values[flat - 1 :]
    if len(rest) < 3:
        return ShapeResult(False, "no rise")
    r2 = r_squared(rest_sizes, rest)
    return ShapeResult(flat >= 2 and r2 >= LINEAR_R2, f"flat to {sizes[flat - 1]:g} samples, then R2 {r2:.3f}")


def everywhere(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The measure has the claim's value in every row of the subject, not only at the median."""
    rows = rows_of(runs, claim.subject)
    if rows.empty or claim.of not in rows or claim.value is None:
        return None
    right = int(np.isclose(rows[claim.of].astype("float64"), claim.value, rtol=1e-9, atol=1e-9).sum())
    return ShapeResult(right == len(rows), f"{claim.value:g}{claim.unit} in {right} of {len(rows)} rows")


def grows_and_never_ends(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The measure increases with the delay, and is infinite with a fault."""
    values = over_delays(runs, claim, claim.subject)
    if values is None:
        return None
    delays = values.drop(FAULT)
    return ShapeResult(bool((delays.diff().iloc[1:] > 0).all() and values[FAULT] == np.inf), values_text(values))


def flat(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """No delay, and no fault, increases the measure by more than a tenth."""
    values = over_delays(runs, claim, claim.subject)
    return None if values is None else ShapeResult(growth_frac(values) <= FLAT_FRAC, values_text(values))


def flat_and_lowest(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """Flat, and nowhere above any of the others; a hundredth counts as equal."""
    values = over_delays(runs, claim, claim.subject)
    found = [over_delays(runs, claim, {**claim.subject, **cell}) for cell in claim.against]
    others = [other for other in found if other is not None]
    if values is None or len(others) < len(found):
        return None
    lowest = all(bool((values <= 1.01 * other).all()) for other in others)
    return ShapeResult(
        growth_frac(values) <= FLAT_FRAC and lowest, f"{values_text(values)}; {'' if lowest else 'not '}lowest"
    )


def levels_off(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """Increases by more than a tenth with the delay, never decreases by more, and is flat from the longest delay on."""
    values = over_delays(runs, claim, claim.subject)
    if values is None:
        return None
    steps = values.to_numpy()[1:] / values.to_numpy()[:-1] - 1.0
    holds = growth_frac(values) > FLAT_FRAC and steps.min() >= -FLAT_FRAC and abs(steps[-1]) <= FLAT_FRAC
    return ShapeResult(bool(holds), values_text(values))


def grows_less_when_throttled(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """From no throttling to the smallest ``left``, the subject grows less than the other, with every model."""
    pairs = []
    for model, rows in runs.groupby("model", sort=False) if "model" in runs else ():
        table = medians(rows, claim, "left")
        if table is None:
            return None
        growth = table.iloc[0] / table.iloc[-1] - 1.0
        pairs.append((model, growth[claim.subject["system"]], growth[claim.against[0]["system"]]))
    text = "; ".join(f"{model} {ours:+.0%} against {other:+.0%}" for model, ours, other in pairs)
    return ShapeResult(all(ours < other for _, ours, other in pairs), text) if pairs else None


def knee_of_cores(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The measure stops rising at as many cores as the claim says."""
    cores = elastic_shapes.knee(runs, claim)
    return None if cores is None else ShapeResult(cores == claim.value, f"no gain beyond {cores:g} cores")


def plan_of_table_2(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """The plan of every model equals its plan in DLRover's Table 2."""
    plans = elastic_shapes.frequent_plans(runs)
    if plans is None:
        return None
    text = "; ".join(f"{model} {a} x {b} cores and {c} servers" for model, (a, b, c) in plans.items())
    return ShapeResult(plans == elastic_shapes.TABLE_2, text)


def gain_grows(runs: pd.DataFrame, claim: Claim) -> ShapeResult | None:
    """In every row the subject's lead grows from each number of pods to the next, and it never trails."""
    leads = elastic_shapes.leads(runs, claim)
    if leads is None:
        return None
    grows = bool((leads.iloc[:, 0] >= 0).all() and (leads.diff(axis="columns").iloc[:, 1:] > 0).all(axis=None))
    return ShapeResult(grows, "; ".join(", ".join(f"{lead:+.1%}" for lead in row) for row in leads.to_numpy()))


SHAPES: dict[str, Callable[[pd.DataFrame, Claim], ShapeResult | None]] = {
    "grows_less": grows_less,
    "steadier": steadier,
    "falls_then_rises": falls_then_rises,
    "dips": dips,
    "linear": linear,
    "saturates": saturates,
    "everywhere": everywhere,
    "grows_and_never_ends": grows_and_never_ends,
    "flat": flat,
    "flat_and_lowest": flat_and_lowest,
    "levels_off": levels_off,
    "grows_less_when_throttled": grows_less_when_throttled,
    "knee_of_cores": knee_of_cores,
    "plan_of_table_2": plan_of_table_2,
    "gain_grows": gain_grows,
}


def medians(runs: pd.DataFrame, claim: Claim, along: str) -> pd.DataFrame | None:
    """Medians of the claim's measure: a row per level of ``along`` (as a number), columns for subject and other."""
    across = next((axis for axis in claim.against[0] if axis != along), None)
    if across is None or along not in runs or across not in runs or claim.of not in runs:
        return None
    rows = cell_of(runs, {axis: level for axis, level in claim.subject.items() if axis not in (along, across)})
    wanted = [claim.subject[across], claim.against[0][across]]
    rows = rows[rows[across].isin(wanted)]
    rows = rows[pd.to_numeric(rows[along], errors="coerce").notna()]
    table = rows.assign(**{along: rows[along].astype("float64")}).groupby([along, across])[claim.of].median()
    wide = table.unstack(across).sort_index()
    return wide if set(wanted) <= set(wide) and not wide[wanted].isna().to_numpy().any() else None


def over_batch(runs: pd.DataFrame, claim: Claim) -> tuple[np.ndarray, np.ndarray]:
    """Batch sizes in increasing order, and the median of the measure at each; none if one never ends: no line does."""
    if "batch" not in runs or claim.of not in runs:
        return np.empty(0), np.empty(0)
    rows = cell_of(runs, claim.subject)
    found = rows.groupby(rows["batch"].astype("float64"))[claim.of].median().dropna().sort_index()
    if not np.isfinite(found).all():
        return np.empty(0), np.empty(0)
    return found.index.to_numpy(), found.to_numpy()


def r_squared(x: np.ndarray, y: np.ndarray) -> float:
    """R squared of the least-squares line."""
    slope, base = np.polyfit(x, y, 1)
    total = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - slope * x - base) ** 2).sum()) / total if total > 0 else 0.0


def rows_of(runs: pd.DataFrame, cell: Mapping[str, str]) -> pd.DataFrame:
    """The rows that have these levels."""
    for axis, level in cell.items():
        runs = runs[runs[axis] == level]
    return runs


def over_delays(runs: pd.DataFrame, claim: Claim, cell: Mapping[str, str]) -> pd.Series | None:
    """Medians of the claim's measure by ``delay``: numbers in increasing order, then ``fault``; None if missing.

    Other levels are left out.
    """
    if "delay" not in runs or claim.of not in runs:
        return None
    found = rows_of(runs, cell).groupby("delay")[claim.of].median()
    numbers = pd.to_numeric(found.index.to_series(), errors="coerce").dropna().sort_values()
    delays = list(numbers.index)
    return found[[*delays, FAULT]] if FAULT in found and len(delays) > 1 else None


def growth_frac(values: pd.Series) -> float:
    """Relative increase from the first value to the largest."""
    return float(values.max() / values.iloc[0]) - 1.0


def values_text(values: pd.Series) -> str:
    """The values as text: ``1.5 (0), 3 (fault) s``."""
    return ", ".join(f"{value:.3g} ({delay})" for delay, value in values.items()).replace("inf", "never") + " s"
