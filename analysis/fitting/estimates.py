"""The results of a fit to records: estimates by the cost model's fields, and why others have none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from analysis.fitting.robust import Estimate, Line, fit_line, median

BLOCK = 8
"""Successive iterations of a worker that form one block for standard errors."""
FLOAT_BYTES = 4
FEWEST = 10
"""Minimum observations for a parameter of the iterations; a slope needs as many at either end."""
SPREAD = 1.5
"""Minimum ratio of the two ends for fitting a slope; the partial batches at an epoch's end do not suffice."""


@dataclass
class Calibration:
    """``estimates`` by cost field; why the fields in ``missing`` have none; smallest and largest value ``covered``."""

    estimates: dict[str, Estimate] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    covered: dict[str, tuple[int, int]] = field(default_factory=dict)


def put_median(
    fitted: Calibration, name: str, rows: pd.DataFrame, column: str, lack: str, fewest: int = FEWEST
) -> None:
    """Put the median of a column in, not below 0; ``lack``: why there are no rows, if so."""
    if len(rows) >= fewest:
        found = median(rows, column)
        fitted.estimates[name] = replace(found, value=max(0.0, found.value))
    else:
        fitted.missing[name] = too_few(len(rows)) if len(rows) else lack


def put_line(
    fitted: Calibration, names: tuple[str, str], rows: pd.DataFrame, x: str, y: str, size: str, lack: str = ""
) -> Line | None:
    """Fit ``y`` = base + slope * ``x``; the base alone if the sizes are too similar to determine a slope."""
    rows = rows[(rows[y] > 0) & rows[x].notna()]
    if len(rows) < FEWEST:
        reason = lack if lack and not len(rows) else too_few(len(rows))
        fitted.missing |= dict.fromkeys(names, reason)
        return None
    sizes = np.sort(rows[x].to_numpy(dtype="float64"))
    line = fit_line(rows, x, y, sloped=bool(sizes[-FEWEST] >= SPREAD * sizes[FEWEST - 1]))
    if line.slope is None:
        fitted.missing[names[1]] = f"one {size} only"
        fitted.estimates[names[0]] = replace(line.base, note=f"at one {size}")
    else:
        fitted.estimates |= zip(names, (line.base, line.slope), strict=True)
    return line


def too_few(number: int) -> str:
    """Why so few rows determine nothing."""
    return f"only {number} observations"


def value_of(fitted: Calibration, name: str) -> float:
    """The estimate; 0 if these runs do not determine it."""
    return fitted.estimates[name].value if name in fitted.estimates else 0.0
