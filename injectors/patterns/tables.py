"""Tables that patterns replay: finding a file and reading its columns, from CSV or Parquet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from injectors.patterns.fields import one_line
from reading import Unreadable
from reading.errors import list_names, shown
from reading.tables import check_cells, csv_rows, parquet_columns, separator_in
from reading.unpacked import plain_name

TEXTS = (".csv", ".tsv", ".txt")
PARQUET = ".parquet"
Floats = np.ndarray[Any, np.dtype[np.float64]]
ROOT = Path(__file__).resolve().parents[2]


class Table(NamedTuple):
    """Columns as stored in a file: strings from CSV, values from Parquet."""

    columns: dict[str, list[object]]
    places: list[str]
    """Name of every row for error messages: ``row 6`` (from 1, without the header), for CSV with its line."""
    decimal_comma: bool = False
    """Whether a comma separates decimals, since it does not separate columns."""


class NoSuchColumn(ValueError):
    """A column that a setting names is not in the file; the message begins with the setting."""


def check_path(path: object) -> None:
    """Raise ``ValueError`` unless it names a CSV or Parquet file; its existence is checked on reading."""
    if not isinstance(path, str) or not (plain_name(Path(path)).endswith(TEXTS) or path.lower().endswith(PARQUET)):
        raise ValueError(
            f"path={one_line(path)}: must name a file that ends in {', '.join(TEXTS)} (or such a name and .gz or .zst) "
            f"or in {PARQUET}"
        )


def read_table(
    path: str,
    needed: tuple[str, ...],
    *,
    others: bool,
    settings: Mapping[str, str] | None = None,
    optional: tuple[str, ...] = (),
) -> Table:
    """The file's columns. All ``needed`` ones must exist; with ``others``, additional ones are ignored.

    Of a text, ``optional`` columns are read where they exist.

    A relative path is resolved against the working directory, then the repository. Raises a one-line ``ValueError``
    ``path=...: ...`` for an unreadable file and for missing, duplicate or superfluous columns. ``settings`` has the
    setting that names a column; if the file lacks that one, the error is about this setting.
    """
    file = find_file(path)
    try:
        columns = _Columns(path, needed, others, settings or {})
        is_text = not file.name.lower().endswith(PARQUET)
        return _read_csv(file, columns, optional) if is_text else _read_parquet(file, columns)
    except NoSuchColumn:
        raise
    except ValueError as error:
        raise ValueError(f"path={path}: {error}") from None


def find_file(path: str) -> Path:
    """The file that ``path`` names; raises ``ValueError`` naming it if it does not exist."""
    for file in (Path(path), ROOT / path):
        if _exists(file):
            return file
    raise ValueError(f"path={one_line(path)}: there is no such file here or below {ROOT}")


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except (OSError, ValueError):  # too long for a name, or with a null byte
        return False


class _Columns(NamedTuple):
    """Which columns a file must have."""

    path: str
    needed: tuple[str, ...]
    others: bool
    settings: Mapping[str, str]

    def check(self, names: list[str]) -> None:
        """Raise ``ValueError`` unless a file with the columns ``names`` is one."""
        must = f"a trace has the columns {', '.join(self.needed)}"
        for name in self.needed:
            if name in self.settings and name not in names:
                near = get_close_matches(name, names, n=1)
                cure = f"did you mean {shown(near[0])}?" if near else f"it has {list_names(names) or 'none'}"
                if len(names) == 1 and name in names[0].split():
                    cure = "its columns must be apart by commas, semicolons, tabs or | (sacct: --parsable2)"
                raise NoSuchColumn(f"{self.settings[name]}={one_line(name)}: {self.path} has no such column; {cure}")
            if names.count(name) != 1:
                raise ValueError(f"has {names.count(name) or 'no'} columns {name}; {must}")
        if not self.others and (extra := [name for name in names if name not in self.needed]):
            raise ValueError(f"column {shown(extra[0])} has no meaning; {must}")


def _read_csv(file: Path, columns: _Columns, optional: tuple[str, ...]) -> Table:
    rows = csv_rows(file)
    header = [cell.strip() for cell in next(rows, (0, []))[1]]
    columns.check(header)
    at = {name: header.index(name) for name in (*columns.needed, *optional) if name in header}
    found: dict[str, list[object]] = {name: [] for name in at}
    places: list[str] = []
    for line, cells in rows:
        places.append(f"row {len(places) + 1} (line {line})")
        if len(cells) != len(header):
            raise Unreadable(f"{places[-1]} has {len(cells)} cells, the header {len(header)}")
        check_cells(len(places), len(at) + 1)
        for name, place in at.items():
            found[name].append(cells[place].strip())
    return Table(found, places, separator_in(file) != ",")


def _read_parquet(file: Path, columns: _Columns) -> Table:
    found, num_rows = parquet_columns(file, columns.needed, columns.check)
    return Table(found, [f"row {number + 1}" for number in range(num_rows)])


def column_numbers(column: str, values: Sequence[object], places: Sequence[str]) -> Floats:
    """The values of a column; raises ``ValueError`` naming the first row that holds no finite number."""
    found = np.array([to_number(value) for value in values])
    for bad in np.flatnonzero(~np.isfinite(found))[:1]:
        text = "nothing" if values[bad] in (None, "") else one_line(values[bad])
        raise ValueError(f"{places[bad]}, column {column}, {text}: must be a finite number")
    return found


def to_number(value: object) -> float:
    """A cell's number; NaN if it has none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # TypeError says so
    except (TypeError, ValueError):
        return math.nan
