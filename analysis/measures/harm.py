"""Which cells a mitigation harms and which it helps: job completion times over BSP's under the same plan.

A cell is a strategy, a pattern of stragglers and a number of workers. Above :data:`TOLERATED` it needs a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Annotated, Any, NamedTuple

import msgspec
import pandas as pd

TOLERATED = 1.03
"""Ratio to BSP's time above which a cell needs a reason."""
REFERENCE = "bsp"
CELL = ["workers", "straggler", "strategy"]


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a strategy is slower than BSP in some cells."""

    stragglers: tuple[str, ...]
    """Straggler patterns; ``all`` for all."""
    up_to: Annotated[float, msgspec.Meta(gt=TOLERATED)]
    """The highest ratio that it explains; anything above it is new."""
    why: str
    """A sentence."""
    workers: tuple[int, ...] = ()
    """Numbers of workers; empty: all."""

    def covers(self, cell: Cell) -> bool:
        """Whether the reason applies to this cell."""
        named = "all" in self.stragglers or cell.straggler in self.stragglers
        return named and (not self.workers or cell.workers in self.workers) and cell.ratio <= self.up_to


Reasons = Mapping[str, Sequence[Reason]]
"""The reasons for each strategy."""


class Cell(NamedTuple):
    """A cell of the grid: medians over the seeds."""

    workers: int
    straggler: str
    strategy: str
    outcome: str
    ratio: float
    """JCT over BSP's; NaN if there is none."""
    note: str

    @property
    def is_harmful(self) -> bool:
        """Whether it is slower than BSP by more than the tolerance; a job that did not finish is."""
        return self.outcome in ("cut", "failed") or self.ratio > TOLERATED

    def __str__(self) -> str:
        """The cell and its ratio in one line."""
        value = self.outcome if isnan(self.ratio) else f"{self.ratio:.2f}"
        return f"{self.strategy} {self.straggler} {self.workers} workers: {value}"


class ReasonsError(ValueError):
    """The file of reasons is invalid; one line."""


def read_reasons(data: bytes, name: str) -> dict[str, tuple[Reason, ...]]:
    """Parse the file's text; raises :class:`ReasonsError`."""
    try:
        found = msgspec.yaml.decode(data, type=dict[str, tuple[Reason, ...]] | None)
    except msgspec.MsgspecError as error:
        raise ReasonsError(f"{name}: {' '.join(str(error).split())}") from None
    return found or {}


def cells_of(runs: pd.DataFrame) -> list[Cell]:
    """The cells in the order of the table.

    ``runs`` has the columns :data:`CELL`, ``outcome`` (done, cut: ``jct_ratio`` is a lower bound, refused or failed),
    ``jct_ratio`` and ``note``.
    """
    return [_cell(key, rows) for key, rows in runs.groupby(CELL, sort=False)]


def pair_with_bsp(jobs: pd.DataFrame) -> pd.DataFrame:
    """The jobs with ``jct_s`` and ``bsp_s``, BSP's own left out, as :func:`cells_of` needs them."""
    others = jobs[jobs["strategy"] != REFERENCE]
    return others.assign(jct_ratio=others["jct_s"] / others["bsp_s"])


def _cell(key: tuple[Any, ...], rows: pd.DataFrame) -> Cell:
    worst = next((state for state in ("failed", "refused", "cut") if (rows["outcome"] == state).any()), "done")
    ratio = float(rows["jct_ratio"].median()) if worst in ("done", "cut") else float("nan")
    notes = rows.loc[rows["outcome"] == worst, "note"].dropna()
    return Cell(key[0], key[1], key[2], worst, ratio, str(notes.iloc[0]) if len(notes) else "")


def reason_for(cell: Cell, reasons: Reasons) -> Reason | None:
    """The first reason that covers the cell."""
    return next((one for one in reasons.get(cell.strategy, ()) if one.covers(cell)), None)


def cells_without_reason(cells: Sequence[Cell], reasons: Reasons) -> list[Cell]:
    """The harmful cells without a reason."""
    return [cell for cell in cells if cell.is_harmful and reason_for(cell, reasons) is None]


def idle_reasons(cells: Sequence[Cell], reasons: Reasons) -> list[str]:
    """Reasons that no cell needs: for unknown strategies or patterns, or for cells that no longer harm."""
    needed = {id(reason_for(cell, reasons)) for cell in cells if cell.is_harmful}
    return [
        f"{strategy}: {', '.join(one.stragglers)}: {one.why}"
        for strategy, several in reasons.items()
        for one in several
        if id(one) not in needed
    ]
