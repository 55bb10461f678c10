"""The two forms of a table: a row per rank and step, or a row per step with a column per rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.cells import has_commas, numbers, whole_numbers
from analysis.logs.limits import MOST_NAME, MOST_ROWS
from analysis.logs.roles import may_be_of_ranks
from analysis.logs.step_log import Floats, LogError
from analysis.logs.table_file import TableFile
from reading.errors import shown

TIMES = ("seconds", "compute", "comm", "data", "start")
NUMBERS = ("step", *TIMES, "samples")
Bools = NDArray[np.bool_]
FEWEST = 3
"""Columns that every table needs."""
EXTREMES = ("__MIN", "__MAX")
"""Name endings of columns that Weights & Biases adds to columns of times."""


def long_rows(
    table: TableFile, wanted: dict[str, str], remarks: list[str], unnamed: Sequence[str] = ()
) -> pd.DataFrame:
    """A row per rank and step, with the names of ``wanted``; cells of ``unnamed`` may be empty."""
    frames, commas = [], set[str]()
    for first, piece in table.pieces(list(dict.fromkeys(wanted.values()))):
        rows = pd.DataFrame({field: piece[name] for field, name in wanted.items()})
        for field, name in wanted.items():
            if field in NUMBERS:
                rows[field] = _numbers(table, name, piece[name], first, commas)
            else:
                cells = (
                    piece[name].astype(object).fillna("")
                    if field in unnamed and piece[name].isna().any()
                    else piece[name]
                )
                _refuse_empty(table.path, name, cells, first)
                rows[field] = _names(table.path, name, cells, first)
        rows["step"] = whole_numbers(table.path, wanted["step"], rows["step"], first)
        frames.append(rows)
    _refuse_no_rows(table, frames)
    remarks += _say_of_commas(commas)
    return join_frames(frames, [field for field in wanted if field not in NUMBERS])


def join_frames(frames: Sequence[pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    """All rows; the columns ``names`` are categories, of which each frame has its own."""
    rest = [frame.drop(columns=[name for name in names if name in frame]) for frame in frames]
    found = pd.concat(rest, ignore_index=True)
    for name in names:
        if all(name in frame for frame in frames):
            found[name] = pd.api.types.union_categoricals([frame[name] for frame in frames])
    return found


def wide_rows(table: TableFile, step: str, by_rank: Sequence[str], remarks: list[str]) -> pd.DataFrame:
    """A row per step with a column per rank, as rows per rank and step; a rank without a value misses that step."""
    places = _differing_numbers(by_rank)
    frames, commas, count = [], set[str](), 0
    for first, piece in table.pieces([step, *by_rank]):
        count += len(piece) * len(by_rank)
        if count > MOST_ROWS:
            raise LogError(f"{table.path}: has more than {MOST_ROWS:,} steps of ranks; give fewer of them")
        steps = whole_numbers(table.path, step, _numbers(table, step, piece[step], first, commas), first)
        known = piece[list(by_rank)].notna().to_numpy()
        seconds = _seconds(table, piece[list(by_rank)], known, first, commas)
        ranks = pd.Categorical.from_codes(np.repeat(np.arange(len(places)), known.sum(axis=0)), places)
        numbered = np.broadcast_to(steps.to_numpy(), known.T.shape)[known.T]
        frames.append(pd.DataFrame({"rank": ranks, "step": numbered, "seconds": seconds.T[known.T]}))
    _refuse_no_rows(table, frames)
    remarks.append(f"{len(by_rank)} columns such as {shown(by_rank[0])} count as the times of a rank each")
    remarks += _say_of_commas(commas)
    return pd.concat(frames, ignore_index=True)


def _seconds(table: TableFile, cells: pd.DataFrame, known: Bools, first: int, commas: set[str]) -> Floats:
    """[rows, ranks] the cells as numbers; thousands of ranks are parsed at once, unless a cell needs a closer look."""
    if all(pd.api.types.is_numeric_dtype(kind) for kind in cells.dtypes):
        seconds = cells.to_numpy("float64", na_value=np.nan)
        if not np.isinf(seconds).any():
            return np.asarray(seconds)
    seconds = np.full(known.shape, np.nan)
    for place, name in enumerate(cells):
        there = known[:, place]
        seconds[there, place] = _numbers(table, name, cells.loc[there, name], first, commas)
    return np.asarray(seconds)


def _refuse_no_rows(table: TableFile, frames: Sequence[pd.DataFrame]) -> None:
    """A Parquet file may have columns and no piece at all."""
    if not frames:
        raise LogError(f"{table.path}: has no rows; give the table of a job that has logged its steps")


def columns_of_ranks(names: Sequence[str], wanted: dict[str, str]) -> list[str]:
    """Columns whose names differ by one number only, if the table has neither ranks nor seconds but those."""
    if {wanted["rank"], wanted["seconds"]} & set(names) or wanted["step"] not in names or len(wanted) > FEWEST:
        return []
    alike: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        if name != wanted["step"] and not name.endswith(EXTREMES) and re.search("[0-9]", name):
            alike[re.sub("[0-9]+", "0", name)].append(name)
    groups = [group for group in alike.values() if len(group) > 1 and may_be_of_ranks(group[0])]
    return groups[0] if len(groups) == 1 else []


def _differing_numbers(names: Sequence[str]) -> list[str]:
    """Return the numbers that differ between names which are alike otherwise."""
    numbers_of = [re.findall("[0-9]+", name) for name in names]
    differing = [place for place, column in enumerate(zip(*numbers_of, strict=True)) if len(set(column)) > 1]
    return [".".join(each[place] for place in differing) for each in numbers_of]


def _numbers(table: TableFile, name: str, cells: pd.Series, first: int, commas: set[str]) -> pd.Series:
    decimal_comma = table.separator not in ("", ",")
    if decimal_comma and has_commas(cells):
        commas.add(name)
    return numbers(table.path, name, cells, first, decimal_comma=decimal_comma)


def _say_of_commas(names: set[str]) -> list[str]:
    return [f"{', '.join(map(shown, sorted(names)))}: a comma counts as the decimal point"] if names else []


def _names(path: Path, name: str, cells: pd.Series, first: int) -> pd.Series:
    """The cells as categories of text without blanks around it; few differ, and each of these is looked at once."""
    codes, found = pd.factorize(cells, use_na_sentinel=False)
    texts = [str(cell).strip() for cell in found]
    long = np.flatnonzero(np.array([len(text) > MOST_NAME for text in texts])[codes])
    if len(long):
        raise LogError(f"{path}: row {first + int(long[0])}, column {name}: has more than {MOST_NAME} characters")
    kinds = list(dict.fromkeys(texts))
    place = np.array([kinds.index(text) for text in texts] if len(kinds) < len(texts) else range(len(texts)))
    return pd.Series(pd.Categorical.from_codes(place[codes], kinds), index=cells.index)


def _refuse_empty(path: Path, name: str, cells: pd.Series, first: int) -> None:
    if cells.isna().any():
        row = first + int(np.flatnonzero(cells.isna())[0])
        raise LogError(f"{path}: row {row}, column {name}: is empty; every row needs its {name}, so leave it out")
