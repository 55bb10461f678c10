"""Disturbances listed in a file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import MAX_WINDOWS, check_name, check_number, one_line
from injectors.patterns.tables import Table, check_path, read_table
from injectors.plan import DECIMALS, ClusterShape, Disturbance, Plan, build_plan, problem_of

COLUMNS = ("time", "duration", "target", "kind", "magnitude")
COLUMN_OF = {"start_s": "time", "end_s": "duration", "target": "target", "kind": "kind", "magnitude": "magnitude"}
"""The column that each field of a disturbance is read from."""


@final
@dataclass(frozen=True, kw_only=True)
class Trace(Pattern):
    """Every row of a table is a disturbance. Nothing is random.

    The table is a CSV file (UTF-8, comma-separated, with a header; empty lines and spaces around cells are ignored) or
    a Parquet file, with exactly these columns in any order, and rows in any order:

    - ``time``: seconds since the job's start at which the disturbance begins;
    - ``duration``: seconds that it lasts (for a kill, until the next incarnation is scheduled);
    - ``target``: ``worker:1``, ``server:0``, ``host:2``, ``link:2``, ``link:0>2``, without ``*``;
    - ``kind``: ``delay``, ``slowdown``, ``cpu``, ``bandwidth``, ``cut``, ``pause`` or ``kill``;
    - ``magnitude``: as :class:`injectors.plan.Disturbance` describes it for the kind.

    Rows that begin after the horizon are left out; all others must be possible on the cluster.

    Attributes:
        path: of the file, relative to the working directory or the repository; it ends in ``.csv`` or ``.parquet``.
        time_scale: times and durations are multiplied by it.
        name: see :class:`Pattern`.
    """

    path: str
    time_scale: float = 1.0
    name: str = "trace"

    def __post_init__(self) -> None:
        check_path(self.path)
        check_number("time_scale", self.time_scale, above=0)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per row; raises ``ValueError`` naming the file, row and column of what is not possible."""
        table = read_table(self.path, COLUMNS, others=False)
        if len(table.places) > MAX_WINDOWS:
            raise ValueError(f"path={self.path}: has {len(table.places)} rows; at most {MAX_WINDOWS} make a plan")
        try:
            return build_plan(self.name, seed, horizon_s, disturbances(table, self.time_scale, cluster))
        except _BadCellError as error:
            raise ValueError(f"path={self.path}: {error}") from None


class _BadCellError(ValueError):
    """An error that names its row and column."""


def disturbances(table: Table, time_scale: float, cluster: ClusterShape) -> Iterator[Disturbance]:
    """The rows as disturbances (pure); raises ``ValueError`` with row and column of what ``cluster`` does not allow."""
    for place, *cells in zip(table.places, *(table.columns[name] for name in COLUMNS), strict=True):
        row = dict(zip(COLUMNS, cells, strict=True))
        start_s, length_s, magnitude = (_number(place, name, row[name]) for name in ("time", "duration", "magnitude"))
        one = Disturbance(
            start_s=round(start_s * time_scale, DECIMALS),
            end_s=round((start_s + length_s) * time_scale, DECIMALS),
            target=str(row["target"]),
            kind=str(row["kind"]),  # type: ignore[arg-type]  # checked with the rest
            magnitude=magnitude,
        )
        if problem := problem_of(one, cluster):
            column = COLUMN_OF[problem.field]
            text = "must last a microsecond or more" if column == "duration" else problem.text
            raise _bad(place, column, row[column], text)
        yield one


def _number(place: str, column: str, cell: object) -> float:
    try:
        number = math.nan if isinstance(cell, bool) else float(cell)  # type: ignore[arg-type]  # TypeError says so
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _bad(place, column, cell, "must be a finite number")
    return number


def _bad(place: str, column: str, cell: object, text: str) -> _BadCellError:
    shown = "nothing" if cell is None or cell == "" else one_line(cell)
    return _BadCellError(f"{place}, column {column}, {shown}: {text}")
