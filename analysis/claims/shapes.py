"""Shapes that take more than one number to see: functions of all runs of an experiment.

Each returns whether it holds and what was seen, or None where the runs for it are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.claims.cells import cell_of
from analysis.claims.ledger import Claim

LINEAR_R2 = 0.98
"""Share of the variance that a straight line explains."""
FLAT_FRAC = 0.10
"""By how much something flat may grow."""
FAULT = "fault"
"""The delay that never ends."""


class Seen(NamedTuple):
    """What a shape comes to."""

    holds: bool
    text: str


def grows_less(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """From the first to the last intensity the subject grows less than what it is compared with."""
    table = medians(runs, claim, "intensity")
    if table is None:
        return None
    growth = {system: table[system].iloc[-1] / table[system].iloc[0] - 1.0 for system in table}
    ours, other = growth[claim.subject["system"]], growth[claim.against[0]["system"]]
    return Seen(bool(ours < other), f"{ours:+.1%} against {other:+.1%}")


def steadier(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """The standard deviation over seeds is smaller than that of what it is compared with, in every row."""
    ours, other = claim.subject["system"], claim.against[0]["system"]
    rows = runs[runs["system"].isin([ours, other])]
    if rows.empty or rows["seed"].nunique() < 2:
        return None
    axes = [axis for axis in ("role", "intensity") if axis in rows]
    spread = rows.assign(row=0).groupby(["row", *axes, "system"])[claim.of].std().unstack("system")
    if ours not in spread or other not in spread:
        return None
    less = int((spread[ours] < spread[other]).sum())
    return Seen(less == len(spread), f"in {less} of {len(spread)} rows")


def falls_then_rises(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """Over the intervals the subject has its minimum inside, and what it is compared with is flat and below it."""
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
    return Seen(inner and flat and below, text)


def linear(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """The measure is a straight line over the batch size."""
    sizes, values = over_batch(runs, claim)
    if len(sizes) < 3:
        return None
    r2 = explained(sizes, values)
    return Seen(r2 >= LINEAR_R2, f"R2 {r2:.3f} over {sizes[0]:g} to {sizes[-1]:g} samples")


def saturates(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """Flat at first, then linear: at least two sizes within 10 % of the smallest, and a line through the rest."""
    sizes, values = over_batch(runs, claim)
    if len(sizes) < 5:
        return None
    flat = int((values <= values[0] * (1.0 + FLAT_FRAC)).sum())
    rest_sizes, rest = sizes[flat - 1 :], values[flat - 1 :]
    if len(rest) < 3:
        return Seen(False, "no rise")
    r2 = explained(rest_sizes, rest)
    return Seen(flat >= 2 and r2 >= LINEAR_R2, f"flat to {sizes[flat - 1]:g} samples, then R2 {r2:.3f}")


def everywhere(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """The measure has the claim's value in every row of the subject, and not only at the median."""
    rows = rows_of(runs, claim.subject)
    if rows.empty or claim.of not in rows or claim.value is None:
        return None
    right = int(np.isclose(rows[claim.of].astype("float64"), claim.value, rtol=1e-9, atol=1e-9).sum())
    return Seen(right == len(rows), f"{claim.value:g}{claim.unit} in {right} of {len(rows)} rows")


def grows_and_never_ends(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """The measure rises from delay to delay, and with a fault it is infinite."""
    values = over_delays(runs, claim, claim.subject)
    if values is None:
        return None
    delays = values.drop(FAULT)
    return Seen(bool((delays.diff().iloc[1:] > 0).all() and values[FAULT] == np.inf), said(values))


def flat(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """No delay, and no fault, makes the measure larger by more than a tenth."""
    values = over_delays(runs, claim, claim.subject)
    return None if values is None else Seen(grown(values) <= FLAT_FRAC, said(values))


def flat_and_lowest(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """Flat, and nowhere above any of what it is compared with; a hundredth is no difference."""
    values = over_delays(runs, claim, claim.subject)
    found = [over_delays(runs, claim, {**claim.subject, **cell}) for cell in claim.against]
    others = [other for other in found if other is not None]
    if values is None or len(others) < len(found):
        return None
    lowest = all(bool((values <= 1.01 * other).all()) for other in others)
    return Seen(grown(values) <= FLAT_FRAC and lowest, f"{said(values)}; {'' if lowest else 'not '}lowest")


def levels_off(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """Up by more than a tenth with the delay, never down by more, and from the longest delay to a fault flat."""
    values = over_delays(runs, claim, claim.subject)
    if values is None:
        return None
    steps = values.to_numpy()[1:] / values.to_numpy()[:-1] - 1.0
    holds = grown(values) > FLAT_FRAC and steps.min() >= -FLAT_FRAC and abs(steps[-1]) <= FLAT_FRAC
    return Seen(bool(holds), said(values))


def grows_less_when_throttled(runs: pd.DataFrame, claim: Claim) -> Seen | None:
    """From nothing throttled to the least that is ``left``, the subject grows less than the other, with every model."""
    seen = []
    for model, rows in runs.groupby("model", sort=False) if "model" in runs else ():
        table = medians(rows, claim, "left")
        if table is None:
            return None
        growth = table.iloc[0] / table.iloc[-1] - 1.0
        seen.append((model, growth[claim.subject["system"]], growth[claim.against[0]["system"]]))
    text = "; ".join(f"{model} {ours:+.0%} against {other:+.0%}" for model, ours, other in seen)
    return Seen(all(ours < other for _, ours, other in seen), text) if seen else None


SHAPES: dict[str, Callable[[pd.DataFrame, Claim], Seen | None]] = {
    "grows_less": grows_less,
    "steadier": steadier,
    "falls_then_rises": falls_then_rises,
    "linear": linear,
    "saturates": saturates,
    "everywhere": everywhere,
    "grows_and_never_ends": grows_and_never_ends,
    "flat": flat,
    "flat_and_lowest": flat_and_lowest,
    "levels_off": levels_off,
    "grows_less_when_throttled": grows_less_when_throttled,
}


def medians(runs: pd.DataFrame, claim: Claim, along: str) -> pd.DataFrame | None:
    """Medians of the claim's measure: a row per level of ``along`` (as a number), a column for subject and other."""
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
    """Batch sizes, rising, and the median of the measure at each."""
    if "batch" not in runs or claim.of not in runs:
        return np.empty(0), np.empty(0)
    rows = cell_of(runs, claim.subject)
    found = rows.groupby(rows["batch"].astype("float64"))[claim.of].median().dropna().sort_index()
    return found.index.to_numpy(), found.to_numpy()


def explained(x: np.ndarray, y: np.ndarray) -> float:
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
    """Medians of the claim's measure by ``delay``: numbers, rising, and last ``fault``; None without them.

    Other levels are left out.
    """
    if "delay" not in runs or claim.of not in runs:
        return None
    found = rows_of(runs, cell).groupby("delay")[claim.of].median()
    numbers = pd.to_numeric(found.index.to_series(), errors="coerce").dropna().sort_values()
    delays = list(numbers.index)
    return found[[*delays, FAULT]] if FAULT in found and len(delays) > 1 else None


def grown(values: pd.Series) -> float:
    """By how much the largest is above the first."""
    return float(values.max() / values.iloc[0]) - 1.0


def said(values: pd.Series) -> str:
    """``1.5 (0), 3 (fault) s``."""
    return ", ".join(f"{value:.3g} ({delay})" for delay, value in values.items()).replace("inf", "never") + " s"
