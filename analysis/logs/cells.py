"""Numbers of a table's cells, as programs of all countries write them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.logs.limits import MOST_STEP
from analysis.logs.step_log import LogError
from reading.errors import shown
from reading.numerals import number_in

MOST_WHOLE = 1 << 1000
"""Larger whole numbers are no floats."""


def numbers(path: Path, name: str, cells: pd.Series, first: int, *, decimal_comma: bool) -> pd.Series:
    """The cells of a column as numbers.

    Args:
        path: the table.
        name: of the column.
        cells: what it holds, or a part of that.
        first: number of the part's first row.
        decimal_comma: a comma separates decimals, since it does not separate columns.

    Raises:
        LogError: a cell is empty, or no finite number.
    """
    if not (pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_object_dtype(cells) or cells.dtype == "str"):
        raise LogError(f"{path}: column {name} holds {cells.dtype}: must be numbers; times are seconds, not dates")
    try:
        values = pd.to_numeric(cells, errors="coerce").to_numpy("float64", na_value=np.nan, copy=True)
    except TypeError:  # lists
        values = np.full(len(cells), np.nan)
    for place in np.flatnonzero(np.isnan(values)).tolist():
        if isinstance(cell := cells.iloc[place], str):
            values[place] = number_in(cell, decimal_comma=decimal_comma)
    bad = ~np.isfinite(values)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise LogError(f"{path}: row {first + place}, column {name}, {_why(cells.iloc[place])}")
    return pd.Series(values, index=cells.index)


def numbers_or_nan(cells: Sequence[Any] | pd.Series) -> pd.Series:
    """The cells as ``float64``; NaN where a cell is no number, or too large for one."""
    some = pd.Series(cells)
    if some.dtype == object:  # of JSON, whose whole numbers have any length
        some = some.map(lambda cell: nan if isinstance(cell, int) and abs(cell) >= MOST_WHOLE else cell)
    return pd.Series(pd.to_numeric(some, errors="coerce"), dtype="float64")


def has_commas(cells: pd.Series) -> bool:
    """Whether any cell has a comma."""
    return not pd.api.types.is_numeric_dtype(cells) and bool(cells.astype("str").str.contains(",", regex=False).any())


def whole_numbers(path: Path, name: str, cells: pd.Series, first: int) -> pd.Series:
    """The same numbers as ``int64``.

    Raises:
        LogError: one is no whole number, or too large to be one that counts steps.
    """
    bad = (cells != np.floor(cells)) | (cells.abs() >= MOST_STEP)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise LogError(
            f"{path}: row {first + place}, column {name}, {cells.iloc[place]:g}: must be a whole number that counts "
            f"steps, less than 2^53; if it is a time, another column has the steps (--step)"
        )
    return cells.astype("int64")


def _why(cell: Any) -> str:
    if cell is None or cell is pd.NA or cell != cell:
        return (
            "nan: must be a finite number (an empty cell counts as nan); leave out the row if it is not known (a rank "
            "may miss steps)"
        )
    said = repr(shown(cell)) if isinstance(cell, str) else shown(cell)
    return (
        f"{said}: must be a finite number, such as 1234.5 (a decimal comma is read if columns are apart by ; or tabs)"
    )
