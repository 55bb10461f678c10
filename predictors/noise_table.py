"""The gradient noise scale from profiled runs: a table by model, batch and step (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from predictors.noise_scale import NoiseTerms
from reading import Unreadable
from reading.plain import MAX_WHOLE
from reading.ranges import check_whole
from reading.tables import check_cells, csv_rows

COLUMNS = ("model", "batch_samples", "step", "sqr", "var")
"""Columns of the CSV that scripts/fitting/profile_noise.py writes."""


class NoiseRow(NamedTuple):
    """Estimates at one step of a run of ``model`` whose gradients have ``batch_samples`` each."""

    model: str
    batch_samples: int
    step: int
    sqr: float
    var: float


def rows_of(records: Iterable[Mapping[str, str]]) -> list[NoiseRow]:
    """The rows of a CSV file; raises ``ValueError`` for a table with other columns or values."""
    rows = []
    for number, record in enumerate(records, start=2):
        try:
            batch, step = int(record["batch_samples"]), int(record["step"])
            row = NoiseRow(record["model"], batch, step, float(record["sqr"]), float(record["var"]))
        except (KeyError, TypeError, ValueError):
            raise _other(number) from None
        if not 1 <= batch <= MAX_WHOLE or not 0 <= step <= MAX_WHOLE or not (isfinite(row.sqr) and isfinite(row.var)):
            raise _other(number)
        rows.append(row)
        check_cells(len(rows), len(COLUMNS))
    return rows


def _other(line: int) -> ValueError:
    return ValueError(f"line {line} is not {', '.join(COLUMNS)}; see scripts/fitting/profile_noise.py")


def read_table(path: str) -> list[NoiseRow]:
    """The rows of a CSV file; raises ``ValueError``, in one line, for a missing file and for one of something else."""
    cure = "make one with scripts/fitting/profile_noise.py"
    try:
        found = csv_rows(Path(path))
        header = next(found, (0, []))[1]
        rows = rows_of(dict(zip(header, cells, strict=False)) for _, cells in found)
    except Unreadable as error:
        raise ValueError(f"{path}: {error}; {cure}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not rows:
        raise ValueError(f"{path}: has no rows; {cure}")
    return rows


@final
@dataclass(kw_only=True)
class NoiseTable:
    """STAR's table of PGNS values: the newest step that was profiled, interpolated in the batch.

    ``sqr`` and ``var`` are interpolated separately, then divided. A batch outside the profiled ones counts as the
    nearest of them, a step after the last as the last; so does one before the first. Single estimates are noisy, so
    each is the mean over ``smooth_rows`` steps that end there.

    Attributes:
        rows: the table.
        model: which of its models.
        smooth_rows: 3.
    """

    rows: list[NoiseRow]
    model: str
    smooth_rows: int = 3

    def __post_init__(self) -> None:
        check_whole("smooth_rows", self.smooth_rows, 1)
        own = [row for row in self.rows if row.model == self.model]
        if not own:
            there = ", ".join(sorted({row.model for row in self.rows})) or "nothing"
            raise ValueError(f"model={self.model}: is not in the table of the noise scale, which has {there}")
        self._by_batch = {
            batch: sorted((row for row in own if row.batch_samples == batch), key=lambda row: row.step)
            for batch in sorted({row.batch_samples for row in own})
        }
        self._step = 0

    def at(self, step: int) -> None:
        """So many updates have been applied now."""
        self._step = step

    def terms(self, batch_samples: float) -> NoiseTerms:
        """``sqr`` and ``var`` for gradients of so many samples."""
        found = [self._of_batch(rows) for rows in self._by_batch.values()]
        sqr, var = (np.interp(batch_samples, list(self._by_batch), column) for column in zip(*found, strict=True))
        return NoiseTerms(float(sqr), float(var))

    def phi_of(self, batch_samples: float) -> tuple[float, float]:
        """(phi in samples, steps since the row that it is from)."""
        newest = max(self._newest(rows).step for rows in self._by_batch.values())
        return self.terms(batch_samples).phi, float(max(0, self._step - newest))

    def _newest(self, rows: list[NoiseRow]) -> NoiseRow:
        return max((row for row in rows if row.step <= self._step), key=lambda row: row.step, default=rows[0])

    def _of_batch(self, rows: list[NoiseRow]) -> tuple[float, float]:
        last = rows.index(self._newest(rows))
        used = rows[max(0, last + 1 - self.smooth_rows) : last + 1]
        return float(np.mean([row.sqr for row in used])), float(np.mean([row.var for row in used]))
